"""Damage that is drawn for a node's files, and what these files say by themselves.

What lives here: that. What must never live here: a process. Called by: `chaos.disk_damage`, tests.
Blocking.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random

from coordinator.offline import read_directory
from coordinator.raft.datadir import journal_directory
from coordinator.raft.dump_view import StillFiles
from coordinator.raft.segments.replay import Reading
from raftbatch.errors import InvalidRequest
from raftbatch.world import World

_WEIGHTS = {"segment": 6, "snapshot": 4, "mark": 3}
_BEYOND_BYTES = 256  # of what is written in a file: most of a segment is empty


class Broken(Exception):
    """What must hold does not."""


@dataclass(frozen=True, slots=True)
class Damage:
    """What is done to a file.

    Attributes:
        name: of the file, within the directory.
        at: in bytes: where it is cut, or has a bit flipped.
        bit: which; None: it is cut.
    """

    name: str
    at: int
    bit: int | None

    def do(self, directory: Path) -> None:
        """Do it."""
        path = directory / self.name
        if self.bit is None:
            with path.open("r+b") as file:
                file.truncate(self.at)
            return
        data = bytearray(path.read_bytes())
        data[self.at] ^= 1 << self.bit
        path.write_bytes(data)

    def __str__(self) -> str:
        """Return it in words."""
        how = f"cut to {self.at} bytes" if self.bit is None else f"bit {self.bit} of byte {self.at}"
        return f"{self.name}: {how}"


@dataclass(frozen=True, slots=True)
class Kept:
    """What a node's files say, by themselves.

    Attributes:
        entries: index, term, content and kind of each.
        hard_state: term and vote, in words.
    """

    entries: tuple[tuple[int, int, bytes, bool], ...]
    hard_state: str


def kind_of(name: str) -> str:
    """Return of which kind a file is, by its name. Total."""
    return name.rpartition("/")[2].partition("-")[0]


def draw(rng: Random, files: Mapping[str, Path]) -> Damage:
    """Draw a kind of file, one of the kind, and what is done to it: mostly where it is written.

    Args:
        rng: draws.
        files: intact, by their names within the directory.
    """
    kinds = sorted({kind_of(name) for name in files})
    [kind] = rng.choices(kinds, [_WEIGHTS.get(each, 1) for each in kinds])
    name = rng.choice([each for each in files if kind_of(each) == kind])
    data = files[name].read_bytes()
    written = min(len(data), len(data.rstrip(b"\0")) + _BEYOND_BYTES)
    place = rng.randrange(written if rng.random() < 0.9 else len(data))
    return Damage(name, place, None if rng.random() < 0.4 else rng.randrange(8))


def read_kept(world: World, directory: Path) -> Kept:
    """Read a directory on which nobody runs.

    Raises:
        Broken: it cannot be read.
    """
    try:
        log = read_directory(world, str(directory))
        entries = tuple(
            (each.index, each.term, bytes(each.data), each.is_config) for each in log.raw()
        )
    except InvalidRequest as error:
        raise Broken(f"it started on files that cannot be read: {error.message}") from None
    journal = journal_directory(str(directory))
    reading = Reading(StillFiles(world.files, journal), journal)
    for _ in reading.records():
        pass
    return Kept(entries, str(reading.result().cursor.hard_state))


def difference(was: Kept, now: Kept) -> str:
    """Return in words how entries differ. Total."""
    for one, other in zip(was.entries, now.entries, strict=False):
        if one != other:
            return f"entry {one[0]} is another: {other[2][:80]!r} was {one[2][:80]!r}"
    return f"it has {len(now.entries)} entries, and had {len(was.entries)}"
