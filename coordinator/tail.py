"""One tail: what an executor was last told, what the state says now, and the difference.

What lives here: that. What must never live here: which tails there are, and what
wakes them (`feed`, whose docstring says how it all works). Called by: `feed`; whoever
reads a tail. One thread: the loop's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import NamedTuple

from coordinator.core.effects import ExecutorChanged, Finished, Placed, Revoked, Shed
from coordinator.core.state import State
from coordinator.core.values import Executor
from coordinator.feed_messages import Assignment, Changes, Current, Slot, Stop, assignment
from coordinator.feed_messages import Shed as ShedRows
from coordinator.proposer import copy_of
from coordinator.replica import Replica
from raftbatch.errors import Draining, InvalidRequest, RaftbatchError, StaleIncarnation
from raftbatch.kinds import LapseReason


class Tail:
    """One executor's feed, as one reader follows it. Made by `Feed.open`.

    Args:
        replica: whose state it tells.
        executor: whose it is.
        incarnation: of the executor.
        held: batch and fence of what it says it holds.
        forgotten: called when the tail has ended.

    Attributes:
        executor: whose it is.
        incarnation: of the executor.
    """

    def __init__(
        self,
        replica: Replica,
        executor: str,
        incarnation: int,
        held: Sequence[tuple[int, int]],
        forgotten: Callable[[Tail], None],
    ) -> None:
        self.executor = executor
        self.incarnation = incarnation
        self._replica = replica
        self._forgotten = forgotten
        self._held: tuple[tuple[int, int], ...] | None = tuple(held)  # until `Current` is taken
        # What the executor was told, of as many assignments as it has slots:
        self._runs: dict[int, _Run] = {}  # to run, by batch
        self._stops: dict[tuple[int, int], None] = {}  # to stop; not confirmed yet
        self._standing = (False, False)  # draining, suspended
        # What was heard since, of what it runs:
        self._ended: dict[tuple[int, int], LapseReason | None] = {}  # why; None: it is finished
        self._shed: dict[int, None] = {}  # batches of which rows have ended
        self._is_marked = True
        self._error: RaftbatchError | None = None
        self._reader: asyncio.Future[None] | None = None

    async def next(self) -> Current | Changes:
        """Return the next message, once there is one; one call at a time.

        Raises:
            StaleIncarnation: definite; the executor's life is over.
            InvalidRequest: definite; a newer tail of the executor is open, or two calls wait.
            Draining: definite; the node stops, or the tail was closed.
        """
        if self._reader is not None:
            raise InvalidRequest(f"the tail of {self.executor} is read twice at a time")
        while True:
            if self._error is not None:
                raise copy_of(self._error)
            if self._is_marked:
                message = self._take()
                if message is not None:
                    return message
                continue
            self._reader = asyncio.get_running_loop().create_future()
            try:
                await self._reader
            finally:
                self._reader = None

    def __aiter__(self) -> AsyncIterator[Current | Changes]:
        return self

    async def __anext__(self) -> Current | Changes:
        return await self.next()

    def close(self) -> None:
        """Free what it keeps. Harmless when called twice."""
        self.end(Draining(f"the tail of {self.executor} was closed"))

    # What the feed tells it.

    def mark(self, effect: Placed | Revoked | Shed | Finished | ExecutorChanged) -> None:
        """Look at what an entry did to this executor."""
        match effect:
            case Revoked():
                self._note_end((effect.batch, effect.fence), effect.reason)
            case Finished():
                self._note_end((effect.batch, effect.fence), None)
            case Shed():
                self.mark_batch(effect.batch)
                return
            case _:
                pass
        self._wake()

    def _note_end(self, key: tuple[int, int], reason: LapseReason | None) -> None:
        run = self._runs.get(key[0])
        if run is not None and run.fence == key[1]:
            self._ended[key] = reason

    def mark_batch(self, batch: int) -> None:
        """Look at a batch of which rows may have ended."""
        if batch in self._runs:
            self._shed[batch] = None
            self._wake()

    def mark_all(self) -> None:
        """Look at everything."""
        self._shed.update(dict.fromkeys(self._runs))
        self._wake()

    def _wake(self) -> None:
        self._is_marked = True
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def end(self, error: RaftbatchError) -> None:
        """Say no more, and free what it keeps; the reader is told why."""
        if self._error is None:
            self._error = error
            self._forgotten(self)
            self._runs, self._stops, self._ended, self._shed, self._held = {}, {}, {}, {}, None
            self._wake()

    # Messages.

    def _take(self) -> Current | Changes | None:
        """Return what there is to say; None: nothing, or that the tail has ended."""
        self._is_marked = False
        executor = live(self._replica.state, self.executor, self.incarnation)
        if executor is None:
            self.end(stale(self.executor, self.incarnation))
            return None
        held, self._held = self._held, None
        message = self._changes(executor) if held is None else self._current(executor, held)
        self._ended, self._shed = {}, {}
        return message

    def _current(self, executor: Executor, held: tuple[tuple[int, int], ...]) -> Current:
        """Return the first message, and remember what it says."""
        state = self._replica.state
        assigned, lapsed = _slots(executor)
        said = dict.fromkeys(held)
        keep, shed, drop = [], [], []
        for batch, fence in said:
            if assigned.get(batch) != fence:
                drop.append(Slot(batch, fence))
                continue
            members = state.batches[batch].members
            gone = tuple([each for each in members if each not in state.requests])
            if gone:
                shed.append(ShedRows(batch, fence, gone))
            keep.append(Slot(batch, fence))
            self._runs[batch] = _Run(fence, tuple([n for n in members if n in state.requests]))
        drop += [Slot(*key) for key in lapsed if key not in said]
        self._stops = lapsed
        start = self._starts(assigned)
        self._standing = (executor.is_draining, executor.is_suspended)
        return Current(
            state.index,
            state.now_ms,
            start,
            tuple(keep),
            tuple(shed),
            tuple(drop),
            *self._standing,
        )

    def _changes(self, executor: Executor) -> Changes | None:
        """Return what differs from what was told, and remember it as told; None: nothing."""
        state = self._replica.state
        assigned, lapsed = _slots(executor)
        stop, shed, finished = [], [], []
        for batch, run in list(self._runs.items()):
            key = (batch, run.fence)
            if assigned.get(batch) != run.fence:
                del self._runs[batch]
                if key not in lapsed and self._ended.get(key, run) is None:
                    finished.append(Slot(*key))
                else:
                    stop.append(Stop(*key, self._ended.get(key)))
                    self._stops[key] = None
            elif batch in self._shed:
                gone = tuple([each for each in run.numbers if each not in state.requests])
                if gone:
                    shed.append(ShedRows(*key, gone))
                    left = tuple([each for each in run.numbers if each in state.requests])
                    self._runs[batch] = _Run(run.fence, left)
        # The slot of what was assigned and lapsed unheard of returns with its confirmation too.
        stop += [Stop(*key, None) for key in lapsed if key not in self._stops]
        self._stops = lapsed
        start = self._starts(assigned)
        standing = (executor.is_draining, executor.is_suspended)
        if not (start or stop or shed or finished) and standing == self._standing:
            return None
        self._standing = standing
        return Changes(
            state.index,
            state.now_ms,
            start,
            tuple(stop),
            tuple(shed),
            tuple(finished),
            *standing,
        )

    def _starts(self, assigned: dict[int, int]) -> tuple[Assignment, ...]:
        """Return the assignments that the executor was not told of, and note that it is."""
        start = []
        for batch, fence in assigned.items():
            if batch not in self._runs:
                found = assignment(self._replica.state, batch)
                self._runs[batch] = _Run(fence, found.numbers)
                start.append(found)
        return tuple(start)


class _Run(NamedTuple):
    """What an executor was told to run: under which fence, and which requests."""

    fence: int
    numbers: tuple[int, ...]


def _slots(executor: Executor) -> tuple[dict[int, int], dict[tuple[int, int], None]]:
    """Return what is assigned there, fences by batch, and what lapsed and is not confirmed."""
    assigned = {each.batch: each.fence for each in executor.held if not each.is_lapsed}
    lapsed = {(each.batch, each.fence): None for each in executor.held if each.is_lapsed}
    return assigned, lapsed


def live(state: State, executor: str, incarnation: int) -> Executor | None:
    """Return an executor, if that is the life that it lives."""
    found = state.executors.get(executor)
    return found if found is not None and found.incarnation == incarnation else None


def stale(executor: str, incarnation: int) -> StaleIncarnation:
    """Return what an executor is told whose life is over."""
    return StaleIncarnation(f"incarnation {incarnation} of {executor} is over: join anew")
