"""Executors that hold batches and begin none: what they lose, and who gets nothing for a while.

Running time is bounded by the model's execution timeout, silence by the lease. What lives
here bounds what lies between: an executor that is heard of, holds batches of a model version,
and runs none of them. Its clock for that version counts only while nothing of it runs there
and nothing of it has ended there, so that a long queue before a slow model costs nobody
anything; and only from one heartbeat to the next, a bounded step each, so that a leader that
stood still, or whose log took nothing, punishes nobody for it. A batch that it was not told
of yet counts too: one that never follows its feed begins nothing either.

What has waited for too long is taken back only where another executor could run it. From
then on this one gets nothing more of that version (it is barred), twice as long each time,
or until nobody else is there. None of that is in a log: a new leader finds it out anew.

What must never live here: how a batch is taken back (`batches`). Called by: `watch`; the
outlook reads who is barred. Total. Deterministic; times are log time.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from coordinator.core.outlook import Outlook
from coordinator.core.state import ModelId
from coordinator.core.values import Executor

UNBEGUN_MS = 30_000
_STEP_MS_MAX = 3000
_DOUBLINGS_MAX = 3

Barred = tuple[str, ModelId]
"""An executor's id, and the model version that it gets nothing of."""

Name = tuple[int, int]
"""A batch and the fence of its assignment."""


class _Wait(NamedTuple):
    """How long batches of one version have waited at one executor.

    Attributes:
        names: which, when it was last heard of; another life has other fences.
        waited_ms: since one of that version last ran or ended there.
    """

    names: frozenset[Name]
    waited_ms: int


class _Heard(NamedTuple):
    at_ms: int
    waits: dict[ModelId, _Wait]


class Unbegun:
    """See the module's docstring.

    Args:
        unbegun_ms: how long batches may wait so, beyond the version's execution timeout.
        step_ms_max: what counts from one heartbeat to the next, at most: a lease.

    Attributes:
        barred: until when, by log time.
    """

    def __init__(self, unbegun_ms: int = UNBEGUN_MS, step_ms_max: int = _STEP_MS_MAX) -> None:
        self.barred: dict[Barred, int] = {}
        self._unbegun_ms = unbegun_ms
        self._step_ms_max = step_ms_max
        self._times: dict[Barred, int] = {}
        self._heard: dict[str, _Heard] = {}

    def heard(
        self, outlook: Outlook, live: Executor, running: Collection[Name], at_ms: int
    ) -> list[tuple[int, str]]:
        """Return batches that are to be taken back from an executor, and why.

        Args:
            outlook: of the leader.
            live: who is heard of.
            running: what it says it runs.
            at_ms: log time of that.
        """
        self._forget(outlook)
        self._lift(outlook, live.executor, at_ms)
        waiting = self._wait_on(outlook, live, running, at_ms)
        found: list[tuple[int, str]] = []
        for model_id, wait in self._heard[live.executor].waits.items():
            model = outlook.state.models.get(model_id)
            if model is None:
                continue
            limit_ms = -(-model.execution_timeout_microseconds // 1000) + self._unbegun_ms
            able = outlook.model(model_id).able.views
            if wait.waited_ms < limit_ms or not any(each != live.executor for each in able):
                continue
            self._bar((live.executor, model_id), at_ms, limit_ms)
            outlook.refresh_executor(live.executor)
            said = f"{live.executor} ran none of its batches for {wait.waited_ms // 1000} seconds"
            found += [(batch, said) for batch, _ in waiting[model_id]]
        return found

    def _wait_on(
        self, outlook: Outlook, live: Executor, running: Collection[Name], at_ms: int
    ) -> dict[ModelId, list[Name]]:
        """Count on; return what waits there by now, in the order of assignment."""
        waiting: dict[ModelId, list[Name]] = {}
        busy: set[ModelId] = set()
        for batch, fence, is_lapsed in live.held:
            if not is_lapsed:
                model_id = outlook.state.batches[batch].key[:2]
                if (batch, fence) in running:
                    busy.add(model_id)
                    self._times.pop((live.executor, model_id), None)
                else:
                    waiting.setdefault(model_id, []).append((batch, fence))
        last = self._heard.get(live.executor) or _Heard(at_ms, {})
        step_ms = max(0, min(at_ms - last.at_ms, self._step_ms_max))
        waits: dict[ModelId, _Wait] = {}
        for model_id, names in waiting.items():
            if model_id not in busy:
                now, before = frozenset(names), last.waits.get(model_id)
                is_still = before is not None and before.names <= now
                waited_ms = before.waited_ms + step_ms if before is not None and is_still else 0
                waits[model_id] = _Wait(now, waited_ms)
        self._heard[live.executor] = _Heard(at_ms, waits)
        return waiting

    def _bar(self, barred: Barred, at_ms: int, limit_ms: int) -> None:
        times = self._times[barred] = self._times.get(barred, 0) + 1
        self.barred[barred] = at_ms + (limit_ms << min(times - 1, _DOUBLINGS_MAX))

    def _lift(self, outlook: Outlook, executor: str, at_ms: int) -> None:
        """Let an executor get again what it has been barred from for long enough."""
        over = [
            each
            for each, until_ms in self.barred.items()
            if each[0] == executor and (until_ms <= at_ms or not self._has_other(outlook, each))
        ]
        for each in over:
            del self.barred[each]
            outlook.refresh_executor(executor)
            outlook.dirty[each[1]] = None

    def _has_other(self, outlook: Outlook, barred: Barred) -> bool:
        """Return whether somebody else could run it, now or as soon as an entry has landed."""
        executor, model_id = barred
        return any(
            each.executor != executor
            and each.takes_new
            and model_id in each.models
            and (each.executor, model_id) not in self.barred
            for each in outlook.state.executors.values()
        )

    def _forget(self, outlook: Outlook) -> None:
        """Let go of executors that are no more, once they are many."""
        live = outlook.state.executors
        if len(self._heard) > 2 * len(live) + 64:
            self._heard = {name: each for name, each in self._heard.items() if name in live}
        if len(self._times) > 2 * sum([len(each.models) for each in live.values()]) + 64:
            self._times = {each: times for each, times in self._times.items() if each[0] in live}
            for barred in [each for each in self.barred if each[0] not in live]:
                del self.barred[barred]  # in place: the outlook reads it
