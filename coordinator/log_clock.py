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

from dataclasses import dataclass

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
        self._gap: _Gap | None = None

    def now_ms(self) -> int:
        """Return the log time of an entry that would be proposed now; 1 at least."""
        return max(self._now_ns() // MS, 1)

    def delay_s(self, at_ms: int) -> float:
        """Return in how many seconds it will be that log time; negative: it was already."""
        return (at_ms * MS - self._now_ns()) / 1e9

    def leads(self, term: int) -> None:
        """Count on by this node's own clock: it stamps the entries of this term."""
        self._term = term

    def restarted(self, noted_ms: int, gap_ms: int, index: int) -> None:
        """Count the time in which this process was not there.

        How much of it, the policy says: not before one is applied, and by the newest that is.

        Args:
            noted_ms: a log time that it noted in its life before.
            gap_ms: by its wall clock, how long ago that was.
            index: of the last entry on its own disk: those after it are news.
        """
        self._gap = _Gap(noted_ms, max(gap_ms, 0), index, self._clock.monotonic_ns())

    def applied(
        self,
        index: int,
        term: int,
        entry: Entry,
        applied: Applied,  # noqa: ARG002 - a listener is given it
    ) -> None:
        """Begin anew from another leader's entry; from an own one only what is ahead of it."""
        state = self._replica.state
        if entry.term != term:
            return  # it was refused, and time has not moved
        if term > self._term or state.now_ms > self.now_ms():
            self._begin_at(state.now_ms)
        self._close_gap(index)

    def installed(self) -> None:
        """Begin anew from the snapshot."""
        state = self._replica.state
        if state.term > self._term or state.now_ms > self.now_ms():
            self._begin_at(state.now_ms)
        self._close_gap(state.index)

    def _now_ns(self) -> int:
        """Return log time in nanoseconds: counted from the last entry, or over the gap."""
        now_ns = self._clock.monotonic_ns()
        found = self._base_ms * MS + now_ns - self._base_ns
        gap, state = self._gap, self._replica.state
        if gap is None or not state.term:
            return found
        counted_ms = min(gap.gap_ms, state.policy.log_time_gap_ms_max)
        return max(found, (gap.noted_ms + counted_ms) * MS + now_ns - gap.since_ns)

    def _begin_at(self, at_ms: int) -> None:
        self._base_ms = at_ms
        self._base_ns = self._clock.monotonic_ns()

    def _close_gap(self, index: int) -> None:
        """Count the gap no more where another leader has led since; keep it where this node has."""
        gap = self._gap
        if gap is None or index <= gap.index:
            return
        if self._replica.state.term <= self._term:  # the first news are this node's own
            now_ns = self._now_ns()
            self._base_ms = now_ns // MS
            self._base_ns = self._clock.monotonic_ns() - now_ns % MS
        self._gap = None


@dataclass(frozen=True, slots=True)
class _Gap:
    """What is known of the time in which the process was not there.

    Attributes:
        noted_ms: log time before it.
        gap_ms: how long it took since, by the wall clock.
        index: of the last entry that was on the disk after it.
        since_ns: the monotonic time at its end.
    """

    noted_ms: int
    gap_ms: int
    index: int
    since_ns: int
