"""What peers have said of themselves, and how this node stands with them.

A peer is believed what it says of itself alone: where clients reach it. What its file
says is held against this node's: where the two differ that is said once in the log,
counted each time, and shown by `raftbatch status`.

What lives here: the last word of each peer. What must never live here: a connection,
or a refusal. Called by: `transport`; read by whoever shows a node. One thread: the
loop's.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from coordinator.raft.about import About
from coordinator.raft.counters import Counters
from coordinator.raft.refusals import Refusal
from raftbatch.ids import NodeId

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PeerState:
    """How it stands with a peer, for `raftbatch status`.

    Attributes:
        node_id: the peer.
        address: where it is called, or would be; empty where that is unknown.
        calls: whether this node is the one that keeps calling.
        incarnation: which life of it is connected; 0: none is.
        connected_ms: for how long, in ms.
        queued_bytes: what it has not read yet.
        refusal: the last reason why there was no connection, where there is none; or that there
            seem to be two of that name.
        differs: how its file differs from this node's in what both should say; empty: not at all.
    """

    node_id: NodeId
    address: str
    calls: bool
    incarnation: int
    connected_ms: int
    queued_bytes: int
    refusal: Refusal | None
    differs: str


class Acquaintance:
    """See the module's docstring.

    Args:
        own: this node.
        about: what it says of itself.
        counters: counts differences, each time that a peer is met with one.

    Attributes:
        about: the same, for greetings.
    """

    def __init__(self, own: NodeId, about: About, counters: Counters) -> None:
        self.about = about
        self._own = own
        self._counters = counters
        self._said: dict[NodeId, About] = {}
        self._differs: dict[NodeId, str] = {}

    def met(self, node: NodeId, about: About) -> None:
        """Take in what a peer says as a connection to it begins."""
        self._said[node] = about
        found = self.about.differences(about)
        text = "; ".join(each.text(self._own, node) for each in found)
        if text:
            self._counters.add("transport.file_differs")
        if text and text != self._differs.get(node):
            fields = {"peer": node, "keys": [each.key for each in found], "text": text}
            _LOG.warning("peer.differs", extra={"fields": fields})
        self._differs[node] = text

    def of(self, node: NodeId) -> About | None:
        """Return the last word of a peer; None where there is none."""
        return self._said.get(node)

    def differs(self, node: NodeId) -> str:
        """Return how the file of a peer differs; empty: not at all, or nobody knows."""
        return self._differs.get(node, "")

    def forget(self, known: Iterable[NodeId]) -> None:
        """Keep nothing of others than these: whoever was let in once would cost memory for ever."""
        kept = set(known)
        for node in [node for node in self._said if node not in kept]:
            del self._said[node]
            del self._differs[node]
