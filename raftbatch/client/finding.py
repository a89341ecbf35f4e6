"""The search for whoever leads: where there is nobody to ask, or the one that is asked is silent.

What lives here: when nodes are asked, and how long. What must never live here: how they are asked
(`nodes`, `search`), or what is asked of the leader (`engine`). Called by: `engine`. One event loop;
one task while it looks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol

from raftbatch.client.asks import end_wait, pause_s
from raftbatch.client.link import Link, Owner
from raftbatch.client.nodes import Nodes
from raftbatch.errors import RaftbatchError

_AT_ONCE = 3  # nodes turned to in succession without a pause: one has died, another was mistaken
_CALM_S = 2.0  # beyond the longest pause: who was turned to for so long was no mistake


class Seeker(Owner, Protocol):
    """For whom it is looked."""

    def has_link(self) -> bool:
        """Return whether it is known whom to ask."""
        ...

    def has_work(self) -> bool:
        """Return whether there is anything to ask."""
        ...

    def turn_to(self, link: Link) -> None:
        """Ask there from now on."""
        ...

    def nobody(self, error: RaftbatchError) -> None:
        """Take in that none of the nodes that were named answers."""
        ...

    async def pause(self, duration_s: float) -> None:
        """Wait for so long, or until the client is closed."""
        ...


class Finder:
    """See the module's docstring.

    Nodes that name each other, or take a session and end it at once, are not asked round and
    round: from the fourth in succession on there is a pause before each search, longer each time.

    Args:
        seeker: for whom.
        nodes: who is asked.
        connect_timeout_s: how long, while none of them has ever answered.
    """

    def __init__(self, seeker: Seeker, nodes: Nodes, connect_timeout_s: float) -> None:
        self._seeker = seeker
        self._nodes = nodes
        self._connect_timeout_s = connect_timeout_s
        self._loop = asyncio.get_running_loop()
        self._finding: asyncio.Task[None] | None = None
        self._waiters: list[asyncio.Future[None]] = []
        self._turns = 0  # links found, none of which lasted
        self._turned_at = self._loop.time()
        self._is_closed = False

    def find(self) -> None:
        """Begin to look, unless it is looked already."""
        if self._finding is None and not self._is_closed:
            self._run(self._search())

    def find_beside(self, old: Link) -> None:
        """Begin to look for another, while one is doubted that may yet answer what it owes."""
        if self._finding is None and not self._is_closed:
            self._run(self._search_beside(old))

    async def found(self) -> None:
        """Return when a search is over, whatever came of it."""
        self.find()
        waiting: asyncio.Future[None] = self._loop.create_future()
        self._waiters.append(waiting)
        await waiting

    async def close(self) -> None:
        """Look no more."""
        self._is_closed = True
        if self._finding is not None:
            self._finding.cancel()
            await asyncio.gather(self._finding, return_exceptions=True)

    def _run(self, search: Coroutine[Any, Any, None]) -> None:
        self._finding = self._loop.create_task(search)
        self._finding.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[None]) -> None:
        self._finding = None
        waiters, self._waiters = self._waiters, []
        for each in waiters:
            end_wait(each)
        if task.cancelled():
            return
        task.result()  # else what nobody meant would be lost
        if not self._seeker.has_link() and self._seeker.has_work() and self._nodes.has_met:
            self.find()  # the one beside which it was looked is lost meanwhile

    async def _search(self) -> None:
        """Look for the leader until one is found: for ever, once any node has answered."""
        await self._slowed()
        began = self._loop.time()
        attempts = 0
        while True:
            link = await self._nodes.find(self._seeker)
            if link is not None:
                self._turn_to(link)
                return
            if self._nodes.has_met and not (self._waiters or self._seeker.has_work()):
                return
            attempts += 1
            is_late = self._loop.time() - began >= self._connect_timeout_s
            if not self._nodes.has_met and (is_late or self._nodes.is_denied):
                self._seeker.nobody(self._nodes.nobody())
                return
            await self._seeker.pause(pause_s(attempts))

    async def _search_beside(self, old: Link) -> None:
        """Look for a better one, until there is one, or the one that is doubted says something."""
        await self._slowed()
        attempts = 0
        while old.is_doubted and self._seeker.has_link():
            link = await self._nodes.find(self._seeker, old.address)
            if link is not None:
                self._turn_to(link)
                return
            attempts += 1
            await self._seeker.pause(pause_s(attempts))

    async def _slowed(self) -> None:
        """Wait before another search where those before it led nowhere."""
        if self._loop.time() - self._turned_at > _CALM_S:
            self._turns = 0
        if self._turns >= _AT_ONCE:
            await self._seeker.pause(pause_s(self._turns - _AT_ONCE + 1))

    def _turn_to(self, link: Link) -> None:
        self._turns += 1
        self._turned_at = self._loop.time()
        self._seeker.turn_to(link)
