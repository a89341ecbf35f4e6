"""The snapshots of one node: which there are, and that the newest can be trusted.

    directory/snapshot-<index>-<term>        whole, verified once, durable; never changed again
    directory/snapshot-<index>-<term>.tmp    being written; cleared at the next start

What lives here: opening the directory, and the rules of which snapshot may be
written, read and removed. What must never live here: bytes of the format
(`snapshot_format`), steps of writing and reading one (`snapshot_writer`,
`snapshot_reader`), how many to keep (`retention`), or what the content means.
Called by: the log facade's worker thread, and start-up; offline tools. All of
it blocks, has one owner, and is never called on the loop.

Nothing here chooses an older snapshot because the newest is damaged: the log
between the two may be gone, and a state that lacks entries looks like any
other. That is for an operator to decide (docs/GUARANTEES.md, G15).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from coordinator.raft.failures import NO_DESCRIPTOR
from coordinator.raft.snapshot_format import (
    CHUNK_BYTES_MAX,
    CONFIG_BYTES_MAX,
    TEMPORARY,
    Header,
    SnapshotMeta,
    parse_name,
    snapshot_name,
)
from coordinator.raft.snapshot_reader import Progress, SnapshotReader, ignore_progress
from coordinator.raft.snapshot_writer import SnapshotWriter
from raftbatch.errors import (
    CannotStart,
    Corrupt,
    DiskFailed,
    Invariant,
    Overloaded,
    PayloadTooLarge,
)
from raftbatch.ids import Identity
from raftbatch.world import World, join

__all__ = ["SnapshotLimits", "SnapshotMeta", "SnapshotReader", "SnapshotWriter", "Snapshots"]

_NEWEST_DAMAGED = (
    "this is the newest snapshot, and the log before it may be gone, so no older one is used "
    "instead: put back an intact copy of the file, or give the node an empty directory and add it "
    "again with --join"
)
_OLDER_DAMAGED = (
    "a newer snapshot is intact, so the node can do without this one: check the disk, then move "
    "the file away; only the log before the newer one can no longer be replayed here"
)


@dataclass(frozen=True, slots=True)
class SnapshotLimits:
    """Bounds on what is written; what is read may have been written under others.

    Attributes:
        snapshot_bytes_max: content of one snapshot, in bytes. The disk's reserve must hold one
            more than are kept.
        chunk_bytes: content per chunk, 1 to 1 MiB. Smaller costs 8 bytes a chunk and more calls;
            only tests have a reason.

    Raises:
        ValueError: a limit is out of range.
    """

    snapshot_bytes_max: int
    chunk_bytes: int = CHUNK_BYTES_MAX

    def __post_init__(self) -> None:
        if self.snapshot_bytes_max < 0 or not 1 <= self.chunk_bytes <= CHUNK_BYTES_MAX:
            raise ValueError(f"out of range: {self}")


class Snapshots:
    """The snapshots in one directory. Made by `open`.

    `newest` and `all` may be read on any thread: they change in one step, and
    only when what they say is durable. Everything else has one owner.

    Invariants: `all` ascends by index, terms never fall along it, and its last
    one has been verified from its first to its last byte.
    """

    def __init__(
        self, world: World, directory: str, identity: Identity, limits: SnapshotLimits
    ) -> None:
        self._world = world
        self._files = world.files
        self._directory = directory
        self._identity = identity
        self._limits = limits
        self._all: tuple[SnapshotMeta, ...] = ()
        self._verified: set[int] = set()  # indices
        self._readers: Counter[int] = Counter()  # index to open readers
        self._keep_from = 0
        self._writer: SnapshotWriter | None = None

    @classmethod
    def open(
        cls,
        world: World,
        directory: str,
        identity: Identity,
        limits: SnapshotLimits,
        progress: Progress = ignore_progress,
    ) -> Snapshots:
        """Clear what an earlier life left half-written, and verify the newest snapshot.

        Args:
            world: its files, clock and entropy are used.
            directory: where the snapshots live, and nothing else; made if it is not there.
            identity: whose they must be.
            limits: bounds on those written from now on.
            progress: told how much of the newest one has been verified.

        Raises:
            Corrupt: a snapshot is damaged; the message says what can be done.
            CannotStart: the directory cannot be used, or holds what is not this node's.
            DiskFailed: a snapshot cannot be opened.
        """
        snapshots = cls(world, directory, identity, limits)
        found = snapshots._clear()
        for position, (index, term) in enumerate(found, 1):
            snapshots._load(index, term, position == len(found), progress)
        return snapshots

    @property
    def newest(self) -> SnapshotMeta | None:
        """The one to start from; None where there was never any."""
        return self._all[-1] if self._all else None

    @property
    def all(self) -> tuple[SnapshotMeta, ...]:
        """Every snapshot that is there, ascending by index."""
        return self._all

    def begin(self, index: int, term: int, config: bytes) -> SnapshotWriter:
        """Start a snapshot, captured here or received from a leader.

        Args:
            index: the last log index whose effects it holds; above the newest's.
            term: that entry's term; not below the newest's.
            config: the membership configuration at that index, at most 64 KiB.

        Raises:
            Invariant: another is being written, or there is one as new.
            PayloadTooLarge: definite; the configuration is too big.
            NoSpace, Overloaded: definite; nothing is left behind.
            DiskFailed: the disk's content is unknown.
        """
        if self._writer is not None and not self._writer.ended:
            raise Invariant(f"a snapshot at {index} was begun while another is being written")
        newest = (self.newest.index, self.newest.term) if self.newest else (0, 1)
        if index <= newest[0] or term < newest[1]:
            raise Invariant(
                f"a snapshot at index {index}, term {term} was begun, but there is one at index "
                f"{newest[0]}, term {newest[1]}"
            )
        if len(config) > CONFIG_BYTES_MAX:
            raise PayloadTooLarge(
                f"a configuration of {len(config)} bytes is over the limit of {CONFIG_BYTES_MAX}"
            )
        header = Header(
            identity=self._identity,
            index=index,
            term=term,
            created_ms=max(self._world.clock.wall_ms(), 0),
            chunk_bytes=self._limits.chunk_bytes,
            salt=int.from_bytes(self._world.entropy.random_bytes(4), "little"),
            config=config,
        )
        self._writer = SnapshotWriter(
            self._files, self._directory, header, self._limits.snapshot_bytes_max, self._add
        )
        return self._writer

    def read(self, meta: SnapshotMeta, progress: Progress = ignore_progress) -> SnapshotReader:
        """Open one of `all`; it is not removed while its reader is open.

        One that was not written or verified in this life is verified first.

        Raises:
            Invariant: it is none of them.
            Corrupt: it is damaged or unreadable.
            Overloaded: definite; no descriptor or memory is left.
        """
        if meta not in self._all:
            raise Invariant(f"a snapshot at {meta.index} was asked for, but is not there")
        reader = self._reader(meta.index, meta.term)
        try:
            if reader.meta != meta:
                raise Corrupt(self._path(meta.index, meta.term), 0, "it was changed")
            if meta.index not in self._verified:
                reader.verify(progress)
                self._verified.add(meta.index)
        except BaseException:
            reader.close()
            raise
        return reader

    def prune(self, keep_from_index: int) -> None:
        """Remove snapshots below that index, but never the newest, nor one that is being read.

        One that is being read goes when its last reader is closed, if the last
        call still says so. Oldest
        first, so that a crash leaves the newer ones; a power cut may bring any
        of them back, whole, and they are removed again.

        Raises:
            DiskFailed: the disk's content is unknown.
        """
        self._keep_from = keep_from_index
        doomed = [
            meta
            for meta in self._all[:-1]
            if meta.index < self._keep_from and not self._readers[meta.index]
        ]
        if not doomed:
            return
        try:
            for meta in doomed:
                self._files.remove(self._path(meta.index, meta.term))
                self._all = tuple(other for other in self._all if other != meta)
                self._verified.discard(meta.index)
            self._files.sync_directory(self._directory)
        except OSError as error:
            if error.errno in NO_DESCRIPTOR:
                return  # the names are gone, or are removed again after a power cut
            raise DiskFailed(f"{self._directory} cannot be pruned: {error}") from error

    def _clear(self) -> list[tuple[int, int]]:
        """Remove temporary files, and return index and term of the others, ascending."""
        found = []
        try:
            self._files.make_directory(self._directory)
            for name in self._files.list(self._directory):
                position = parse_name(name.removesuffix(TEMPORARY))
                if name.startswith("."):
                    continue  # the file system's own, such as .nfs0001
                if position is None:
                    raise CannotStart(
                        f"{join(self._directory, name)} is no snapshot, and nothing else belongs "
                        "there: move it away"
                    )
                if name.endswith(TEMPORARY):
                    self._files.remove(join(self._directory, name))
                else:
                    found.append(position)
            # A name that a process gave just before it died may not be durable yet; before
            # anything is built on it, and the log that it replaces dropped, it must be.
            self._files.sync_directory(self._directory)
        except OSError as error:
            raise CannotStart(f"{self._directory} cannot be used: {error}") from error
        return found

    def _load(self, index: int, term: int, newest: bool, progress: Progress) -> None:
        """Check one found snapshot and add it; all of it if it is the newest."""
        try:
            if self.newest and (index == self.newest.index or term < self.newest.term):
                raise Corrupt(
                    self._path(index, term),
                    0,
                    f"its index and term do not follow those before, {self.newest.index} and "
                    f"{self.newest.term}",
                )
            with self._reader(index, term) as reader:
                if newest:
                    reader.verify(progress)
                    self._verified.add(index)
                self._all += (reader.meta,)
        except Corrupt as damage:
            advice = _NEWEST_DAMAGED if newest else _OLDER_DAMAGED
            raise Corrupt(damage.path, damage.offset, f"{damage.reason}; {advice}") from damage
        except Overloaded as error:
            raise CannotStart(error.message) from error

    def _add(self, meta: SnapshotMeta) -> None:
        """Take in a snapshot that its writer has finished."""
        self._all += (meta,)
        self._verified.add(meta.index)

    def _reader(self, index: int, term: int) -> SnapshotReader:
        """Open a file and hold it against its name; count the reader until it is closed."""

        def closed() -> None:
            self._readers[index] -= 1
            if not self._readers[index]:
                del self._readers[index]
            self.prune(self._keep_from)

        path = self._path(index, term)
        reader = SnapshotReader(self._files, path, self._identity, closed)
        self._readers[index] += 1
        if (reader.meta.index, reader.meta.term) != (index, term):
            reader.close()
            raise Corrupt(
                path, 0, f"it is a snapshot at index {reader.meta.index}, term {reader.meta.term}"
            )
        return reader

    def _path(self, index: int, term: int) -> str:
        return join(self._directory, snapshot_name(index, term))
