"""A stream of messages from a node's front door to one reader.

What lives here: both ends. What must never live here: how messages are lost on the
way (`chaos.worlds.calls`). Called by: `chaos.worlds.calls`, which hands them out.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from chaos.worlds.loop import VirtualLoop

M = TypeVar("M")
M_co = TypeVar("M_co", covariant=True)


class Source(Protocol[M_co]):
    """What a door gives to whoever tails."""

    async def next(self) -> M_co:
        """Return the next message.

        Raises:
            RaftbatchError: there is none any more.
        """
        ...

    def close(self) -> None:
        """Say that nobody reads any more."""
        ...


class Stream(Generic[M]):
    """The reader's end of a stream.

    Attributes:
        unread: messages sent and not taken.
        last_ns: when the last one arrives.
        is_broken: whether one got lost: nothing after it arrives.
        timer: what ends the wait for the first message.
    """

    def __init__(self, loop: VirtualLoop, ended: Callable[[], None]) -> None:
        self.unread = self.last_ns = 0
        self.is_broken = False
        self.timer: asyncio.TimerHandle | None = None
        self._loop = loop
        self._ended = ended
        self._came: deque[M | Exception] = deque()
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None

    async def next(self) -> M:
        """Return the next message.

        Raises:
            RaftbatchError: the node ends the stream.
            Lost: it broke.
        """
        while not self._came:
            self._reader = self._loop.create_future()
            await self._reader
        message = self._came.popleft()
        self.unread -= 1
        _wake(self._writer)
        if isinstance(message, Exception):
            self.close()
            raise message
        return message

    def close(self) -> None:
        """Read no more."""
        if self.timer is not None:
            self.timer.cancel()
        self._ended()

    def put(self, message: M | Exception) -> None:
        """Take in a message; the world's part."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        self._came.append(message)
        _wake(self._reader)

    async def taken(self) -> None:
        """Return when the reader has taken something; the writer's part."""
        self._writer = self._loop.create_future()
        await self._writer


def _wake(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)
