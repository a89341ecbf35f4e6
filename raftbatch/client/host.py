"""What the SDK takes from the machine that it runs on: chance, wall time, and one thread.

The SDK runs within other people's programs, also on systems where no coordinator does,
and no simulation replays it: so it has the few lines that it needs here, rather than the
whole of `raftbatch.realworld`. What lives here: those. What must never live here: a
decision. Called by: the SDK alone.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import random
import sys
import threading
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

from raftbatch.ids import REQUEST_ID_TAIL_BYTES, make_request_id

T = TypeVar("T")


_TAILS = 256  # of request ids, drawn at once: each draw is a call of the system
_tails: list[str] = []


def new_request_id() -> str:
    """Return an id that nobody ever had: 128 bits, in the order of time. Survives a fork."""
    try:
        tail = _tails.pop()
    except IndexError:
        drawn = os.urandom(_TAILS * REQUEST_ID_TAIL_BYTES).hex()
        step = 2 * REQUEST_ID_TAIL_BYTES
        tails = [drawn[begin : begin + step] for begin in range(0, len(drawn), step)]
        tail = tails.pop()
        _tails.extend(tails)
    return make_request_id(time.time_ns() // 1_000_000, tail)


# What was drawn before a fork is the parent's alone.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_tails.clear)


def drawn() -> float:
    """Return a number from 0 to 1."""
    return random.random()


def process_id() -> int:
    """Return which process this is: another one, after a fork."""
    return os.getpid()


class LoopThread:
    """A thread of its own that runs an event loop, for callers that have none.

    It ends with the process, and does not keep that from ending.

    Args:
        name: of the thread.
    """

    def __init__(self, name: str) -> None:
        self._loop = _new_loop()
        self._loop.set_exception_handler(_complain)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        atexit.register(self._end)

    @property
    def is_current(self) -> bool:
        """Whether the caller is on it: to wait for it would be for ever."""
        return threading.current_thread() is self._thread

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine there to its end. Whoever interrupts the wait cancels it."""
        future = asyncio.run_coroutine_threadsafe(call, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def _end(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_END_S)


_END_S = 2.0
_threads: dict[int, LoopThread] = {}  # by process: a fork takes no thread along
_starting = threading.Lock()


def loop_thread() -> LoopThread:
    """Return the thread of this process, which all clients without a loop share.

    gRPC keeps every loop that it was ever used on, wakes all of them for each event, and is
    lost with one that is closed (https://github.com/grpc/grpc/issues/25364): so there is one,
    for as long as the process lives.
    """
    with _starting:
        found = _threads.get(process_id())
        if found is None:
            found = _threads[process_id()] = LoopThread("raftbatch client")
        return found


def _complain(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Show what went wrong in a callback, but for gRPC's own that concern nobody here.

    Another loop has served the event (BlockingIOError), or it was for a loop of the program that
    is closed by now, as after `asyncio.run` with an `AsyncClient`: nobody waits for it. gRPC wakes
    the loop once for each event, so those behind it are not lost.
    """
    error = context.get("exception")
    is_served = isinstance(error, BlockingIOError)
    is_closed = isinstance(error, RuntimeError) and str(error) == "Event loop is closed"
    is_theirs = "PollerCompletionQueue" in repr(context.get("handle"))
    if not (is_theirs and (is_served or is_closed)):
        loop.default_exception_handler(context)


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
