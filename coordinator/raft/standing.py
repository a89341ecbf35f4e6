"""What a node is in the cluster at this moment, as far as it knows.

The one piece of state that the objects of the core share: role, leader, commit
index, the log, and what is to be sent. Term and vote are the log's hard state:
there is no second copy that could differ. What lives here: that state, and the
few steps that keep it consistent. What must never live here: a rule of when to
take them (`election`, `appending`, `replication`). Called by: the core's
objects. Deterministic: time and chance come in from outside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum

from coordinator.raft.messages import Message, Outgoing
from coordinator.raft.ports import Log
from coordinator.raft.timing import MS, Timing
from raftbatch.ids import NodeId


class Role(Enum):
    """Raft's roles. Source: Raft paper, figure 4."""

    FOLLOWER = "follower"
    CANDIDATE = "candidate"
    LEADER = "leader"


class Standing:
    """See the module's docstring.

    Args:
        self_id: this node.
        voters: all voters, this node among them.
        log: entries and hard state.
        timing: the timers.
        below: draws an integer from 0 up to, not including, its argument.

    Attributes:
        now_ns: the monotonic time of the event being handled.
        role: see `Role`.
        leader: whom this node takes for the leader of its term; None if unknown.
        commit: highest index known committed. Never falls while the process lives.
        outbox: what is to be sent, in order; the facade empties it.
    """

    def __init__(
        self,
        self_id: NodeId,
        voters: Sequence[NodeId],
        log: Log,
        timing: Timing,
        below: Callable[[int], int],
    ) -> None:
        self.self_id = self_id
        self.voters = tuple(sorted(voters))
        self.peers = tuple(voter for voter in self.voters if voter != self_id)
        self.quorum = len(self.voters) // 2 + 1
        self.log = log
        self.timing = timing
        self.now_ns = 0
        self.role = Role.FOLLOWER
        self.leader: NodeId | None = None
        self.commit = log.first_index - 1
        self.outbox: list[Outgoing] = []
        self._below = below
        self._hard_state_lsn = 0  # what was read at the start is durable

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

    def after_ms(self, least: int, most: int) -> int:
        """Return a moment drawn between so many milliseconds from now."""
        span = (most - least) * MS
        return self.now_ns + least * MS + (self._below(span) if span else 0)

    def is_up_to_date(self, last_term: int, last_index: int) -> bool:
        """Return whether a log that ends so is at least as up to date as ours.

        Source: Raft paper, 5.4.1.
        """
        return (last_term, last_index) >= (self.log.last_term, self.log.last_index)
