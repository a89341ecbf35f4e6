"""Which life of which peer is connected, and whether what it says is of any account.

A node that lost its disk is added again under a new incarnation. What an earlier
life has acknowledged, or voted, is forgotten on that disk: so each connection is
tied to one life, and what comes over it counts for that life alone.

What lives here: the peers that are connected. What must never live here: what
they say. Called by: `core`, `followers`. Deterministic.
"""

from __future__ import annotations

from coordinator.raft.membership import Membership
from coordinator.raft.standing import Standing
from raftbatch.ids import NodeId


class Lives:
    """See the module's docstring."""

    def __init__(self, standing: Standing) -> None:
        self._standing = standing
        self._connected: dict[NodeId, int] = {}
        self._over: set[NodeId] = set()  # of those, whose life is over
        self._judged: Membership | None = None  # by which membership that was judged

    def of(self, peer: NodeId) -> int | None:
        """Return the incarnation of a peer that is connected; None of one that is not."""
        return self._connected.get(peer)

    def came(self, peer: NodeId, incarnation: int) -> None:
        """Take in a connection."""
        self._connected[peer] = incarnation
        self._judged = None

    def went(self, peer: NodeId) -> None:
        """Take in that a connection broke."""
        self._over.discard(peer)
        del self._connected[peer]

    def is_member(self, peer: NodeId) -> bool:
        """Whether it is the peer's life that is a member which is connected."""
        member = self._standing.membership.get(peer)
        return member is not None and member.incarnation == self._connected.get(peer)

    def is_over(self, peer: NodeId) -> bool:
        """Whether a connected peer's life was replaced or removed, and that is committed."""
        committed = self._standing.committed_membership
        if self._judged is not committed:
            self._judged = committed
            self._over = {
                each
                for each, incarnation in self._connected.items()
                if committed.why_over(each, incarnation) is not None
            }
        return peer in self._over
