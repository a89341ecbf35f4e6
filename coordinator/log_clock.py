"""Log time between entries: what a proposer stamps into the next one.

Log time advances by elapsed time, never by comparing two machines' clocks. A node
counts its own monotonic time from the moment at which it applied the last entry of
another leader; while it leads, it goes on counting from there, so that nothing is
lost by rounding. What lives here: that count. What must never live here: wall time.
Called by: the replica, as its first listener; `leader`, and whoever asks what time
it is in the log. One thread: the loop's.

Source: docs/ARCHITECTURE.md, "Log time".
"""

from __future__ import annotations

from coordinator.core.effects import Applied
from coordinator.raft.timing import MS
from coordinator.replica import Replica
from raftbatch.records import Entry
from raftbatch.world import Clock


class LogClock:
    """See the module's docstring. A `replica.Listener`.

    Args:
        clock: of this node.
        replica: whose state says what time it is at least.
    """

    def __init__(self, clock: Clock, replica: Replica) -> None:
        self._clock = clock
        self._replica = replica
        self._term = 0
        self._base_ms = replica.state.now_ms
        self._base_ns = clock.monotonic_ns()
        self._gap_from_ms = 0
        self._gap_until_index = 0
        self._gap_ns = 0

    def now_ms(self) -> int:
        """Return the log time of an entry that would be proposed now; 1 at least."""
        return max(self._base_ms + (self._clock.monotonic_ns() - self._base_ns) // MS, 1)

    def delay_s(self, at_ms: int) -> float:
        """Return in how many seconds it will be that log time; negative: it was already."""
        return ((at_ms - self._base_ms) * MS - self._clock.monotonic_ns() + self._base_ns) / 1e9

    def leads(self, term: int) -> None:
        """Count on by this node's own clock: it stamps the entries of this term."""
        self._term = term

    def restarted(self, noted_ms: int, gap_ms: int, index: int) -> None:
        """Count the time in which this process was not there.

        Args:
            noted_ms: a log time that it noted in its life before.
            gap_ms: by its wall clock, how long ago that was; clamped to what the
                policy allows, once the entries up to `index` are applied.
            index: of the last entry on its own disk: those after it are news.
        """
        self._gap_from_ms = noted_ms
        self._gap_ns = max(gap_ms, 0) * MS - self._clock.monotonic_ns()
        self._gap_until_index = index
        self._count_gap()

    def applied(
        self,
        index: int,
        term: int,
        entry: Entry,
        applied: Applied,  # noqa: ARG002 - a listener is given it
    ) -> None:
        """Begin anew from another leader's entry; from an own one only what is ahead of it."""
        at_ms = self._replica.state.now_ms
        if entry.term != term:
            return  # it was refused, and time has not moved
        if term > self._term or at_ms > self.now_ms():
            self._base_ms = at_ms
            self._base_ns = self._clock.monotonic_ns()
        if index <= self._gap_until_index:
            self._count_gap()

    def installed(self) -> None:
        """Begin anew from the snapshot."""
        state = self._replica.state
        if state.term > self._term or state.now_ms > self.now_ms():
            self._base_ms = state.now_ms
            self._base_ns = self._clock.monotonic_ns()
        if state.index <= self._gap_until_index:
            self._count_gap()

    def _count_gap(self) -> None:
        """Count from the noted moment, where that is further than from the last entry."""
        gap_ns = self._gap_ns + self._clock.monotonic_ns()
        most_ms = self._replica.state.policy.log_time_gap_ms_max
        at_ms = self._gap_from_ms + min(gap_ns // MS, most_ms)
        if at_ms > self.now_ms():
            self._base_ms = at_ms
            self._base_ns = self._clock.monotonic_ns()
