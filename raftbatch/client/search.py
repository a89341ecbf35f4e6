"""One round of asking the nodes who leads: several at once, so that a silent one costs no time.

    the first -> 0.1 s later the next, unless it has answered -> ... at most so many at once
    whoever names another: that one at once; where that one is silent, again after a while

What lives here: a round. What must never live here: which nodes there are, or in which order they
are asked (`nodes`); what is asked of whoever leads (`engine`). Called by: `nodes`. One task while
a session is being opened; none is left when the round is over.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

from raftbatch.client.link import Link
from raftbatch.errors import RaftbatchError
from raftbatch.v1 import gateway_pb2 as pb

STAGGER_S = 0.1
"""A node that is well has answered by then: the next is asked beside it."""

_AT_ONCE = 3  # sessions that are being opened: a round of many silent nodes is no burst
_AGAIN_S = 0.2  # of an election some tenths: then who was asked may know more


class Told(Protocol):
    """Who is told what a round hears."""

    def met(self, link: Link) -> None:
        """Take in that a node has answered."""
        ...

    def failed(self, address: str, error: RaftbatchError) -> None:
        """Take in that one has not, or that it refuses this client."""
        ...

    def learned(self, reply: pb.NodesReply) -> None:
        """Take in who the nodes are."""
        ...

    def is_named(self, address: str) -> bool:
        """Return whether it is known which node is there, or need not be known."""
        ...

    def address_of(self, node: str) -> str:
        """Return where a node is that was learned of; empty: that is not known."""
        ...


class Round:
    """See the module's docstring. For one use.

    Args:
        told: see there.
        open_at: opens a session with the node at an address.
        order: whom to ask, each once.
        most: sessions that are opened in all: each node may name one more.
        takes_any: whether any node that answers will do, rather than who leads.
        avoided: a node that is not asked, whoever names it; empty: none.
    """

    def __init__(
        self,
        told: Told,
        open_at: Callable[[str], Awaitable[Link]],
        order: Iterable[str],
        most: int,
        *,
        takes_any: bool = False,
        avoided: str = "",
    ) -> None:
        self._told = told
        self._open_at = open_at
        self._waiting = deque(each for each in order if each != avoided)
        self._most = most
        self._takes_any = takes_any
        self._avoided = avoided
        self._asked: set[str] = {avoided}
        self._opening: dict[asyncio.Task[Link], str] = {}
        self._spare: Link | None = None  # who answered first, and does not lead
        self._hint = ""  # whom it names

    async def run(self) -> Link | None:
        """Return whoever leads. Where nobody says who does, whoever answered first; None: nobody.

        With somebody to avoid, only one who leads, or takes anything and knows who does.
        """
        loop = asyncio.get_running_loop()
        try:
            again = loop.time() + _AGAIN_S
            while True:
                self._begin()
                if not self._opening:
                    break
                pause_s = STAGGER_S if self._has_room or self._spare is not None else None
                done, _ = await asyncio.wait(
                    self._opening, timeout=pause_s, return_when=asyncio.FIRST_COMPLETED
                )
                for task in done:
                    if (found := await self._answered(task)) is not None:
                        return found
                if self._spare is not None and loop.time() >= again:
                    if await self._asked_again(self._spare):
                        return self._taken()
                    again = loop.time() + _AGAIN_S
            return self._taken() if not (self._hint or self._avoided) else None
        finally:
            await self._end()

    @property
    def _has_room(self) -> bool:
        return bool(self._waiting) and len(self._opening) < _AT_ONCE

    def _begin(self) -> None:
        """Ask one more, if there is one and it may be."""
        while self._has_room and len(self._asked) <= self._most:
            address = self._waiting.popleft()
            if address in self._asked:
                continue
            self._asked.add(address)
            self._opening[asyncio.ensure_future(self._open_at(address))] = address
            return

    async def _answered(self, task: asyncio.Task[Link]) -> Link | None:
        """Take in what came of one; return it, if it is whom this round is for."""
        address = self._opening.pop(task)
        try:
            link = task.result()
        except RaftbatchError as error:
            self._told.failed(address, error)
            return None
        self._told.met(link)
        hint = link.opened.leader
        if hint == address or (self._takes_any and self._is_enough(hint)):
            return link
        if hint and hint not in self._asked:
            self._waiting.appendleft(hint)
            if not self._told.is_named(hint):
                await self._asked_again(link)  # for the name that its certificate bears
        if self._spare is None:
            self._spare, self._hint = link, hint
        elif self._hint and not hint:
            worse, self._spare, self._hint = self._spare, link, ""
            await worse.close()
        else:
            await link.close()
        return None

    def _is_enough(self, hint: str) -> bool:
        return not self._avoided or hint not in ("", self._avoided)

    async def _asked_again(self, link: Link) -> bool:
        """Ask a node once more who leads; return whether it does itself by now."""
        try:
            reply = await link.nodes()
        except RaftbatchError as error:
            self._told.failed(link.address, error)
            return False
        self._told.learned(reply)
        leader = self._told.address_of(reply.leader_id)
        if link is self._spare:
            self._hint = leader
        if leader and leader not in self._asked:
            self._waiting.appendleft(leader)
        return bool(reply.leader_id) and reply.leader_id == reply.node_id

    def _taken(self) -> Link | None:
        found, self._spare = self._spare, None
        return found

    async def _end(self) -> None:
        """End whatever was opened and is not needed."""
        opening, self._opening = self._opening, {}
        for task in opening:
            task.cancel()
        links = await asyncio.gather(*opening, return_exceptions=True)
        for link in [*links, self._taken()]:
            if link is not None and not isinstance(link, BaseException):
                await link.close()
