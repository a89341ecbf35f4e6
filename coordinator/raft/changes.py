"""Changes of the membership: when a leader may make one, and which it makes by itself.

One voter more or less at a time: so a majority of the voters before and one of
those after share a node, and there is no moment at which two leaders could be
chosen. That holds only if the membership before is committed, by a leader that
has committed an entry of its own term: else two leaders in turn could each stand
one change away from a membership that both know, and two away from each other.

What lives here: these rules. What must never live here: what memberships are
(`membership`), who is fed (`followers`). Called by: `core`, while this
node leads. Deterministic. Source: thesis, 4.1 and 4.2; O. Ongaro, "bug in
single-server membership changes", raft-dev, 2015; docs/adr/0004-membership.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from coordinator.raft.followers import Followers
from coordinator.raft.membership import Membership, Rank, encode
from coordinator.raft.reads import Reads
from coordinator.raft.standing import Standing
from coordinator.raft.transfer import Transfer
from raftbatch.errors import Draining, InvalidRequest, Overloaded, RaftbatchError
from raftbatch.ids import NodeId


@dataclass(frozen=True, slots=True)
class Add:
    """Add a node under a new incarnation, in place of an earlier one."""

    node: NodeId
    address: str
    rank: Rank


@dataclass(frozen=True, slots=True)
class Promote:
    """Let a learner vote."""

    node: NodeId


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove a member, perhaps the leader."""

    node: NodeId


@dataclass(frozen=True, slots=True)
class Move:
    """Note another address of a member."""

    node: NodeId
    address: str


Change = Add | Promote | Remove | Move


class Changes:
    """See the module's docstring."""

    def __init__(self, standing: Standing, reads: Reads, transfer: Transfer) -> None:
        self._standing = standing
        self._reads = reads
        self._transfer = transfer

    def make(self, change: Change, followers: Followers) -> int:
        """Append the membership that a change makes; return its index.

        Raises:
            Draining: definite; leadership is being handed over.
            Overloaded: definite; another change is under way, or the node is not ready for it.
            InvalidRequest: definite; there can be no such change.
            NoSpace: definite.
        """
        standing = self._standing
        if self._transfer.heir is not None:
            raise Draining(
                f"leadership is being handed to {self._transfer.heir}",
                retry_after_ms=standing.timing.retry_ms,
            )
        if not standing.is_membership_committed or not self._reads.may_be_asked:
            raise self._later("another change of the membership is not yet committed")
        membership = self._changed(change, followers)
        standing.log.append(standing.term, encode(membership), is_config=True)
        followers.reshape()
        return standing.log.last_index

    def tick(self, followers: Followers) -> None:
        """Promote one that joins and has caught up, if a change may be made."""
        for member in self._standing.membership.members:
            if member.rank is Rank.JOINING and followers.has_caught_up(member.node_id):
                try:
                    self.make(Promote(member.node_id), followers)
                except RaftbatchError:
                    pass  # with a later tick
                return

    def _changed(self, change: Change, followers: Followers) -> Membership:
        """Return the membership that a change makes of the one in force."""
        membership = self._standing.membership
        match change:
            case Add(node, address, rank):
                self._check_may_replace(node, followers)
                return membership.added(node, address, rank)
            case Promote(node):
                promoted = membership.promoted(node)
                if not followers.has_caught_up(node):
                    raise self._later(f"{node} has not caught up yet")
                return promoted
            case Remove(node):
                return membership.removed(node)
            case Move(node, address):
                return membership.moved(node, address)
            case _:
                assert_never(change)

    def _check_may_replace(self, node: NodeId, followers: Followers) -> None:
        """Refuse to replace a life of a node that goes on: another machine may bear its name."""
        if node == self._standing.self_id:
            raise InvalidRequest(f"{node} leads: it cannot be added again")
        if followers.hears(node):
            raise self._later(
                f"{node} is a member, and answers: if that is another machine, give this one "
                f"another name; if its disk was lost, remove {node} first"
            )

    def _later(self, why: str) -> Overloaded:
        return Overloaded(why, retry_after_ms=self._standing.timing.heartbeat_ms)
