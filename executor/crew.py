"""Keeps the child processes: starts each, hears it, and replaces it when it is dead.

    start -> loading -> up -> said, said, ... -> down -> a pause, longer each time -> start

A replacement takes work once it is up, which it is after its warm-up. What lives here:
that. What must never live here: what one is given to do, or why it is killed (`agent`).
Called by: the agent. Tasks: one for each instance.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from executor.children import Child, Children
from executor.core.values import Failure
from executor.frames import Broken, Frame, Load, Ran, Up
from executor.link import Pauses
from raftbatch.errors import CannotStart
from raftbatch.logs import fields

_LOG = logging.getLogger(__name__)

CHILD_DIED = "child_died"
CHILD_NOT_UP = "child_not_up"


class Events(Protocol):
    """Who is told what the children do, on the loop."""

    def up(self, number: int) -> None:
        """Take in that an instance can take a batch."""
        ...

    def down(self, number: int, failure: Failure) -> None:
        """Take in that it is dead, or did not come up."""
        ...

    def said(self, number: int, frame: Frame) -> bool:
        """Take in what it says; return whether that answers something that it was given."""
        ...

    def failed(self, task: asyncio.Task[None]) -> None:
        """Take in that a task has ended; with an error it is one that nobody expects."""
        ...


class Crew:
    """See the module's docstring.

    Args:
        children: where processes come from.
        loads: what each instance loads.
        events: who is told.
        pauses: makes pauses between two lives of an instance.
        load_s: how long loading may take.
    """

    def __init__(
        self,
        children: Children,
        loads: Sequence[Load],
        events: Events,
        pauses: Callable[[], Pauses],
        load_s: float,
    ) -> None:
        self._children = children
        self._loads = list(loads)
        self._events = events
        self._pauses = pauses
        self._load_s = load_s
        self._now: list[Child | None] = [None] * len(loads)
        self._killed: dict[int, str] = {}
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Return once all are up.

        Raises:
            CannotStart: one cannot load its model; the message says why.
            Exception: what nobody expects; it ends the executor.
        """
        loop = asyncio.get_running_loop()
        firsts: list[asyncio.Future[None]] = [loop.create_future() for _ in self._loads]
        for number, first in enumerate(firsts):
            task = asyncio.ensure_future(self._keep(number, first))
            task.add_done_callback(partial(self._ended, first))
            self._tasks.append(task)
        try:
            await asyncio.gather(*firsts)
        finally:
            for first in firsts:
                first.cancel()
                if first.done() and not first.cancelled():
                    first.exception()  # one is enough to tell

    def send(self, number: int, frame: Frame) -> None:
        """Tell an instance something; one that has just died is not told."""
        child = self._now[number]
        if child is not None:
            child.send(frame)

    def kill(self, number: int, why: str) -> None:
        """Kill an instance's process; `down` follows once it is dead."""
        child = self._now[number]
        if child is not None:
            self._killed[number] = why
            child.kill()

    @property
    def pids(self) -> list[int]:
        """The processes that live, by number."""
        return [child.pid for child in self._now if child is not None]

    async def close(self) -> None:
        """Kill all, and return once they are dead."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _ended(self, first: asyncio.Future[None], task: asyncio.Task[None]) -> None:
        """Let what no task expects end the start, or what came after it: no child is replaced."""
        error = None if task.cancelled() else task.exception()
        if error is not None and not first.done():
            first.set_exception(error)
        self._events.failed(task)

    async def _keep(self, number: int, first: asyncio.Future[None]) -> None:
        pauses = self._pauses()
        while True:
            failure = await self._life(number, first, pauses)
            if not first.done():
                first.set_exception(CannotStart(failure.message))
                return
            load = self._loads[number]
            _LOG.warning(
                "child.ended",
                extra=fields(model=load.name, instance=load.instance, why=failure.message),
            )
            self._events.down(number, failure)
            await asyncio.sleep(pauses.next_s())

    async def _life(self, number: int, first: asyncio.Future[None], pauses: Pauses) -> Failure:
        """Start a process and hear it until it is dead; return why that is."""
        load = self._loads[number]
        try:
            child = await self._children.start(load)
        except OSError as error:
            return Failure(CHILD_NOT_UP, f"no process can be started for {load.name}: {error}")
        self._now[number] = child
        try:
            failure = await self._loaded(number, child)
            if failure is not None:
                return failure
            if not first.done():
                first.set_result(None)
            while (frame := await child.receive()) is not None:
                if not self._events.said(number, frame):
                    self.kill(number, f"it said {type(frame).__name__} of what it was not given")
                    break
                if isinstance(frame, Ran):
                    pauses.reset()
                del frame  # else its results would be held until there is another
            how = await child.dead()
            why = self._killed.get(number)
            said = f"died: {how}" if why is None else f"was killed: {why}"
            return Failure(CHILD_DIED, f"the process of {load.name} {said}")
        finally:
            self._now[number] = None
            self._killed.pop(number, None)
            child.kill()
            await asyncio.shield(child.dead())

    async def _loaded(self, number: int, child: Child) -> Failure | None:
        load = self._loads[number]
        try:
            frame = await asyncio.wait_for(child.receive(), self._load_s)
        except TimeoutError:
            why = f"{load.name} has not loaded within {self._load_s:g} s"
            return Failure(CHILD_NOT_UP, why)
        match frame:
            case Up(device, detail):
                _LOG.info(
                    "model.loaded",
                    extra=fields(
                        model=load.name,
                        version=load.version,
                        instance=load.instance,
                        device=device,
                        detail=detail,
                    ),
                )
                self._events.up(number)
                return None
            case Broken(message):
                return Failure(CHILD_NOT_UP, message)
            case _:
                how = await child.dead()
                return Failure(CHILD_NOT_UP, f"{load.name} died while it loaded: {how}")
