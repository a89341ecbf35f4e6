"""The invariants that messages tell: who says what, and whether it may be said yet.

What lives here: the judgement of each message as it leaves. What must never live
here: what receivers do with it. Called by: `chaos.checkers.raft`, which is told of
sends by the links.
"""

from __future__ import annotations

from collections.abc import Mapping

from chaos.checkers.raft_shadow import Complain, Shadow
from coordinator.raft.messages import (
    AppendEntries,
    AppendReply,
    Beat,
    InstallSnapshot,
    PreVote,
    PreVoteReply,
    RequestVote,
    SnapshotReply,
    TimeoutNow,
    VoteReply,
)
from raftbatch.ids import NodeId


class Wire:
    """See the module's docstring.

    Args:
        complain: told of broken promises.
        shadows: what each node durably holds.
        leaders: who led each term, as seen in the nodes.

    Attributes:
        votes: who was voted for, by voter, its incarnation, and term.
    """

    def __init__(
        self,
        complain: Complain,
        shadows: Mapping[NodeId, Shadow],
        leaders: Mapping[int, NodeId],
    ) -> None:
        self._complain = complain
        self._shadows = shadows
        self._leaders = leaders
        self._senders: dict[int, NodeId] = {}  # of appends and snapshots, by term
        self.votes: dict[tuple[NodeId, int, int], NodeId] = {}

    def sends(self, sender: NodeId, receiver: NodeId, message: object) -> None:
        """Judge a message as it leaves."""
        match message:
            case PreVote():
                pass  # promises nothing
            case PreVoteReply():
                self._term(sender, message.own_term)
            case RequestVote():
                self._term(sender, message.term)
                self._vote(sender, message.term, sender)
            case VoteReply():
                self._term(sender, message.term)
                if message.granted:
                    self._vote(sender, message.term, receiver)
            case AppendEntries() | Beat() | InstallSnapshot():
                self._term(sender, message.term)
                first = self._senders.setdefault(message.term, sender)
                if first != sender:
                    self._complain(f"{first} and {sender} append in term {message.term}")
            case AppendReply():
                self._term(sender, message.term)
                self._acknowledges(sender, message)
            case SnapshotReply() | TimeoutNow():
                self._term(sender, message.term)
            case _:
                self._complain(f"{sender} sends {message!r}, which is no message")

    def _term(self, sender: NodeId, term: int) -> None:
        durable = self._shadows[sender].durable.hard_state
        if durable.term < term:
            self._complain(f"{sender} speaks of term {term}, but durable is {durable}")

    def _vote(self, voter: NodeId, term: int, candidate: NodeId) -> None:
        durable = self._shadows[voter].durable.hard_state
        if durable.term == term and durable.vote != candidate:
            self._complain(f"{voter} votes for {candidate} in {term}, but durable is {durable}")
        life = self._shadows[voter].incarnation
        first = self.votes.setdefault((voter, life, term), candidate)
        if first != candidate:
            self._complain(f"{voter} votes for {first} and for {candidate} in term {term}")

    def _acknowledges(self, follower: NodeId, reply: AppendReply) -> None:
        """What is acknowledged is durable, and the leader's."""
        shadow, index = self._shadows[follower], reply.match
        last = max(shadow.durable.last, shadow.snapshot)
        if last < index:
            self._complain(f"{follower} acknowledges {index}, but only {last} is durable")
        leader = self._leaders.get(reply.term)
        if not index or leader is None:
            return
        memory = self._shadows[leader].memory
        if memory.hard_state.term == reply.term:
            term = memory.term(index)
            if term is not None and not shadow.holds(index, term):
                self._complain(
                    f"{follower} acknowledges {index} to {leader}, which has one of term {term}"
                )
