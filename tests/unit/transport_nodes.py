"""Nodes for tests of the transport: what their logs hear, in virtual time."""

import asyncio
from collections.abc import Coroutine
from random import Random
from typing import Any

from chaos.worlds.stepped import SeededEntropy
from coordinator.raft.about import NOTHING, About
from coordinator.raft.counters import Counters
from coordinator.raft.door import Door
from coordinator.raft.membership import Membership, founders
from coordinator.raft.messages import AppendEntries, PeerMessage
from coordinator.raft.segments.layout import Entry
from coordinator.raft.transport import Transport
from coordinator.raft.transport_limits import TransportLimits
from raftbatch.ids import ClusterId, Identity, NodeId
from tests.unit.memory_network import Certificate, MemoryConnection, MemoryNetwork
from tests.unit.memory_network import run as run_virtual

CLUSTER = ClusterId("0123456789abcdef" * 2)
OTHER_CLUSTER = ClusterId("fedcba9876543210" * 2)
N1, N2, N3 = NodeId("n1"), NodeId("n2"), NodeId("n3")
ADDRESSES = {N1: "127.0.0.1:1", N2: "127.0.0.1:2", N3: "127.0.0.1:3"}
THREE = founders(ADDRESSES)
TWO = founders({N1: ADDRESSES[N1], N2: ADDRESSES[N2]})


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a test in bounded time."""
    run_virtual(asyncio.wait_for(main, 1_000))


class LoopClock:
    """The clock of the loop."""

    def monotonic_ns(self) -> int:
        return int(asyncio.get_running_loop().time() * 1e9)

    def wall_ms(self) -> int:
        return 0


class Node:
    """A node: its transport, and what its log hears."""

    def __init__(
        self,
        network: MemoryNetwork,
        name: NodeId,
        *,
        cluster: ClusterId = CLUSTER,
        incarnation: int = 1,
        tls: Certificate | None = None,
        seeds: dict[NodeId, str] | None = None,
        limits: TransportLimits | None = None,
        about: About = NOTHING,
    ) -> None:
        limits = limits or TransportLimits()
        self.name = name
        self.heard: list[tuple[str, NodeId, object]] = []
        self.refuses: dict[tuple[NodeId, int], str] = {}
        self.counters = Counters()
        self._has_changed = asyncio.Event()
        self.door = Door(network, ADDRESSES[name], tls, limits, self.counters)
        self.transport = Transport(
            network,
            LoopClock(),
            SeededEntropy(Random(name)),
            Identity(cluster, name, incarnation),
            self.door,
            tls,
            seeds or {},
            limits,
            self.counters,
            about,
        )

    async def begin(self, membership: Membership) -> "Node":
        await self.door.open()
        self.transport.update(membership)
        self.transport.begin(self)
        return self

    async def close(self) -> None:
        await self.transport.close()
        await self.door.close()

    def receive(self, peer: NodeId, message: PeerMessage) -> None:
        self.heard.append(("receive", peer, message))

    def connected(self, peer: NodeId, incarnation: int) -> None:
        self.heard.append(("connected", peer, incarnation))

    def disconnected(self, peer: NodeId) -> None:
        self.heard.append(("disconnected", peer, None))
        self._has_changed.set()

    async def change(self) -> None:
        """Return once it has lost a connection."""
        await self._has_changed.wait()

    def refused(self, peer: NodeId, why: str) -> None:
        self.heard.append(("refused", peer, why))

    def admits(self, node: NodeId, incarnation: int) -> str | None:
        return self.refuses.get((node, incarnation))

    @property
    def messages(self) -> list[object]:
        return [message for kind, _, message in self.heard if kind == "receive"]


async def pair(network: MemoryNetwork, **options: Any) -> tuple[Node, Node]:
    """Return two nodes that are connected."""
    one = await Node(network, N1, **options).begin(TWO)
    two = await Node(network, N2, **options).begin(TWO)
    await asyncio.sleep(3)
    assert one.heard[-1] == ("connected", N2, 1)
    assert two.heard[-1] == ("connected", N1, 1)
    for node in (one, two):
        node.heard.clear()
    return one, two


def ends(one: Node, two: Node) -> tuple[MemoryConnection, MemoryConnection]:
    """Return both ends of the connection between two nodes."""
    found = []
    for node, peer in ((one, two), (two, one)):
        link = node.transport._peers[peer.name].link
        assert link is not None
        assert isinstance(link._connection, MemoryConnection)
        found.append(link._connection)
    return found[0], found[1]


async def turns(number: int = 20) -> None:
    """Let the loop do what it has at hand, without time passing."""
    for _ in range(number):
        await asyncio.sleep(0)


def bulk(first: int, *lengths: int) -> AppendEntries:
    """Return a message with entries of such lengths."""
    entries = tuple(
        Entry(index, 1, bytes([index % 256]) * length)
        for index, length in enumerate(lengths, start=first)
    )
    return AppendEntries(1, first - 1, 1, entries, 0, 0)
