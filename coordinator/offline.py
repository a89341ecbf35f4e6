"""The log of a data directory, offline: its entries, in order, as they would be applied.

It reads as `log dump` does: it opens nothing for writing and takes no lock, so a node may run
on the directory meanwhile; what is read is then of a moment that has passed. A journal does
not say what is committed: the newest entries may have been taken back by a leader that this
node has not heard of.

What lives here: reading. What must never live here: what entries mean (`raftbatch.stories`).
Called by: the command line, whoever counts offline. Blocking.
"""

from __future__ import annotations

from collections.abc import Iterator

from coordinator.raft.datadir import journal_directory, snapshots_directory
from coordinator.raft.dump_view import StillFiles
from coordinator.raft.segments.layout import Entry as RaftEntry
from coordinator.raft.segments.reader import read_entries
from coordinator.raft.segments.replay import Reading
from coordinator.raft.snapshot_format import parse_name
from raftbatch.codec import decode_entry
from raftbatch.errors import (
    CannotStart,
    Compacted,
    Corrupt,
    DiskFailed,
    InvalidRequest,
    Overloaded,
    Undecodable,
)
from raftbatch.ids import Identity
from raftbatch.records import Entry
from raftbatch.world import World

_READ_BYTES = 1 << 20


class DirectoryLog:
    """See the module's docstring. Made by `read_directory`.

    Attributes:
        directory: as it was named.
        identity: whose it is.
        first_index: of the oldest entry; above 1 a snapshot stands for what comes before.
        last_index: of the newest entry; `first_index - 1` where there is none.
    """

    def __init__(self, directory: str, files: StillFiles, reading: Reading) -> None:
        recovered = reading.result()
        self.directory = directory
        self.identity: Identity = recovered.identity
        self.first_index = recovered.terms.base + 1
        self.last_index = recovered.cursor.last_index
        self._files = files
        self._index = recovered.index

    def raw(self, first: int = 0, last: int = 0) -> Iterator[RaftEntry]:
        """Yield entries as they stand in the log, memberships and empty ones too.

        Args:
            first: index of the first; 0: the oldest.
            last: index of the last; 0: the newest. Both may be beyond the newest.

        Raises:
            Compacted: `first` is not in the log any more; definite.
            InvalidRequest: the files cannot be read any more; definite.
        """
        due, last = first or self.first_index, min(last or self.last_index, self.last_index)
        if due < self.first_index:
            raise Compacted(
                f"entry {due} is gone: the log in {self.directory} begins with {self.first_index}"
            )
        while due <= last:
            pieces = self._index.pieces(due, last, _READ_BYTES)
            try:
                entries = read_entries(
                    self._files, journal_directory(self.directory), pieces, _READ_BYTES
                )
            except (Corrupt, DiskFailed, Overloaded) as error:
                raise InvalidRequest(
                    f"{error}. Where a node runs on {self.directory} it may have let go of that "
                    "meanwhile: read it again"
                ) from None
            yield from entries
            due += len(entries)

    def __iter__(self) -> Iterator[tuple[int, int, Entry]]:
        """Yield index, term and content of each entry that holds records.

        Raises:
            InvalidRequest: an entry cannot be read, or is of another kind; definite.
        """
        for entry in self.raw():
            if entry.data and not entry.is_config:
                yield entry.index, entry.term, decoded(entry)


def decoded(entry: RaftEntry) -> Entry:
    """Return the content of an entry that holds records.

    Raises:
        InvalidRequest: it holds none that this program knows; definite.
    """
    try:
        return decode_entry(entry.data)
    except Undecodable as error:
        raise InvalidRequest(
            f"entry {entry.index} holds no records that this program knows: {error}. Either a "
            "newer version has written it, or the cluster replicates opaque entries"
        ) from None


def read_directory(world: World, directory: str) -> DirectoryLog:
    """Read a journal through once, every checksum checked, and return its log.

        log = read_directory(world, "data/n1")
        stories = Stories(log.first_index)
        for index, term, entry in log:
            stories.feed(index, term, entry)

    Args:
        world: the ports; only files are used, and only read.
        directory: a node's data directory.

    Raises:
        InvalidRequest: there is no journal, or it is damaged: `raftbatch log dump` says where;
            definite.
    """
    journal = journal_directory(directory)
    try:
        files = StillFiles(world.files, journal)
        reading = Reading(files, journal)
        for _ in reading.records():
            pass
        return DirectoryLog(directory, files, reading)
    except OSError as error:
        raise InvalidRequest(
            f"{directory} is not the data directory of a node: {error.strerror or error}"
        ) from None
    except CannotStart:
        lost = " but snapshots" if _has_snapshots(world, directory) else ""
        raise InvalidRequest(f"{directory} holds no journal{lost}") from None
    except (Corrupt, DiskFailed, Overloaded) as error:
        raise InvalidRequest(
            f"{error}. `raftbatch log dump {directory}` shows all that can be read"
        ) from None


def _has_snapshots(world: World, directory: str) -> bool:
    try:
        return any(map(parse_name, world.files.list(snapshots_directory(directory))))
    except OSError:
        return False
