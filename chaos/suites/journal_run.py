"""The journal against a trivial model, on a disk that forgets, tears, fills up and fails.

What lives here: `JournalRun`, one node's journal with a model of it beside, whose
methods are the steps a run can take, and which checks after each. What must never
live here: knowledge of how the journal keeps its promises. Called by:
`chaos.suites.journal`, the property tests.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from random import Random

from chaos.suites.journal_model import (
    Model,
    State,
    append,
    check,
    keep,
    nothing,
    reset,
    vote,
)
from chaos.worlds.disk import Crash, SimDisk
from chaos.worlds.stepped import SimWorld
from coordinator.raft.journal import Journal
from coordinator.raft.segments.layout import Entry, HardState
from coordinator.raft.segments.limits import JournalLimits
from coordinator.raft.segments.recovery import create
from coordinator.raft.segments.replay import is_initialised
from raftbatch.errors import Corrupt, DiskFailed, Fatal, NoSpace, Overloaded
from raftbatch.ids import ClusterId, Identity, NodeId
from raftbatch.world import join

DIRECTORY = "/data/journal"
IDENTITY = Identity(ClusterId("0123456789abcdef" * 2), NodeId("n1"), 1)
LIMITS = JournalLimits(
    segment_bytes=4096,
    entry_bytes_max=8192,
    group_bytes_max=3000,
    pending_bytes_max=20_000,
    tail_bytes_max=2500,
    disk_low_bytes=40_000,
    disk_reserve_bytes=30_000,
    snapshot_bytes_max=10_000,
)
ROOMY_BYTES = 4 << 20


class JournalRun:
    """One node's journal, its world and its model.

    Attributes:
        journal: while the process lives; else None.
        model: what must hold.
        reads: how many reads from disk were checked.
        crashes: how many times the process died.
        acks: how many times something was called durable.
        damages: how many times its files were damaged while it was down.
    """

    def __init__(self, rng: Random, limits: JournalLimits = LIMITS) -> None:
        self._rng = rng
        self.disk = SimDisk(rng, ROOMY_BYTES)
        self.world = SimWorld(rng.getrandbits(32), self.disk)
        self.limits = limits
        self.model = Model()
        self.state = self.model.state()
        self.journal: Journal | None = None
        self.reads = 0
        self.crashes = 0
        self.acks = 0
        self.damages = 0
        self._read_up_to = 0

    # Steps of a process that lives.

    def append(self, term_step: int, data: bytes) -> None:
        """Append an entry in the last term or a later one; a refusal must be a true one."""
        journal = self._live()
        term = max(self.state.term(self.state.last), 1) + term_step
        try:
            lsn = journal.append(term, data)
        except (NoSpace, Overloaded):
            check(journal.lsn == len(self.model.records), "a refused append changes nothing")
        else:
            self._record(lsn, partial(append, term, data))

    def vote(self, term_step: int, candidate: NodeId | None) -> None:
        """Change the hard state: a later term, or a first vote in the present one."""
        journal, old = self._live(), self.state.hard_state
        if term_step == 0 and old.vote is not None:
            candidate = old.vote
        new = HardState(old.term + term_step, candidate)
        self._record(journal.set_hard_state(*new), partial(vote, new))

    def truncate(self, distance: int) -> None:
        """Take back up to `distance` entries, never what a snapshot replaces."""
        index = max(self.state.last - distance, self.state.base, self.model.compacted)
        lsn = self._live().truncate(index)
        if index < self.state.last:
            self._record(lsn, partial(keep, index))

    def reset(self, distance: int) -> None:
        """Install a snapshot `distance` above what one replaces already."""
        index = max(self.model.compacted, self.state.base) + distance
        term = max(self.state.term(self.state.last), 1)
        self._record(self._live().reset(index, term), partial(reset, index, term))
        # The installed snapshot is durable before the journal is reset.
        self.model.compacted = index

    def compact(self, distance: int) -> None:
        """A snapshot of what is durable, up to `distance` before its end, is durable."""
        journal = self._live()
        index = journal.durable_index - distance
        if index > self.model.compacted:
            self.model.compacted = index
            before = journal.lsn
            journal.compact(index)
            if journal.lsn > before:
                self._record(journal.lsn, nothing)

    def read(self, index: int, bytes_max: int) -> None:
        """Ask for entries from disk; what comes is checked when it comes."""
        journal = self._live()
        first = journal.first_index
        if self.state.last >= first:
            index = first + index % (self.state.last - first + 1)
            tail = journal.tail(index, bytes_max)
            for entry in tail:
                check(entry == self._entry(entry.index), f"memory holds entry {entry.index}")
            if not tail:
                journal.read(index, bytes_max, partial(self._has_read, journal, index))

    def flush(self) -> None:
        """End a turn of the loop."""
        self._live().flush()

    def step(self, choice: int) -> None:
        """Take one of the steps the workers can take."""
        steps = self.world.workers.steps()
        if steps:
            self._guarded(steps[choice % len(steps)])

    # Steps of the world.

    def fail(self, operation: str, number: int, fault: int | type[Crash]) -> None:
        """Fail the n-th next operation of a kind, once."""
        left = number

        def hook(kind: str, path: str) -> None:
            nonlocal left
            if operation in (kind, "any"):
                left -= 1
                if left == 0:
                    if fault in (errno.ENOSPC, errno.EMFILE) and path.endswith("mark"):
                        return  # a mark that lags is allowed, and vouches for less
                    self.disk.fault = None
                    if isinstance(fault, int):
                        raise OSError(fault, "injected", path)
                    raise fault(f"{kind} {path}")

        self.disk.fault = hook

    def resize(self, bytes_left: int) -> None:
        """Let others fill the disk, or clear it."""
        self.disk.capacity = self.disk.capacity - self.disk.bytes_left + bytes_left

    def crash(self, power: bool) -> None:
        """The process dies, perhaps with the power; then a new one opens the journal."""
        self.crashes += 1
        self.journal = None
        self.disk.fault = None
        self.disk.crash(power)
        self.world = SimWorld(self._rng.getrandbits(32), self.disk)

    def damage(self) -> None:
        """The process dies, and a bit flips or a file loses its end meanwhile.

        The journal must then either hold all that was acknowledged, or refuse.
        Where it refuses, the damage is mended again, so that the run goes on.
        """
        self.crash(power=False)
        rng, disk = self._rng, self.disk
        if not is_initialised(disk, DIRECTORY):
            return
        self.damages += 1
        name = rng.choice(disk.list(DIRECTORY))
        path = join(DIRECTORY, name)
        before = disk.read(path)
        written = len(before.rstrip(b"\0")) or 1
        match rng.randrange(3):
            case 0:
                disk.flip_bit(path, rng.randrange(written), rng.randrange(8))
            case 1:
                disk.zero(path, rng.randrange(written), len(before))
            case _:
                disk.cut(path, rng.randrange(len(before)))
        try:
            self.open()
        except Corrupt as error:
            check(error.path.startswith(DIRECTORY), "the refusal names the file")
            self.crash(power=False)
            disk.cut(path, len(before))
            disk.overwrite(path, 0, before)

    def open(self) -> None:
        """Open the journal, or begin it, and hold it against the model."""
        check(self.journal is None, "one process at a time")
        self._guarded(self._open)

    def settle(self) -> None:
        """Faults end; everything that waits becomes durable and can be read back."""
        self.disk.fault = None
        self.resize(ROOMY_BYTES)
        self.world.workers.run_all()  # one may bring the news of a failure
        if self.journal is not None and self.journal.failure:
            self.crash(power=False)
        if self.journal is None:
            self.open()
        for _ in range(4):  # a stalled group, a report, what waited behind it, what that dropped
            self.flush()
            self.world.workers.run_all()
        journal = self._live()
        check(journal.durable == journal.lsn, "what waits becomes durable")
        check(journal.pending_bytes == 0, "nothing is counted as waiting then")
        self.append(0, b"the disk has room again")
        check(journal.lsn > journal.durable, "an append is accepted then")
        self.flush()
        self.world.workers.run_all()
        self._check_all_entries()

    # Checks.

    def check(self) -> None:
        """Hold all that can be asked at once against the model."""
        journal, state = self.journal, self.state
        if journal is None or journal.failure:
            return
        check(journal.lsn == len(self.model.records), "LSNs count the records")
        check(journal.last_index == state.last, f"last index is {state.last}")
        check(journal.hard_state == state.hard_state, f"hard state is {state.hard_state}")
        check(journal.last_term == state.term(state.last), "last term")
        first = journal.first_index
        check(first <= max(self.model.compacted, state.base) + 1, f"{first} is compacted early")
        check(first > state.base, "nothing is read from before the base")
        for index in (first - 1, (first + state.last) // 2, state.last):
            check(journal.term(index) == state.term(index), f"term of {index}")
        check(journal.term(first - 2) is None, "no term is known below the log")
        check(journal.term(state.last + 1) is None, "nor above it")
        durable = max(state.durable_index(journal.durable), first - 1)
        check(journal.durable_index == durable, f"durable index is {durable}")
        check(journal.pending_bytes <= 2 * self.limits.pending_bytes_max, "what waits is bounded")

    def _open(self) -> None:
        if not is_initialised(self.disk, DIRECTORY):
            check(self.model.acknowledged == 0, "a journal that acknowledged something is there")
            self.model, self.state = Model(), Model().state()
            create(self.world, DIRECTORY, IDENTITY, self.limits.segment_bytes)
        self.journal = Journal(
            self.world,
            DIRECTORY,
            self.limits,
            on_durable=self._has_become_durable,
            on_failed=lambda fatal: None,
        )
        lsn, model = self.journal.lsn, self.model
        check(lsn >= model.acknowledged, f"{model.acknowledged} acknowledged, {lsn} recovered")
        check(lsn <= len(model.records), "nothing is recovered that never was")
        check(self.journal.identity == IDENTITY, "identity")
        del model.records[lsn:]
        model.acknowledged = lsn
        self.state = model.state()
        if self.state.last < model.compacted:
            self.reset(0)  # as Raft does: the snapshot was durable, the journal's reset was not
        self.check()
        self._check_all_entries()

    def _check_all_entries(self) -> None:
        journal = self._live()
        index = journal.first_index
        while index <= self.state.last:
            if tail := journal.tail(index, 1):
                check(tail[0] == self._entry(index), f"memory holds entry {index}")
                index += 1
                continue
            before = self.reads
            journal.read(index, 3000, partial(self._has_read, journal, index))
            self.world.workers.run_all()
            check(self.reads > before, f"entry {index} is read")
            index = self._read_up_to + 1

    def _has_read(self, journal: Journal, first: int, future: Future[tuple[Entry, ...]]) -> None:
        if isinstance(future.exception(), Overloaded | DiskFailed):
            return  # injected
        for expected, entry in enumerate(future.result(), first):
            check(entry.index == expected, "entries come in order")
            check(entry == self._entry(expected), f"disk holds entry {expected}")
            self._read_up_to = expected
        self.reads += 1

    def _entry(self, index: int) -> Entry | None:
        at = index - self.state.base - 1
        return self.state.entries[at][1] if 0 <= at < len(self.state.entries) else None

    def _has_become_durable(self, lsn: int) -> None:
        check(lsn > self.model.acknowledged, "durable only rises")
        self.model.acknowledged = lsn
        self.acks += 1

    def _record(self, lsn: int, record: Callable[[State], State]) -> None:
        records = self.model.records
        del records[lsn - 1 :]  # a hard state may stand for one that was never written
        check(lsn == len(records) + 1 > self.model.acknowledged, "each change has the next LSN")
        records.append(record)
        self.state = self.model.state()

    def _live(self) -> Journal:
        assert self.journal is not None
        return self.journal

    def _guarded(self, step: Callable[[], object]) -> None:
        """Take a step in which the process may die, or find that it must stop."""
        try:
            step()
        except (Crash, DiskFailed):
            self.journal = None
        journal = self.journal
        if journal is not None and isinstance(journal.failure, Fatal):
            check(isinstance(journal.failure, DiskFailed), f"it fails only so: {journal.failure!r}")
            self.journal = None
