"""The journal: the log's entries and Raft's hard state, durable in one sequence.

Contract. The owner (one thread: the loop's) calls the changing methods; each
returns at once with the LSN of the record it made. Nothing is written before
`flush`, so that all changes of one turn of the loop share a group; after that
the journal goes on by itself, one group at a time, until nothing waits. A group
is written and synced by a worker thread, which takes all that was flushed by
then; when that is done `durable` rises and `on_durable` is called. Whatever may
be said to others only once a change is durable is said when `durable` has
reached that change's LSN, never by index: an index can be taken back and written
again while a sync is in flight.

Changes can be read back at once. Entries that are not durable yet, and the
newest that are, are in memory (`tail`); older ones are read from disk (`read`).

A failed sync, and any damage met, ends the journal: `failure` is set,
`on_failed` called once, and every change from then on raises it. A full disk
does not: what waits goes on waiting, `append` refuses, all else is accepted.

What lives here: the journal as its owner sees it. What must never live here: a
rule of Raft. Called by: `coordinator.raft`, through its storage interface.
Source: Raft paper (extended version), section 5; docs/adr/0002-journal.md.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial

from coordinator.raft.failures import TryLater, disk_errors
from coordinator.raft.segments.groups import Groups
from coordinator.raft.segments.index import Dropped, SegmentSpan
from coordinator.raft.segments.layout import NUMBER_MAX, Entry, HardState, Kind, record_bytes
from coordinator.raft.segments.limits import JournalLimits, Space
from coordinator.raft.segments.reader import RETRY_AFTER_MS, Reads
from coordinator.raft.segments.recovery import recover, remove_segments
from coordinator.raft.segments.replay import Progress
from coordinator.raft.segments.tail import Tail
from coordinator.raft.segments.writer import Operation, Report
from raftbatch.errors import Compacted, Fatal, Invariant, NoSpace, Overloaded, PayloadTooLarge
from raftbatch.ids import NodeId, is_node_id
from raftbatch.world import World

_ENTRY, _CONFIG = Kind.ENTRY, Kind.CONFIG  # each append looks one up


class Journal:
    """Entries and hard state, durable in one sequence. See the module's docstring.

    Args:
        world: the ports.
        directory: of the segments; must hold a journal (`recovery.create`).
        limits: bounds.
        on_durable: told the new `durable` each time it has risen. May raise: then
            it ends the loop's callback, and changes nothing here.
        on_failed: told once why the journal has ended.
        progress: told bytes read and bytes in all while opening.

    Attributes:
        identity: whose journal it is.
        repairs: what opening had to cut or clear away, each a sentence.
        hard_state: the newest, durable or not.
        last_index: of the newest entry, durable or not.
        lsn: of the newest change.
        durable: LSN up to which all changes are durable.
        waiting: changes since the last `flush`.
        space: how much room the disk has, as of about the last group, or the last `flush`
            of nothing where there was too little.
        pending_bytes: size of the changes that are not durable yet.
        stalled: why what waits cannot be written now; None if it can.
        failure: why the journal has ended; None while it lives.
        disk: what the writing thread has seen of it.

    Raises:
        Corrupt: the files are not what was acknowledged.
        CannotStart: there is no journal.
        DiskFailed: the disk failed.
    """

    def __init__(
        self,
        world: World,
        directory: str,
        limits: JournalLimits,
        *,
        on_durable: Callable[[int], None],
        on_failed: Callable[[Fatal], None],
        progress: Progress | None = None,
    ) -> None:
        self._writing = world.workers.start("journal-write")
        self._reading = world.workers.start("journal-read")
        try:
            recovered, self._writer = recover(world, directory, limits.segment_bytes, progress)
        except BaseException:
            self._writing.close()
            self._reading.close()
            raise
        cursor = recovered.cursor
        self.disk, self.identity = self._writer.disk, recovered.identity
        self.repairs = tuple(recovered.repairs)
        self.hard_state = cursor.hard_state
        self.last_index = cursor.last_index
        self.lsn = self.durable = cursor.lsn
        self.pending_bytes = 0
        self.stalled: str | None = None
        self.failure: Fatal | None = None
        self._limits = limits
        self._on_durable, self._on_failed = on_durable, on_failed
        self._files, self._directory = world.files, directory
        self._index = recovered.index
        self._terms = recovered.terms
        self._configs = recovered.configs
        self._tail = Tail(self.last_index)
        self._dropping = self._index.oldest
        self.waiting: list[Operation] = []
        self._groups = groups = Groups(limits.group_bytes_max)
        self._write_note = partial(groups.write, self._writer), partial(groups.note, self._writer)
        self._flushed_bytes = 0  # of `pending_bytes`: what was handed to the writing thread
        self._reads = Reads(world.files, directory, self._reading, self._fail)
        self._is_measuring = False
        with disk_errors(f"reading the space left at {directory}"):
            self.disk.space_left = self._files.space_left(directory)
        self.space = limits.space(self.disk.space_left)

    @property
    def first_index(self) -> int:
        """Index of the oldest entry that can be read; one above `last_index` where none can."""
        return self._terms.base + 1

    @property
    def durable_index(self) -> int:
        """Index up to which every entry, as it is now, is durable."""
        return self._tail.durable_index(self.durable)

    @property
    def last_term(self) -> int:
        """Term of the newest entry, or of what the log follows."""
        return self._terms.of(self.last_index)

    def term(self, index: int) -> int | None:
        """Return the term at an index, from `first_index` - 1 to `last_index`; else None."""
        if self._terms.base <= index <= self.last_index:
            return self._terms.of(index)
        return None

    def config(self, index: int) -> Entry | None:
        """Return the newest membership entry at or below an index; None: a snapshot's holds."""
        return self._configs.at(index)

    def append(self, term: int, data: bytes, *, is_config: bool = False) -> int:
        """Add the entry after the last; return its LSN.

        Args:
            term: at least `last_term`.
            data: its content, at most `entry_bytes_max`; passed through, not copied.
            is_config: whether that is an encoded membership.

        Raises:
            NoSpace: the disk is at its reserve, or full. Definite.
            Overloaded: too much waits for the disk. Definite.
            PayloadTooLarge: definite.
            Fatal: the journal has ended.
        """
        limits, size = self._limits, len(data)
        if size > limits.entry_bytes_max:
            raise PayloadTooLarge(
                f"an entry of {size} bytes exceeds entry_bytes_max = {limits.entry_bytes_max}"
            )
        if self.space is Space.RESERVE or self.stalled:
            raise NoSpace(
                self.stalled
                or f"less than disk_reserve_bytes = {limits.disk_reserve_bytes} are free at "
                f"{self._directory}: free some space there",
                retry_after_ms=RETRY_AFTER_MS,
            )
        if self.pending_bytes + size > limits.pending_bytes_max:
            raise Overloaded(
                f"{self.pending_bytes} bytes wait for the disk", retry_after_ms=RETRY_AFTER_MS
            )
        newest = self._terms.newest
        if not newest <= term <= NUMBER_MAX:
            raise Invariant(f"an entry of term {term} after one of term {newest}")
        if self.failure:
            raise self.failure
        self.lsn, self.last_index = lsn, index = self.lsn + 1, self.last_index + 1
        self.pending_bytes += record_bytes(size)
        self.waiting.append(Operation(_CONFIG if is_config else _ENTRY, lsn, term, index, data))
        if term != newest:
            self._terms.append(index, term)
        entry = Entry(index, term, data, is_config)
        if is_config:
            self._configs.append(entry)
        self._tail.append(entry, lsn)
        return lsn

    def set_hard_state(self, term: int, vote: NodeId | None) -> int:
        """Change the current term, or the vote in it; return the LSN.

        Raises:
            Invariant: the term goes back, a vote already given changes, or is no node id.
            Fatal: the journal has ended.
        """
        old = self.hard_state
        is_given = term == old.term and old.vote not in (None, vote)
        if is_given or not old.term <= term <= NUMBER_MAX:
            raise Invariant(f"{old} cannot become term {term} with a vote for {vote}")
        if vote is not None and not is_node_id(vote):
            raise Invariant(f"a vote for {vote!r}, which is no node id")
        if self.failure:
            raise self.failure
        if self.waiting and self.waiting[-1].kind is Kind.STATE:
            # A later state stands for an earlier one that nobody has written yet, so
            # that a node with a full disk does not gather one for each election.
            overtaken = self.waiting.pop()
            self.pending_bytes -= record_bytes(len(overtaken.data))
            self.lsn -= 1
        lsn = self._add(Kind.STATE, term, 0, (vote or "").encode("ascii"))
        self.hard_state = HardState(term, vote)
        return lsn

    def truncate(self, index: int) -> int:
        """Take back all entries above `index`; return the LSN from which that is durable.

        Raises:
            Invariant: `index` is not in the log.
            Fatal: the journal has ended.
        """
        term = self.term(index)
        if term is None:
            raise Invariant(f"{index} is not within {self.first_index - 1} .. {self.last_index}")
        if index == self.last_index:
            return self.lsn
        lsn = self._add(Kind.KEEP, term, index)
        self.last_index = index
        self._terms.keep(index, term)
        self._configs.keep(index)
        self._tail.keep(index)
        self._reads.take_back(index)
        return lsn

    def reset(self, index: int, term: int) -> int:
        """Replace all entries by a snapshot whose last index and term these are; return the LSN.

        Raises:
            Invariant: out of range.
            Fatal: the journal has ended.
        """
        if not (0 <= index <= NUMBER_MAX and 0 <= term <= NUMBER_MAX):
            raise Invariant(f"a log that begins behind {index}, of term {term}, is out of range")
        lsn = self._add(Kind.RESET, term, index)
        self.last_index = index
        self._terms.reset(index, term)
        self._configs.keep(0)
        self._tail.reset(index)
        self._reads.take_back(0)
        return lsn

    def compact(self, index: int) -> None:
        """Let go of whole segments that hold nothing above `index`.

        Raises:
            Fatal: the journal has ended.
        """
        boundary = self._index.boundary(index)
        if boundary > self._dropping:
            self._dropping = boundary
            self._add(Kind.DROP, 0, boundary)

    def spans(self) -> list[SegmentSpan]:
        """Return the segments, oldest first, for deciding what to retain."""
        return self._index.spans()

    def tail(self, first: int, bytes_max: int) -> tuple[Entry, ...]:
        """Return entries from `first` on, if in memory, until their records reach `bytes_max`.

        At least one; none where `first` is older than what is in memory, or beyond the last.
        """
        return self._tail.slice(first, bytes_max)

    def read(
        self, first: int, bytes_max: int, done: Callable[[Future[tuple[Entry, ...]]], None]
    ) -> None:
        """Read entries from `first` on from disk, then call `done` on the loop.

        The future holds as many as `tail` would give, of those that are not in memory, and of the
        log as it is when `done` is called: what was taken back meanwhile is left out. Or it raises
        `Overloaded` (definite), or `Fatal`, which also ends the journal.

        Raises:
            Compacted: `first` is not in the log any more.
            Invariant: it is in memory, or beyond the last.
        """
        if first < self.first_index:
            raise Compacted(f"entry {first} is gone: the log begins with {self.first_index}")
        # Up to here the index is exact; above it may not know yet what was taken back.
        last = self._tail.first - 1
        if first > last:
            raise Invariant(f"entry {first} is not older than what is in memory, {last + 1}")
        self._reads.begin(self._index.pieces(first, last, bytes_max), last, bytes_max, done)

    def flush(self) -> None:
        """Have what waits written. Called once at the end of a turn.

        Also called now and then: it tries again, and looks again at a disk that was too full.
        """
        if self.failure:
            return
        if self.waiting:
            self._groups.put(self.waiting, self.pending_bytes - self._flushed_bytes)
            self.waiting, self._flushed_bytes = [], self.pending_bytes
        if self._groups.ask():
            write, note = self._write_note
            self._writing.submit(write, self._has_written, note)
        elif not self._groups.jobs:
            self._measure()

    def _measure(self) -> None:
        """Look again how much room there is, if there was too little: no group may come."""
        if self.space is not Space.ROOMY and not (self._is_measuring or self.failure):
            self._is_measuring = True
            self._writing.submit(self._writer.look, self._has_measured)

    def close(self) -> bool:
        """End: wait for the group being written, drop what waits, close the files.

        Like a crash, but for the files: whoever wants all to be durable waits until `durable` has
        reached `lsn` first. Returns whether it has ended: a disk that hangs is not waited for (see
        `Worker.close`): the group may be written yet, so the files stay open, and nobody else's.
        """
        ended = [worker.close() for worker in (self._writing, self._reading)]
        if all(ended):
            self._writer.close()
        return all(ended)

    def _add(self, kind: Kind, term: int, index: int, data: bytes = b"") -> int:
        """Queue a record; return its LSN."""
        if self.failure:
            raise self.failure
        self.lsn += 1
        self.pending_bytes += record_bytes(len(data))
        self.waiting.append(Operation(kind, self.lsn, term, index, data))
        return self.lsn

    def _has_written(self, future: Future[Report]) -> None:
        """Take in what became of a group, and go on with the next."""
        if self.failure:
            return
        if (error := future.exception() or self._groups.failure) is not None:
            self._fail(error)
            return
        report = future.result()
        for event in report.events:
            self._index.apply(event)
        self._groups.jobs -= 1
        self.pending_bytes -= report.size
        self._flushed_bytes -= report.size
        self.space = self._limits.space(self.disk.space_left)
        self.stalled = report.stalled
        rose = report.lsn > self.durable
        self.durable = report.lsn
        self._tail.evict(self.durable, self._limits.tail_bytes_max)
        if any(isinstance(event, Dropped) for event in report.events):
            self._terms.forget_below(self._index.base)
            self._configs.forget_below(self._index.base)
            self._remove_dropped()
        if not self.stalled:
            self.flush()
        elif not self._groups.jobs:  # else another tries; after this, the owner's next flush
            self.waiting = self._groups.take_back() + self.waiting
            self._flushed_bytes = 0
        if rose:
            self._on_durable(self.durable)

    def _has_measured(self, future: Future[None]) -> None:
        self._is_measuring = False
        if (error := future.exception()) is not None:
            self._fail(error)
        else:
            self.space = self._limits.space(self.disk.space_left)

    def _remove_dropped(self) -> None:
        """Remove the files of dropped segments, behind the reads that may be using them."""
        job = partial(remove_segments, self._files, self._directory, self._index.oldest)
        self._reading.submit(job, self._has_removed)

    def _has_removed(self, future: Future[int]) -> None:
        error = future.exception()
        if error is not None and not isinstance(error, TryLater):
            self._fail(error)
        self._measure()

    def _fail(self, error: BaseException) -> None:
        """End: nothing is durable any more that is not now."""
        if self.failure is None:
            if not isinstance(error, Fatal):
                error = Invariant(f"the journal met an error it does not know: {error!r}")
            self.failure = error
            self._on_failed(error)
