"""What one seed of the scheduler suite is like: every limit and every fault is drawn.

What lives here: the drawing (swarm testing: each seed leaves most of it out). What
must never live here: what is done with it. Called by: `chaos.suites.scheduler`.
Deterministic.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from chaos.nemesis import Mix
from chaos.worlds.calls import CallOptions
from coordinator.raft.datadir import StorageLimits
from coordinator.raft.log import LogConfig
from coordinator.raft.replication import Window
from coordinator.raft.retention import RetentionLimits
from coordinator.raft.segments.limits import JournalLimits
from coordinator.raft.snapshots import SnapshotLimits
from coordinator.raft.timing import Timing
from raftbatch.settings import Model, Policy, TenantLimits

_K = 1024
_SNAPSHOT_BYTES_MAX = 512 * _K
_ENTRY_BYTES_MAX = 64 * _K
RECORD_BYTES_MAX = 16 * _K
"""The largest thing that a leader takes."""

_PATIENT_S = (200.0, 200.0)  # where nothing is lost, a caller that is not answered waits in vain

WORKLOADS = ("submit", "cancel", "deadline", "drain", "poison", "overload")
"""What clients and executors may do beside the plain; `submit` is always there."""

EXECUTOR_FAULTS = {
    "crash": 3,
    "pause": 2,
    "hang": 2,
    "cut": 2,
    "deafen": 2,
    "break": 2,
    "refuse": 3,
    "slow": 1,
    "astray": 1,
}
"""What may befall an executor, and how often beside the others."""

Span = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Work:
    """What clients ask for; chances of 1, times in seconds.

    Attributes:
        bursts_per_s: of requests.
        burst: requests in one, at most.
        requests_max: in the whole run.
        tenants: whose they are.
        sizes: of payloads.
        timeouts_ms: of requests; 0: none of their own.
        poison: chance that a request is of a kind that takes its batch along.
        kills: whether poison may kill its executor.
        bad: chance that a request fails by itself.
        twice: chance that somebody asks for the same with the same id.
        conflict: chance that somebody takes the id for something else.
        cancels: chance that a request is cancelled.
        reads_again: chance that an outcome is asked for once more, elsewhere.
        acknowledges: chance that an outcome is acknowledged.
        wrong: chance that a request can never be taken.
        astray: chance that a client asks any node.
    """

    bursts_per_s: float
    burst: int
    requests_max: int
    tenants: tuple[str, ...]
    sizes: tuple[int, ...]
    timeouts_ms: tuple[int, ...]
    poison: float
    kills: bool
    bad: float
    twice: float
    conflict: float
    cancels: float
    reads_again: float
    acknowledges: float
    wrong: float
    astray: float


@dataclass(frozen=True, slots=True)
class Fleet:
    """What executors are like; times in seconds.

    Attributes:
        count: how many.
        instances: batches that one runs at a time.
        prefetch: slots beyond these.
        run_s: how long a batch runs.
        beat_s: between heartbeats.
        again_s: until a report is sent again.
        stop_s: how long it takes to kill a run.
        parts: chance that a report comes in parts.
        faults: what befalls them, and how often beside the others; empty: nothing.
        faults_per_s: in all.
        drains_per_s: drains, and leaves, of all executors together.
        down_s: until a crashed one comes again.
        lasts_s: how long what befalls them lasts.
    """

    count: int
    instances: int
    prefetch: int
    run_s: Span
    beat_s: float
    again_s: float
    stop_s: Span
    parts: float
    faults: dict[str, int]
    faults_per_s: float
    drains_per_s: float
    down_s: Span
    lasts_s: Span

    @property
    def slots(self) -> int:
        """Batches that an executor can hold."""
        return self.instances + self.prefetch


@dataclass(frozen=True, slots=True)
class Options:
    """One seed's.

    Attributes:
        nodes: how many.
        log, storage: the product's.
        mix: the nemesis's.
        workloads: which.
        policy, models: of the cluster, from its founding.
        lease_ms: an executor that is silent for so long is lost.
        entry_bytes: that the leader puts into one entry, at most.
        entries_inflight: of the leader, at most.
        pending_items: what may wait for an entry, at most.
        calls: how calls fare while faults strike.
        work, fleet: clients and executors.
        changes_per_s: how often an operator changes a model or the policy.
        transfers_per_s: how often leadership is moved.
        restarts_per_s: how often a node is stopped in good order.
        piece_bytes: of a snapshot in one message.
        apply_bytes: applied in one turn of the loop.
        safety_s: how long faults strike.
    """

    nodes: int
    log: LogConfig
    storage: StorageLimits
    mix: Mix
    workloads: tuple[str, ...]
    policy: Policy
    models: tuple[Model, ...]
    lease_ms: int
    entry_bytes: int
    entries_inflight: int
    pending_items: int
    calls: CallOptions
    work: Work
    fleet: Fleet
    changes_per_s: float
    transfers_per_s: float
    restarts_per_s: float
    piece_bytes: int
    apply_bytes: int
    safety_s: float


def draw(seed: int) -> Options:
    """Return a seed's options."""
    rng = Random(f"{seed} options")
    mix = Mix.draw(rng, beyond=rng.random() < 0.1)
    mix = replace(mix, rate=rng.choice((0.4, 0.8, 1.2, 2.0)))
    workloads = tuple(name for name in WORKLOADS if name == "submit" or rng.random() < 0.4)
    window = Window(
        message_bytes_max=rng.choice((_K, 4 * _K, 64 * _K)),
        in_flight_bytes_max=rng.choice((8 * _K, 256 * _K)),
        uncommitted_bytes_max=rng.choice((16 * _K, 1 << 20)),
    )
    return Options(
        nodes=rng.choice((3, 3, 3, 3, 3, 5, 2, 1)),
        log=LogConfig(
            timing=_timing(rng, mix),
            window=window,
            snapshot_bytes_min=rng.choice((2000, 2000, 8 * _K, 1 << 30)),
            stagger_bytes=rng.choice((0, 0, 4 * _K)),
        ),
        storage=_storage(rng, window),
        mix=mix,
        workloads=workloads,
        policy=_policy(rng, workloads),
        models=tuple(_model(rng, number) for number in range(rng.choice((1, 2, 3)))),
        lease_ms=rng.choice((300, 600, 1200)),
        entry_bytes=rng.choice((_K, 4 * _K, 16 * _K)),
        entries_inflight=rng.choice((1, 2, 2, 4)),
        pending_items=rng.choice((8, 30)) if "overload" in workloads else 1000,
        calls=CallOptions(
            delay_s=(0.0001, rng.choice((0.001, 0.002, 0.02))),
            loss=(loss := rng.choice((0.0, 0.0, 0.01, 0.05))),
            timeout_s=rng.choice(((0.3, 0.6), (0.5, 2.0))) if loss else _PATIENT_S,
            notice_s=(0.0, rng.choice((0.001, 0.2))),
        ),
        work=_work(rng, workloads),
        fleet=_fleet(rng, workloads),
        changes_per_s=rng.choice((0.0, 0.0, 0.5, 1.0)),
        transfers_per_s=rng.choice((0.0, 0.2, 0.5)),
        restarts_per_s=rng.choice((0.0, 0.0, 0.3)),
        piece_bytes=rng.choice((2000, 16 * _K, 1 << 20)),
        apply_bytes=rng.choice((_K, 16 * _K, 1 << 20)),
        safety_s=rng.choice((5.0, 7.0, 9.0)),
    )


def _timing(rng: Random, mix: Mix) -> Timing:
    """Draw timers that fit the links: a retry must leave some round trips."""
    round_trip_ms = 2 * 1000 * mix.links.delay_s[1]
    least_ms = rng.choice((300, 300, 600))
    return Timing(
        heartbeat_ms=rng.choice((50, 100)),
        election_ms_min=least_ms,
        election_ms_max=least_ms * rng.choice((1, 2)),
        failover_ms_max=10,
        retry_ms=25 + int(2 * round_trip_ms),
    )


def _storage(rng: Random, window: Window) -> StorageLimits:
    """Draw limits; what may be under way to a follower must fit what may wait for its disk."""
    under_way_bytes = window.in_flight_bytes_max + window.message_bytes_max + _ENTRY_BYTES_MAX
    segment_bytes = rng.choice((16 * _K, 64 * _K))
    reserve_bytes = _SNAPSHOT_BYTES_MAX + 2 * segment_bytes
    return StorageLimits(
        JournalLimits(
            segment_bytes=segment_bytes,
            entry_bytes_max=_ENTRY_BYTES_MAX,
            group_bytes_max=64 * _K,
            pending_bytes_max=under_way_bytes * rng.choice((1, 4)),
            tail_bytes_max=rng.choice((0, 16 * _K, 1 << 20)),
            disk_low_bytes=reserve_bytes + 64 * _K,
            disk_reserve_bytes=reserve_bytes,
            snapshot_bytes_max=_SNAPSHOT_BYTES_MAX,
        ),
        SnapshotLimits(
            snapshot_bytes_max=_SNAPSHOT_BYTES_MAX, chunk_bytes=rng.choice((2000, 1 << 20))
        ),
        RetentionLimits(
            log_retention_bytes=rng.choice((0, 64 * _K)),
            log_retention_ms=0,
            trailing_entries=rng.choice((0, 2, 20)),
            snapshots_kept_max=rng.choice((1, 2)),
        ),
    )


def _policy(rng: Random, workloads: tuple[str, ...]) -> Policy:
    """Draw limits: hardly ever met, or met all the time where the workload is overload."""
    policy = Policy(
        outcome_retention_ms=(kept_ms := rng.choice((2_000, 20_000, 600_000))),
        dedupe_retention_ms=kept_ms * rng.choice((1, 2, 10)),
        result_bytes_max=64,
        request_bytes_max=4 * _K,
        cancels_remembered_max=rng.choice((2, 20)),
        quarantine_requests_max=rng.choice((1, 3, 100)),
        executor_failures_max=rng.choice((2, 3, 5)),
        expire_per_entry_max=rng.choice((2, 16, 256)),
        tick_ms=rng.choice((10, 50)),
        log_time_gap_ms_max=rng.choice((0, 1000, 3_600_000)) or 1,
        outcome_bytes_max=rng.choice((12_000, 1 << 20)),
    )
    if "overload" not in workloads:
        return replace(policy, outcome_bytes_max=1 << 20)
    most = rng.choice((5, 20, 40))
    return replace(
        policy,
        requests_waiting_max=most,
        rows_waiting_max=most * rng.choice((1, 2, 8)),
        bytes_waiting_max=most * rng.choice((60, 300)) + 3 * _K,
        tenant_requests_waiting_max=max(2, most // rng.choice((1, 2, 4))),
        windows_max=rng.choice((1, 2, 1000)),
        dedupe_entries_max=rng.choice((60, 1 << 20)),
        tenants=(TenantLimits("t0", 3, 12, 2 * _K),) if rng.random() < 0.3 else (),
    )


def _model(rng: Random, number: int) -> Model:
    rows_max = rng.choice((0, 2, 4, 8, 8, 16))
    preferred = [size for size in (2, 4, 6) if size <= (rows_max or 1) and rng.random() < 0.3]
    return Model(
        f"m{number}",
        "1",
        max_batch_size=rows_max,
        max_batch_bytes=rng.choice((4 * _K, 1 << 20)),
        preferred_batch_size=tuple(preferred),
        max_queue_delay_microseconds=rng.choice((0, 5_000, 50_000)),
        seal_when_idle=rng.random() < 0.3,
        priority_levels=(levels := rng.choice((1, 3, 3))),
        default_priority_level=levels // 2,
        priority_aging_ms=rng.choice((0, 50, 1000)),
        default_timeout_ms=rng.choice((0, 0, 5_000)),
        execution_timeout_microseconds=rng.choice((300_000, 800_000)),
        attempts_max=rng.choice((1, 2, 3)),
        assigned_max=rng.choice((4, 10)),
        backoff_initial_ms=rng.choice((0, 10, 50)),
        backoff_permille=rng.choice((1000, 2000)),
        backoff_max_ms=200,
    )


def _work(rng: Random, workloads: tuple[str, ...]) -> Work:
    cancel, deadline = "cancel" in workloads, "deadline" in workloads
    poison, overload = "poison" in workloads, "overload" in workloads
    bursts_per_s, burst = rng.choice(((20.0, 2), (10.0, 6), (4.0, 16)))
    if overload:
        burst *= 3
    return Work(
        bursts_per_s=bursts_per_s,
        burst=burst,
        requests_max=rng.choice((150, 250)),
        tenants=rng.choice((("t0",), ("t0", "t1", "t2"))),
        sizes=rng.choice(((40,), (40, 200), (40, 60, 3000))),
        timeouts_ms=(0, 30, 200, 1000, 1001) if deadline else (0, 0, 8_000),
        poison=rng.choice((0.02, 0.1)) if poison else 0.0,
        kills=rng.random() < 0.3,
        bad=rng.choice((0.0, 0.05)) + (0.1 if poison else 0.0),
        twice=rng.choice((0.0, 0.1)),
        conflict=rng.choice((0.0, 0.03)),
        cancels=rng.choice((0.1, 0.4)) if cancel else 0.0,
        reads_again=rng.choice((0.0, 0.2)),
        acknowledges=rng.choice((0.0, 0.5, 1.0)),
        wrong=rng.choice((0.0, 0.02)),
        astray=rng.choice((0.05, 0.3)),
    )


def _fleet(rng: Random, workloads: tuple[str, ...]) -> Fleet:
    share = rng.choice((0.0, 0.3, 0.6, 1.0))
    return Fleet(
        count=rng.choice((1, 2, 2, 3, 4)),
        instances=rng.choice((1, 1, 2)),
        prefetch=rng.choice((0, 1, 1)),
        run_s=rng.choice(((0.001, 0.01), (0.005, 0.05), (0.05, 0.2))),
        beat_s=rng.choice((0.05, 0.1)),
        again_s=rng.choice((0.2, 0.5)),
        stop_s=(0.0, rng.choice((0.001, 0.2))),
        parts=rng.choice((0.0, 0.0, 0.4)),
        faults={name: each for name, each in EXECUTOR_FAULTS.items() if rng.random() < share},
        faults_per_s=rng.choice((0.5, 1.5, 3.0)),
        drains_per_s=rng.choice((0.5, 1.5)) if "drain" in workloads else 0.0,
        down_s=rng.choice(((0.01, 0.2), (0.2, 2.0))),
        lasts_s=rng.choice(((0.1, 0.5), (0.3, 2.5))),
    )
