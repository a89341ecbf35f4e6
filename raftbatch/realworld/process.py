"""Clocks, randomness, threads and signals of this process, and its end.

What lives here: those ports. What must never live here: a decision. Called by:
`raftbatch.realworld`.
"""

from __future__ import annotations

import asyncio
import errno
import io
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, Final, TypeVar, cast

from raftbatch.world import Behind

T = TypeVar("T")

_Job = Callable[[], Any]
_Done = Callable[[Future[Any]], None]

CLOSE_S: Final = 10.0
"""How long closing a worker waits for a job: far longer than a disk that works needs."""


class RealClock:
    """The machine's clocks."""

    monotonic_ns = staticmethod(
        time.monotonic_ns
    )  # asked several times an event: no call around it

    def wall_ms(self) -> int:
        """Return the wall clock, in ms since 1970."""
        return time.time_ns() // 1_000_000


class RealEntropy:
    """The kernel's random numbers."""

    def random_bytes(self, length: int) -> bytes:
        """Return `length` unpredictable bytes."""
        return os.urandom(length)


class _Ended(Future[T]):
    """What became of a job; made when that is known, so that it needs no lock, and tells nobody."""

    def __init__(self, value: T | None, error: BaseException | None) -> None:
        self._value, self._error = value, error

    def __repr__(self) -> str:
        """Return how it ended."""
        return f"<ended: {self._value!r}>" if self._error is None else f"<ended: {self._error!r}>"

    def done(self) -> bool:
        """Return that it has ended."""
        return True

    def cancelled(self) -> bool:
        """Return that nobody gave it up."""
        return False

    def exception(self, timeout: float | None = None) -> BaseException | None:  # noqa: ARG002
        """Return what the job raised."""
        return self._error

    def result(self, timeout: float | None = None) -> T:  # noqa: ARG002 - the base's name
        """Return what the job returned."""
        if self._error is not None:
            raise self._error
        return cast("T", self._value)


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
        self._jobs: SimpleQueue[tuple[_Job, _Done, Behind] | None] = SimpleQueue()
        self.thread = threading.Thread(target=self._work, name=name, daemon=True)
        self.thread.start()

    def submit(
        self, job: Callable[[], T], done: Callable[[Future[T]], None], behind: Behind = None
    ) -> None:
        """Queue the job; `done` comes by `call_soon_threadsafe`. Drops it after `close`."""
        if not self._closed:
            self._jobs.put((job, done, behind))

    def close(self) -> bool:
        """Drop what waits, and join the thread for so long as is agreed."""
        self._closed = True
        self._jobs.put(None)
        self.thread.join(self._close_s)
        return not self.thread.is_alive()

    def _work(self) -> None:
        """Run jobs, on the thread, until there are to be no more."""
        while True:
            given = self._jobs.get()
            if given is None or self._closed:
                return
            self._run(*given)
            del given  # else the job would be held until the next

    def _run(self, job: _Job, done: _Done, behind: Behind) -> None:
        try:
            ended = _Ended(job(), None)
        except BaseException as error:  # noqa: BLE001 - whoever asked for it is told
            ended, behind = _Ended(None, error), None
        try:
            self._loop.call_soon_threadsafe(self._deliver, done, ended)
        except RuntimeError:  # the loop was closed first: nobody is left to tell
            self._closed = True
        if behind is not None:
            behind()

    def _deliver(self, done: _Done, ended: _Ended[Any]) -> None:
        if not self._closed:
            done(ended)


class RealWorkers:
    """Starts threads that report to the running loop."""

    def start(self, name: str) -> RealWorker:
        """Start a worker for the loop that runs now."""
        return RealWorker(name, asyncio.get_running_loop())


def _stop_signals() -> tuple[signal.Signals, ...]:
    """Return what asks to stop: a hangup too, unless whoever started us had it ignored (nohup)."""
    signals = (signal.SIGTERM, signal.SIGINT)
    is_kept = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return signals if is_kept else (*signals, signal.SIGHUP)


class RealProcess:
    """Signals, and ends that nothing can prevent.

    Make it first: signals are blocked in this thread and those that it starts, and
    wait for a thread of their own. A handler would wait for the main thread, which
    may hang in a call to the disk while it opens the log.
    """

    def __init__(self) -> None:
        self._signals = _stop_signals()
        signal.pthread_sigmask(signal.SIG_BLOCK, self._signals)
        quiet_grpc()
        _raise_descriptors()

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end, on uvloop where it is installed."""
        try:
            import uvloop
        except ImportError:
            return asyncio.run(main)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.get_loop().set_exception_handler(_complain)
            return runner.run(main)

    def on_stop(self, told: Callable[[str], None], within_ms: int) -> None:
        """Wait for signals in a thread that does nothing else."""
        loop = asyncio.get_running_loop()

        def wait() -> None:
            first = signal.Signals(signal.sigwait(self._signals))
            self.end_within(within_ms, f"stopping took more than {within_ms} ms")
            try:
                loop.call_soon_threadsafe(told, first.name)
            except RuntimeError:
                pass  # the loop is closed: the end is near
            signal.sigwait(self._signals)
            _end("a second signal", 1)

        threading.Thread(target=wait, name="signals", daemon=True).start()

    def end_within(self, duration_ms: int, why: str) -> None:
        """Start a thread that ends the process: the interpreter does not wait for it."""
        timer = threading.Timer(duration_ms / 1000, _end, (why, 1))
        timer.daemon = True
        timer.start()


def _complain(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Say what has failed where nobody waits for it, but for what uvloop makes of an end.

    A TLS connection of which the other end went while it was read has ended, and whoever has it
    is told: uvloop answers it all the same, into a transport that is closed, and calls that fatal.
    Source: MagicStack/uvloop#506, #685.
    """
    error, is_its_own = context.get("exception"), context["message"].startswith("Fatal error on")
    if is_its_own and isinstance(error, RuntimeError) and "the handler is closed" in str(error):
        return
    loop.default_exception_handler(context)


def _end(why: str, status: int) -> None:
    """End the process without a look back: no buffer is flushed, no lock is waited for."""
    os.write(2, f"Error: ended at once: {why}\n".encode())
    os._exit(status)


def _raise_descriptors() -> None:
    """Take all the file descriptors that may be had: each client takes one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def quiet_grpc() -> None:
    """Let gRPC's core say nothing on standard error, and nothing happen to what is forked.

    What fails is told by whoever called it.

    Called before gRPC is imported. Whoever looks for a fault sets GRPC_VERBOSITY.
    """
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    # Between fork and exec gRPC would take its threads up again, and crash now and then: a model's
    # process that was just started was dead. Nobody here forks to go on.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")


class _Closed(io.RawIOBase):
    """Standard output that whoever began us has closed."""

    def writable(self) -> bool:
        """Return that it may be tried."""
        return True

    def write(self, *_: object) -> int:
        """Refuse it."""
        raise OSError(errno.EIO, "standard output is closed")


def open_standard_streams() -> None:
    """Open what stands for the standard streams that whoever began us has closed.

    Else files and sockets of ours would take their places, and what a library prints would be
    written into those. Nothing comes in, what is printed fails, and errors are told to nobody.
    """
    for descriptor in range(3):  # the lowest that is free is the one that is taken
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    if sys.stdin is None:
        sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    if sys.stdout is None:
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(_Closed()), encoding="utf-8")
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)
