"""What a leader believes of a follower: the transitions, and what always holds of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.raft.commit import committed, majority_at
from coordinator.raft.parting import last_of_term
from coordinator.raft.progress import Feeding, Progress
from tests.scenarios.fakes import FakeLog, meta

INDICES = st.integers(0, 30)
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("sent"), st.integers(1, 4), st.integers(0, 500)),
        st.tuples(st.just("acknowledged"), INDICES, st.just(0)),
        st.tuples(st.just("rejected"), st.integers(1, 30), INDICES),
        st.tuples(st.just("needs_snapshot"), st.integers(1, 30), st.just(0)),
        st.tuples(st.just("has_of_snapshot"), st.integers(1, 30), st.integers(0, 20)),
        st.tuples(st.just("installed"), st.just(0), st.just(0)),
        st.tuples(st.just("connected"), st.just(0), st.just(0)),
        st.tuples(st.just("disconnected"), st.just(0), st.just(0)),
    ),
    max_size=40,
)


def step(progress: Progress, name: str, first: int, second: int) -> None:
    """Let one event happen, as far as the leader would let it."""
    match name:
        case "sent":
            if progress.feeding is Feeding.REPLICATE:
                progress.sent(progress.next + first - 1, second)
        case "acknowledged":
            progress.acknowledged(first)
        case "rejected":
            progress.rejected(first, min(second, first - 1))
        case "needs_snapshot":
            progress.needs_snapshot(meta(first, 1))
        case "has_of_snapshot":
            progress.has_of_snapshot(first, second, first)
        case "installed":
            if progress.snapshot is not None:
                progress.installed()
        case "connected":
            progress.connected()
        case "disconnected":
            progress.disconnected()


@given(next_index=st.integers(1, 20), events=EVENTS)
def test_progress_invariants_hold_whatever_happens(
    next_index: int, events: list[tuple[str, int, int]]
) -> None:
    progress = Progress(1, next_index, 0, is_connected=True)
    for event in events:
        match = progress.match
        step(progress, *event)
        assert progress.match >= match, "match never falls"
        assert progress.next > progress.match
        flights = list(progress._in_flight)
        assert progress.in_flight_bytes == sum(size for _, size in flights) >= 0
        assert flights == sorted(flights, key=lambda flight: flight[0])
        assert (progress.feeding is Feeding.SNAPSHOT) == (progress.snapshot is not None)
        if progress.feeding is not Feeding.REPLICATE:
            assert progress.in_flight_bytes == 0
        if progress.snapshot is not None:
            assert 0 <= progress.offset <= progress.snapshot.content_bytes


@given(next_index=st.integers(1, 30), hints=st.lists(INDICES, max_size=30))
def test_progress_probe_ends(next_index: int, hints: list[int]) -> None:
    """Every answer to a probe that says no brings the next one further down."""
    progress = Progress(1, next_index, 0, is_connected=True)
    for hint in hints:
        before = progress.next
        if before == 1:
            break
        progress.rejected(before - 1, min(hint, before - 2))
        assert 1 <= progress.next < before


def test_progress_leaves_probe_where_the_follower_is() -> None:
    progress = Progress(1, 9, 0, is_connected=True)
    assert progress.acknowledged(4)
    assert (progress.feeding, progress.match, progress.next) == (Feeding.PROBE, 4, 9)
    assert progress.acknowledged(8)
    assert (progress.feeding, progress.match, progress.next) == (Feeding.REPLICATE, 8, 9)
    progress.sent(11, 100)
    assert not progress.acknowledged(8), "no news"
    assert (progress.next, progress.in_flight_bytes) == (12, 100)
    assert progress.acknowledged(11)
    assert progress.in_flight_bytes == 0


def test_progress_ignores_a_refusal_that_is_old() -> None:
    progress = Progress(1, 7, 0, is_connected=True)
    progress.acknowledged(6)
    progress.rejected(5, 2)
    assert (progress.feeding, progress.next) == (Feeding.REPLICATE, 7), "it holds that"
    progress.rejected(8, 3)
    assert (progress.feeding, progress.next) == (Feeding.PROBE, 7), "never below what it holds"
    progress.rejected(8, 3)
    assert progress.next == 7, "an answer to what was sent before the probe"
    probing = Progress(1, 9, 0, is_connected=True)
    probing.rejected(8, 5)
    probing.is_waiting = True
    probing.rejected(8, 2)
    assert (probing.next, probing.is_waiting) == (6, True), "the probe at 5 is under way"


def test_progress_begins_anew_with_a_connection() -> None:
    progress = Progress(1, 5, 0, is_connected=True)
    progress.acknowledged(4)
    progress.sent(9, 100)
    progress.is_waiting = True
    progress.disconnected()
    progress.connected()
    assert (progress.feeding, progress.next, progress.is_waiting) == (Feeding.PROBE, 5, False)
    assert progress.in_flight_bytes == 0


def test_progress_sends_a_piece_once_for_all_who_say_the_same() -> None:
    progress = Progress(1, 1, 0, is_connected=True)
    progress.needs_snapshot(meta(5, 1))
    progress.is_waiting, progress.piece_round = True, 3
    progress.has_of_snapshot(5, 4, 3)
    assert (progress.offset, progress.is_waiting) == (4, False)
    progress.is_waiting, progress.piece_round = True, None
    progress.has_of_snapshot(5, 4, 4)
    assert progress.is_waiting, "the piece is being read"
    progress.piece_round = 4
    progress.has_of_snapshot(5, 4, 4)
    assert progress.is_waiting, "it answers what was sent before the piece"
    progress.has_of_snapshot(5, 4, 5)
    assert (progress.offset, progress.is_waiting) == (4, False), "the piece was lost"
    progress.is_waiting = True
    progress.has_of_snapshot(4, 0, 9)
    assert (progress.offset, progress.is_waiting) == (4, True), "another snapshot"


def slow_majority(values: list[int], quorum: int) -> int:
    """Count for each value how many reach it."""
    return max(v for v in values if sum(other >= v for other in values) >= quorum)


@given(values=st.lists(st.integers(0, 50), min_size=1, max_size=9))
def test_majority_is_what_counting_says(values: list[int]) -> None:
    quorum = len(values) // 2 + 1
    assert majority_at(values, quorum) == slow_majority(values, quorum)


@given(
    steps=st.lists(st.integers(0, 2), min_size=1, max_size=12),
    held=st.lists(st.integers(0, 12), min_size=3, max_size=5),
    commit=st.integers(0, 12),
    later=st.integers(0, 1),
)
def test_committed_is_of_the_leaders_term_and_never_falls(
    steps: list[int], held: list[int], commit: int, later: int
) -> None:
    terms = [1 + sum(steps[: at + 1]) for at in range(len(steps))]
    log, term = FakeLog(*terms), terms[-1] + later
    quorum = len(held) // 2 + 1
    held = [min(index, log.last_index) for index in held]
    found = committed(held, quorum, log, term, commit)
    assert found >= commit
    if found > commit:
        assert log.term(found) == term
        assert sum(index >= found for index in held) >= quorum


@pytest.mark.parametrize(("term", "index"), [(0, 1), (1, 2), (2, 2), (3, 5), (9, 6)])
def test_last_of_term_skips_later_terms(term: int, index: int) -> None:
    log = FakeLog(1, 1, 3, 3, 3, 4)
    assert last_of_term(log, term, 1, 6) == index


@given(
    steps=st.lists(st.integers(0, 2), max_size=20), term=st.integers(0, 40), low=st.integers(0, 9)
)
def test_last_of_term_is_what_looking_at_each_says(steps: list[int], term: int, low: int) -> None:
    log = FakeLog(*[1 + sum(steps[: at + 1]) for at in range(len(steps))])
    high = log.last_index
    low = min(low, high)
    slow = high
    while slow > low and (log.term(slow) or 0) > term:
        slow -= 1
    assert last_of_term(log, term, low, high) == slow
