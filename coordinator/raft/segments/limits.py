"""The bounds of a journal, and how they depend on one another.

What lives here: the limits, their defaults, and the check that they can hold
together. What must never live here: how they are enforced. Called by: the
journal, configuration. Total. Deterministic.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from coordinator.raft.segments.layout import DATA_BYTES_MAX

_MIB = 1 << 20


class Space(IntEnum):
    """How much room the disk has left."""

    ROOMY = 0
    """Above both watermarks."""
    LOW = 1
    """The leader should admit nothing new; what finishes work goes on."""
    RESERVE = 2
    """No entry is appended; hard state, snapshot and compaction go on."""


@dataclass(frozen=True, slots=True)
class JournalLimits:
    """Bounds of a journal, all in bytes.

    Attributes:
        segment_bytes: size of a segment file. Preallocated, so also what a nearly
            empty journal takes; compaction frees space in such steps. Larger
            ones waste more, smaller ones cost a few syncs each more often.
        entry_bytes_max: largest entry accepted.
        group_bytes_max: most that is written before a sync; bounds how long a
            small record can wait behind large ones.
        pending_bytes_max: most that may wait for the disk; beyond it `append` refuses.
        tail_bytes_max: most that is kept in memory of what is durable. A follower
            that is further behind is served from disk.
        disk_low_bytes: free space below which `space` is LOW.
        disk_reserve_bytes: free space below which it is RESERVE. Must hold what
            still has to be written then: a snapshot and two segments.
        snapshot_bytes_max: largest snapshot, for that relation.

    Raises:
        ValueError: they cannot hold together; the message names the two.
    """

    segment_bytes: int = 64 * _MIB
    entry_bytes_max: int = 32 * _MIB
    group_bytes_max: int = 8 * _MIB
    pending_bytes_max: int = 128 * _MIB
    tail_bytes_max: int = 32 * _MIB
    disk_low_bytes: int = 2048 * _MIB
    disk_reserve_bytes: int = 1024 * _MIB
    snapshot_bytes_max: int = 768 * _MIB

    def __post_init__(self) -> None:
        needed = self.snapshot_bytes_max + 2 * self.segment_bytes
        if self.segment_bytes < 4096:
            raise ValueError(f"segment_bytes = {self.segment_bytes} is less than 4096")
        if not 1 <= self.entry_bytes_max <= DATA_BYTES_MAX:
            raise ValueError(
                f"entry_bytes_max = {self.entry_bytes_max} is not in 1 .. {DATA_BYTES_MAX}"
            )
        if self.pending_bytes_max < self.entry_bytes_max:
            raise ValueError(
                f"pending_bytes_max = {self.pending_bytes_max} is less than "
                f"entry_bytes_max = {self.entry_bytes_max}: such an entry could never be taken"
            )
        if self.disk_reserve_bytes < needed:
            raise ValueError(
                f"disk_reserve_bytes = {self.disk_reserve_bytes} is less than "
                f"snapshot_bytes_max + 2 * segment_bytes = {needed}: a full disk "
                "could never be compacted"
            )
        if self.disk_low_bytes < self.disk_reserve_bytes:
            raise ValueError(
                f"disk_low_bytes = {self.disk_low_bytes} is less than "
                f"disk_reserve_bytes = {self.disk_reserve_bytes}"
            )

    def space(self, bytes_left: int) -> Space:
        """Return what so many free bytes mean. Total. Deterministic."""
        if bytes_left < self.disk_reserve_bytes:
            return Space.RESERVE
        return Space.LOW if bytes_left < self.disk_low_bytes else Space.ROOMY
