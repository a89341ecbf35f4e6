"""A node's data directory driven at random over any file system, and held against the model.

What lives here: `StorageNode`, one process's worth of a data directory, which
reports in the lines of `storage_model`; drawing what it does next; and holding
an open one against a model, byte by byte. What must never live here: faults,
which are the files' or the caller's. Called by: `chaos.storage_process`,
`chaos.power_loss`, and the tests over real files (tests/storage/).

Everything runs on the caller's thread, a step at a time, so that one seed is one
sequence of system calls: "kill it at its 17th fdatasync" names a place.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from random import Random

from chaos.suites.storage_model import Change, StorageModel, check, content, vote_of
from chaos.worlds.stepped import SeededEntropy, StepClock, StepWorkers
from coordinator.raft.datadir import DataDirectory, StorageLimits
from coordinator.raft.membership import encode, founders
from coordinator.raft.retention import RetentionLimits
from coordinator.raft.segments.layout import Entry
from coordinator.raft.segments.limits import JournalLimits
from coordinator.raft.snapshots import SnapshotLimits, SnapshotMeta
from raftbatch.errors import Fatal, NoSpace, Overloaded
from raftbatch.ids import ClusterId, Identity, NodeId
from raftbatch.world import Files, Network

IDENTITY = Identity(ClusterId("0123456789abcdef" * 2), NodeId("n1"), 1)
LIMITS = StorageLimits(
    JournalLimits(
        segment_bytes=16 * 1024,
        entry_bytes_max=32 * 1024,
        group_bytes_max=6 * 1024,
        pending_bytes_max=64 * 1024,
        tail_bytes_max=8 * 1024,
        disk_low_bytes=64 * 1024,
        disk_reserve_bytes=48 * 1024,
        snapshot_bytes_max=16 * 1024,
    ),
    SnapshotLimits(snapshot_bytes_max=16 * 1024, chunk_bytes=700),
    RetentionLimits(
        log_retention_bytes=48 * 1024,
        log_retention_ms=1 << 40,
        trailing_entries=8,
        snapshots_kept_max=2,
    ),
)
_MEMBERS = encode(founders({NodeId("n1"): "n1:1"}))
_ENTRY_SIZES = (0, 1, 5, 8, 40, 100, 100, 200, 300, 300, 1000, 1000, 3000, 8000)
_LARGE_ENTRY = 20_000  # more than a segment: it gets a larger one
_READ_BYTES = 20_000

Report = Callable[[str], None]


class StorageWorld:
    """Any files, and everything else stepped and seeded."""

    def __init__(self, files: Files, rng: Random) -> None:
        self.clock = StepClock()
        self.entropy = SeededEntropy(Random(rng.getrandbits(64)))
        self.files = files
        self.workers = StepWorkers()

    @property
    def network(self) -> Network:
        """None."""
        raise NotImplementedError("storage needs no network")


class StorageNode:
    """One process that keeps a data directory.

    Args:
        files: the file system.
        directory: its data directory.
        rng: decides all it does. Another for each process, else two lives of one
            directory would write the same bytes and hide that one took the other's.
        report: told each line; see `storage_model`.
        identity: whose directory `create` begins.

    Attributes:
        failure: why the data directory has ended; None while it lives.
        refused: how many appends and snapshots were refused for want of room.
    """

    def __init__(
        self,
        files: Files,
        directory: str,
        rng: Random,
        report: Report,
        identity: Identity = IDENTITY,
    ) -> None:
        self.world = StorageWorld(files, rng)
        self.failure: Fatal | None = None
        self.refused = 0
        self._directory = directory
        self._rng = rng
        self._report = report
        self._identity = identity
        self._data: DataDirectory | None = None
        self._floor = 0  # index that a snapshot, perhaps one being written, replaces

    @property
    def data(self) -> DataDirectory:
        """The open data directory."""
        assert self._data is not None, "open comes first"
        return self._data

    def create(self) -> None:
        """Begin the data directory, unless one was begun."""
        if not DataDirectory.is_initialised(self.world, self._directory):
            DataDirectory.create(self.world, self._directory, self._identity, LIMITS, None)

    def open(self) -> None:
        """Open what is there."""
        self._data = DataDirectory.open(
            self.world,
            self._directory,
            LIMITS,
            on_durable=lambda lsn: self._report(f"durable {lsn}"),
            on_failed=self._has_failed,
        )
        journal, newest = self._data.journal, self._data.snapshots.newest
        self._floor = newest.index if newest else 0
        self._report(f"opened {journal.durable}")
        if newest and journal.lsn > journal.durable:
            # A snapshot had been received, but the journal was not reset to it yet.
            self._change("reset", journal.lsn, newest.term, newest.index)

    def turn(self) -> None:
        """Do something, then let the disk do some of it, or all.

        Raises:
            Fatal: the data directory has ended.
        """
        rng = self._rng
        for _ in range(rng.randint(1, 4)):
            choice = rng.randrange(100)
            if choice < 66:
                self._append()
            elif choice < 82:
                self._vote()
            elif choice < 91:
                self._truncate()
            elif choice < 98:
                self._capture()
            else:
                self._receive()
        self.flush()
        self.step(rng.choice((0, 1, 2, 4, None, None)))

    def flush(self) -> None:
        """Have what waits written."""
        self._alive()
        self.data.journal.flush()

    def step(self, count: int | None = None) -> None:
        """Take so many steps of the workers, or all."""
        if count is None:
            self.world.workers.run_all()
        else:
            for _ in range(count):
                for one in self.world.workers.steps()[-1:]:
                    one()
        self._alive()

    def settle(self) -> None:
        """Make everything durable that waits; there must be room for it."""
        for _ in range(4):  # a stalled group, what waited behind it, what that dropped
            self.flush()
            self.step()
        journal = self.data.journal
        check(journal.durable == journal.lsn, f"what waits becomes durable: {journal.stalled}")

    def close(self) -> None:
        """End, as a crash would, but for the files."""
        self.data.close()

    def hold_against(self, model: StorageModel) -> None:
        """Compare all that can be asked, and every byte, with what the model says.

        Raises:
            Violation: they differ.
            Fatal: it cannot be read.
        """
        journal, state = self.data.journal, model.state()
        newest = self.data.snapshots.newest
        check(journal.lsn == len(model.records), "LSNs count the records")
        check(journal.last_index == state.last, f"{journal.last_index} is last, not {state.last}")
        check(journal.hard_state == (state.term, state.vote), f"{journal.hard_state} was not set")
        base = journal.first_index - 1
        check(state.base <= base, f"entry {journal.first_index} is older than the log")
        check(base <= (newest.index if newest else 0), f"no snapshot replaces entry {base}")
        check(base <= max(state.base, state.dropped), f"entry {base} is gone, but was not dropped")
        entries = self._entries(base + 1)
        for change, entry in zip(state.entries[base - state.base :], entries, strict=True):
            expected = Entry(change.index, change.term, content(change.nonce, change.size))
            check(entry == expected, f"entry {change.index} is another")
        check((newest.index if newest else 0) >= model.snapshot, f"snapshot {model.snapshot} lost")
        for meta in self.data.snapshots.all:
            begun = model.begun[meta.index]
            check(meta.term == begun.term, f"snapshot {meta.index} has another term")
            with self.data.snapshots.read(meta) as reader:
                found = _read_all(reader.read)
            check(found == content(begun.nonce, begun.size), f"snapshot {meta.index} is another")

    def _append(self) -> None:
        journal, rng = self.data.journal, self._rng
        term = max(journal.last_term, 1) + (rng.randrange(12) == 0)
        size = _LARGE_ENTRY if rng.randrange(150) == 0 else rng.choice(_ENTRY_SIZES)
        nonce = rng.getrandbits(63)
        try:
            lsn = journal.append(term, content(nonce, size))
        except (NoSpace, Overloaded):
            self.refused += 1
        else:
            self._change("append", lsn, term, journal.last_index, nonce, size)

    def _vote(self) -> None:
        journal, nonce = self.data.journal, self._rng.getrandbits(63)
        term = journal.hard_state.term + 1
        vote = vote_of(nonce)
        lsn = journal.set_hard_state(term, NodeId(vote) if vote else None)
        self._change("vote", lsn, term, 0, nonce)

    def _truncate(self) -> None:
        journal = self.data.journal
        index = max(journal.last_index - self._rng.randint(1, 5), self._floor)
        if index < journal.last_index:
            lsn = journal.truncate(index)
            self._change("keep", lsn, journal.last_term, index)

    def _capture(self) -> None:
        """Write a snapshot of what is durable, then let go of what it replaces."""
        journal = self.data.journal
        index = journal.durable_index
        if index > self._floor:
            term = journal.term(index)
            assert term is not None, "the log begins at the floor or below"
            self._write_snapshot(index, term, self._retain)

    def _receive(self) -> None:
        """Install a leader's snapshot; the log is replaced only once that is durable."""
        journal = self.data.journal
        index, term = self._floor + self._rng.randint(1, 30), journal.last_term + 1
        before = self._floor
        self._write_snapshot(index, term, partial(self._reset, index, term))
        self.step()
        newest = self.data.snapshots.newest
        self._floor = index if newest and newest.index == index else before

    def _reset(self, index: int, term: int) -> None:
        self._change("reset", self.data.journal.reset(index, term), term, index)
        self._retain()
        self.data.journal.flush()

    def _retain(self) -> None:
        lsn = self.data.journal.lsn
        self.data.retain()
        if self.data.journal.lsn > lsn:
            newest = self.data.snapshots.newest
            assert newest is not None, "without one nothing is dropped"
            index = max(newest.index - LIMITS.retention.trailing_entries, 0)
            self._change("drop", self.data.journal.lsn, 0, index)

    def _write_snapshot(self, index: int, term: int, then: Callable[[], None]) -> None:
        nonce, size = self._rng.getrandbits(63), self._rng.choice((0, 300, 2000))
        self._report(f"begin {index} {term} {nonce} {size}")
        self._floor = index

        def write() -> SnapshotMeta:
            writer = self.data.snapshots.begin(index, term, _MEMBERS)
            writer.write(content(nonce, size))
            return writer.finish()

        def done(future: Future[SnapshotMeta]) -> None:
            error = future.exception()
            if isinstance(error, NoSpace | Overloaded):
                self.refused += 1
            elif error is not None:
                raise error
            else:
                self._report(f"snapshot {index}")
                then()

        self.data.snapshot_worker.submit(write, done)

    def _change(
        self, what: str, lsn: int, term: int, index: int, nonce: int = 0, size: int = 0
    ) -> None:
        self._report(Change(what, lsn, term, index, nonce, size).line())

    def _entries(self, first: int) -> list[Entry]:
        """Return all entries from `first` on, from memory or from disk."""
        journal = self.data.journal
        entries: list[Entry] = []
        while first + len(entries) <= journal.last_index:
            due = first + len(entries)
            found = journal.tail(due, _READ_BYTES)
            if not found:
                futures: list[Future[tuple[Entry, ...]]] = []
                journal.read(due, _READ_BYTES, futures.append)
                self.step()
                found = futures[0].result()
                check(bool(found), f"entry {due} can be read")
            entries += found
        return entries

    def _has_failed(self, failure: Fatal) -> None:
        self.failure = failure

    def _alive(self) -> None:
        if self.failure is not None:
            raise self.failure


def _read_all(read: Callable[[int, int], bytes]) -> bytes:
    """Return all of a snapshot's content."""
    parts: list[bytes] = []
    done = 0
    while part := read(done, 1 << 20):
        parts.append(part)
        done += len(part)
    return b"".join(parts)
