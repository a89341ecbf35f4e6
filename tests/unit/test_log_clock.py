"""Log time between entries: elapsed time, whoever leads."""

from __future__ import annotations

import pytest

from coordinator.core.effects import Applied
from coordinator.log_clock import LogClock
from coordinator.raft.segments.layout import Entry
from coordinator.raft.timing import MS
from coordinator.replica import Replica
from raftbatch import records as r
from raftbatch.codec import encode_entry
from raftbatch.settings import Policy


class HandClock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.ns = 77 * MS

    def monotonic_ns(self) -> int:
        """Return what was set."""
        return self.ns

    def wall_ms(self) -> int:
        """Return nothing: nobody may ask."""
        raise AssertionError


class Bench:
    """A log clock over a replica."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.replica = Replica()
        self.log_clock = LogClock(self.clock, self.replica)
        self.replica.listeners.append(self.log_clock)

    def apply(self, term: int, at_ms: int, *records: r.Record, own_term: int = 0) -> None:
        """Apply the next entry."""
        first = records or (r.Lead("n", 0, 1),)
        data = encode_entry(r.Entry(own_term or term, at_ms, first))
        self.replica.apply(Entry(self.replica.index + 1, term, data))

    def passes(self, us: int) -> None:
        """Let microseconds pass."""
        self.clock.ns += us * 1000


def test_log_time_begins_at_one() -> None:
    bench = Bench()
    assert bench.log_clock.now_ms() == 1
    bench.passes(5_999)
    assert bench.log_clock.now_ms() == 5


def test_follower_counts_from_when_it_applied_the_last_entry() -> None:
    bench = Bench()
    bench.passes(50_000_000)
    bench.apply(1, 1000)
    assert bench.log_clock.now_ms() == 1000
    bench.passes(30_500)
    assert bench.log_clock.now_ms() == 1030
    bench.apply(1, 1010, r.Advance())  # this node's own clock was fast, or the way short
    assert bench.log_clock.now_ms() == 1010


def test_leader_counts_on_by_its_own_clock_and_loses_nothing_by_rounding() -> None:
    bench = Bench()
    bench.apply(1, 1000)
    bench.passes(700)
    bench.log_clock.leads(2)
    for _ in range(1000):
        bench.passes(900)
        at_ms = bench.log_clock.now_ms()
        bench.passes(90)
        bench.apply(2, at_ms, *([] if bench.replica.state.term < 2 else [r.Advance()]))
    assert bench.log_clock.now_ms() == 1000 + (700 + 990 * 1000) // 1000


def test_inherited_entries_move_a_leaders_time_forward_alone() -> None:
    bench = Bench()
    bench.apply(1, 1000)
    bench.passes(100_000)
    bench.log_clock.leads(2)
    bench.apply(1, 1050, r.Advance())
    assert bench.log_clock.now_ms() == 1100
    bench.apply(1, 1150, r.Advance())
    assert bench.log_clock.now_ms() == 1150
    bench.apply(3, 1120)  # deposed
    bench.passes(1_000)
    assert bench.log_clock.now_ms() == 1151  # log time itself never goes back


def test_entry_that_was_refused_moves_no_time() -> None:
    bench = Bench()
    bench.apply(1, 1000)
    bench.passes(100_000)
    bench.apply(2, 5000, r.Advance(), own_term=1)
    assert bench.replica.state.now_ms == 1000
    assert bench.log_clock.now_ms() == 1100


def test_delay_is_exact() -> None:
    bench = Bench()
    bench.apply(1, 1000)
    bench.passes(250)
    assert bench.log_clock.delay_s(1001) == pytest.approx(0.00075)
    bench.passes(750)
    assert bench.log_clock.delay_s(1001) == 0
    assert bench.log_clock.now_ms() == 1001
    bench.passes(1000)
    assert bench.log_clock.delay_s(1001) == pytest.approx(-0.001)


def test_snapshot_sets_the_time() -> None:
    bench = Bench()
    bench.apply(1, 1000)
    bench.passes(3_000_000)
    bench.replica.state.now_ms = 2000
    bench.log_clock.installed()
    assert bench.log_clock.now_ms() == 2000
    bench.log_clock.leads(2)
    bench.passes(9_000)
    bench.log_clock.installed()  # it leads by now: never back
    assert bench.log_clock.now_ms() == 2009


def test_restart_counts_the_time_in_which_nobody_was_there() -> None:
    bench = Bench()
    bench.log_clock.restarted(noted_ms=900, gap_ms=60_000, index=2)
    bench.passes(2_000)
    bench.apply(1, 800)
    assert bench.log_clock.now_ms() == 60_902
    bench.apply(1, 1000, r.Advance())
    bench.passes(3_000)
    assert bench.log_clock.now_ms() == 60_905
    bench.apply(1, 1500, r.Advance())  # news: somebody led meanwhile, and counted
    assert bench.log_clock.now_ms() == 1500


def test_restart_counts_no_more_than_the_policy_allows_and_never_back() -> None:
    bench = Bench()
    bench.log_clock.restarted(noted_ms=1000, gap_ms=10_000_000, index=2)
    bench.apply(1, 1000)
    bench.apply(1, 1000, r.PutPolicy(Policy(log_time_gap_ms_max=5000)))
    assert bench.log_clock.now_ms() == 6000
    bench = Bench()
    bench.log_clock.restarted(noted_ms=500, gap_ms=-3000, index=1)
    bench.apply(1, 1000)
    assert bench.log_clock.now_ms() == 1000


def test_restart_counts_nothing_before_a_policy_is_known() -> None:
    bench = Bench()
    bench.log_clock.restarted(noted_ms=1000, gap_ms=10_000_000, index=2)
    assert bench.log_clock.now_ms() == 1
    assert bench.log_clock.delay_s(1001) == pytest.approx(1.001)
    bench.log_clock.leads(2)  # of what is on its disk nothing is applied yet
    bench.apply(1, 1000)
    bench.apply(1, 1000, r.PutPolicy(Policy(log_time_gap_ms_max=5000)))
    assert bench.log_clock.now_ms() == 6000
    assert bench.log_clock.delay_s(6001) == pytest.approx(0.001)


def test_restart_counts_the_time_since_whatever_the_policy_allows_before() -> None:
    """Only the time without a process is in doubt."""
    bench = Bench()
    bench.log_clock.restarted(noted_ms=1000, gap_ms=10_000_000, index=2)
    bench.passes(7_000_000)
    bench.apply(1, 1000)
    bench.apply(1, 1000, r.PutPolicy(Policy(log_time_gap_ms_max=5000)))
    assert bench.log_clock.now_ms() == 13_000


def test_leader_that_restarted_goes_on_from_what_it_counted() -> None:
    bench = Bench()
    bench.log_clock.restarted(noted_ms=1000, gap_ms=4000, index=1)
    bench.apply(1, 1000)
    bench.log_clock.leads(2)
    bench.passes(1_700)
    at_ms = bench.log_clock.now_ms()
    assert at_ms == 5001
    bench.passes(500)
    bench.apply(2, at_ms)  # its Lead: the policy may change from here on, time does not
    bench.apply(2, at_ms, r.PutPolicy(Policy(log_time_gap_ms_max=1)))
    assert bench.log_clock.now_ms() == 5002
    assert bench.log_clock.delay_s(5003) == pytest.approx(0.0008)


def test_snapshot_of_what_came_after_the_restart_is_news() -> None:
    bench = Bench()
    bench.log_clock.restarted(noted_ms=1000, gap_ms=4000, index=3)
    bench.apply(1, 1000)
    bench.replica.state.index = 3
    bench.log_clock.installed()
    assert bench.log_clock.now_ms() == 5000
    bench.replica.state.index, bench.replica.state.now_ms = 4, 2000
    bench.log_clock.installed()
    assert bench.log_clock.now_ms() == 2000


def test_listener_needs_nothing_of_what_was_done() -> None:
    bench = Bench()
    bench.log_clock.applied(1, 1, r.Entry(1, 5, ()), Applied((), ()))
    assert bench.log_clock.now_ms() == 1
