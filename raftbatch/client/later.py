"""What is to be done later, and at once where the client is closed before.

What lives here: timers that are kept until they are over. What must never live here: what is
done (`engine`). Called by: `engine`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from raftbatch.client.asks import end_wait


class Later:
    """See the module's docstring. Made on the event loop that it is for."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._timers: dict[asyncio.TimerHandle, Callable[[], None]] = {}

    def call(self, delay_s: float, call: Callable[[], None]) -> None:
        """Call something after so long."""

        def run() -> None:
            self._timers.pop(timer, None)
            call()

        timer = self._loop.call_later(delay_s, run)
        self._timers[timer] = call

    async def pause(self, duration_s: float) -> None:
        """Wait for so long, or until nothing is to be waited for."""
        over: asyncio.Future[None] = self._loop.create_future()
        self.call(duration_s, partial(end_wait, over))
        await over

    def now(self) -> None:
        """Call at once whatever was to be called later."""
        timers, self._timers = self._timers, {}
        for timer, call in timers.items():
            timer.cancel()
            call()
