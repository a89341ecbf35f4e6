"""Which nodes there are, who of them is thought to lead, and who is asked after whom.

Nodes come and go for as long as an executor lives, so what it was told at the start serves for the
first call alone. What lives here: addresses. What must never live here: a call. Called by: `link`,
on its loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from raftbatch.ids import is_address
from raftbatch.v1 import gateway_pb2


class Nodes:
    """See the module's docstring.

    Args:
        addresses: client addresses by node, as they are known at the start; at least one.
        first: chooses the one that is asked first; any number from 0.

    Attributes:
        leader: where the one is that is thought to lead.
        news: is done once anything is heard of who leads; a guess is none.
    """

    def __init__(self, addresses: Mapping[str, str], first: int) -> None:
        self._names = {address: node for node, address in addresses.items()}
        self._given = frozenset(self._names)
        self.leader = self.addresses[first % len(self._names)]
        self.news: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def addresses(self) -> list[str]:
        """All that are known, in the order in which they are asked."""
        return list(self._names)

    def name(self, address: str) -> str:
        """Return which node is at an address; empty: that is not known."""
        return self._names.get(address, "")

    def after(self, address: str) -> str:
        """Return whom to ask next."""
        known = self.addresses
        return known[(known.index(address) + 1) % len(known)] if address in known else known[0]

    def learn(self, reply: gateway_pb2.NodesReply) -> None:
        """Take in which nodes there are, as one of them says.

        A node that is not named is gone, and an address that it has no more is forgotten, unless
        it was given at the start: the node may be reached there too. One that knows of no leader
        may be gone itself, and what it knows be old: it takes none away.
        """
        told = {each.node_id: each.address for each in reply.nodes}
        kept = {
            address: node
            for address, node in self._names.items()
            if not reply.leader_id or (node in told and (address in self._given or not told[node]))
        }
        found = kept | {address: node for node, address in told.items() if is_address(address)}
        self._names = found or self._names

    def guess(self, address: str) -> None:
        """Ask another, for want of better: calls that are under way go on.

        A leader that is too slow for one call may be at work on another.
        """
        self.leader = address

    def told(self, leader: str) -> None:
        """Take in who leads by now, as a node says, whatever was thought before."""
        self.leader = leader
        self.news.set_result(None)
        self.news = asyncio.get_running_loop().create_future()

    def silent(self, address: str) -> None:
        """Take in that a node says nothing, or is cut off."""
        self.told(self.after(address) if self.leader == address else self.leader)
