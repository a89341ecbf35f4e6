"""Whether the node that is tailed is there, and who leads, as that node knows.

A feed has nothing to say for as long as nothing happens, so its silence means nothing. But a node
that is cut off from this executor, or from the others, keeps its connection too, and the kernel
takes minutes to notice. So it is asked beside the feed, and left where it does not answer, or knows
of no leader for longer than an election takes. And it tells who leads before a call to the old
leader runs out.

What lives here: that. What must never live here: where to go then (`link`). Called by: `link`. One
task, beside a tail.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

import grpc
import grpc.aio

_LOOK_S = 0.5
_SOON_S = 0.15  # where it knows of no leader: an election is over by then, for those who have one
_ANSWER_S = 0.8  # a node that takes so long for a word is gone, or stands still
_LEADERLESS_MAX = 2  # answers in succession
_GONE = (grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE)


class Asked(Protocol):
    """Asks the node who leads, within so many seconds."""

    def __call__(self, limit_s: float, /) -> Awaitable[tuple[bool, str]]:
        """Return whether it knows, and where that one is, if that is known."""
        ...


class Watch:
    """See the module's docstring.

    Args:
        ask: see there.
        told: is told who leads, whenever the node names another than before.

    Attributes:
        why: the node is to be left; empty: it is not.
    """

    def __init__(self, ask: Asked, told: Callable[[str], None]) -> None:
        self.why = ""
        self._ask = ask
        self._told = told
        self._count = 0

    def heard(self) -> None:
        """Take in that the feed has said something: the node is there."""
        self._count += 1

    async def run(self, leave: Callable[[], object]) -> None:
        """Ask until the node is to be left; leave it then."""
        leaderless, last = 0, ""
        while True:
            await asyncio.sleep(_SOON_S if leaderless else _LOOK_S)
            before = self._count
            try:
                knows, leader = await self._ask(_ANSWER_S)
            except grpc.aio.AioRpcError as error:
                if self._count != before or error.code() not in _GONE:
                    continue
                self.why = f"it does not answer: {error.code().name}"
                break
            leaderless = 0 if knows else leaderless + 1
            if leaderless > _LEADERLESS_MAX:
                self.why = "it knows of no leader"
                break
            if leader and leader != last:
                last = leader
                self._told(leader)
        leave()
