"""What is kept can be replayed, and is no more than the limits allow."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.raft.retention import (
    Retain,
    RetentionLimits,
    SnapshotSpan,
    kept_segments,
    retain,
)
from coordinator.raft.segments.index import SegmentSpan

AMPLE = RetentionLimits(
    log_retention_bytes=1 << 40, log_retention_ms=1 << 40, trailing_entries=0, snapshots_kept_max=9
)


@dataclass(frozen=True)
class Past:
    """What a node has on its disk."""

    snapshots: tuple[SnapshotSpan, ...]
    segments: tuple[SegmentSpan, ...]
    now_ms: int


@st.composite
def pasts(draw: st.DrawFn) -> Past:
    """Snapshots and segments as a node may have them, also after an install or a lost file."""
    index = draw(st.integers(1, 30))
    segments = []
    sealed_ms = 0
    for seq in range(1, draw(st.integers(0, 6)) + 1):
        index += draw(st.sampled_from([0, 0, 0, 0, 5]))  # 5: a segment is missing here
        entries = draw(st.integers(0, 10))
        sealed_ms += draw(st.integers(0, 50))
        size = draw(st.integers(1, 100))
        segments.append(SegmentSpan(seq, index, index + entries - 1, size, sealed_ms))
        index += entries
    indices = draw(st.sets(st.integers(1, index + 10), max_size=6))
    snapshots = [SnapshotSpan(at, draw(st.integers(1, 100))) for at in sorted(indices)]
    return Past(tuple(snapshots), tuple(segments), sealed_ms + draw(st.integers(0, 100)))


limits_drawn = st.builds(
    RetentionLimits,
    log_retention_bytes=st.integers(0, 600),
    log_retention_ms=st.integers(0, 300),
    trailing_entries=st.integers(0, 40),
    snapshots_kept_max=st.integers(1, 5),
)


def entries_in(segments: Sequence[SegmentSpan]) -> set[int]:
    return {i for s in segments for i in range(s.first_index, s.last_index + 1)}


@given(pasts(), limits_drawn)
def test_every_kept_entry_above_the_base_can_be_replayed(
    past: Past, limits: RetentionLimits
) -> None:
    kept = retain(past.snapshots, past.segments, past.now_ms, limits)
    if not past.snapshots:
        assert kept == Retain(0, 0)
        return
    newest = past.snapshots[-1].index
    assert kept.base_index in {snapshot.index for snapshot in past.snapshots}
    assert kept.compact_to_index <= kept.base_index
    stay = entries_in(kept_segments(past.segments, kept.compact_to_index))
    # Nothing above what may go is dropped.
    assert {i for i in entries_in(past.segments) if i > kept.compact_to_index} <= stay
    if kept.base_index < newest:
        # From an older base on there is no gap, neither before the newest snapshot nor after it.
        end = max(past.segments[-1].last_index, newest)
        assert set(range(kept.base_index + 1, end + 1)) <= stay


@given(pasts(), limits_drawn)
def test_the_limits_hold_beyond_what_a_restart_needs(past: Past, limits: RetentionLimits) -> None:
    kept = retain(past.snapshots, past.segments, past.now_ms, limits)
    stay = [snapshot for snapshot in past.snapshots if snapshot.index >= kept.base_index]
    if not stay:
        return
    assert len(stay) <= limits.snapshots_kept_max
    newest = stay[-1].index
    assert kept.compact_to_index >= min(kept.base_index, newest - limits.trailing_entries)
    if len(stay) > 1:
        segments = kept_segments(past.segments, kept.compact_to_index)
        taken = sum(s.bytes for s in segments) + sum(s.bytes for s in stay[:-1])
        assert taken <= limits.log_retention_bytes
        assert all(past.now_ms - s.sealed_ms <= limits.log_retention_ms for s in segments[:-1])


@given(pasts(), limits_drawn)
def test_no_older_base_would_do(past: Past, limits: RetentionLimits) -> None:
    """The oldest is chosen: with one snapshot more allowed to be the base, a rule is broken."""
    kept = retain(past.snapshots, past.segments, past.now_ms, limits)
    older = [s for s in past.snapshots[-limits.snapshots_kept_max :] if s.index < kept.base_index]
    newest = past.snapshots[-1].index if past.snapshots else 0
    for snapshot in older:
        compact_to = max(0, min(snapshot.index, newest - limits.trailing_entries))
        segments = kept_segments(past.segments, compact_to)
        end = past.segments[-1].last_index if past.segments else 0
        taken = sum(s.bytes for s in segments) + sum(
            s.bytes for s in past.snapshots[:-1] if s.index >= snapshot.index
        )
        whole = set(range(snapshot.index + 1, max(end, newest) + 1)) <= entries_in(past.segments)
        assert (
            not whole
            or taken > limits.log_retention_bytes
            or any(past.now_ms - s.sealed_ms > limits.log_retention_ms for s in segments[:-1])
        )


@given(pasts(), limits_drawn, st.integers(0, 100), st.integers(1, 20))
def test_the_base_never_goes_back_as_time_and_snapshots_go_on(
    past: Past, limits: RetentionLimits, later_ms: int, above: int
) -> None:
    before = retain(past.snapshots, past.segments, past.now_ms, limits)
    later = retain(past.snapshots, past.segments, past.now_ms + later_ms, limits)
    assert later.base_index >= before.base_index
    assert later.compact_to_index >= before.compact_to_index
    last = past.snapshots[-1].index if past.snapshots else 0
    more = (*past.snapshots, SnapshotSpan(last + above, 10))
    newer = retain(more, past.segments, past.now_ms, limits)
    assert newer.base_index >= before.base_index
    assert newer.compact_to_index >= before.compact_to_index


@given(pasts(), limits_drawn)
def test_doing_what_was_decided_changes_nothing_more(past: Past, limits: RetentionLimits) -> None:
    kept = retain(past.snapshots, past.segments, past.now_ms, limits)
    snapshots = [s for s in past.snapshots if s.index >= kept.base_index]
    segments = kept_segments(past.segments, kept.compact_to_index)
    # In either order, and interrupted between the two.
    for some, others in (
        (snapshots, segments),
        (snapshots, past.segments),
        (past.snapshots, segments),
    ):
        assert retain(some, others, past.now_ms, limits) == kept


def three_snapshots() -> Past:
    """Four segments of ten entries and ten bytes, sealed every 100 ms; the last one is open."""
    segments = tuple(
        SegmentSpan(seq, seq * 10 - 9, seq * 10, bytes=10, sealed_ms=seq * 100 if seq < 4 else 0)
        for seq in range(1, 5)
    )
    return Past(tuple(SnapshotSpan(i, 5) for i in (10, 20, 30)), segments, now_ms=400)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, Retain(10, 10)),
        ({"snapshots_kept_max": 2}, Retain(20, 20)),
        ({"snapshots_kept_max": 1}, Retain(30, 30)),
        ({"log_retention_bytes": 40}, Retain(10, 10)),  # 3 segments and 2 snapshots
        ({"log_retention_bytes": 39}, Retain(20, 20)),
        ({"log_retention_bytes": 25}, Retain(20, 20)),
        ({"log_retention_bytes": 24}, Retain(30, 30)),
        ({"log_retention_bytes": 0}, Retain(30, 30)),
        ({"log_retention_ms": 200}, Retain(10, 10)),
        ({"log_retention_ms": 199}, Retain(20, 20)),
        ({"log_retention_ms": 99}, Retain(30, 30)),
        ({"snapshots_kept_max": 1, "trailing_entries": 15}, Retain(30, 15)),
        ({"snapshots_kept_max": 1, "trailing_entries": 99}, Retain(30, 0)),
    ],
)
def test_each_limit_decides_alone(changed: dict[str, int], expected: Retain) -> None:
    past = three_snapshots()
    limits = replace(AMPLE, **changed)
    assert retain(past.snapshots, past.segments, past.now_ms, limits) == expected


def test_a_snapshot_that_came_back_after_a_power_cut_is_no_base() -> None:
    past = three_snapshots()
    segments = past.segments[2:]  # entries 21 and on
    assert retain(past.snapshots, segments, past.now_ms, AMPLE) == Retain(20, 20)


def test_a_snapshot_before_a_gap_is_no_base() -> None:
    past = three_snapshots()
    segments = (past.segments[0], *past.segments[2:])  # entries 11 to 20 are missing
    assert retain(past.snapshots, segments, past.now_ms, AMPLE) == Retain(20, 20)


def test_an_installed_snapshot_beyond_the_log_is_the_base() -> None:
    past = three_snapshots()
    snapshots = (*past.snapshots, SnapshotSpan(99, 5))
    assert retain(snapshots, past.segments, past.now_ms, AMPLE) == Retain(99, 99)
    assert retain(snapshots, (), past.now_ms, AMPLE) == Retain(99, 99)


def test_a_clock_that_went_back_keeps_more() -> None:
    past = three_snapshots()
    limits = replace(AMPLE, log_retention_ms=50)
    assert retain(past.snapshots, past.segments, past.now_ms, limits).base_index == 30
    assert retain(past.snapshots, past.segments, -1000, limits).base_index == 10


@pytest.mark.parametrize(
    "changed",
    [
        {"snapshots_kept_max": 0},
        {"log_retention_bytes": -1},
        {"log_retention_ms": -1},
        {"trailing_entries": -1},
    ],
)
def test_limits_out_of_range_are_refused(changed: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"at least 1|negative"):
        replace(AMPLE, **changed)


def test_trailing_entries_are_bounded_in_bytes() -> None:
    """A hundred entries may be a hundred large ones: the oldest segments go first."""
    segments = [SegmentSpan(seq, seq * 10, seq * 10 + 9, 1000, 0) for seq in range(1, 6)]
    limits = replace(AMPLE, log_retention_bytes=0, trailing_entries=40)
    snapshots = [SnapshotSpan(50, 100)]
    assert retain(snapshots, segments, 0, limits).compact_to_index == 10
    bounded = replace(limits, trailing_bytes_max=2500)
    assert retain(snapshots, segments, 0, bounded).compact_to_index == 39
