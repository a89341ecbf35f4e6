"""What a node is in the cluster at this moment, as far as it knows.

The one piece of state that the objects of the core share: role, leader, commit
index, the log, and what is to be sent. Term and vote are the log's hard state,
and the membership is the log's newest, committed or not: there is no second copy
that could differ, so a membership takes effect with its entry, and is taken back
with it. What lives here: that state, and the few steps that keep it consistent.
What must never live here: a rule of when to take them (`election`, `appending`,
`replication`). Called by: the core's objects. Deterministic: time and chance
come in from outside. Source: thesis, 4.1 (the newest configuration in the log).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from coordinator.raft.membership import Membership, decode
from coordinator.raft.messages import Message, Outgoing
from coordinator.raft.ports import Log
from coordinator.raft.segments.layout import Entry
from coordinator.raft.timing import MS, Timing
from raftbatch.errors import Invariant, NoLeader, NotLeader
from raftbatch.ids import NodeId


class Role(Enum):
    """Raft's roles. Source: Raft paper, figure 4."""

    FOLLOWER = "follower"
    CANDIDATE = "candidate"
    LEADER = "leader"


class Electorate(NamedTuple):
    """Who votes in a membership.

    Attributes:
        membership: that is.
        voters: all of them.
        peers: the others, but this node.
        is_voter: whether this life of this node votes, and counts.
        quorum: how many voters make a majority.
    """

    membership: Membership
    voters: tuple[NodeId, ...]
    peers: tuple[NodeId, ...]
    is_voter: bool
    quorum: int


class Standing:
    """See the module's docstring.

    Args:
        self_id: this node.
        incarnation: which life of it.
        base: the newest snapshot's membership; an empty one where there is no snapshot.
        log: entries and hard state.
        timing: the timers.
        below: draws an integer from 0 up to, not including, its argument.

    Attributes:
        base: as above; replaced with an installed snapshot.
        now_ns: the monotonic time of the event being handled.
        role: see `Role`.
        leader: whom this node takes for the leader of its term; None if unknown.
        commit: highest index known committed. Never falls while the process lives.
        outbox: what is to be sent, in order; the driver empties it.
        unwelcome: peers whose connection is to be closed: they were removed. The driver empties it.
    """

    def __init__(
        self,
        self_id: NodeId,
        incarnation: int,
        base: Membership,
        log: Log,
        timing: Timing,
        below: Callable[[int], int],
    ) -> None:
        self.self_id = self_id
        self.incarnation = incarnation
        self.base = base
        self.log = log
        self.timing = timing
        self.now_ns = 0
        self.role = Role.FOLLOWER
        self.leader: NodeId | None = None
        self.commit = log.first_index - 1
        self.outbox: list[Outgoing] = []
        self.unwelcome: list[NodeId] = []
        self._below = below
        self._hard_state_lsn = 0  # what was read at the start is durable
        self._decoded: list[tuple[Entry, Membership]] = []  # those asked for of late
        self._derived: Electorate | None = None
        self._derived_from: Entry | None = None
        self._judged: tuple[Membership | None, str | None] = None, None
        if log.last_term > self.term:
            # A received snapshot was durable, and the term that it came in was not yet. There
            # was that term; and nothing was said in it, as that would have waited for it.
            self.enter(log.last_term, None)

    # Who belongs to the cluster.

    @property
    def membership(self) -> Membership:
        """The one in force: the log's newest, committed or not. Empty before there is any."""
        return self.electorate.membership

    @property
    def committed_membership(self) -> Membership:
        """The newest that is known to be committed."""
        return self._at(self.commit)

    @property
    def is_membership_committed(self) -> bool:
        """Whether the one in force is committed."""
        entry = self.log.config(self.log.last_index)
        return entry is None or entry.index <= self.commit

    @property
    def voters(self) -> tuple[NodeId, ...]:
        """All voters; perhaps this node is one."""
        return self.electorate.voters

    @property
    def is_voter(self) -> bool:
        """Whether this life of this node votes, and counts."""
        return self.electorate.is_voter

    @property
    def may_stand(self) -> bool:
        """Whether this node may ask for votes: as a voter, or one whose removal is not committed.

        Its log may be the longest, with its own removal in it: if it stood back, nobody
        could be elected. It counts its own vote only as a voter.
        Source: thesis, 4.2.2 ("might still be needed until the Cnew entry is committed").
        """
        entry = self.log.config(self.log.last_index)
        if self.is_voter or entry is None or entry.index <= self.commit:
            return self.is_voter
        own = self._at(entry.index - 1).get(self.self_id)
        return own is not None and own.incarnation == self.incarnation and own.votes

    @property
    def peers(self) -> tuple[NodeId, ...]:
        """The other voters."""
        return self.electorate.peers

    @property
    def quorum(self) -> int:
        """How many voters make a majority."""
        return self.electorate.quorum

    @property
    def why_removed(self) -> str | None:
        """Why this life of this node is no part of the cluster any more, for good."""
        committed = self.committed_membership
        if self._judged[0] is not committed:
            self._judged = committed, committed.why_over(self.self_id, self.incarnation)
        return self._judged[1]

    @property
    def electorate(self) -> Electorate:
        """Who votes in the membership in force; worked out once for each.

        For those who ask for several parts of it: to find which it is takes longer.
        """
        index = self.log.last_index
        derived, entry = self._derived, self.log.config(index)
        if derived is not None and entry is not None and entry is self._derived_from:
            return derived  # as nearly always
        membership, self._derived_from = self._at(index), entry
        if derived is None or derived.membership is not membership:
            voters, own = membership.voters, membership.get(self.self_id)
            is_voter = own is not None and own.incarnation == self.incarnation and own.votes
            peers = tuple(voter for voter in voters if voter != self.self_id)
            quorum = len(voters) // 2 + 1
            self._derived = derived = Electorate(membership, voters, peers, is_voter, quorum)
        return derived

    def _at(self, index: int) -> Membership:
        """Return the membership of the log up to an index."""
        entry = self.log.config(index)
        if entry is None:
            return self.base
        for each in self._decoded:  # nearly always the first
            if each[0] is entry:
                return each[1]
        try:
            membership = decode(entry.data)
        except ValueError as error:
            raise Invariant(f"entry {entry.index} is no membership: {error}") from None
        self._decoded = [(entry, membership), *self._decoded[:1]]
        return membership

    # What it says.

    @property
    def term(self) -> int:
        """The current term."""
        return self.log.hard_state.term

    @property
    def is_hard_state_durable(self) -> bool:
        """Whether the current term, and the vote in it, would survive a power cut."""
        return self.log.durable >= self._hard_state_lsn

    def enter(self, term: int, vote: NodeId | None) -> None:
        """Enter a term, or give the vote in the present one."""
        self._hard_state_lsn = self.log.set_hard_state(term, vote)

    def send(self, to: NodeId, message: Message) -> None:
        """Queue a message; it leaves once the hard state it speaks from is durable.

        Without that a node could, after a power cut, vote twice in a term, or
        acknowledge in a term it has forgotten. Source: Raft paper, figure 2,
        "updated on stable storage before responding to RPCs".
        """
        self.outbox.append(Outgoing(to, message, self._hard_state_lsn))

    def check_leads(self, term: int) -> None:
        """Raise unless this node leads that term.

        Raises:
            NotLeader, NoLeader: definite.
        """
        if self.role is Role.LEADER and term == self.term:
            return
        if self.leader not in (None, self.self_id):
            raise NotLeader(f"{self.leader} leads", leader=str(self.leader))
        raise NoLeader(f"this node does not lead term {term}", retry_after_ms=self.timing.retry_ms)

    def after_ms(self, least: int, most: int) -> int:
        """Return a moment drawn between so many milliseconds from now."""
        span = (most - least) * MS
        return self.now_ns + least * MS + (self._below(span) if span else 0)

    def is_up_to_date(self, last_term: int, last_index: int) -> bool:
        """Return whether a log that ends so is at least as up to date as ours.

        Source: Raft paper, 5.4.1.
        """
        return (last_term, last_index) >= (self.log.last_term, self.log.last_index)
