"""Clocks, randomness and threads of this process.

What lives here: those ports. What must never live here: a decision. Called by:
`raftbatch.realworld`.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Final, TypeVar

T = TypeVar("T")

CLOSE_S: Final = 10.0
"""How long closing a worker waits for a job: far longer than a disk that works needs."""


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
    """A daemon thread and a queue.

    No `ThreadPoolExecutor`: the interpreter joins those threads when it ends, so
    a disk that hangs would keep the process from ending. Nor does it tell the
    loop of a job in so few steps.

    Args:
        name: the thread's.
        loop: told of what has ended.
        close_s: how long `close` waits for a job that runs.

    Attributes:
        thread: runs the jobs.
    """

    def __init__(
        self, name: str, loop: asyncio.AbstractEventLoop, close_s: float = CLOSE_S
    ) -> None:
        self._loop = loop
        self._close_s = close_s
        self._closed = False
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self.thread = threading.Thread(target=self._work, name=name, daemon=True)
        self.thread.start()

    def submit(self, job: Callable[[], T], done: Callable[[Future[T]], None]) -> None:
        """Queue the job; `done` comes by `call_soon_threadsafe`. Drops it after `close`."""
        future: Future[T] = Future()

        def deliver() -> None:
            if not self._closed:
                done(future)

        def run() -> None:
            try:
                future.set_result(job())
            except BaseException as error:  # noqa: BLE001 - the future has it
                future.set_exception(error)
            try:
                self._loop.call_soon_threadsafe(deliver)
            except RuntimeError:  # the loop was closed first: nobody is left to tell
                self._closed = True

        if not self._closed:
            self._jobs.put(run)

    def close(self) -> bool:
        """Drop what waits, and join the thread for so long as is agreed."""
        self._closed = True
        self._jobs.put(None)
        self.thread.join(self._close_s)
        return not self.thread.is_alive()

    def _work(self) -> None:
        """Run jobs, on the thread, until there are to be no more."""
        while True:
            run = self._jobs.get()
            if run is None or self._closed:
                return
            run()
            del run  # else what it returned would be held until the next


class RealWorkers:
    """Starts threads that report to the running loop."""

    def start(self, name: str) -> RealWorker:
        """Start a worker for the loop that runs now."""
        return RealWorker(name, asyncio.get_running_loop())
