"""One journal, written once by the product over real files, of which tests damage copies.

Its directory is in memory (/dev/shm) where there is one: real files to the
kernel, without waiting for a disk, which nothing here is about.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from random import Random

from chaos.suites.storage import IDENTITY, StorageNode
from chaos.suites.storage_model import StorageModel, Violation
from coordinator.raft.segments.layout import Record, decode_header
from coordinator.raft.segments.mark import MARK_NAME, encode_mark
from coordinator.raft.segments.scan import Scan
from raftbatch.errors import CannotStart, Corrupt
from raftbatch.ids import Identity
from raftbatch.realworld import RealFile, RealFiles, RealLock
from raftbatch.world import OpenMode

RECORDS_MIN = 100
SEGMENTS_MIN = 4
COMPLAINTS_MAX = 20  # what a person reads


@contextmanager
def scratch() -> Iterator[Path]:
    """Yield an empty directory in memory."""
    parent = "/dev/shm" if Path("/dev/shm").is_dir() else None
    path = Path(tempfile.mkdtemp(prefix="raftbatch-storage-", dir=parent))
    try:
        yield path
    finally:
        shutil.rmtree(path)


class ProcessFiles(RealFiles):
    """The real files as one process has them: when it dies, the kernel closes all of them."""

    def __init__(self) -> None:
        self._opened: list[RealFile | RealLock] = []

    def open(self, path: str, mode: OpenMode) -> RealFile:
        """Open, and remember."""
        file = super().open(path, mode)
        self._opened.append(file)
        return file

    def lock(self, path: str) -> RealLock:
        """Lock, and remember."""
        lock = super().lock(path)
        self._opened.append(lock)
        return lock

    def die(self) -> None:
        """Close what is open still."""
        for one in self._opened:
            one.release() if isinstance(one, RealLock) else one.close()
        self._opened.clear()


@dataclass
class Story:
    """A journal at rest.

    Attributes:
        directory: its data directory.
        model: what it holds.
        files: the journal's, by name.
        records: of each segment, by file name, in order.
    """

    directory: Path
    model: StorageModel
    files: dict[str, bytes]
    records: dict[str, list[Record]] = field(default_factory=dict)

    @cached_property
    def journal(self) -> Path:
        """Where the files are."""
        return self.directory / "journal"

    @property
    def segments(self) -> list[str]:
        """Names of the segments, oldest first."""
        return sorted(name for name in self.files if name != MARK_NAME)

    def restore(self) -> None:
        """Put back what was there."""
        for path in self.journal.iterdir():
            if path.name not in self.files:
                path.unlink()
        for name, data in self.files.items():
            (self.journal / name).write_bytes(data)

    def write(self, name: str, data: bytes) -> None:
        """Put other bytes into a file."""
        (self.journal / name).write_bytes(data)

    def last_group(self) -> int:
        """Return the LSN before the last group: what was durable when that was written."""
        return self.records[self.segments[-1]][-1].synced

    def forget_mark(self) -> "Story":
        """Return the same, as after a power cut that took all the mark ever said.

        The mark is never synced. What is then known to have been acknowledged
        is what the last group's records say of those before them.
        """
        sector = encode_mark(0).ljust(512, b"\0")
        model = self.model.copy()
        model.acknowledged = self.last_group()
        files = {**self.files, MARK_NAME: sector + bytes(512)}
        return Story(self.directory, model, files, self.records)

    def complaint(self, what: str, damaged: set[str], create: bool = False) -> str | None:
        """Open the journal as it now lies there; return why the outcome must not be.

        It must hold everything acknowledged, or be refused, with the name of a
        damaged file and an offset in it.

        Args:
            what: the damage, in words.
            damaged: names of the files that a refusal may name.
            create: whether a node that finds nothing would begin anew.
        """
        files, model = ProcessFiles(), self.model.copy()
        node = StorageNode(files, str(self.directory), Random(0), model.take)
        untouched = True  # a refusal changes nothing
        try:
            if create:
                node.create()
            node.open()
            untouched = False
            node.hold_against(model)
        except Corrupt as error:
            name = Path(error.path).name
            if name not in damaged:
                return f"{what}: refused, but blames {name}: {error}"
            if not 0 <= error.offset <= len(self.files.get(name, b"")):
                return f"{what}: refused, but the offset is nowhere: {error}"
        except CannotStart as error:
            if not any(name in str(error) for name in damaged):
                return f"{what}: refused, but names no file: {error}"
        except Violation as error:
            return f"{what}: opened, but {error}"
        finally:
            files.die()
            if not untouched:
                self.restore()
        return None


def write_story(directory: Path, identity: Identity = IDENTITY) -> Story:
    """Let a node run until its journal has enough in it, and end it.

    The seed is one with which that is soon, so that opening the journal is quick.
    """
    files, model = ProcessFiles(), StorageModel()
    node = StorageNode(files, str(directory), Random("story 80"), model.take, identity)
    node.create()
    node.open()
    story = Story(directory, model, {})
    while True:
        node.turn()
        node.settle()
        story.files = {path.name: path.read_bytes() for path in story.journal.iterdir()}
        if len(story.segments) < SEGMENTS_MIN:
            continue
        story.records = {name: _records(name, story.files[name]) for name in story.segments}
        kinds = {record.kind for records in story.records.values() for record in records}
        count = sum(map(len, story.records.values()))
        if count >= RECORDS_MIN and len(kinds) == 5 and len(story.records[story.segments[-1]]) > 3:
            break
    node.hold_against(model)
    node.close()
    files.die()
    story.files = {path.name: path.read_bytes() for path in story.journal.iterdir()}
    return story


def _records(name: str, data: bytes) -> list[Record]:
    """Return a segment's records."""
    header = decode_header(name, data)
    return list(Scan(data, header.salt, header.base_lsn))


def first_complaints(complaints: Iterator[str]) -> list[str]:
    """Return the first few; a broken product has thousands."""
    return [complaint for complaint, _ in zip(complaints, range(COMPLAINTS_MAX), strict=False)]
