"""What the SDK takes from the machine that it runs on: chance, wall time, and one thread.

The SDK runs within other people's programs, also on systems where no coordinator does,
and no simulation replays it: so it has the few lines that it needs here, rather than the
whole of `raftbatch.realworld`. What lives here: those. What must never live here: a
decision. Called by: the SDK alone.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from raftbatch.ids import REQUEST_ID_TAIL_BYTES, make_request_id

T = TypeVar("T")


def new_request_id() -> str:
    """Return an id that nobody ever had: 128 bits, in the order of time. Survives a fork."""
    return make_request_id(time.time_ns() // 1_000_000, os.urandom(REQUEST_ID_TAIL_BYTES))


def jittered(duration_s: float) -> float:
    """Return a duration between the half of this one and the whole."""
    return duration_s * random.uniform(0.5, 1.0)


def process_id() -> int:
    """Return which process this is: another one, after a fork."""
    return os.getpid()


class LoopThread:
    """A thread of its own that runs an event loop, for callers that have none.

    Args:
        name: of the thread. It does not keep the process from ending.
    """

    def __init__(self, name: str) -> None:
        self._loop = _new_loop()
        self._process = process_id()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def is_here(self) -> bool:
        """Whether it runs, in this very process: a fork takes no thread along."""
        return self._process == process_id() and self._thread.is_alive()

    @property
    def is_current(self) -> bool:
        """Whether the caller is on it: to wait for it would be for ever."""
        return threading.current_thread() is self._thread

    def start(self, call: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine there; return its future."""
        return asyncio.run_coroutine_threadsafe(call, self._loop)

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine there to its end. Whoever interrupts the wait cancels it."""
        future = self.start(call)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def soon(self, call: Callable[[], None]) -> None:
        """Let a function be called there."""
        self._loop.call_soon_threadsafe(call)

    def close(self) -> None:
        """End the loop, and the thread. Harmless when called twice, or after a fork."""
        if not self.is_here:
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            left = asyncio.all_tasks(self._loop)
            for task in left:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            asyncio.set_event_loop(None)
            self._loop.close()


def _new_loop() -> asyncio.AbstractEventLoop:
    """Return the quicker kind of loop, where it is installed."""
    if sys.platform != "win32":
        try:
            import uvloop
        except ImportError:
            pass
        else:
            return uvloop.new_event_loop()
    return asyncio.new_event_loop()
