"""How long answers are waited for: many waits share a timer.

A timer of the loop for each costs more than all else that is done for a request. So waits that
end at about the same time are kept together, and each may last longer by a sixteenth.

What lives here: when a wait is over. What must never live here: what follows (`engine`).
Called by: `engine`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from math import frexp

from raftbatch.client.asks import Ask

_GRAINS = 5  # a wait is at least 2 ** (_GRAINS - 1) grains long

_Key = tuple[int, int]  # the exponent of the grain, and how many of it the loop's time is


class Deadlines:
    """See the module's docstring.

    Args:
        late: is told which wait is over, how long it was to last, and what `add` was told.
    """

    def __init__(self, late: Callable[[Ask, float, bool], None]) -> None:
        self._late = late
        self._loop = asyncio.get_running_loop()
        self._ends: dict[_Key, dict[Ask, tuple[float, bool]]] = {}
        self._timers: dict[_Key, asyncio.TimerHandle] = {}

    def add(self, ask: Ask, limit_s: float, is_cancelled: bool) -> None:
        """Begin to wait.

        Args:
            ask: what for; it is dropped when it has its answer.
            limit_s: how long.
            is_cancelled: whether the request is cancelled when the wait is over.
        """
        exponent = frexp(limit_s)[1] - _GRAINS
        grain_s = 2.0**exponent
        key = (exponent, int((self._loop.time() + limit_s) / grain_s) + 1)
        together = self._ends.get(key)
        if together is None:
            together = self._ends[key] = {}
            self._timers[key] = self._loop.call_at(key[1] * grain_s, partial(self._over, key))
        together[ask] = (limit_s, is_cancelled)
        ask.together = together

    def close(self) -> None:
        """End all timers; no wait ends any more."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _over(self, key: _Key) -> None:
        del self._timers[key]
        for ask, (limit_s, is_cancelled) in list(self._ends.pop(key).items()):
            self._late(ask, limit_s, is_cancelled)
