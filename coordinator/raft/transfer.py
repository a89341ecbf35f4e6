"""Handing leadership over: wait until the heir has everything, then tell it to ask for votes.

Meanwhile nothing new is appended, or the heir might never catch up. What lives
here: the leader's side. What must never live here: the election (`election`).
Called by: `core`. Deterministic. Source: thesis, 3.10.
"""

from __future__ import annotations

from collections.abc import Callable

from coordinator.raft.messages import TimeoutNow
from coordinator.raft.standing import Role, Standing
from raftbatch.ids import NodeId

Done = Callable[[bool], None]
"""Told whether this node leads no more."""


class Transfer:
    """At most one transfer at a time.

    Attributes:
        heir: to whom; None while there is no transfer.
        deadline_ns: when it is given up, and proposals are accepted again.
    """

    def __init__(self, standing: Standing) -> None:
        self._standing = standing
        self.heir: NodeId | None = None
        self.deadline_ns = 0
        self._is_told = False
        self._done: Done | None = None

    def begin(self, heir: NodeId, done: Done) -> None:
        """Begin, giving up the one under way."""
        self.end(succeeded=False)
        most = self._standing.timing.election_ms_max
        self.heir, self._done, self._is_told = heir, done, False
        self.deadline_ns = self._standing.after_ms(most, most)

    def holds(self, peer: NodeId, match: int) -> None:
        """Tell the heir to begin once it holds the whole log."""
        standing = self._standing
        if peer == self.heir and match == standing.log.last_index and not self._is_told:
            self._is_told = True
            standing.send(peer, TimeoutNow(standing.term))

    def tick(self) -> None:
        """Give up a transfer that takes too long."""
        if self.heir is not None and self._standing.now_ns >= self.deadline_ns:
            self.end(succeeded=False)

    def end(self, succeeded: bool) -> None:
        """End it: this node has stepped down, or goes on leading."""
        done, self.heir, self._done = self._done, None, None
        if done is not None:
            done(succeeded and self._standing.role is not Role.LEADER)
