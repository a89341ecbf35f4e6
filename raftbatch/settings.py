"""What operators set: the policy of a cluster, and the settings of a model.

Both live in the log (PutPolicy, PutModel), so that every replica judges by the
same limits at the same index. What lives here: the two values, their bounds, and
the relations between them. What must never live here: their bytes (`codec`), or
what is done with them (`coordinator.core`). Called by: `records`, `codec`, the
core, the command line. Deterministic.

Model settings that Triton knows keep Triton's names; docs/ARCHITECTURE.md maps
the older words of the field to ours.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

INT_MAX = (1 << 63) - 1
"""No number in a record is larger."""

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class TenantLimits:
    """What one tenant may have waiting: admitted, and without an outcome.

    Attributes:
        tenant: whose limits they are.
        requests_waiting_max: requests.
        rows_waiting_max: rows of them.
        bytes_waiting_max: bytes of payload and parameters.
        outcome_bytes_max: bytes of its outcomes that are kept; 0: as of a tenant that is not
            listed.
    """

    tenant: str
    requests_waiting_max: int
    rows_waiting_max: int
    bytes_waiting_max: int
    outcome_bytes_max: int = 0


@dataclass(frozen=True, slots=True)
class Policy:
    """The limits of a cluster. Everything is bounded by something here.

    What the state may hold has to fit into a snapshot (`snapshot_bytes_max`, 768
    MiB by default). By the defaults that is, in MiB: 128 of payloads, 128 of
    outcomes, 245 for 2,000,000 ids that are known, of up to 128 bytes each, 55 for
    what is said of 200,000 waiting requests, 55 for 1,000 requests in quarantine
    with their payloads, 63 for 1,000 executors, and 24 for settings and for what is
    said of batches that failed. Texts that take more than is allowed for count
    toward the bytes of what they belong to, and long ids as several: see
    `coordinator.core.texts`, and docs/LIMITS.md.

    Attributes:
        requests_waiting_max: requests without an outcome, in all.
        rows_waiting_max: their rows.
        bytes_waiting_max: their payloads and parameters, in bytes.
        tenant_requests_waiting_max: the same for a tenant that is not listed.
        tenant_rows_waiting_max: the same for its rows.
        tenant_bytes_waiting_max: the same for its bytes.
        tenants_max: tenants that have something in the state at one time.
        windows_max: batch keys with waiting requests at one time.
        models_max: model versions.
        executors_max: live executors.
        request_bytes_max: payload and parameters of one request.
        result_bytes_max: result of one request; a larger one is a failure.
        outcome_retention_ms: log time for which an outcome can be asked for.
        outcome_bytes_max: bytes of outcomes kept; at it admissions are refused and batches
            wait, since an outcome that nobody acknowledged stays for its whole retention.
        outcome_reserve_bytes: counted toward that for each request without an outcome.
        dedupe_retention_ms: log time for which an id is known; not less than
            `outcome_retention_ms`.
        dedupe_entries_max: ids known at one time; admissions are refused at it.
        cancels_remembered_max: cancelled ids that were unknown, for each tenant.
        quarantine_requests_max: requests kept for operators; the oldest goes first.
        quarantine_bytes_max: their payloads.
        executor_failures_max: distinct batches that fail in a row until an executor
            is suspended.
        expire_per_entry_max: due things that one entry ends; the leader sends Advance
            while more are due.
        tick_ms: how often log time advances while nothing else is proposed.
        log_time_gap_ms_max: furthest that a restart of all nodes may move log time.
        tenants: limits of single tenants, in the order of their names.
        tenant_outcome_bytes_max: the share of `outcome_bytes_max` that outcomes of one tenant may
            take; at it only its own admissions are refused. 0: each may take all of it.

    Raises:
        ValueError: a number is out of its range, or two do not go together.
    """

    requests_waiting_max: int = 200_000
    rows_waiting_max: int = 16_000_000
    bytes_waiting_max: int = 128 * _MIB
    tenant_requests_waiting_max: int = 200_000
    tenant_rows_waiting_max: int = 16_000_000
    tenant_bytes_waiting_max: int = 128 * _MIB
    tenants_max: int = 10_000
    windows_max: int = 100_000
    models_max: int = 1000
    executors_max: int = 1000
    request_bytes_max: int = 16 * _MIB
    result_bytes_max: int = 16 * _MIB
    outcome_retention_ms: int = 300_000
    outcome_bytes_max: int = 128 * _MIB
    outcome_reserve_bytes: int = 128
    dedupe_retention_ms: int = 360_000
    dedupe_entries_max: int = 2_000_000
    cancels_remembered_max: int = 1000
    quarantine_requests_max: int = 1000
    quarantine_bytes_max: int = 16 * _MIB
    executor_failures_max: int = 3
    expire_per_entry_max: int = 256
    tick_ms: int = 10
    log_time_gap_ms_max: int = 3_600_000
    tenants: tuple[TenantLimits, ...] = ()
    tenant_outcome_bytes_max: int = 0

    def __post_init__(self) -> None:
        from_zero = ("outcome_reserve_bytes", "tenant_outcome_bytes_max")
        _check_numbers(self, minimum=1, except_for=from_zero)
        if self.dedupe_retention_ms < self.outcome_retention_ms:
            raise ValueError(
                f"dedupe_retention_ms = {self.dedupe_retention_ms} is less than "
                f"outcome_retention_ms = {self.outcome_retention_ms}: an outcome would "
                "be kept whose id is not known any more"
            )
        names = [each.tenant for each in self.tenants]
        if names != sorted(set(names)):
            raise ValueError("tenants are out of order, or stand twice")
        for each in self.tenants:
            _check_numbers(each, minimum=0)
        shares = {f"tenants.{each.tenant}.outcome_bytes_max": each for each in self.tenants}
        for name, share in (
            ("tenant_outcome_bytes_max", self.tenant_outcome_bytes_max),
            *((name, each.outcome_bytes_max) for name, each in shares.items()),
        ):
            if 0 < share < self.outcome_reserve_bytes:
                raise ValueError(
                    f"{name} = {share} is less than outcome_reserve_bytes = "
                    f"{self.outcome_reserve_bytes}, and would let nothing pass"
                )


@dataclass(frozen=True, slots=True)
class Model:
    """The settings of one version of a model.

    Attributes:
        name: the model's.
        version: of the model.
        max_batch_size: most rows of a batch; 0: there is no batch axis, and each
            request is a batch of its own, of one row.
        max_batch_bytes: most bytes of a batch.
        preferred_batch_size: rows at which a batch is sealed at once, rising.
        max_queue_delay_microseconds: how long a window gathers.
        seal_when_idle: whether an idle executor ends the gathering.
        priority_levels: priorities are 0 (the most urgent) .. levels - 1.
        default_priority_level: of a request that states none.
        priority_aging_ms: a waiting request rises one level in so much log time;
            0: never.
        default_timeout_ms: of a request that states none; 0: no deadline.
        requests_waiting_max: as in `Policy`, for this version.
        rows_waiting_max: its rows.
        bytes_waiting_max: its bytes.
        execution_timeout_microseconds: how long a batch may run; 0: for ever.
        attempts_max: failures after which a batch is bisected or quarantined.
        assigned_max: assignments after which it is, whatever became of them.
        backoff_initial_ms: before the second attempt.
        backoff_permille: by how much it grows with each failure; 2000: doubles.
        backoff_max_ms: its most.
        content: names the content of the repository; opaque here.
        config: the rest of the settings, for doors and executors; opaque here.

    Raises:
        ValueError: a number is out of its range, or two do not go together.
    """

    name: str
    version: str
    max_batch_size: int = 32
    max_batch_bytes: int = 64 * _MIB
    preferred_batch_size: tuple[int, ...] = ()
    max_queue_delay_microseconds: int = 5000
    seal_when_idle: bool = False
    priority_levels: int = 3
    default_priority_level: int = 1
    priority_aging_ms: int = 1000
    default_timeout_ms: int = 0
    requests_waiting_max: int = 200_000
    rows_waiting_max: int = 16_000_000
    bytes_waiting_max: int = 128 * _MIB
    execution_timeout_microseconds: int = 30_000_000
    attempts_max: int = 3
    assigned_max: int = 10
    backoff_initial_ms: int = 50
    backoff_permille: int = 2000
    backoff_max_ms: int = 5000
    content: bytes = b""
    config: bytes = b""

    def __post_init__(self) -> None:
        _check_numbers(self, minimum=0)
        for name in ("max_batch_bytes", "priority_levels", "attempts_max", "assigned_max"):
            if not getattr(self, name):
                raise ValueError(f"{name} = 0 would let nothing pass")
        if self.max_batch_size > 1 << 20:
            raise ValueError(f"max_batch_size = {self.max_batch_size} is more than {1 << 20}")
        if self.priority_levels > PRIORITY_LEVELS_MAX:
            raise ValueError(
                f"priority_levels = {self.priority_levels} is more than {PRIORITY_LEVELS_MAX}"
            )
        if self.default_priority_level >= self.priority_levels:
            raise ValueError(
                f"default_priority_level = {self.default_priority_level} is none of "
                f"priority_levels = {self.priority_levels}"
            )
        if not 1000 <= self.backoff_permille <= 10_000:
            raise ValueError(f"backoff_permille = {self.backoff_permille} is not in 1000 .. 10000")
        if self.attempts_max > ATTEMPTS_MAX or self.assigned_max > ATTEMPTS_MAX:
            raise ValueError(f"attempts_max and assigned_max are at most {ATTEMPTS_MAX}")
        preferred = self.preferred_batch_size
        if list(preferred) != sorted(set(preferred)) or len(preferred) > PREFERRED_MAX:
            raise ValueError("preferred_batch_size does not rise, or is too long")
        if preferred and not 1 <= preferred[0] <= preferred[-1] <= self.rows_max:
            raise ValueError(
                f"preferred_batch_size = {preferred} is not within "
                f"max_batch_size = {self.max_batch_size}"
            )

    @property
    def rows_max(self) -> int:
        """Most rows of a batch: one where there is no batch axis."""
        return self.max_batch_size or 1


LOAD_ITEMS_MAX = 64
"""Model versions, and devices, that an executor may name in its load."""

PRIORITY_LEVELS_MAX = 16
PREFERRED_MAX = 32
ATTEMPTS_MAX = 100


def _check_numbers(settings: object, minimum: int, except_for: tuple[str, ...] = ()) -> None:
    for each in fields(settings):  # type: ignore[arg-type]
        value = getattr(settings, each.name)
        if type(value) is int:
            least = 0 if each.name in except_for else minimum
            if not least <= value <= INT_MAX:
                raise ValueError(f"{each.name} = {value} is not in {least} .. {INT_MAX}")


POLICY_AT_FIRST = Policy(outcome_retention_ms=600_000, dedupe_retention_ms=900_000)
"""What holds until a log's first PutPolicy, whatever the defaults of a release: older logs mean
what they meant."""
