"""Clocks, randomness, threads and signals of this process, and its end.

What lives here: those ports. What must never live here: a decision. Called by:
`raftbatch.realworld`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from types import FrameType
from typing import Any, TypeVar

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


class RealProcess:
    """Signals, and ends that nothing can prevent."""

    def __init__(self) -> None:
        self._told = False

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end, on uvloop where it is installed."""
        try:
            import uvloop
        except ImportError:
            return asyncio.run(main)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(main)

    def on_stop(self, told: Callable[[str], None]) -> None:
        """Take SIGTERM and SIGINT, by handlers of the interpreter: they run also where the
        loop is busy, so that a second signal ends a process whose loop hangs.
        """
        loop = asyncio.get_running_loop()

        def handle(number: int, _frame: FrameType | None) -> None:
            if self._told:
                _end("a second signal", 1)
            self._told = True
            loop.call_soon_threadsafe(told, signal.Signals(number).name)

        for number in (signal.SIGTERM, signal.SIGINT):
            # The loop's own handler wakes it up out of its sleep; the interpreter's is ours.
            loop.add_signal_handler(number, lambda: None)
            signal.signal(number, handle)

    def end_within(self, duration_ms: int, why: str) -> None:
        """Start a thread that ends the process: the interpreter does not wait for it."""
        timer = threading.Timer(duration_ms / 1000, _end, (why, 1))
        timer.daemon = True
        timer.start()


def _end(why: str, status: int) -> None:
    """End the process without a look back: no buffer is flushed, no lock is waited for."""
    os.write(2, f"Error: ended at once: {why}\n".encode())
    os._exit(status)
