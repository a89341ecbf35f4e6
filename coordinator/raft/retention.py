"""How much of the past a node keeps: which snapshots, and from where on the log.

What lives here: the decision, as arithmetic. What must never live here: a file,
or the removal itself (`snapshots`, `segments`). Called by: `datadir`, after a
snapshot. Total. Deterministic.

Everything that a restart needs is kept whatever the limits say: the newest
snapshot and the log behind it. So are `trailing_entries` before it, so that a
follower which is a little behind gets entries and not a snapshot. What is older
is kept for inspection, as far as the limits allow, and only where it is of use:
a snapshot with every entry since. So every retained index above the oldest kept
snapshot can be replayed; those below it, which trail or share a segment, cannot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from coordinator.raft.segments.index import SegmentSpan


@dataclass(frozen=True, slots=True)
class SnapshotSpan:
    """A snapshot, as far as retention is concerned.

    Attributes:
        index: the last log index whose effects it holds, from 1.
        bytes: what it takes on disk.
    """

    index: int
    bytes: int


@dataclass(frozen=True, slots=True)
class RetentionLimits:
    """How much is kept for inspection.

    Attributes:
        log_retention_bytes: what all segments together, and the snapshots before the newest, may
            take on disk. Reached by what a restart needs alone, nothing is kept beyond that.
        log_retention_ms: how long ago a kept segment may have been sealed, by the wall clock.
        trailing_entries: entries kept before the newest snapshot, so that a follower
            that is a little behind needs no snapshot; whatever the limits above say.
        trailing_bytes_max: what those may take on disk; older ones go first.
        transfer_bytes_max: what the log may take on disk for the sake of a follower
            that is being sent a snapshot, and needs what follows it next.
        snapshots_kept_max: from 1, the newest included.

    Raises:
        ValueError: a limit is out of range.
    """

    log_retention_bytes: int
    log_retention_ms: int
    trailing_entries: int
    trailing_bytes_max: int = 256 << 20
    transfer_bytes_max: int = 1 << 30
    snapshots_kept_max: int = 3

    def __post_init__(self) -> None:
        if self.snapshots_kept_max < 1:
            raise ValueError(f"snapshots_kept_max is {self.snapshots_kept_max}: at least 1")
        if min(self.log_retention_bytes, self.log_retention_ms, self.trailing_entries) < 0:
            raise ValueError("a retention limit is negative")


@dataclass(frozen=True, slots=True)
class Retain:
    """The decision. Snapshots go before segments or after: neither order is unsafe.

    Attributes:
        base_index: the oldest snapshot to keep; every entry above it that is kept can be
            replayed from it. 0: keep everything.
        compact_to_index: the journal may drop its leading sealed segments whose entries are all
            at or below it. Never above `base_index`.
    """

    base_index: int
    compact_to_index: int


def retain(
    snapshots: Sequence[SnapshotSpan],
    segments: Sequence[SegmentSpan],
    now_ms: int,
    limits: RetentionLimits,
) -> Retain:
    """Decide what to keep. Total. Deterministic.

    The base is the oldest of the last `snapshots_kept_max` snapshots from which
    the log can be replayed without a gap, and with which everything stays within
    the limits on bytes and age; failing that, the newest.

    Args:
        snapshots: those there are, ascending, all verified or written whole.
        segments: those there are, ascending; the last one is open.
        now_ms: wall clock. One that went back keeps more, never less than is needed.
        limits: how much may be kept.
    """
    if not snapshots:
        return Retain(0, 0)
    newest = snapshots[-1].index
    trailing = _trailing_from(segments, newest, limits)
    replay_from = _replayable_from(segments)
    log_end = segments[-1].last_index if segments else 0
    candidates = snapshots[-limits.snapshots_kept_max :]
    for position, snapshot in enumerate(candidates[:-1]):
        base = snapshot.index
        kept = kept_segments(segments, min(base, trailing))
        taken = sum(s.bytes for s in kept) + sum(s.bytes for s in candidates[position:-1])
        if (
            replay_from <= base + 1
            and newest <= log_end
            and taken <= limits.log_retention_bytes
            and all(now_ms - s.sealed_ms <= limits.log_retention_ms for s in kept[:-1])
        ):
            return Retain(base, min(base, trailing))
    return Retain(newest, min(newest, trailing))


def kept_segments(segments: Sequence[SegmentSpan], compact_to_index: int) -> Sequence[SegmentSpan]:
    """Return the segments that stay: from the first that holds an entry above that index on.

    The open segment always stays. Total. Deterministic.
    """
    for position, segment in enumerate(segments):
        if segment.last_index > compact_to_index:
            return segments[position:]
    return segments[-1:]


def _trailing_from(segments: Sequence[SegmentSpan], newest: int, limits: RetentionLimits) -> int:
    """Return the index up to which the log may go, for what trails the newest snapshot."""
    trailing = max(0, newest - limits.trailing_entries)
    for segment in segments[:-1]:
        kept = kept_segments(segments, trailing)
        before = [each for each in kept if each.first_index <= newest]
        if sum(each.bytes for each in before) <= limits.trailing_bytes_max:
            break
        trailing = max(trailing, min(segment.last_index, newest))
    return trailing


def _replayable_from(segments: Sequence[SegmentSpan]) -> int:
    """Return the lowest index from which the log reaches its end without a gap."""
    start = segments[-1].first_index if segments else 0
    for before in reversed(segments[:-1]):
        if before.last_index != start - 1:
            break
        start = before.first_index
    return start
