"""The follower's log: what it takes, what it takes back, and what it says of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.raft.appending import Appending
from coordinator.raft.messages import AppendEntries, AppendReply
from coordinator.raft.segments.layout import Entry
from coordinator.raft.standing import Standing
from coordinator.raft.timing import MS
from raftbatch.errors import Invariant, NoSpace, Overloaded, PayloadTooLarge
from tests.scenarios.fakes import N2, FakeLog, entries, standing, taken


def follower(log: FakeLog, term: int, commit: int = 0) -> tuple[Standing, Appending]:
    """Return n1, which follows n2."""
    log.set_hard_state(term, None)
    log.sync()
    shared = standing(log)
    shared.leader, shared.commit = N2, commit
    return shared, Appending(shared)


def append(
    term: int, prev: tuple[int, int], sent: tuple[Entry, ...] = (), commit: int = 0, round_: int = 7
) -> AppendEntries:
    """Return what n2 sends."""
    return AppendEntries(term, *prev, sent, commit, round_)


def replies(shared: Standing) -> list[AppendReply]:
    """Take what was said to n2."""
    found = [message for _, message in taken(shared)]
    assert all(isinstance(each, AppendReply) for each in found)
    return [each for each in found if isinstance(each, AppendReply)]


def test_append_never_takes_back_what_is_the_same() -> None:
    log = FakeLog(1, 1, 1, 1, 1)
    _, appending = follower(log, term=1)
    appending.on_append_entries(append(1, (1, 1), entries(2, 1, 1)))
    appending.on_append_entries(append(1, (3, 1)))
    appending.on_append_entries(append(1, (0, 0), entries(1, 1)))
    assert log.terms == [1, 1, 1, 1, 1]


def test_append_takes_back_from_the_first_conflict_on() -> None:
    log = FakeLog(1, 1, 2, 2, 2)
    shared, appending = follower(log, term=3, commit=2)
    appending.on_append_entries(append(3, (2, 1), entries(3, 2, 3), commit=2))
    assert log.terms == [1, 1, 2, 3]
    assert replies(shared) == [AppendReply(3, 4, 0, 0, 0, 7)]


def test_append_never_takes_back_what_is_committed() -> None:
    log = FakeLog(1, 1, 1)
    shared, appending = follower(log, term=2, commit=2)
    appending.on_append_entries(append(2, (0, 0), entries(1, 1, 1, 2)))
    assert log.terms == [1, 1, 2]
    shared.commit = 3
    for message in (
        append(2, (0, 0), entries(1, 1, 2)),
        append(2, (2, 1), entries(3, 1)),
        append(2, (3, 1)),
    ):
        with pytest.raises(Invariant, match="is committed here"):
            appending.on_append_entries(message)
    with pytest.raises(Invariant, match="is committed here"):
        appending._take(2, entries(3, 3))
    assert log.terms == [1, 1, 2]


def test_append_commits_only_what_was_compared() -> None:
    log = FakeLog(1, 1, 1, 1, 1)
    shared, appending = follower(log, term=2)
    appending.on_append_entries(append(2, (2, 1), commit=5))
    assert shared.commit == 2
    appending.on_append_entries(append(2, (4, 9), commit=5))
    assert shared.commit == 2
    appending.on_append_entries(append(2, (2, 1), commit=1))
    assert shared.commit == 2, "it never falls"


def test_word_of_the_leaders_commit_is_remembered_for_its_term_and_commits_nothing() -> None:
    shared, appending = follower(FakeLog(1, 1), term=2)
    appending.on_append_entries(append(2, (2, 1), commit=9))
    appending.on_append_entries(append(2, (2, 1), commit=5))
    assert (appending.heard, shared.commit) == (9, 2)
    appending.reset()
    assert appending.heard == 0


def test_append_is_acknowledged_when_durable_and_again_then() -> None:
    log = FakeLog(1)
    shared, appending = follower(log, term=1)
    log.is_instant = False
    appending.on_append_entries(append(1, (1, 1), entries(2, 1, 1)))
    assert replies(shared) == [AppendReply(1, 1, 0, 0, 0, 7)]
    appending.durable()
    assert replies(shared) == []
    log.sync()
    appending.durable()
    assert replies(shared) == [AppendReply(1, 3, 0, 0, 0, 0)]
    appending.durable()
    assert replies(shared) == [], "no news"


def test_acknowledgement_never_leaks_into_another_term() -> None:
    log = FakeLog(1)
    shared, appending = follower(log, term=1)
    log.is_instant = False
    appending.on_append_entries(append(1, (1, 1), entries(2, 1, 1)))
    taken(shared)
    appending.reset()
    log.sync()
    appending.durable()
    assert replies(shared) == []


@pytest.mark.parametrize(
    ("terms", "prev", "hint", "hint_term"),
    [
        ((1, 1), (5, 1), 2, 1),  # missing
        ((1, 2, 2, 2), (4, 1), 1, 1),  # all of term 2 is skipped
        ((1, 2, 2, 2), (4, 3), 3, 2),  # the leader skips its own of term 3
        ((2, 2, 2), (3, 1), 0, 0),
    ],
)
def test_refusal_says_where_to_try_next(
    terms: tuple[int, ...], prev: tuple[int, int], hint: int, hint_term: int
) -> None:
    shared, appending = follower(FakeLog(*terms), term=4)
    appending.on_append_entries(append(4, prev))
    assert replies(shared) == [AppendReply(4, 0, prev[0], hint, hint_term, 7)]


def test_entries_are_answered_when_they_are_durable_and_news_of_a_commit_never() -> None:
    log = FakeLog(1)
    shared, appending = follower(log, term=1)
    appending.on_append_entries(append(1, (1, 1)))
    assert [each.match for each in replies(shared)] == [1], "a heartbeat"
    log.is_instant = False
    appending.on_append_entries(append(1, (1, 1), entries(2, 1, 1)))
    assert replies(shared) == []
    log.sync()
    appending.durable()
    assert [each.match for each in replies(shared)] == [3]
    appending.on_append_entries(append(1, (3, 1), commit=3))
    assert replies(shared) == []
    assert shared.commit == 3


def test_leader_that_asks_is_answered_though_nothing_is_new() -> None:
    shared, appending = follower(FakeLog(1, 1), term=1)
    for _ in range(2):
        appending.on_append_entries(append(1, (2, 1)))
        assert [each.match for each in replies(shared)] == [2]
    appending.on_append_entries(append(1, (2, 1), commit=1, round_=8))
    assert [each.round for each in replies(shared)] == [8], "a round that began later"
    appending.connected()
    appending.on_append_entries(append(1, (2, 1), commit=2, round_=8))
    assert [each.match for each in replies(shared)] == [2], "the last answer may be lost"


def test_follower_without_room_asks_for_nothing_for_a_while() -> None:
    log = FakeLog(1)
    shared, appending = follower(log, term=1)
    log.refusal = NoSpace("full")
    appending.on_append_entries(append(1, (1, 1), entries(2, 1, 1)))
    appending.on_append_entries(append(1, (3, 1)))
    assert [(each.match, each.rejected) for each in replies(shared)] == [(1, 0), (1, 0)]
    shared.now_ns += 500 * MS
    appending.on_append_entries(append(1, (3, 1)))
    assert [(each.match, each.rejected) for each in replies(shared)] == [(0, 3)]


def test_follower_whose_disk_is_behind_asks_again_as_soon_as_it_moves() -> None:
    log = FakeLog(1)
    shared, appending = follower(log, term=1)
    log.refusal = Overloaded("swamped")
    appending.on_append_entries(append(1, (1, 1), entries(2, 1, 1)))
    appending.on_append_entries(append(1, (3, 1)))
    assert [(each.match, each.rejected) for each in replies(shared)] == [(1, 0), (1, 0)]
    appending.durable()
    appending.on_append_entries(append(1, (3, 1)))
    assert [(each.match, each.rejected) for each in replies(shared)] == [(0, 3)]


def test_entry_above_this_nodes_limit_stops_it_with_advice() -> None:
    log = FakeLog(1)
    _, appending = follower(log, term=1)
    log.refusal = PayloadTooLarge("an entry of 9 bytes exceeds entry_bytes_max = 8")
    with pytest.raises(Invariant, match=r"entry 2, but an entry of 9 bytes .* the same limits"):
        appending.on_append_entries(append(1, (1, 1), entries(2, 1)))


def test_entries_out_of_order_stop_the_node() -> None:
    _, appending = follower(FakeLog(1), term=1)
    with pytest.raises(Invariant, match="sent behind"):
        appending.on_append_entries(append(1, (1, 1), entries(3, 1)))


@given(
    mine=st.lists(st.integers(0, 1), min_size=1, max_size=8),
    theirs=st.lists(st.integers(0, 1), min_size=1, max_size=8),
    common=st.integers(0, 8),
    calls=st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=12),
)
def test_follower_never_holds_what_it_acknowledged_otherwise(
    mine: list[int], theirs: list[int], common: int, calls: list[tuple[int, int]]
) -> None:
    """Any messages of one leader, in any order, repeated: what is acknowledged is the leader's."""
    prefix = [1] * min(common, len(mine), len(theirs))
    log = FakeLog(*prefix, *[2 + sum(mine[: at + 1]) for at in range(len(mine) - len(prefix))])
    leader = FakeLog(*prefix, *[20 + sum(theirs[:at]) for at in range(len(theirs) - len(prefix))])
    shared, appending = follower(log, term=40, commit=0)
    held = 0
    for start, count in calls:
        prev = min(start, leader.last_index)
        sent = leader.tail(prev + 1, 1 << 20)[:count]
        appending.on_append_entries(append(40, (prev, leader.term(prev) or 0), sent, prev + count))
        for reply in replies(shared):
            held = max(held, reply.match)
        assert [log.term(at) for at in range(1, held + 1)] == leader.terms[:held]
        assert shared.commit <= appending.verified
