"""Many requests, with so many in flight, and their results in order.

What lives here: that, for whatever a request is. Called by: `aio`. Tasks: one for each
request that is in flight; they end with the generator.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from typing import Any

from raftbatch.errors import InvalidRequest, RaftbatchError

_HELD_OF_IN_FLIGHT = 4  # results that are held for the one before them


async def run_all(
    call: Callable[[Any], Coroutine[Any, Any, Any]],
    items: Iterable[Any],
    in_flight: int,
    return_errors: bool,
) -> AsyncGenerator[Any, None]:
    """Yield what calls return, in the order of the items.

    Args:
        call: makes the call of an item.
        items: taken as there is room.
        in_flight: calls at once, at most.
        return_errors: yield errors of the calls, rather than to raise the first.

    Raises:
        InvalidRequest: `in_flight` is none; definite.
        RaftbatchError: a call's; those in flight are cancelled.
    """
    if in_flight < 1:
        raise InvalidRequest("in_flight must be from 1")
    started: deque[asyncio.Task[Any]] = deque()
    ended = asyncio.Event()
    running = 0

    def over(_: asyncio.Task[Any]) -> None:
        nonlocal running
        running -= 1
        ended.set()

    source = iter(items)
    is_exhausted = False
    try:
        while True:
            while (
                not is_exhausted
                and running < in_flight
                and len(started) < in_flight * _HELD_OF_IN_FLIGHT
            ):
                try:
                    item = next(source)
                except StopIteration:
                    is_exhausted = True
                    break
                task = asyncio.create_task(call(item))
                task.add_done_callback(over)
                started.append(task)
                running += 1
            if not started:
                return
            if not started[0].done():
                await ended.wait()
                ended.clear()
                continue
            first = started.popleft()
            error = first.exception()
            if error is not None and not (return_errors and isinstance(error, RaftbatchError)):
                raise error
            yield error or first.result()
    finally:
        for task in started:
            task.cancel()
        await asyncio.gather(*started, return_exceptions=True)
