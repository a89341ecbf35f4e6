"""A replicated log at the simulated links: what comes in, and what it sends through.

What lives here: the two ends, and messages as bytes. What must never live here: the
links (`chaos.worlds.links`), or what a log is for. Called by: the suites that run
whole clusters.
"""

from __future__ import annotations

from typing import cast

from chaos.worlds.ends import Port
from coordinator.raft.log import ReplicatedLog
from coordinator.raft.membership import Membership
from coordinator.raft.messages import Message
from coordinator.raft.wire import decode, encode
from raftbatch.ids import NodeId


def written_and_read(message: object) -> object:
    """Return what comes of a message on its way over a socket."""
    return decode(memoryview(b"".join(encode(cast("Message", message)))))


class LogEnd:
    """Where a node's messages come in."""

    def __init__(self, log: ReplicatedLog) -> None:
        self.incarnation = log.identity.incarnation
        self.admits = log.admits
        self.refused = log.refused
        self.connected = log.connected
        self.disconnected = log.disconnected
        self._receive = log.receive

    def receive(self, peer: NodeId, message: object) -> None:
        """Hand in a message."""
        self._receive(peer, cast("Message", message))


class AllPeers:
    """What the product sends through: everybody is connected to everybody."""

    def __init__(self, port: Port) -> None:
        self.send = port.send
        self.drop = port.drop

    def update(self, membership: Membership) -> None:
        """Leave all connections as they are."""
