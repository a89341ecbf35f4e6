"""Processes on a virtual loop, and the callbacks that belong to them.

What lives here: `Process`, `Handle`, and the context variable that ties the two.
What must never live here: the loop itself. Called by: `chaos.worlds.loop`, and
whoever kills and pauses processes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context, ContextVar
from typing import ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")

NS = 1_000_000_000
"""Nanoseconds in a second."""

SOON, INPUT, TIMER = range(3)
"""Why a callback comes: it was ready, something arrived, or time has passed."""


class Process:
    """Whom callbacks belong to: one life of one node. Made by `VirtualLoop.spawn`.

    Attributes:
        name: for people.
        alive: until `kill`; then nothing of it ever runs again.
        paused: between `pause` and `resume`, as by SIGSTOP and SIGCONT.
        context: what runs in it belongs to the process.
    """

    def __init__(
        self,
        name: str,
        loop: asyncio.AbstractEventLoop,
        ready: Callable[[list[Handle]], None],
    ) -> None:
        self.name = name
        self.alive = True
        self.paused = False
        self.held: list[Handle] = []
        self.context = Context()
        self.context.run(_PROCESS.set, self)
        self._loop = loop
        self._ready = ready

    def __repr__(self) -> str:
        """Return the name and the state."""
        state = "dead" if not self.alive else "paused" if self.paused else "running"
        return f"<{self.name} {state}>"

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function at once as the process; what it begins belongs to the process.

        The loop is the running one meanwhile, also where the harness calls between
        two runs of it.
        """
        assert self.alive, f"{self.name} is dead"
        assert not self.paused, f"{self.name} is paused"
        context = self.context.copy()
        if self._loop.is_running():
            return context.run(function, *args, **kwargs)
        asyncio._set_running_loop(self._loop)
        try:
            return context.run(function, *args, **kwargs)
        finally:
            asyncio._set_running_loop(None)

    def pause(self) -> None:
        """Let nothing of it run; what comes due waits."""
        self.paused = True

    def resume(self, *, timers_first: bool = False) -> None:
        """Go on: first with what was ready, then with what arrived, then with due timers.

        Args:
            timers_first: due timers before what arrived, as a loop does that does
                not look at its sockets first.
        """
        self.paused = False
        order = (0, 2, 1) if timers_first else (0, 1, 2)
        held, self.held = self.held, []
        self._ready(sorted(held, key=lambda handle: order[handle.rank]))

    def kill(self) -> None:
        """End it. Its tasks stay where they are, and are disposed of with the loop."""
        self.alive = False
        self.paused = False
        self.held.clear()


class Handle(asyncio.TimerHandle):
    """A callback that is to come."""

    __slots__ = ("arguments", "function", "process", "rank", "within")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        when: float,
        rank: int,
        function: Callable[..., object],
        arguments: tuple[object, ...],
        within: Context,
    ) -> None:
        super().__init__(when, function, arguments, loop, within)
        self.rank = rank
        self.function = function
        self.arguments = arguments
        self.within = within
        self.process = within.get(_PROCESS)

    def cancel(self) -> None:
        """Let it never run, and let go of what it holds."""
        super().cancel()
        self.function, self.arguments = _nothing, ()


_PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)


def process_of(context: Context) -> Process | None:
    """Return whose a context is; None for the harness's."""
    return context.get(_PROCESS)


def current_process() -> Process | None:
    """Return whose callback runs; None for the harness's own."""
    return _PROCESS.get()


def _nothing() -> None:
    """Do nothing."""
