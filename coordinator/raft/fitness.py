"""Whether this node's disk is fit for a leader's work.

A disk that hangs answers nothing, so nothing that waits for an answer can notice
it: what is noticed here is that no answer has come for too long. What lives here:
that judgement. What must never live here: what follows from it (`core`). Called
by: `driver`.
"""

from __future__ import annotations

from coordinator.raft.journal import Journal
from coordinator.raft.segments.limits import Space
from coordinator.raft.timing import MS, Timing

_HUNG_TIMEOUTS = 4
"""A disk that takes so many of the longest election timeouts for one group hangs: by
default 2.4 s. A busy one takes tens of ms; another leader takes less than that to find."""


class Fitness:
    """See the module's docstring.

    Args:
        journal: whose disk it is.
        timing: the timers.
        now_ns: the monotonic time.
    """

    def __init__(self, journal: Journal, timing: Timing, now_ns: int) -> None:
        self._journal = journal
        self._hung_ns = _HUNG_TIMEOUTS * timing.election_ms_max * MS
        self._moved_ns = self._looked_ns = now_ns

    def look(self, now_ns: int) -> None:
        """Take note if nothing waits for the disk; called often.

        Where it was not, this process stood still, and its disk perhaps did not: what that
        has done meanwhile is about to be heard of.
        """
        has_stalled = now_ns - self._looked_ns >= self._hung_ns // 2
        if has_stalled or self._journal.durable == self._journal.lsn:
            self._moved_ns = now_ns
        self._looked_ns = now_ns

    def moved(self, now_ns: int) -> None:
        """Take note that the disk has done something."""
        self._moved_ns = now_ns

    def may_lead(self, now_ns: int) -> bool:
        """Return whether the disk has room, and works."""
        self.look(now_ns)
        journal = self._journal
        if journal.space is Space.RESERVE or journal.stalled is not None:
            return False
        return now_ns - self._moved_ns < self._hung_ns
