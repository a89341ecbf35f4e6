"""What waits, counted against what may: for a model version, for a tenant, and in all.

Waiting is every request that was admitted and has no outcome, wherever it is:
limit N means that N are accepted and the next is refused. What lives here: the
counters. What must never live here: the answer to who is refused (`admission`).
Called by: `state`, `admission`, `ending`, `outlook`. Total. Deterministic.
"""

from __future__ import annotations

from collections.abc import Sequence

from coordinator.core import texts
from raftbatch.kinds import Key
from raftbatch.settings import Model, Policy


class Usage:
    """Three counters and their limits.

    Attributes:
        requests, rows, size: what waits.
        texts: what texts of it take beyond what is allowed for them, which the leader counts
            toward the bytes, and `apply` does not; see `texts`.
        names: the same of names, of what is about to wait; of what waits the state counts it.
        requests_max, rows_max, size_max: what may.
        outcomes_max: bytes of outcomes that a tenant may leave; 0: as all together.
    """

    __slots__ = (
        "names",
        "outcomes_max",
        "requests",
        "requests_max",
        "rows",
        "rows_max",
        "size",
        "size_max",
        "texts",
    )

    def __init__(self, requests_max: int = 0, rows_max: int = 0, size_max: int = 0) -> None:
        self.requests = self.rows = self.size = self.outcomes_max = 0
        self.texts = self.names = 0
        self.limit(requests_max, rows_max, size_max)

    def limit(self, requests_max: int, rows_max: int, size_max: int) -> None:
        """Set the limits; what waits already stays."""
        self.requests_max, self.rows_max, self.size_max = requests_max, rows_max, size_max

    def fits(self, requests: int, rows: int, size: int) -> bool:
        """Return whether so much more may wait."""
        return (
            self.requests + requests <= self.requests_max
            and self.rows + rows <= self.rows_max
            and self.size + size <= self.size_max
        )

    def may_take(self, requests: int, rows: int, size: int) -> bool:
        """Return whether so much more may wait, as the leader counts: texts are bytes too."""
        return self.fits(requests, rows, size + self.texts)

    def add(self, rows: int, size: int, texts: int = 0) -> None:
        """Count one request."""
        self.requests += 1
        self.rows += rows
        self.size += size
        self.texts += texts

    def add_all(self, other: Usage) -> None:
        """Count all that another counts."""
        self.requests += other.requests
        self.rows += other.rows
        self.size += other.size
        self.texts += other.texts
        self.names += other.names

    def take_away(self, other: Usage) -> None:
        """Count that no more."""
        self.requests -= other.requests
        self.rows -= other.rows
        self.size -= other.size
        self.texts -= other.texts
        self.names -= other.names

    def counts(self) -> tuple[int, int, int]:
        """Return requests, rows, bytes."""
        return self.requests, self.rows, self.size

    def limit_by_model(self, model: Model) -> None:
        """Set a model version's limits."""
        self.limit(model.requests_waiting_max, model.rows_waiting_max, model.bytes_waiting_max)

    def limit_by_policy(self, policy: Policy) -> None:
        """Set the limits of all together."""
        self.limit(policy.requests_waiting_max, policy.rows_waiting_max, policy.bytes_waiting_max)

    def limit_by_tenant(self, policy: Policy, tenant: str) -> None:
        """Set a tenant's limits."""
        self.outcomes_max = policy.tenant_outcome_bytes_max
        for each in policy.tenants:
            if each.tenant == tenant:
                self.limit(each.requests_waiting_max, each.rows_waiting_max, each.bytes_waiting_max)
                self.outcomes_max = each.outcome_bytes_max or self.outcomes_max
                return
        self.limit(
            policy.tenant_requests_waiting_max,
            policy.tenant_rows_waiting_max,
            policy.tenant_bytes_waiting_max,
        )


def usage_of(
    key: Key, names: Sequence[str], traceparents: Sequence[str], rows: int, size: int
) -> Usage:
    """Return what requests of one key and tenant are, rows and bytes of all.

    Args:
        key: of all.
        names, traceparents: of each.
        rows, size: of all together.
    """
    use = Usage()
    use.requests, use.rows, use.size = len(names), rows, size
    use.names, use.texts = texts.of_names(names), texts.of_all(key, traceparents)
    return use


class TenantUse(Usage):
    """What a tenant has in the state.

    Attributes:
        cancels: ids it cancelled before they were admitted, that are remembered.
        cancel_names: what their names take beyond what is allowed for them.
    """

    __slots__ = ("cancel_names", "cancels")

    def __init__(self) -> None:
        super().__init__()
        self.cancels = self.cancel_names = 0

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to count."""
        return not self.requests and not self.cancels


class ModelUse(Usage):
    """What a model version has in the state.

    Attributes:
        windows: its windows, none empty.
        batches: its batches, as keys.
        doomed: once it is deleted, keys of its windows, the first at the end; None
            until they are asked for.
    """

    __slots__ = ("batches", "doomed", "windows")

    def __init__(self) -> None:
        super().__init__()
        self.windows: dict[Key, Window] = {}
        self.batches: dict[int, None] = {}
        self.doomed: list[Key] | None = None


class Window:
    """Requests of one batch key that wait to be sealed.

    Attributes:
        key: of all of them.
        lanes: for each priority that has some, their numbers as keys, rising.
        requests: how many.
        rows: theirs.
        size: bytes of theirs.
    """

    __slots__ = ("key", "lanes", "requests", "rows", "size")

    def __init__(self, key: Key) -> None:
        self.key = key
        self.lanes: dict[int, dict[int, None]] = {}
        self.requests = self.rows = self.size = 0

    def lane(self, priority: int) -> dict[int, None]:
        """Return the lane of a priority, made where there is none; it must not stay empty."""
        lane = self.lanes.get(priority)
        if lane is None:
            lane = self.lanes[priority] = {}
        return lane
