"""Who the nodes are, who is believed to lead, and the search for whoever does.

What lives here: addresses, and in which order they are asked. What must never live here: a round
of asking (`search`), or what is asked of the leader (`engine`). Called by: `engine`.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any

from raftbatch.client.link import Link, Owner, open_link
from raftbatch.client.options import TLS
from raftbatch.client.search import Round
from raftbatch.errors import InvalidRequest, NoLeader, PermissionDenied, RaftbatchError
from raftbatch.handshakes import together
from raftbatch.ids import is_address
from raftbatch.v1 import gateway_pb2 as pb

_HOPS_MAX = 8  # each node may name another, once


class Nodes:
    """See the module's docstring.

    Args:
        addresses: client addresses that are known at the start, `host:port`; one is
            enough, if that node is up.
        tls: certificates; None: without.
        forward: whether any node will do: those that were named are asked first then.
        cluster: that they must belong to; empty: any.

    Attributes:
        leader: who is believed to lead; empty: nobody.
        has_met: whether any node has ever answered.

    Raises:
        InvalidRequest: there is none, or one is no address; definite.
    """

    def __init__(
        self, addresses: Sequence[str], tls: TLS | None, *, forward: bool = False, cluster: str = ""
    ) -> None:
        wrong = [each for each in addresses if not is_address(each)]
        if wrong or not addresses:
            raise InvalidRequest(
                f"{wrong[0]!r} is not host:port" if wrong else "name a node: its host:port"
            )
        self._named = list(dict.fromkeys(addresses))
        self._told: dict[str, str] = {}  # by the node's name, and only those of the last answer
        self._names = dict(tls.names) if tls is not None else {}
        self._tls = tls
        self._forward = forward
        self._cluster = cluster
        self._left = ""
        self._said: dict[str, str] = {}
        self._turn = 0
        self._denied: RaftbatchError | None = None
        self.leader = ""
        self.has_met = False

    @property
    def addresses(self) -> list[str]:
        """All that are known, those that nodes have told first."""
        return list(dict.fromkeys([*self._told.values(), *self._named]))

    def learned(self, reply: pb.NodesReply) -> None:
        """Take in who the nodes are, as one of them tells it.

        Where that one does not know a node's address, an earlier one's word still holds.
        """
        before, self._told = self._told, {}
        for each in reply.nodes:
            address = each.address or before.get(each.node_id, "")
            if not is_address(address):
                continue
            self._told[each.node_id] = address
            self._names[address] = each.node_id
            if each.node_id == reply.leader_id and not (self.leader or self._forward):
                self.leader = address

    @property
    def is_denied(self) -> bool:
        """Whether nodes answer that they are not for this client, and nothing else."""
        return self._denied is not None

    def left(self, address: str, leader: str) -> None:
        """Take in that a node has sent the client away, to whoever leads where it says so."""
        self.leader = leader if leader != address else ""
        self._left = address

    async def find(self, owner: Owner, avoided: str = "") -> Link | None:
        """Ask the nodes, those first that are said to lead; return whoever leads.

        Where nobody says who does, or any node will do, whoever answered first: it takes
        requests as soon as it leads, or hands them on, and says where to go as soon as it
        knows. None: nobody answers.

        Args:
            owner: of the link.
            avoided: a node that is not asked, while it may yet answer what it owes. Then only
                one is returned that is better: who leads, or hands on to whoever does.
        """

        def open_at(address: str) -> Coroutine[Any, Any, Link]:
            name = self._names.get(address, "")
            return open_link(owner, address, self._tls, name, self._cluster)

        order, most = self._order(), len(self.addresses) + _HOPS_MAX
        search = Round(self, open_at, order, most, takes_any=self._forward, avoided=avoided)
        return await search.run()

    def met(self, link: Link) -> None:
        """Take in that a node has answered."""
        self.has_met, self._denied = True, None
        self._said.pop(link.address, None)
        if link.opened.leader == link.address:
            self.leader = link.address

    def failed(self, address: str, error: RaftbatchError) -> None:
        """Take in that one has not, or that it refuses this client."""
        self._said[address] = error.message
        if isinstance(error, PermissionDenied | InvalidRequest):
            self._denied = error
        if address == self.leader:
            self.leader = ""

    def is_named(self, address: str) -> bool:
        """Return whether it is known which node is at an address, or need not be known."""
        return self._tls is None or address in self._names

    def address_of(self, node: str) -> str:
        """Return where a node is, as nodes tell; empty: that is not known."""
        return self._told.get(node, "")

    def nobody(self) -> RaftbatchError:
        """Return the error that none of those that were named at the start answers.

        Where one answers that this client may not ask it, that is the error.
        """
        if self._denied is not None:
            return self._denied
        return NoLeader(
            f"none of the nodes that were named answers ({self._each_said()}). One that is "
            "up is enough, since it names the others: name another, or all of them"
        )

    def check_met(self) -> None:
        """Make sure that some node has ever answered: else nothing has been sent.

        Raises:
            NoLeader, or what the nodes refuse this client with: none has; definite.
        """
        if not self.has_met:
            raise self.nobody()

    @property
    def why(self) -> str:
        """What nodes said as they sent the client away, in brackets; empty: none did."""
        return f" ({self._each_said()})" if self._said else ""

    def _each_said(self) -> str:
        return together(self._said) or "no answer yet"

    def _order(self) -> list[str]:
        """Return whom to ask: the leader, then the others, another one first each time."""
        others = [each for each in self.addresses if each != self.leader]
        if self._forward:  # those that were named may be all that this client reaches
            others.sort(key=lambda each: (each == self._left, each not in self._named))
        elif others:
            turn = self._turn % len(others)
            self._turn += 1
            others = others[turn:] + others[:turn]
            others.sort(key=lambda each: each == self._left)
        return [self.leader, *others] if self.leader else others
