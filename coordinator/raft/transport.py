"""The way to the other coordinators: one connection to each, kept up, and messages over it.

Of two nodes the one with the lower id calls, again and again; so there is one
connection for both ways. A node that is no member as far as this one knows is let
in whoever calls: it may lead, and then this node hears of it from nobody else. A
connection that comes where there is one already takes its place: whatever the old
one still had is dropped, and the log hears `disconnected`, then `connected`. Whose
life is over, because it was removed or replaced by a later one, is refused by name;
the log says when to drop it.

    transport = Transport(...)              # may be sent to and updated at once
    log = ReplicatedLog(..., peers=transport, ...)
    transport.begin(log)                    # from here on there are connections

What lives here: who is connected. What must never live here: bytes (`wire`,
`frames`), what a message means. Called by: the composition root; the log, as its
`Peers`. One thread: the loop's. Tasks: one dialler for each member, which calls it
or asks to be called.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from coordinator.raft import doubles, greeting
from coordinator.raft.about import NOTHING, About
from coordinator.raft.acquaintance import Acquaintance, PeerState
from coordinator.raft.counters import Counters
from coordinator.raft.dialing import CALLS_ALREADY, Dialler, NotThis
from coordinator.raft.door import Door
from coordinator.raft.greeting import Hello, Refused, Welcome, refused
from coordinator.raft.link import Link
from coordinator.raft.membership import Membership
from coordinator.raft.messages import PeerMessage
from coordinator.raft.refusals import Refusal
from coordinator.raft.transport_limits import TransportLimits
from raftbatch.ids import Identity, NodeId
from raftbatch.world import TLS, Clock, Connection, Entropy, Network

_LOG = logging.getLogger(__name__)


class Handlers(Protocol):
    """Who is told what happens: the replicated log."""

    def receive(self, peer: NodeId, message: PeerMessage) -> None:
        """Take in a message from a peer's present connection."""
        ...

    def connected(self, peer: NodeId, incarnation: int) -> None:
        """Take in that there is a new connection to that life of a peer."""
        ...

    def disconnected(self, peer: NodeId) -> None:
        """Take in that the connection to a peer has ended."""
        ...

    def admits(self, node: NodeId, incarnation: int) -> str | None:
        """Return why that life of a node must not be connected; None if it may."""
        ...

    def refused(self, peer: NodeId, why: str) -> None:
        """Take in that a peer refuses this life of this node: it is a member no more."""
        ...


@dataclass(slots=True)
class _Peer:
    """What is known of a connected peer.

    Attributes:
        link: the present connection; None once it has ended and the log is still to hear of it.
        incarnation: which life of the peer is at its other end.
        since_ns: when it began, of the monotonic clock.
        ended: done when it has ended.
        place: where the connection leads to.
        doubted: see `doubles.doubt`.
    """

    link: Link | None
    incarnation: int
    since_ns: int
    ended: asyncio.Future[None]
    place: str
    doubted: Refusal | None


class Transport:
    """See the module's docstring.

    Args:
        network, clock, entropy: the ports.
        identity: who this node is.
        door: where the others reach it; its `on_hello` is this class's from `begin` to `close`.
        tls: certificates for calling.
        seeds: addresses of the configured coordinators, used while there is no membership.
        limits: bounds.
        counters: counts what happens.
        about: what this node says of itself to its peers.

    Attributes:
        acquaintance: what they have said of themselves.
    """

    def __init__(
        self,
        network: Network,
        clock: Clock,
        entropy: Entropy,
        identity: Identity,
        door: Door,
        tls: TLS | None,
        seeds: Mapping[NodeId, str],
        limits: TransportLimits,
        counters: Counters,
        about: About = NOTHING,
    ) -> None:
        self.acquaintance = Acquaintance(identity.node_id, about, counters)
        self._network = network
        self._clock = clock
        self._entropy = entropy
        self._identity = identity
        self._door = door
        self._tls = tls
        self._seeds = dict(seeds)
        self._limits = limits
        self._counters = counters
        self._loop = asyncio.get_running_loop()
        self._handlers: Handlers | None = None
        self._membership = Membership()
        self._peers: dict[NodeId, _Peer] = {}
        self._diallers: dict[NodeId, tuple[Dialler, asyncio.Task[None]]] = {}
        self._stopping: set[asyncio.Task[None]] = set()

    # What the log does: `coordinator.raft.log.Peers`.

    def send(self, peer: NodeId, message: PeerMessage) -> None:
        """Send, in order within its lane, or drop it where there is no connection."""
        known = self._peers.get(peer)
        if known is None or known.link is None:
            self._counters.add("transport.dropped")
        else:
            known.link.send(message)

    def update(self, membership: Membership) -> None:
        """Take in who belongs to the cluster now: they are called, and others no more.

        Nobody loses a connection by that: who was removed is told so over it.
        """
        self._membership = membership
        if self._handlers is not None:
            self._call_who_is_to_be_called()

    def drop(self, peer: NodeId) -> None:
        """End the connection to a peer that is refused by now."""
        known = self._peers.get(peer)
        if known is not None and known.link is not None:
            known.link.end("removed")

    # What the composition root does.

    def begin(self, handlers: Handlers) -> None:
        """Let peers in, and call them."""
        self._handlers = handlers
        self._door.on_hello = self._greeted
        self._call_who_is_to_be_called()

    async def close(self) -> None:
        """End all connections, telling nobody, and wait for the tasks."""
        self._handlers = None
        self._door.on_hello = None
        for peer in list(self._peers.values()):
            if peer.link is not None:
                peer.link.end("stopped")
        self._stopping |= {task for _, task in self._diallers.values()}
        self._diallers.clear()
        for task in self._stopping:
            task.cancel()
        await asyncio.gather(*self._stopping, return_exceptions=True)

    @property
    def refusals(self) -> Mapping[str, Refusal]:
        """Why there is no connection, by peer; also those who are no members."""
        return self._door.refusals.by_peer

    @property
    def states(self) -> list[PeerState]:
        """How it stands with each member and each connected peer, in the order of their ids."""
        nodes = {*self._addresses(), *self._peers} - {self._identity.node_id}
        return [self._state(node) for node in sorted(nodes)]

    def _state(self, node: NodeId) -> PeerState:
        peer = self._peers.get(node)
        link = peer.link if peer is not None else None
        age_ns = self._clock.monotonic_ns() - peer.since_ns if peer is not None else 0
        return PeerState(
            node,
            self._addresses().get(node, ""),
            node > self._identity.node_id,
            peer.incarnation if peer is not None and link is not None else 0,
            age_ns // 1_000_000 if link is not None else 0,
            link.queued_bytes if link is not None else 0,
            self.refusals.get(node) if peer is None or link is None else self._doubted(peer),
            self.acquaintance.differs(node),
        )

    def _doubted(self, peer: _Peer) -> Refusal | None:
        is_young = self._clock.monotonic_ns() - peer.since_ns < doubles.WITHIN_MS * 1_000_000
        return peer.doubted if is_young and doubles.is_two(peer.doubted) else None

    # Who is called.

    def _addresses(self) -> dict[NodeId, str]:
        members = {member.node_id: member.address for member in self._membership.members}
        return members or self._seeds

    def _call_who_is_to_be_called(self) -> None:
        wanted = [node for node in self._addresses() if node != self._identity.node_id]
        for node in [node for node in self._diallers if node not in wanted]:
            _, task = self._diallers.pop(node)
            task.cancel()
            self._stopping.add(task)
            task.add_done_callback(self._stopping.discard)
        for node in wanted:
            if node not in self._diallers:
                dialler = self._dialler(node)
                self._diallers[node] = (dialler, self._loop.create_task(self._run(node, dialler)))

    async def _run(self, node: NodeId, dialler: Dialler) -> None:
        if node < self._identity.node_id:
            await dialler.ask(lambda: node in self._peers)
        else:
            present = self._peers.get(node)
            await dialler.run(present.ended if present is not None else None)

    def _dialler(self, node: NodeId) -> Dialler:
        return Dialler(
            self._network,
            self._clock,
            self._entropy,
            self._identity,
            node,
            lambda: self._addresses().get(node),
            self._tls,
            self._limits,
            self._counters,
            self._door.refusals,
            lambda connection, welcome: self._reached(node, connection, welcome),
            lambda why: self._is_outcast(node, why),
            self.acquaintance.about,
        )

    # Who comes, and who goes.

    def _reached(
        self, node: NodeId, connection: Connection, welcome: Welcome
    ) -> asyncio.Future[None]:
        """Take a connection that this node has dialled."""
        if self._handlers is None:
            raise NotThis("stopped", "this node stops")
        why_not = self._handlers.admits(node, welcome.incarnation)
        if why_not is not None:
            raise NotThis("stale_incarnation", why_not)
        return self._connect(node, connection, welcome)

    def _is_outcast(self, node: NodeId, why: str) -> None:
        if self._handlers is not None:
            self._handlers.refused(node, why)

    def _greeted(self, hello: Hello, connection: Connection) -> Refused | None:
        """Take a connection that was dialled to this node, or say why not."""
        answer = self._judged(hello)
        if answer is not None:
            if answer.slug != CALLS_ALREADY:
                self._door.refusals.note(hello.node_id, answer.slug, answer.text)
            return answer
        own = self._identity
        welcome = Welcome(own.node_id, own.incarnation, self.acquaintance.about)
        connection.write(greeting.encode(welcome))
        self._connect(hello.node_id, connection, hello)
        return None

    def _judged(self, hello: Hello) -> Refused | None:
        own, node = self._identity, hello.node_id
        if hello.cluster_id != own.cluster_id:
            return refused(
                "permission_denied",
                f"{node} belongs to cluster {hello.cluster_id}, and {own.node_id} to cluster "
                f"{own.cluster_id}: one of them has the wrong address or data directory",
            )
        if hello.to != own.node_id:
            text = f"{node} means to reach {hello.to}, and {own.node_id} is here"
            return refused("invalid_request", f"{text}: check the addresses of both")
        if self._handlers is None:
            return refused("draining", f"{own.node_id} stops")
        why_not = self._handlers.admits(node, hello.incarnation)
        if why_not is not None:
            return refused("stale_incarnation", why_not)
        if node == own.node_id:
            return refused("invalid_request", f"this is {node}: there are two of that name")
        if node > own.node_id and node in self._diallers:
            return self._asked_to_call(node)
        known = self._addresses()  # they always get in: others are bounded apart
        strangers = sum(peer not in known for peer in self._peers)
        if not (node in known or node in self._peers) and strangers >= self._limits.links_max:
            return refused("overloaded", f"{own.node_id} has {strangers} connections to strangers")
        return None

    def _asked_to_call(self, node: NodeId) -> Refused:
        """Call a peer of a higher id."""
        own = self._identity.node_id
        dialler, _ = self._diallers[node]
        dialler.call_now()
        last = self.refusals.get(node)
        text = f"{own} calls {node} at {self._addresses()[node]}, not the other way round"
        return refused(CALLS_ALREADY, f"{text}{': ' + last.text if last is not None else ''}")

    def _connect(
        self, node: NodeId, connection: Connection, said: Hello | Welcome
    ) -> asyncio.Future[None]:
        """Make it the one connection to that node; return what is done when it has ended."""
        assert self._handlers is not None
        incarnation = said.incarnation
        self.acquaintance.met(node, said.about)
        old, doubted, now_ns = self._peers.get(node), None, self._clock.monotonic_ns()
        if old is not None:
            age_ms = (now_ns - old.since_ns) // 1_000_000
            if old.link is not None:
                if incarnation == old.incarnation and age_ms < doubles.WITHIN_MS:
                    places = (old.place, connection.peer)
                    doubted = doubles.doubt(node, incarnation, places, old.doubted)
                old.link.end("replaced")
            self._tell_of_the_end(node, old)
        link = Link(
            connection,
            self._limits,
            self._counters,
            lambda message: self._received(node, message),
            lambda reason: self._ended(node, peer, reason),
        )
        ended = self._loop.create_future()
        peer = _Peer(link, incarnation, now_ns, ended, connection.peer, doubted)
        self._peers[node] = peer
        self._door.refusals.clear(node)
        self._counters.add("transport.connected")
        fields = {"peer": node, "incarnation": incarnation, "address": connection.peer}
        _LOG.info("peer.connected", extra={"fields": fields})
        self._handlers.connected(node, incarnation)
        if not link.is_over:  # the log may have ended it at once
            link.begin()
        return peer.ended

    def _received(self, node: NodeId, message: PeerMessage) -> None:
        if self._handlers is not None:
            self._handlers.receive(node, message)

    def _ended(self, node: NodeId, peer: _Peer, reason: str) -> None:
        """Take in the end of a link; the log hears of it behind what it does right now."""
        peer.link = None
        if not peer.ended.done():
            peer.ended.set_result(None)
        fields = {"peer": node, "incarnation": peer.incarnation, "reason": reason}
        _LOG.info("peer.disconnected", extra={"fields": fields})
        self._loop.call_soon(self._tell_of_the_end, node, peer)

    def _tell_of_the_end(self, node: NodeId, peer: _Peer) -> None:
        """Tell the log, once."""
        if self._peers.get(node) is peer:
            del self._peers[node]
            self.acquaintance.forget([*self._addresses(), *self._peers])
            if self._handlers is not None:
                self._handlers.disconnected(node)
