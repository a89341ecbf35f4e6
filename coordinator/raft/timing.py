"""The timers of consensus, and how they depend on one another.

What lives here: the settings. What must never live here: a clock. Called by:
the core, configuration. Total. Deterministic.
"""

from __future__ import annotations

from dataclasses import dataclass

MS = 1_000_000
"""Nanoseconds in a millisecond: the core counts in ns, people in ms."""
LATE_NS_MIN = 10 * MS
"""A timer that rings later lets what has come be heard first: the process stood still."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Timers, in milliseconds.

    Attributes:
        heartbeat_ms: how often a leader that has nothing to say says so. A
            follower must miss several before it acts: at most a third of the next.
        election_ms_min: how long a follower waits for a silent leader, at least.
            Must exceed any stall that a healthy node may have (a slow network
            round, a pause for memory), or healthy leaders are deposed.
        election_ms_max: at most; each draws its own between the two, anew whenever it
            stands or votes, so that followers seldom wake together. Also how long
            a leader goes on without hearing from a majority (CheckQuorum).
        failover_ms_max: how long a follower whose connection to the leader broke
            waits, at most, before it asks around; drawn each time. A process
            that died is noticed so, long before the timeout.
        retry_ms: how long an election or a pre-vote may take before it is begun
            anew; between once and twice that, drawn each time. Some round trips.

    Raises:
        ValueError: they cannot hold together; the message names the two.
    """

    heartbeat_ms: int = 50
    election_ms_min: int = 300
    election_ms_max: int = 600
    failover_ms_max: int = 10
    retry_ms: int = 25

    def __post_init__(self) -> None:
        if min(self.heartbeat_ms, self.failover_ms_max, self.retry_ms) < 1:
            raise ValueError(f"a timer is below 1 ms: {self}")
        if self.heartbeat_ms * 3 > self.election_ms_min:
            raise ValueError(
                f"election_ms_min = {self.election_ms_min} is less than three times "
                f"heartbeat_ms = {self.heartbeat_ms}: one lost heartbeat would depose a leader"
            )
        if self.election_ms_max < self.election_ms_min:
            raise ValueError(
                f"election_ms_max = {self.election_ms_max} is less than "
                f"election_ms_min = {self.election_ms_min}"
            )
