"""What a leader is made of beside its rules: settings, counts, and its parts.

What lives here: values, and what is needed of the log. What must never live here:
what is done with them. Called by: `leader`, `leadership`, the composition root.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from coordinator.core.effects import Applied, Verdict
from coordinator.core.flights import Flight
from coordinator.core.unbegun import UNBEGUN_MS
from coordinator.log_clock import LogClock
from coordinator.proposer import Group
from coordinator.raft.proposals import Proposal
from coordinator.raft.segments.limits import Space
from coordinator.raft.standing import Role
from coordinator.replica import Replica
from raftbatch import records as r
from raftbatch.errors import Fatal
from raftbatch.ids import Identity, NodeId
from raftbatch.records import Record
from raftbatch.world import Clock

_SMALL_BYTES = 16 << 10
_LARGE_BYTES = 256 << 10  # some milliseconds' work for all nodes

_DECISIONS = r.Admit | r.Seal | r.Assign | r.Bisect | r.Quarantine


class Log(Protocol):
    """What a leader needs of a `ReplicatedLog`; see there."""

    @property
    def failure(self) -> Fatal | None:
        """Why the log has ended; None while it lives."""
        ...

    @property
    def identity(self) -> Identity:
        """Whose log it is."""
        ...

    @property
    def role(self) -> Role:
        """This node's role."""
        ...

    @property
    def term(self) -> int:
        """The current term."""
        ...

    @property
    def leader(self) -> NodeId | None:
        """Who leads, as far as this node knows; perhaps itself."""
        ...

    @property
    def is_caught_up(self) -> bool:
        """Whether this node leads, and all that its log held when its term began is applied."""
        ...

    @property
    def space(self) -> Space:
        """How much room the disk has left."""
        ...

    def watch(self, told: Callable[[], None]) -> None:
        """Call back whenever role, term, leader or `is_caught_up` has changed, and at the end."""
        ...

    def fail(self, error: Fatal) -> None:
        """End, and stop the node for that reason."""
        ...

    def propose(self, term: int, data: bytes) -> Proposal:
        """Append an entry in a term that this node leads, or raise; see `ReplicatedLog`."""
        ...


@dataclass(frozen=True, slots=True)
class LeaderConfig:
    """Settings of a leader.

    Attributes:
        entries_inflight_max: entries that are appended and not applied; more make
            smaller groups.
        entry_bytes_max: most that is grouped into one entry; decisions come on top,
            a few kilobytes mostly. Far below the journal's limit of the same name.
        record_bytes_max: the largest thing that is taken, alone in its entry then;
            with decisions below the journal's `entry_bytes_max`.
        pending_items_max: what may wait for an entry, in number.
        pending_bytes_max: the same, in bytes.
        lease_ms: how long an executor may be silent before it counts as lost.
        unbegun_ms: how long it may hold batches of a model version and run none of them, beyond
            the version's execution timeout, until others get them.
        ready_wait_ms: how long callers wait for a leader that is about to be ready.
        retry_ms: when an entry is offered again that the log refused for now.

    Raises:
        ValueError: they do not go together.
    """

    entries_inflight_max: int = 2
    entry_bytes_max: int = 1 << 20
    record_bytes_max: int = 24 << 20
    pending_items_max: int = 100_000
    pending_bytes_max: int = 64 << 20
    lease_ms: int = 3000
    unbegun_ms: int = UNBEGUN_MS
    ready_wait_ms: int = 2000
    retry_ms: int = 25

    def __post_init__(self) -> None:
        if not 1 <= self.entry_bytes_max <= 4 << 20:
            # Each thing counts as 256 bytes at least, and a record carries 65,536.
            raise ValueError(f"entry_bytes_max = {self.entry_bytes_max} is not in 1 .. {4 << 20}")
        if self.pending_bytes_max < self.record_bytes_max:
            raise ValueError(
                f"pending_bytes_max = {self.pending_bytes_max} is less than "
                f"record_bytes_max = {self.record_bytes_max}: such a record could never be taken"
            )
        if min(self.entries_inflight_max, self.pending_items_max, self.lease_ms) < 1:
            raise ValueError(f"a limit is below 1: {self}")
        if min(self.record_bytes_max, self.ready_wait_ms, self.retry_ms, self.unbegun_ms) < 1:
            raise ValueError(f"a limit is below 1: {self}")


def is_worth_another(in_flight: int, waiting: int) -> bool:
    """Return whether an entry goes before the one in flight has landed.

    Each costs every node as much as some ten requests do: what is made of two halves is done
    sooner as a whole. What is small costs less to send than to wait for, and what is large
    enough by itself need not wait.

    Args:
        in_flight: the inbox's bytes in the newest entry in flight.
        waiting: bytes in the inbox.
    """
    return in_flight < _SMALL_BYTES or waiting >= _LARGE_BYTES


def voids_in(flight: Flight, applied: Applied) -> int:
    """Return how many decisions of an entry were refused."""
    return sum(
        reply.verdict is Verdict.VOID and isinstance(record, _DECISIONS)
        for record, reply in zip(flight.records, applied.replies, strict=True)
    )


@dataclass(slots=True)
class Counts:
    """What a node has done as a leader, in all its terms.

    Attributes:
        entries_total: appended.
        records_total: in them.
        requests_total: in their Admits.
        reports_total: reports of executors that were taken in, to be proposed.
        stale_total: outlooks that turned out to be wrong: each is a bug.
        voids_total: own decisions that were refused: the same.
        held_total: entries that the log refused for now.
        rejected_total: entries that the log would never have taken.
        stalls_total: how often this node stood still, and judged no executor.
    """

    entries_total: int = 0
    records_total: int = 0
    requests_total: int = 0
    reports_total: int = 0
    stale_total: int = 0
    voids_total: int = 0
    held_total: int = 0
    rejected_total: int = 0
    stalls_total: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Sent:
    """An entry of this node's that was made, and in the end appended.

    Attributes:
        term: in which it was made.
        flight: what the outlook knows of it; None: it is the Lead's.
        group: who asked.
        data: its bytes.
    """

    term: int
    flight: Flight | None
    group: Group
    data: bytes


@dataclass(frozen=True, slots=True)
class Parts:
    """What a leadership works with."""

    clock: Clock
    log: Log
    replica: Replica
    log_clock: LogClock
    config: LeaderConfig
    founding: Sequence[Record]
    counts: Counts
