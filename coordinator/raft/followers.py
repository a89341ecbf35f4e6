"""Whom a leader feeds: the members, and those that are members no more and do not know it yet.

What lives here: the followers of one leadership, how they change with the
membership, and which learner has caught up. What must never live here: a message,
or what one follower is sent next (`replication`, `progress`). Called by:
`replication`, `changes`, `core`. Deterministic. Source: thesis, 4.2.1 and 4.2.2.
"""

from __future__ import annotations

from collections.abc import Iterable

from coordinator.raft.lives import Lives
from coordinator.raft.progress import Feeding, Progress
from coordinator.raft.standing import Standing
from coordinator.raft.timing import MS
from raftbatch.ids import NodeId


class Followers:
    """See the module's docstring.

    Attributes:
        members: what is believed of each member but this node, in the order of their ids.
            Only voters count.
        leaving: the same of those that are members no more, until they were told so.
    """

    def __init__(self, standing: Standing, lives: Lives) -> None:
        self._standing = standing
        self._lives = lives
        self.members: dict[NodeId, Progress] = {}
        self.leaving: dict[NodeId, Progress] = {}
        self.reshape()

    def of_all(self, peers: Iterable[NodeId]) -> list[Progress]:
        """Return what is believed of each of these members."""
        return [self.members[peer] for peer in peers]

    @property
    def all(self) -> list[tuple[NodeId, Progress]]:
        """All that are fed."""
        return [*self.members.items(), *self.leaving.items()]

    def of(self, peer: NodeId) -> Progress | None:
        """Return what is believed of the life of a node that is connected; None if it is not fed.

        What another life of it says counts for nothing.
        """
        progress = self.members.get(peer) or self.leaving.get(peer)
        is_it = progress is not None and progress.incarnation == self._lives.of(peer)
        return progress if is_it else None

    def reshape(self) -> None:
        """Follow the membership in force: feed who is new, begin to part from who is gone.

        Called where the log's last entry is the one that made it so, or the first of a
        leader: new ones are asked for what stands before it.
        """
        standing, before = self._standing, self.members
        last = standing.log.last_index
        self.members = {}
        for member in standing.membership.members:
            peer, incarnation = member.node_id, member.incarnation
            if peer == standing.self_id:
                continue
            known = before.pop(peer, None)
            if known is None or known.incarnation != incarnation:
                is_connected = self._lives.of(peer) == incarnation
                known = Progress(incarnation, last, standing.now_ns, is_connected)
                self.leaving.pop(peer, None)
            self.members[peer] = known
        for peer, progress in before.items():
            progress.parts_at = last
            self.leaving[peer] = progress

    def part(self) -> None:
        """Stop feeding who is a member no more, once its removal is committed and it knows.

        Or where that would take long: it is told when it connects anew, too.
        """
        standing = self._standing
        since = standing.now_ns - standing.timing.election_ms_max * MS
        for peer, progress in list(self.leaving.items()):
            assert progress.parts_at is not None
            was_told = progress.feeding is Feeding.REPLICATE and progress.next > progress.parts_at
            is_slow = progress.feeding is Feeding.SNAPSHOT or progress.heard_ns <= since
            is_over = was_told or is_slow or not progress.is_connected
            if standing.commit >= progress.parts_at and is_over:
                del self.leaving[peer]

    def best_voter(self) -> NodeId | None:
        """Return the connected voter that holds most; None where none is connected."""
        peers = [peer for peer in self._standing.peers if self.members[peer].is_connected]
        return max(peers, key=lambda peer: self.members[peer].match, default=None)

    # Learners.

    def hears(self, peer: NodeId) -> bool:
        """Whether a member is connected, and has answered within an election timeout."""
        progress, standing = self.members.get(peer), self._standing
        since = standing.now_ns - standing.timing.election_ms_min * MS
        return progress is not None and progress.is_connected and progress.heard_ns > since

    def has_caught_up(self, peer: NodeId) -> bool:
        """Whether a member took less than an election timeout to hold all there was at its begin.

        What it lacks now takes about as long: if it counts from now on, that holds up no
        commitment for longer than an election would. Source: thesis, 4.2.1 (rounds).
        """
        progress, standing = self.members[peer], self._standing
        is_in_time = standing.now_ns - progress.goal_ns < standing.timing.election_ms_min * MS
        return self.hears(peer) and is_in_time and progress.match >= progress.goal

    def begin_rounds(self) -> None:
        """Begin another round of catching up with who has ended one, but took too long."""
        standing = self._standing
        for progress in self.members.values():
            took_ns = standing.now_ns - progress.goal_ns
            is_late = took_ns >= standing.timing.election_ms_min * MS
            if is_late and progress.match >= progress.goal:
                progress.goal, progress.goal_ns = standing.log.last_index, standing.now_ns
