"""Which life of which peer is connected, and whether what it says is of any account.

A node that lost its disk is added again under a new incarnation. What an earlier
life has acknowledged, or voted, is forgotten on that disk: so each connection is
tied to one life, and what comes over it counts for that life alone.

What lives here: the peers that are connected. What must never live here: what
they say. Called by: `core`, `followers`. Deterministic.
"""

from __future__ import annotations

from collections.abc import Collection

from coordinator.raft.membership import Membership
from coordinator.raft.standing import Standing
from raftbatch.ids import NodeId


class Lives:
    """See the module's docstring."""

    def __init__(self, standing: Standing) -> None:
        self._standing = standing
        self._connected: dict[NodeId, int] = {}
        self._over: list[NodeId] = []
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
        del self._connected[peer]
        self._judged = None

    def is_member(self, peer: NodeId) -> bool:
        """Whether it is the peer's life that is a member which is connected."""
        member = self._standing.membership.get(peer)
        return member is not None and member.incarnation == self._connected.get(peer)

    def is_heard(self, peer: NodeId, term: int, leaving: Collection[NodeId]) -> bool:
        """Whether what a peer says, in that term, is taken in at all.

        Not from a life that is over, but for two in the present term: the leader that
        removed itself, and one that this node, as the leader, is parting from.
        """
        standing = self._standing
        if peer not in self._connected:
            return False
        is_known = peer == standing.leader or peer in leaving
        return peer not in self._ended or (is_known and term == standing.term)

    def part(self, leaving: Collection[NodeId]) -> None:
        """Have the connections closed to those whose life is over.

        Not before the leader has told them so: but to one who missed it, or is slow, it is
        told only when it connects anew.

        Args:
            leaving: whom this node, as the leader, is about to tell.
        """
        standing = self._standing
        standing.unwelcome = [
            peer for peer in self._ended if peer != standing.leader and peer not in leaving
        ]

    @property
    def _ended(self) -> list[NodeId]:
        """The connected peers whose life was replaced or removed, and that is committed."""
        committed = self._standing.committed_membership
        if self._judged is not committed:
            self._judged = committed
            self._over = [
                each
                for each, incarnation in self._connected.items()
                if committed.why_over(each, incarnation) is not None
            ]
        return self._over
