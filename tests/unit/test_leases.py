"""Leases of executors: silence is judged by a node that was awake."""

from __future__ import annotations

from coordinator.leases import Leases
from coordinator.raft.timing import MS

TICK = 100 * MS


def _ticks(leases: Leases, from_ns: int, count: int) -> int:
    """Tick on time; return the time of the last tick."""
    for _ in range(count):
        from_ns += TICK
        leases.tick(from_ns)
    return from_ns


def test_executor_is_lost_a_lease_after_it_was_heard_of() -> None:
    leases = Leases(800)
    assert leases.tick_s == 0.1
    leases.begin([("a", 1), ("b", 2)], 0)
    now_ns = _ticks(leases, 0, 4)
    leases.renew("a", 1, now_ns)
    now_ns = _ticks(leases, now_ns, 3)
    assert leases.take_lost() == []
    assert leases.tick(now_ns + TICK)
    assert leases.take_lost() == [("b", 2)]
    assert leases.take_lost() == []
    now_ns = _ticks(leases, now_ns + TICK, 4)
    assert leases.take_lost() == [("a", 1)]


def test_executor_that_is_heard_of_at_the_last_moment_is_not_lost() -> None:
    leases = Leases(800)
    leases.begin([("a", 1), ("b", 1)], 0)
    now_ns = _ticks(leases, 0, 8)
    leases.renew("a", 1, now_ns)
    leases.end("b", 1)
    assert leases.take_lost() == []


def test_incarnation_that_is_over_has_no_lease() -> None:
    leases = Leases(800)
    leases.begin([("a", 1), ("b", 5)], 0)
    leases.end("a", 1)
    leases.renew("b", 6, 0)
    leases.end("b", 5)  # of the life before
    now_ns = _ticks(leases, 0, 9)
    assert leases.take_lost() == [("b", 6)]
    assert not leases.tick(now_ns + TICK)


def test_nobody_is_judged_by_a_node_that_stood_still() -> None:
    leases = Leases(800)
    leases.begin([("a", 1), ("b", 1)], 0)
    now_ns = _ticks(leases, 0, 8)  # lost, and not taken yet
    leases.renew("b", 1, now_ns)
    now_ns += 30 * TICK
    assert not leases.tick(now_ns)
    assert leases.take_lost() == []
    assert (leases.take_stalls(), leases.take_stalls()) == (1, 0)
    now_ns = _ticks(leases, now_ns, 7)
    assert leases.take_lost() == []
    _ticks(leases, now_ns, 1)
    assert leases.take_lost() == [("b", 1), ("a", 1)]
