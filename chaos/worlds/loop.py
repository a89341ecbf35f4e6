"""An asyncio loop on virtual time, whose callbacks belong to processes that can die.

Time stands still while anything is ready, then jumps to the next timer. Order is
that of arrival, and of sequence numbers among timers of one instant: equal runs
are identical, whatever PYTHONHASHSEED is.

Every callback, timer and task belongs to the process in whose context it was
begun (a context variable, which asyncio carries along by itself), or to nobody:
the harness. Callbacks of a dead process are dropped, its tasks are never resumed,
so that no `finally` of theirs runs; those of a paused one wait for it.

An exception that escapes a callback ends the run: it comes out of `run_until`.
So does a task's, unless somebody has retrieved it within a second. A dead
process's exceptions mean nothing and are dropped.

What lives here: the loop, and `Process`. What must never live here: ports, nodes,
faults. Called by: `chaos.worlds.sim`, `chaos.worlds.links`, suites.

Limits: no threads, sockets or subprocesses; time does not pass within a callback;
an exception set on a bare future that nobody retrieves is not noticed.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import Context, copy_context
from math import ceil
from typing import Any, NoReturn, Self, TypeVar, TypeVarTuple

from chaos.worlds.process import INPUT, NS, SOON, TIMER, Handle, Process, process_of

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_RETRIEVAL_S = 1.0  # a task's exception may wait so long for somebody to look at it
_SPINS_MAX = 200_000  # callbacks within one instant; a run of a whole cluster needs some hundred


class Stuck(Exception):
    """Nothing is left to run, or time has stopped passing."""


class VirtualLoop(asyncio.BaseEventLoop):
    """See the module's docstring. A context manager: leaving it disposes of everything.

    Attributes:
        events: callbacks run so far: the position in a run.
        now_ns: virtual time.
    """

    def __init__(self) -> None:
        self._is_running = False
        self._is_stopping = False
        super().__init__()
        self.set_debug(False)
        self.events = 0
        self.now_ns = 0
        self.nobody = Context()
        self._queue: deque[Handle] = deque()
        self._timers: list[tuple[int, int, Handle]] = []
        self._sequence = 0
        self._instant_events = 0  # value of `events` when time last moved
        self._processes: list[Process] = []
        self._tasks: dict[asyncio.Task[Any], Process | None] = {}
        self._failed: list[tuple[asyncio.Task[Any], Process | None]] = []

    def __enter__(self) -> Self:
        """Return the loop."""
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Dispose of all; fail for a task that failed unseen, if nothing else has failed."""
        try:
            if error is None:
                for task, process in self._failed:
                    self._check_retrieved(task, process)
        finally:
            self.close()

    def spawn(self, name: str) -> Process:
        """Return a new process."""
        process = Process(name, self, self._queue.extend)
        self._processes.append(process)
        return process

    # Running.

    def step(self) -> bool:
        """Run the next callback, letting time jump to it; return whether there was one."""
        with self._running():
            return self._advance(None)

    def run_until(self, deadline: float) -> None:
        """Run all that comes up to a time, in seconds of virtual time, which it is then."""
        deadline_ns = ceil(deadline * NS)
        with self._running():
            while self._advance(deadline_ns):
                pass
        self._move(max(self.now_ns, deadline_ns))

    def run_for(self, duration_s: float) -> None:
        """Run all that comes within so many seconds."""
        self.run_until(self.time() + duration_s)

    def run_until_complete(self, future: Awaitable[T]) -> T:  # type: ignore[override]
        """Run until a future or coroutine is done.

        Raises:
            Stuck: nothing is left that could complete it.
        """
        waited = asyncio.ensure_future(future, loop=self)
        with self._running():
            while not waited.done():
                if not self._advance(None):
                    raise Stuck(f"nothing is left to run, and {waited!r} is not done")
        result: T = waited.result()
        return result

    def run_forever(self) -> None:
        """Run until `stop`, or until nothing is left."""
        self._is_stopping = False
        with self._running():
            while not self._is_stopping and self._advance(None):
                pass

    def stop(self) -> None:
        """Let `run_forever` return."""
        self._is_stopping = True

    def is_running(self) -> bool:
        """Return whether it runs now."""
        return self._is_running

    def close(self) -> None:
        """Kill every process, and let go of all tasks, the harness's too, without a word."""
        if self.is_closed():
            return
        for process in self._processes:
            process.kill()
        for task, _ in self._failed:
            task.exception()
        while self._tasks:
            task, _ = self._tasks.popitem()
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            if task.done():
                continue
            try:
                task.get_coro().close()
            except BaseException:  # noqa: BLE001, S110 - a dead process's `finally` may say anything
                pass
        self._queue.clear()
        self._timers.clear()
        super().close()

    # What asyncio asks of a loop.

    def time(self) -> float:
        """Return virtual seconds since the loop was made."""
        return self.now_ns / NS

    def call_soon(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.Handle:
        """Run a callback after those that are ready."""
        handle = Handle(self, 0.0, SOON, callback, args, _given(context))
        self._queue.append(handle)
        return handle

    def call_soon_threadsafe(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.Handle:
        """Do the same: there is one thread."""
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Run a callback in so many seconds."""
        return self._at(self.now_ns + ceil(delay * NS), TIMER, callback, args, _given(context))

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Run a callback at a time, in seconds."""
        return self._at(ceil(when * NS), TIMER, callback, args, _given(context))

    def at(self, when_ns: int, callback: Callable[[*Ts], object], *args: *Ts) -> None:
        """Run one of the harness's callbacks at a time, in ns."""
        self._at(when_ns, TIMER, callback, args, self.nobody)

    def after(self, delay_s: float, callback: Callable[[*Ts], object], *args: *Ts) -> None:
        """Run one of the harness's callbacks in so many seconds."""
        self._at(self.now_ns + ceil(delay_s * NS), TIMER, callback, args, self.nobody)

    def deliver_at(
        self,
        when_ns: int,
        process: Process,
        callback: Callable[[*Ts], object],
        *args: *Ts,
    ) -> None:
        """Run a process's callback for something that arrives from outside, in ns."""
        self._at(when_ns, INPUT, callback, args, process.context)

    def create_task(  # type: ignore[override]
        self,
        coro: Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: Context | None = None,
        **_: object,
    ) -> asyncio.Task[T]:
        """Return a task of the present process; eager start is not offered."""
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        self._tasks[task] = process_of(_given(context))
        task.add_done_callback(self._task_ended, context=self.nobody)
        return task

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Ignore what asyncio says of objects that the collector found: see the docstring."""

    def run_in_executor(self, executor: object, func: object, *args: object) -> NoReturn:
        """Refuse: there are no threads but the world's workers."""
        raise RuntimeError("no threads in a simulated world: use World.workers")

    # Inside.

    def _at(
        self,
        when_ns: int,
        rank: int,
        callback: Callable[..., object],
        args: tuple[object, ...],
        within: Context,
    ) -> Handle:
        handle = Handle(self, when_ns / NS, rank, callback, args, within)
        if when_ns <= self.now_ns:
            self._queue.append(handle)
        else:
            self._sequence += 1
            heapq.heappush(self._timers, (when_ns, self._sequence, handle))
        return handle

    def _advance(self, deadline_ns: int | None) -> bool:
        """Run one callback, at the latest at the deadline; return whether there was one."""
        queue, timers = self._queue, self._timers
        while True:
            if not queue:
                if not timers or (deadline_ns is not None and timers[0][0] > deadline_ns):
                    return False
                self._move(timers[0][0])
                while timers and timers[0][0] <= self.now_ns:
                    queue.append(heapq.heappop(timers)[2])
            handle = queue.popleft()
            process = handle.process
            if handle.cancelled() or (process is not None and not process.alive):
                continue
            if process is not None and process.paused:
                process.held.append(handle)
                continue
            self.events += 1
            if self.events - self._instant_events > _SPINS_MAX:
                raise Stuck(f"{_SPINS_MAX} callbacks without time passing; next: {handle!r}")
            try:
                handle.within.run(handle.function, *handle.arguments)
            except BaseException:
                if process is None or process.alive:
                    raise
            return True

    def _move(self, now_ns: int) -> None:
        self.now_ns = now_ns
        self._instant_events = self.events

    @contextmanager
    def _running(self) -> Iterator[None]:
        assert not self._is_running, "the loop runs already"
        self._is_running = True
        asyncio._set_running_loop(self)
        try:
            yield
        finally:
            asyncio._set_running_loop(None)
            self._is_running = False

    def _task_ended(self, task: asyncio.Task[Any]) -> None:
        """Forget a task; if it failed, see that somebody looks at why."""
        process = self._tasks.pop(task)
        if task._log_traceback:
            self._failed.append((task, process))
            self.after(_RETRIEVAL_S, self._check_retrieved, task, process)

    def _check_retrieved(self, task: asyncio.Task[Any], process: Process | None) -> None:
        if task._log_traceback:
            error = task.exception()  # retrieves it
            if error is not None and (process is None or process.alive):
                raise error


def _given(context: Context | None) -> Context:
    """Return the context given, which may be empty and thus false, or a copy of the present one."""
    return copy_context() if context is None else context
