"""Many requests, with so many in flight, and their results in order.

What lives here: that, for whatever a request is, without a task for each. Called by: `aio`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import aclosing
from typing import Any, Protocol

from raftbatch.client.progress import Progress
from raftbatch.errors import InvalidRequest, RaftbatchError

_HELD_OF_IN_FLIGHT = 4  # results that are held for the one before them


class Asking(Protocol):
    """Who is asked; see `engine`."""

    def settled(self, ask: Any) -> None:
        """Take in that whoever asked has the answer, or has abandoned it."""
        ...

    def abandon(self, ask: Any, *, is_cancelled: bool) -> None:
        """Want an answer no more."""
        ...


class Mapping:
    """How many are in flight, and who waits for an end."""

    def __init__(self) -> None:
        self.running = 0
        self._change: asyncio.Future[None] | None = None

    async def changed(self) -> None:
        """Return when one or more have ended since."""
        self._change = asyncio.get_running_loop().create_future()
        await self._change

    def over(self) -> None:
        """Take in that one has ended."""
        self.running -= 1
        if self._change is not None and not self._change.done():
            self._change.set_result(None)


class Slot:
    """Where the answer to one item comes to: a future, but that nobody is called back.

    Args:
        mapping: of all items.

    Attributes:
        result: the answer; None while there is none, or where it is an error.
        error: the answer, where it is one.
        task: that finds the answer, where it takes one.
    """

    __slots__ = ("_ask", "_engine", "_is_done", "_mapping", "error", "result", "task")

    def __init__(self, mapping: Mapping) -> None:
        self.result: Any = None
        self.error: BaseException | None = None
        self._engine: Asking | None = None
        self._ask: Any = None
        self.task: asyncio.Task[Any] | None = None
        self._is_done = False
        self._mapping = mapping

    def begun(self, engine: Asking, ask: Any) -> None:
        """Take in what was asked for, and of whom: it is settled when this is over."""
        self._engine, self._ask = engine, ask

    def done(self) -> bool:
        """Whether the answer is there."""
        return self._is_done

    def set_result(self, result: Any, /) -> None:
        """Take it."""
        self.result = result
        self._over()

    def set_exception(self, error: BaseException, /) -> None:
        """Take an error."""
        self.error = error
        self._over()

    def end(self) -> None:
        """Want no answer any more."""
        if not self._is_done:
            engine, ask = self._engine, self._ask
            self._over()
            if engine is not None:
                engine.abandon(ask, is_cancelled=True)
            if self.task is not None:
                self.task.cancel()

    def _over(self) -> None:
        self._is_done = True
        if self._engine is not None:
            self._engine.settled(self._ask)
            self._engine = self._ask = None
        self._mapping.over()


async def run_all(
    start: Callable[[Any, Slot], None],
    items: Iterable[Any],
    in_flight: int,
    return_errors: bool,
    progress: Progress,
    most: int,
) -> AsyncGenerator[list[Any], None]:
    """Yield what requests return, in the order of the items: as much as is there, without a wait.

    Args:
        start: begins an item's request, whose answer comes to its slot, now or later.
        items: taken as there is room.
        in_flight: requests at once, at most.
        return_errors: yield errors of requests, rather than to raise the first.
        progress: is told of each that is yielded.
        most: answers that are yielded at once, at most.

    Raises:
        InvalidRequest: `in_flight` is none; definite.
        RaftbatchError: a request's; those in flight are cancelled.
    """
    if in_flight < 1:
        raise InvalidRequest("in_flight must be from 1")
    mapping = Mapping()
    started: deque[Slot] = deque()
    source = iter(items)
    has_more = True
    try:
        with progress as bar:
            while True:
                has_more = has_more and _began(start, source, mapping, started, in_flight)
                if not started:
                    return
                if not started[0].done():
                    await mapping.changed()
                    continue
                found = _answers(started, most, return_errors)
                for _ in found:
                    bar.advance()
                yield found
    finally:
        for slot in started:
            slot.end()
        tasks = [slot.task for slot in started if slot.task is not None]
        await asyncio.gather(*tasks, return_exceptions=True)


async def one_by_one(bunches: AsyncGenerator[list[Any], None]) -> AsyncGenerator[Any, None]:
    """Yield each answer for itself; whoever ends this ends what yields them."""
    async with aclosing(bunches):
        async for found in bunches:
            for each in found:
                yield each


def _answers(started: deque[Slot], most: int, return_errors: bool) -> list[Any]:
    """Take the first answers that are there. An error is raised once all before it are taken."""
    found: list[Any] = []
    kept = RaftbatchError if return_errors else ()
    while started and started[0].done() and len(found) < most:
        error = started[0].error
        if error is None or isinstance(error, kept):
            found.append(error or started[0].result)
            started.popleft()
        elif found:
            break  # nobody could ask for these again
        else:
            raise error
    return found


def _began(
    start: Callable[[Any, Slot], None],
    source: Iterator[Any],
    mapping: Mapping,
    started: deque[Slot],
    in_flight: int,
) -> bool:
    """Begin requests while there is room; return whether there may be more items."""
    while mapping.running < in_flight and len(started) < in_flight * _HELD_OF_IN_FLIGHT:
        try:
            item = next(source)
        except StopIteration:
            return False
        slot = Slot(mapping)
        started.append(slot)
        mapping.running += 1
        start(item, slot)
    return True
