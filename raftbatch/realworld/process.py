"""Clocks, randomness and threads of this process.

What lives here: those ports. What must never live here: a decision. Called by:
`raftbatch.realworld`.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class RealClock:
    """The machine's clocks."""

    def monotonic_ns(self) -> int:
        """Return the monotonic clock, in ns."""
        return time.monotonic_ns()

    def wall_ms(self) -> int:
        """Return the wall clock, in ms since 1970."""
        return time.time_ns() // 1_000_000


class RealEntropy:
    """The kernel's random numbers."""

    def random_bytes(self, length: int) -> bytes:
        """Return `length` unpredictable bytes."""
        return os.urandom(length)


class RealWorker:
    """A thread pool of one."""

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._closed = False

    def submit(self, job: Callable[[], T], done: Callable[[Future[T]], None]) -> None:
        """Queue the job; `done` comes by `call_soon_threadsafe`. Drops it after `close`."""

        def deliver(future: Future[T]) -> None:
            if not self._closed:
                done(future)

        def finished(future: Future[T]) -> None:
            if not self._closed:
                try:
                    self._loop.call_soon_threadsafe(deliver, future)
                except RuntimeError:  # the loop was closed first: nobody is left to tell
                    self._closed = True

        if not self._closed:
            self._pool.submit(job).add_done_callback(finished)

    def close(self) -> None:
        """Cancel what waits and join the thread."""
        self._closed = True
        self._pool.shutdown(wait=True, cancel_futures=True)


class RealWorkers:
    """Starts threads that report to the running loop."""

    def start(self, name: str) -> RealWorker:
        """Start a worker for the loop that runs now."""
        return RealWorker(name, asyncio.get_running_loop())
