"""Two honest nodes on real sockets, whose exchange can be asked for at any time."""

import asyncio
import os
import resource
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from chaos.worlds.stepped import SeededEntropy
from coordinator.raft.counters import Counters
from coordinator.raft.door import Door
from coordinator.raft.membership import Membership, founders
from coordinator.raft.messages import AppendEntries, AppendReply, Beat, PeerMessage
from coordinator.raft.segments.layout import Entry
from coordinator.raft.transport import Transport
from coordinator.raft.transport_limits import TransportLimits
from raftbatch.ids import ClusterId, Identity, NodeId
from raftbatch.realworld import RealClock, RealNetwork, RealTLS

CLUSTER = ClusterId("0123456789abcdef" * 2)
N1, N2 = NodeId("n1"), NodeId("n2")
Run = Callable[[Coroutine[Any, Any, None]], None]


class Node:
    """A node that answers each message of entries, and each beat."""

    def __init__(self, name: NodeId, tls: RealTLS | None, limits: TransportLimits) -> None:
        self.name = name
        self.counters = Counters()
        self.answers: asyncio.Queue[PeerMessage] = asyncio.Queue()
        self.connections = 0
        network = RealNetwork()
        self.door = Door(network, "127.0.0.1:0", tls, limits, self.counters)
        entropy = SeededEntropy(Random(name))
        self.transport = Transport(
            network, RealClock(), entropy, Identity(CLUSTER, name, 1), self.door, tls, {}, limits,
            self.counters,
        )  # fmt: skip

    def receive(self, peer: NodeId, message: PeerMessage) -> None:
        if isinstance(message, AppendEntries):
            match = message.prev_index + len(message.entries)
            self.transport.send(peer, AppendReply(1, match, 0, 0, 0, message.round))
        elif isinstance(message, Beat):
            self.transport.send(peer, AppendReply(1, 0, 0, 0, 0, message.round))
        else:
            self.answers.put_nowait(message)

    def connected(self, peer: NodeId, incarnation: int) -> None:
        self.connections += 1

    def disconnected(self, peer: NodeId) -> None:
        pass

    def refused(self, peer: NodeId, why: str) -> None:
        pass

    def admits(self, node: NodeId, incarnation: int) -> str | None:
        return None

    async def exchange(self, peer: NodeId, number: int) -> None:
        """Send entries and a beat, and wait for the answers to both."""
        entry = Entry(number, 1, bytes(100_000))
        self.transport.send(peer, AppendEntries(1, number - 1, 1, (entry,), 0, number))
        self.transport.send(peer, Beat(1, number))
        answers = {await self.answers.get(), await self.answers.get()}
        expected = {AppendReply(1, match, 0, 0, 0, number) for match in (0, number)}
        assert answers == expected, answers


class Two:
    """Two nodes, connected."""

    def __init__(self, tls: Callable[[str], RealTLS | None], **limits: int) -> None:
        bounds = TransportLimits(**limits)
        self.one, self.two = Node(N1, tls("n1"), bounds), Node(N2, tls("n2"), bounds)
        self.number = 0

    async def begin(self) -> "Two":
        for node in (self.one, self.two):
            await node.door.open()
        membership = self.membership
        for node in (self.one, self.two):
            node.transport.update(membership)
            node.transport.begin(node)
        await self.connected()
        return self

    @property
    def membership(self) -> Membership:
        return founders({node.name: node.door.address for node in (self.one, self.two)})

    @property
    def are_connected(self) -> bool:
        """Whether both know of a connection now."""
        return all(node.transport.states[0].incarnation for node in (self.one, self.two))

    async def connected(self) -> None:
        """Return once they are."""
        await until(lambda: self.are_connected)

    async def exchange(self) -> None:
        """Exchange messages both ways."""
        self.number += 1
        await asyncio.gather(self.one.exchange(N2, self.number), self.two.exchange(N1, self.number))

    async def reconnect(self) -> None:
        """Lose the connection, and get another."""
        before = self.two.connections
        self.one.transport._peers[N2].link.end("test")  # type: ignore[union-attr]
        await until(lambda: self.two.connections > before and self.are_connected)

    async def close(self) -> None:
        for node in (self.one, self.two):
            await node.transport.close()
            await node.door.close()


async def until(holds: Callable[[], object]) -> None:
    """Return once something holds that only looking can tell; the test's own time bounds it."""
    while not holds():  # noqa: ASYNC110 - there is nobody to set an event
        await asyncio.sleep(0.005)


def descriptors() -> int:
    """Return how many this process has open."""
    return len(os.listdir("/proc/self/fd"))


def allow_descriptors(wanted: int) -> int:
    """Raise what this process may open as far as it is let; return how many that is."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return allowed
