"""What a process holds of the links: its port, its endpoint, and how links may behave.

What lives here: the types around `chaos.worlds.links`. What must never live
here: how messages travel. Called by: `chaos.worlds.links`, which names them too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from chaos.worlds.process import Process
from raftbatch.ids import NodeId

Pair = tuple[NodeId, NodeId]
"""One direction: from the first to the second."""

Heal = Callable[[], None]
"""Ends a fault; harmless when called twice, or after all was healed."""

SendHook = Callable[[Literal["before", "after"], NodeId, object], None]
"""Called around each send with the receiver and the message; may raise `Crash`."""

Observer = Callable[[str, NodeId, NodeId, object], None]
"""Called with what happened (`send`, `deliver`, `stale`, `drop`, `connected`,
`disconnected`), sender, receiver and message; for the last two: who learns it, of whom, None."""


class Endpoint(Protocol):
    """What a node does with what the links bring."""

    @property
    def incarnation(self) -> int:
        """Which life of the node it is, from 1: not of the process, but of its disk."""
        ...

    def receive(self, peer: NodeId, message: object) -> None:
        """Take a message."""
        ...

    def admits(self, peer: NodeId, incarnation: int) -> str | None:
        """Return why that life of a peer must not be connected; None where it may be."""
        ...

    def refused(self, peer: NodeId, why: str) -> None:
        """The peer does not admit this node, and says why."""
        ...

    def connected(self, peer: NodeId, incarnation: int) -> None:
        """Messages to that life of the peer may be sent from now on."""
        ...

    def disconnected(self, peer: NodeId) -> None:
        """They are dropped from now on, and some sent before may be lost."""
        ...


@dataclass(frozen=True, slots=True)
class LinkOptions:
    """How links behave, in seconds and chances of 1.

    Args:
        delay_s: a message's time on the way, one way.
        bulk_s: what large messages take on top of that; small ones overtake them.
        notice_s: how long an end takes to notice a broken connection.
        connect_s: how long two nodes take to find each other again.
        timeout_s: a sender gives up when nothing got through for so long.
        reset_chance: a dying process's last messages are lost where its connection
            is reset rather than closed.
        stale: outside the contract: a message of a broken connection may arrive
            when the next one is up, perhaps at the next process.
        loss, duplicate, reorder: outside the contract.
        reorder_s: how late a reordered or duplicated message comes.
    """

    delay_s: tuple[float, float] = (0.0002, 0.002)
    bulk_s: tuple[float, float] = (0.0, 0.0)
    notice_s: tuple[float, float] = (0.0, 0.005)
    connect_s: tuple[float, float] = (0.01, 0.3)
    timeout_s: float = 3.5
    reset_chance: float = 0.5
    stale: float = 0.0
    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    reorder_s: tuple[float, float] = (0.0, 0.6)


class Carrier(Protocol):
    """The links, as a port sees them."""

    def begin(self, port: Port) -> None:
        """Connect a registered port to the others."""
        ...

    def send(self, sender: NodeId, receiver: NodeId, message: object) -> None:
        """Send."""
        ...

    def is_connected(self, node: NodeId, peer: NodeId) -> bool:
        """Whether `node` believes in its connection to `peer`."""
        ...


class Port:
    """A process's own end of all its links: what the product sends through.

    Attributes:
        node, process: whose it is.
        endpoint: who takes what comes; None until `register`.
    """

    def __init__(self, links: Carrier, node: NodeId, process: Process) -> None:
        self.node = node
        self.process = process
        self.endpoint: Endpoint | None = None
        self._links = links

    @property
    def incarnation(self) -> int:
        """Which life of the node it is; once registered."""
        assert self.endpoint is not None
        return self.endpoint.incarnation

    def register(self, endpoint: Endpoint) -> None:
        """Say who takes what comes; connections are made from now on."""
        assert self.endpoint is None, "registered once"
        self.endpoint = endpoint
        self._links.begin(self)

    def send(self, peer: NodeId, message: object) -> None:
        """Send, or drop where the peer is not connected. Never blocks, never answers."""
        if self.process.alive:
            self._links.send(self.node, peer, message)

    def is_connected(self, peer: NodeId) -> bool:
        """Whether messages to the peer go anywhere, as far as this end knows."""
        return self._links.is_connected(self.node, peer)
