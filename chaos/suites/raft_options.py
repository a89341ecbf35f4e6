"""What one seed of the raft suite is like: every limit and every fault is drawn.

What lives here: the drawing (swarm testing: each seed leaves most of it out). What
must never live here: what is done with it. Called by: `chaos.suites.raft`.
Deterministic.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from chaos.nemesis import Mix
from coordinator.raft.datadir import StorageLimits
from coordinator.raft.log import LogConfig
from coordinator.raft.replication import Window
from coordinator.raft.retention import RetentionLimits
from coordinator.raft.segments.limits import JournalLimits
from coordinator.raft.snapshots import SnapshotLimits
from coordinator.raft.timing import Timing

_K = 1024
_SNAPSHOT_BYTES_MAX = 64 * _K
_ENTRY_BYTES_MAX = 32 * _K


@dataclass(frozen=True, slots=True)
class Options:
    """One seed's.

    Attributes:
        voters: how many.
        log, storage: the product's.
        mix: the nemesis's.
        entry_bytes: sizes of commands are drawn from it.
        writes_per_s: bursts of writes a second.
        burst: writes in one, at most.
        padding_bytes: added to each snapshot.
        piece_bytes: of a snapshot in one message.
        apply_bytes: applied in one turn of the loop.
        safety_s: how long faults strike.
        changes_per_s: how often the operator changes something; 0: never.
        is_idle_watched: whether a minute without faults follows, in which nobody is elected.
    """

    voters: int
    log: LogConfig
    storage: StorageLimits
    mix: Mix
    entry_bytes: tuple[int, ...]
    writes_per_s: float
    burst: int
    padding_bytes: int
    piece_bytes: int
    apply_bytes: int
    safety_s: float
    changes_per_s: float
    is_idle_watched: bool

    @property
    def slack_bytes(self) -> int:
        """By how much one message may overfill a window."""
        return self.log.window.message_bytes_max + _ENTRY_BYTES_MAX + 100


def draw(seed: int) -> Options:
    """Return a seed's options."""
    rng = Random(f"{seed} options")
    mix = Mix.draw(rng, beyond=rng.random() < 0.3)
    window = Window(
        message_bytes_max=rng.choice((1, _K, 4 * _K, 64 * _K)),
        in_flight_bytes_max=rng.choice((2 * _K, 8 * _K, 256 * _K)),
    )
    writes_per_s, burst = rng.choice(((20.0, 1), (50.0, 1), (15.0, 5), (4.0, 20)))
    return Options(
        voters=rng.choice((3, 3, 3, 3, 3, 3, 5, 5, 4, 2, 1)),
        log=LogConfig(
            timing=_timing(rng, mix),
            window=window,
            snapshot_bytes_min=rng.choice((200, 200, 1000, 1000, 10 * _K, 1 << 30)),
            stagger_bytes=rng.choice((0, 0, 100, 4 * _K)),
        ),
        storage=_storage(rng, window),
        mix=mix,
        entry_bytes=rng.choice(
            ((16,), (16, 100), (30, 100, 500), (100, 3000, 6000), (16, 20, 24, 30_000))
        ),
        writes_per_s=writes_per_s,
        burst=burst,
        padding_bytes=rng.choice((0, 0, 0, 500, 5000, 20_000)),
        piece_bytes=rng.choice((700, 4 * _K, 1 << 20)),
        apply_bytes=rng.choice((100, 4 * _K, 1 << 20)),
        safety_s=rng.choice((10.0, 15.0, 20.0)),
        is_idle_watched=rng.random() < 0.1,
        changes_per_s=rng.choice((0.0, 0.0, 0.5, 1.5, 4.0)),
    )


def _timing(rng: Random, mix: Mix) -> Timing:
    """Draw timers that fit the links: a retry must leave some round trips."""
    heartbeat_ms = rng.choice((20, 50, 50, 100))
    least_ms = max(heartbeat_ms * 3, rng.choice((150, 300, 300)))
    round_trip_ms = 2 * 1000 * mix.links.delay_s[1]
    return Timing(
        heartbeat_ms=heartbeat_ms,
        election_ms_min=least_ms,
        election_ms_max=least_ms * rng.choice((1, 2, 2)),
        failover_ms_max=rng.choice((1, 10, 10)),
        retry_ms=rng.choice((25, 25, 60)) + int(2 * round_trip_ms),
    )


def _storage(rng: Random, window: Window) -> StorageLimits:
    """Draw limits; what may be under way to a follower must fit what may wait for its disk."""
    under_way_bytes = window.in_flight_bytes_max + window.message_bytes_max + _ENTRY_BYTES_MAX
    segment_bytes = rng.choice((4 * _K, 16 * _K, 64 * _K))
    reserve_bytes = _SNAPSHOT_BYTES_MAX + 2 * segment_bytes
    return StorageLimits(
        JournalLimits(
            segment_bytes=segment_bytes,
            entry_bytes_max=_ENTRY_BYTES_MAX,
            group_bytes_max=rng.choice((3000, 64 * _K)),
            pending_bytes_max=under_way_bytes * rng.choice((1, 4)),
            tail_bytes_max=rng.choice((0, 1000, 16 * _K, 1 << 20)),
            disk_low_bytes=reserve_bytes + 64 * _K,
            disk_reserve_bytes=reserve_bytes,
            snapshot_bytes_max=_SNAPSHOT_BYTES_MAX,
        ),
        SnapshotLimits(
            snapshot_bytes_max=_SNAPSHOT_BYTES_MAX, chunk_bytes=rng.choice((300, 4 * _K, 1 << 20))
        ),
        RetentionLimits(
            log_retention_bytes=rng.choice((0, 64 * _K, 1 << 20)),
            log_retention_ms=rng.choice((0, 3_600_000)),
            trailing_entries=rng.choice((0, 0, 2, 20, 200)),
            snapshots_kept_max=rng.choice((1, 2, 3)),
        ),
    )
