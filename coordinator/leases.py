"""Leases of executors: who has been heard of lately, by this leader's own clock.

Each live executor has one lease length to be heard of, counted anew with each
heartbeat; a new leader gives all of them one. Before anybody is judged this node
must have been awake: where a tick comes late, its process stood still, and what was
sent to it meanwhile has not been read; then all leases begin anew. What lives here:
who is overdue. What must never live here: what is proposed for it (`leadership`).
Called by: `leadership`. Deterministic.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from coordinator.raft.timing import MS

_TICKS = 8
"""Ticks in a lease: by so much of it, at most, is an executor lost later than it could be."""


class _Lease(NamedTuple):
    incarnation: int
    until_ns: int


class Leases:
    """See the module's docstring.

    Args:
        lease_ms: how long an executor may be silent.
    """

    def __init__(self, lease_ms: int) -> None:
        self._stalls = 0
        self._lease_ns = lease_ms * MS
        self._leases: dict[str, _Lease] = {}  # the one that ends first stands first
        self._lost: dict[str, int] = {}
        self._tick_due_ns: int | None = None

    @property
    def tick_s(self) -> float:
        """Seconds between two calls of `tick`."""
        return self._lease_ns / _TICKS / 1e9

    def begin(self, executors: Iterable[tuple[str, int]], now_ns: int) -> None:
        """Give these executors, by id and incarnation, one lease each."""
        for executor, incarnation in executors:
            self.renew(executor, incarnation, now_ns)

    def renew(self, executor: str, incarnation: int, now_ns: int) -> None:
        """Count anew for an executor that is heard of."""
        self._leases.pop(executor, None)
        self._lost.pop(executor, None)
        self._leases[executor] = _Lease(incarnation, now_ns + self._lease_ns)

    def end(self, executor: str, incarnation: int) -> None:
        """Let an incarnation go: it is over."""
        lease = self._leases.get(executor)
        if lease is not None and lease.incarnation == incarnation:
            del self._leases[executor]
        if self._lost.get(executor) == incarnation:
            del self._lost[executor]

    def tick(self, now_ns: int) -> bool:
        """Judge who is overdue; return whether somebody is lost. To be called every `tick_s`."""
        tick_ns = self._lease_ns // _TICKS
        due_ns, self._tick_due_ns = self._tick_due_ns, now_ns + tick_ns
        if due_ns is not None and now_ns > due_ns + tick_ns:
            self._stalls += 1
            known = [(executor, each.incarnation) for executor, each in self._leases.items()]
            self.begin([*known, *self._lost.items()], now_ns)
            return False
        while self._leases:
            executor, lease = next(iter(self._leases.items()))
            if lease.until_ns > now_ns:
                break
            del self._leases[executor]
            self._lost[executor] = lease.incarnation
        return bool(self._lost)

    def take_lost(self) -> list[tuple[str, int]]:
        """Return those who are lost, by id and incarnation, once."""
        lost = list(self._lost.items())
        self._lost.clear()
        return lost

    def take_stalls(self) -> int:
        """Return how often this node stood still since the last call, and judged nobody."""
        stalls, self._stalls = self._stalls, 0
        return stalls
