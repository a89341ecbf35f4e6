"""Who leads: PreVote, votes, stickiness, and fast failover.

A node that misses its leader first asks whether it could win (PreVote), which
binds nobody and raises no term, so that a node that was cut off, or restarts,
disturbs nothing. A voter whose leader is alive says no. A broken connection to
the leader counts as a sign of its death at once; silence only after the timeout.

What lives here: the candidate's side and the voter's. What must never live
here: what a leader does (`replication`). Called by: `core`. Deterministic.
Source: Raft paper, 5.2 and 5.4.1; thesis, 4.2.3 and 9.6; docs/RAFT.md.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from coordinator.raft.messages import PreVote, PreVoteReply, RequestVote, VoteReply
from coordinator.raft.standing import Role, Standing
from coordinator.raft.timing import MS
from raftbatch.ids import NodeId


class Phase(Enum):
    """What a node that does not lead is doing about it."""

    WAITING = "waiting"
    ASKING = "asking"
    """A pre-vote is under way."""
    ELECTING = "electing"
    """It is a candidate."""


class Election:
    """See the module's docstring.

    Args:
        standing: shared.
        may_lead: whether this node could do a leader's work (its disk has room).
        won: called when a majority has voted for this node.

    Attributes:
        deadline_ns: when to act, unless a leader is heard from before.
        phase: see `Phase`.
    """

    def __init__(
        self, standing: Standing, may_lead: Callable[[], bool], won: Callable[[], None]
    ) -> None:
        self._standing = standing
        self._may_lead = may_lead
        self._won = won
        self.phase = Phase.WAITING
        self.deadline_ns = 0
        self._fans: list[NodeId] = []  # who would vote for this node, each once
        self._votes: list[NodeId] = []  # who did, in the term of its last candidacy, each once
        self._refusals: list[NodeId] = []
        self._votes_term = -1
        self._heard_ns: int | None = None
        self._is_link_broken = False
        self._refused: dict[NodeId, PreVote] = {}  # asked while our leader was alive
        self.wait()

    def wait(self) -> None:
        """Give the leader, or whoever may become it, a full timeout from now, drawn anew."""
        standing, timing = self._standing, self._standing.timing
        self.phase = Phase.WAITING
        self.deadline_ns = standing.after_ms(timing.election_ms_min, timing.election_ms_max)
        self._timeout_ns = self.deadline_ns - standing.now_ns

    def stand_down(self) -> None:
        """Give up what is under way, in a term that is over; the deadline stays."""
        self.phase = Phase.WAITING
        self._votes_term = -1  # a late vote lets nobody lead a term twice

    def heard(self) -> None:
        """Take note of a sign of life from this term's leader."""
        self._heard_ns = self._standing.now_ns
        # Its own candidacy in this term is lost for good: a vote that is still on its way may
        # be of a majority by now, as the membership may have changed under that leader.
        self._votes_term = -1
        self._is_link_broken = False
        self._refused.clear()
        # As long as what was drawn last: drawing again takes longer than all else here, and
        # what is to differ, this node's patience and the others', does.
        self.phase = Phase.WAITING
        self.deadline_ns = self._heard_ns + self._timeout_ns

    def link_broke(self, peer: NodeId) -> None:
        """Take note of a broken connection; if it was the leader's, ask around soon."""
        standing = self._standing
        if peer != standing.leader or standing.role is not Role.FOLLOWER:
            return
        self._is_link_broken = True
        self.deadline_ns = min(
            self.deadline_ns, standing.after_ms(0, standing.timing.failover_ms_max)
        )
        refused, self._refused = self._refused, {}
        for asker, question in refused.items():
            self.on_pre_vote(asker, question)

    @property
    def is_leader_alive(self) -> bool:
        """Whether this node has no reason to want another leader."""
        standing = self._standing
        if standing.role is Role.LEADER:
            return True
        return (
            standing.leader is not None
            and not self._is_link_broken
            and self._heard_ns is not None
            and standing.now_ns - self._heard_ns < standing.timing.election_ms_min * MS
        )

    def tick(self) -> None:
        """Act if the deadline has passed."""
        standing = self._standing
        if standing.role is Role.LEADER or standing.now_ns < self.deadline_ns:
            return
        if not standing.may_stand:
            # A learner, or one that joins, waits to be fed; one that was removed, to be told.
            standing.role, standing.leader = Role.FOLLOWER, None
            self.wait()
        elif self._may_lead():
            self._ask()
        else:
            self.wait()

    def begin(self, transfer: bool) -> None:
        """Become a candidate in the next term."""
        standing = self._standing
        standing.role, standing.leader = Role.CANDIDATE, None
        standing.enter(standing.term + 1, standing.self_id)
        self.wait()
        self.phase = Phase.ELECTING
        self._votes, self._refusals, self._votes_term = [], [], standing.term
        log = standing.log
        for peer in standing.peers:
            question = RequestVote(standing.term, log.last_index, log.last_term, transfer)
            standing.send(peer, question)
        self.durable()

    def durable(self) -> None:
        """Count this node's own vote, once it could not be forgotten."""
        if self._is_candidacy_open and self._standing.is_hard_state_durable:
            self._count_vote(self._standing.self_id)

    def on_pre_vote(self, asker: NodeId, question: PreVote) -> None:
        """Say whether this node would vote for the asker."""
        standing = self._standing
        log_is_fit = standing.is_up_to_date(question.last_term, question.last_index)
        would = question.term > standing.term and log_is_fit
        granted = would and not self.is_leader_alive
        if would and not granted and standing.role is Role.FOLLOWER:
            self._refused[asker] = question
        if granted and self.phase is Phase.ASKING and asker < standing.self_id:
            # Both ask at once, and the asker's log is as good: the lower id goes first.
            self.phase = Phase.WAITING
            self.deadline_ns = self._retry_ns()
        standing.send(asker, PreVoteReply(question.term, granted, standing.term))

    def on_pre_vote_reply(self, voter: NodeId, answer: PreVoteReply) -> None:
        """Count an answer; with a majority, become a candidate."""
        standing = self._standing
        if self.phase is not Phase.ASKING or answer.term != standing.term + 1:
            return
        if answer.granted and voter in standing.voters and voter not in self._fans:
            self._fans.append(voter)
            if len(self._fans) >= standing.quorum:
                self.begin(transfer=False)

    def on_request_vote(self, asker: NodeId, question: RequestVote) -> None:
        """Vote, at most once in a term. The question's term is the present one."""
        standing = self._standing
        vote = standing.log.hard_state.vote
        granted = (
            standing.role is Role.FOLLOWER
            and vote in (None, asker)
            and standing.is_up_to_date(question.last_term, question.last_index)
        )
        if granted:
            if vote is None:
                standing.enter(standing.term, asker)
            self.wait()
        standing.send(asker, VoteReply(standing.term, granted))

    def on_vote_reply(self, voter: NodeId, answer: VoteReply) -> None:
        """Count an answer of the present term, however late: slow disks make slow voters."""
        standing = self._standing
        if not self._is_candidacy_open:
            return
        if answer.granted:
            self._count_vote(voter)
        elif voter in standing.voters and voter not in self._refusals:
            self._refusals.append(voter)
            if len(standing.voters) - len(self._refusals) < standing.quorum:
                self.deadline_ns = min(self.deadline_ns, self._retry_ns())  # it cannot win

    def _ask(self) -> None:
        """Begin a pre-vote."""
        standing, log = self._standing, self._standing.log
        standing.role, standing.leader = Role.FOLLOWER, None
        self.phase = Phase.ASKING
        self.deadline_ns = self._retry_ns()
        self._fans = [standing.self_id] if standing.is_voter else []
        if len(self._fans) >= standing.quorum:
            self.begin(transfer=False)
            return
        for peer in standing.peers:
            standing.send(peer, PreVote(standing.term + 1, log.last_index, log.last_term))

    @property
    def _is_candidacy_open(self) -> bool:
        """Whether votes of the present term could still make this node its leader.

        Also while it asks anew whether to stand in the next one.
        """
        standing = self._standing
        return (
            self._votes_term == standing.term
            and standing.role is not Role.LEADER
            and standing.leader is None
        )

    def _count_vote(self, voter: NodeId) -> None:
        """Count a vote, each voter's once."""
        standing = self._standing
        if voter in standing.voters and voter not in self._votes:
            self._votes.append(voter)
            if len(self._votes) >= standing.quorum:
                self.phase = Phase.WAITING
                self._won()

    def _retry_ns(self) -> int:
        retry_ms = self._standing.timing.retry_ms
        return self._standing.after_ms(retry_ms, 2 * retry_ms)
