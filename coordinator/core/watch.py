"""What the leader knows of executors beside the log, and what it proposes for it.

Heartbeats tell what an executor holds and runs. None of that is in the state:
only its consequences are (Lapse, Free, Leave), so a new leader begins with
nothing here, and learns it with the first heartbeat of each. What lives here:
running times, and what a heartbeat contradicts. What must never live here: when
an executor counts as lost (the shell's clock says), or has begun nothing for too
long (`unbegun`). Called by: the leader's shell. Total. Deterministic; times are log
time, counted on by the leader.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from coordinator.core.outlook import Outlook
from coordinator.core.unbegun import Unbegun
from coordinator.core.values import Executor
from raftbatch import records as r
from raftbatch.kinds import TOO_LONG, LapseReason, Ran

NOT_BEGUN = "not_begun"
"""Said of a batch that was taken back because its executor began none."""


class Holding(NamedTuple):
    """One assignment as an executor lists it.

    Attributes:
        batch: its number.
        fence: of the assignment.
        is_running: whether it has begun to run.
    """

    batch: int
    fence: int
    is_running: bool


class Watch:
    """See the module's docstring.

    Args:
        outlook: the leader's, of this term.
        unbegun: who has begun nothing for long; it outlives an outlook.
    """

    def __init__(self, outlook: Outlook, unbegun: Unbegun | None = None) -> None:
        self._outlook = outlook
        self._unbegun = unbegun or Unbegun()
        self._running: dict[tuple[int, int], int] = {}
        self._timeouts: list[tuple[int, int, int]] = []

    def heard(
        self,
        executor: str,
        incarnation: int,
        tailed_index: int,
        holdings: Sequence[Holding],
        at_ms: int,
    ) -> list[r.Record]:
        """Return what a heartbeat asks for.

        Args:
            executor: its id.
            incarnation: of its life; another than the live one says nothing.
            tailed_index: up to where it has followed its feed.
            holdings: all that it holds.
            at_ms: log time by the leader's clock.
        """
        live = self._outlook.state.executors.get(executor)
        if live is None or live.incarnation != incarnation:
            return []
        for each in holdings:
            if each.is_running:
                self._started(each, at_ms)
        listed = {(each.batch, each.fence) for each in holdings}
        found: list[r.Record] = []
        stopped = []
        for held in live.held:
            if (held.batch, held.fence) in listed or held.fence > tailed_index:
                continue
            if held.is_lapsed:
                stopped.append(held)
            elif held.batch not in self._outlook.flying.busy:
                found.append(self._lapse(held.batch, LapseReason.REFUSED, Ran.NO, stopped=True))
        if stopped and executor not in self._outlook.flying.closed:
            batches = tuple([held.batch for held in stopped])
            fences = tuple([held.fence for held in stopped])
            found.append(r.Free(executor, incarnation, batches, fences))
        running = {(each.batch, each.fence) for each in holdings if each.is_running}
        done = {each.batch for each in found if isinstance(each, r.Lapse)}
        for number, said in self._unbegun.heard(self._outlook, live, running, at_ms):
            if number not in self._outlook.flying.busy and number not in done:
                found.append(self._not_begun(number, said))
        return found

    def overdue(self, at_ms: int) -> list[r.Record]:
        """Return what has run for longer than its model version allows."""
        found: list[r.Record] = []
        while self._timeouts and self._timeouts[0][0] <= at_ms:
            _, number, fence = heappop(self._timeouts)
            self._running.pop((number, fence), None)
            batch = self._outlook.state.batches.get(number)
            if batch is None or batch.fence != fence or number in self._outlook.flying.busy:
                continue
            found.append(self._lapse(number, LapseReason.TIMED_OUT, Ran.YES, stopped=False))
        return found

    def next_ms(self) -> int | None:
        """Return the log time at which something may be overdue; None: nothing runs."""
        return self._timeouts[0][0] if self._timeouts else None

    def lost(self, executor: str, incarnation: int) -> list[r.Record]:
        """Return what ends an incarnation that is not heard of any more."""
        live = self._outlook.state.executors.get(executor)
        if live is None or live.incarnation != incarnation:
            return []
        return [r.Leave(executor, incarnation, True, self._running_at(live))]

    def _started(self, holding: Holding, at_ms: int) -> None:
        batch = self._outlook.state.batches.get(holding.batch)
        key = holding.batch, holding.fence
        if batch is None or batch.fence != holding.fence or key in self._running:
            return
        current = self._outlook.state.batches
        if len(self._running) > 2 * len(current) + 64:
            self._running = {
                (number, fence): since_ms
                for (number, fence), since_ms in self._running.items()
                if number in current and current[number].fence == fence
            }
        self._running[key] = at_ms
        model = self._outlook.state.models.get(batch.key[:2])
        if model is not None and model.execution_timeout_microseconds:
            timeout_ms = -(-model.execution_timeout_microseconds // 1000)
            if len(self._timeouts) > 2 * len(self._running) + 64:
                # Most have ended in time, and those would stand here until it is over.
                self._timeouts = [each for each in self._timeouts if each[1:] in self._running]
                heapify(self._timeouts)
            heappush(self._timeouts, (at_ms + timeout_ms, *key))

    def _running_at(self, executor: Executor) -> tuple[int, ...]:
        return tuple(
            [each.batch for each in executor.held if (each.batch, each.fence) in self._running]
        )

    def _lapse(self, number: int, reason: LapseReason, ran: Ran, *, stopped: bool) -> r.Lapse:
        batch = self._outlook.state.batches[number]
        code = reason.name.lower()
        said = TOO_LONG if reason is LapseReason.TIMED_OUT else ""
        return r.Lapse(number, batch.assigned, batch.fence, reason, ran, stopped, code, said)

    def _not_begun(self, number: int, said: str) -> r.Lapse:
        """Return that a batch is taken back: no failure of its own, and it may run by now."""
        batch = self._outlook.state.batches[number]
        of = number, batch.assigned, batch.fence
        return r.Lapse(*of, LapseReason.TIMED_OUT, Ran.UNKNOWN, False, NOT_BEGUN, said)
