"""The state: everything that must be equal on every replica at an index, and nothing else.

The rules. Everything that changes it lives in this folder, and is called by
`apply` alone. It has three parts:

- *tables*, of immutable rows. They are what a snapshot holds, and can be captured
  in no time (`table`);
- *scalars*: where the log is, what time it is, what comes next, counters;
- *indexes*: what can be made from the first two, kept to be found quickly. No
  snapshot holds them; restoring makes them anew (`snapshot`), and
  `invariants.check` compares. Their order may differ between replicas, and so
  nothing that `apply` gives may depend on it.

Whoever adds a table, a scalar or an index tells `snapshot` and `invariants`.
What must never live here: a decision. Called by: the core; shells read it.
"""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from typing import Any

from coordinator.core.columns import at, places_of
from coordinator.core.table import Overlay
from coordinator.core.timers import Timers
from coordinator.core.usage import ModelUse, TenantUse, Usage, Window
from coordinator.core.values import Batch, Executor, Outcome, Quarantined, Request
from raftbatch.kinds import Key
from raftbatch.settings import POLICY_AT_FIRST, Model

ModelId = tuple[str, str]
"""Name and version."""

DIGEST_BYTES = 16

TABLES = ("requests", "ended", "batches", "executors", "models", "quarantine")
"""The tables, by the names of their attributes, in the order of a snapshot."""

_MERGE_STEPS = 512
"""Writes moved out of an overlay with each entry, at least: far more than most entries make."""


class Counters:
    """Totals since the cluster began; `*_total` metrics come from here."""

    __slots__ = (
        "admitted",
        "bisected",
        "cancelled",
        "completed",
        "expired",
        "failed",
        "lapsed",
        "quarantine_dropped",
        "quarantined",
        "refused",
        "sealed",
        "succeeded",
    )

    def __init__(self) -> None:
        for name in self.__slots__:
            setattr(self, name, 0)

    def values(self) -> tuple[int, ...]:
        """Return all, in the order of their names."""
        return tuple([getattr(self, name) for name in self.__slots__])

    admitted: int
    bisected: int
    cancelled: int
    completed: int
    expired: int
    failed: int
    lapsed: int
    quarantine_dropped: int
    quarantined: int
    refused: int
    sealed: int
    succeeded: int


class State:
    """See the module's docstring.

    Attributes:
        requests: by number, those without an outcome.
        ended: by the order of their ending, outcomes and what is left of them.
        batches: by number.
        executors: by id, live ones.
        models: by name and version, those that are being deleted too.
        quarantine: by the request's number.
        index: of the last entry applied.
        term: of the last Lead.
        leader: node named by it.
        feature_level: never goes back.
        now_ms: log time; 0: nothing was applied yet.
        next_request: the least number the next request may have.
        next_batch: the same for a batch.
        next_ended: the order of the next outcome.
        oldest_kept: order from which on outcomes may still be whole.
        oldest_ended: order of the oldest that is known at all.
        policy: limits.
        deleting: model versions that are being deleted, as keys.
        digest: rolling hash of all that `apply` did.
        counters: totals.
        rate_at_ms: log time since when outcomes are counted for the drain rate.
        rate_ended: outcomes since then.
        drained_per_s: outcomes a second in the interval before.
        dedupe: by name: the number of a request, or ~order of an outcome.
        batch_of: by number: the batch a request is in; those in windows are not here.
        windows: by key, none empty.
        timers: deadlines.
        all_use, tenant_use, model_use: what waits.
        outcome_bytes: of outcomes that are kept.
        tenant_outcomes: the same, by tenant; none is 0.
        outcome_texts: what texts of those take beyond what is allowed for them; see `texts`.
        id_texts: the same of known ids: their names, and codes of their outcomes.
        quarantine_bytes: of payloads in quarantine.
        overlaid: names of tables that were captured and are not plain again yet.
    """

    __slots__ = (
        "all_use",
        "batch_of",
        "batches",
        "counters",
        "dedupe",
        "deleting",
        "digest",
        "drained_per_s",
        "ended",
        "executors",
        "feature_level",
        "id_texts",
        "index",
        "leader",
        "model_use",
        "models",
        "next_batch",
        "next_ended",
        "next_request",
        "now_ms",
        "oldest_ended",
        "oldest_kept",
        "outcome_bytes",
        "outcome_texts",
        "overlaid",
        "policy",
        "quarantine",
        "quarantine_bytes",
        "rate_at_ms",
        "rate_ended",
        "requests",
        "tenant_outcomes",
        "tenant_use",
        "term",
        "timers",
        "windows",
    )

    def __init__(self) -> None:
        self.requests: MutableMapping[int, Request] = {}
        self.ended: MutableMapping[int, Outcome] = {}
        self.batches: MutableMapping[int, Batch] = {}
        self.executors: MutableMapping[str, Executor] = {}
        self.models: MutableMapping[ModelId, Model] = {}
        self.quarantine: MutableMapping[int, Quarantined] = {}
        self.index = self.term = self.feature_level = self.now_ms = 0
        self.leader = ""
        self.next_request = self.next_batch = 1
        self.next_ended = self.oldest_kept = self.oldest_ended = 0
        self.policy = POLICY_AT_FIRST
        self.deleting: dict[ModelId, None] = {}
        self.digest = bytes(DIGEST_BYTES)
        self.counters = Counters()
        self.rate_at_ms = self.rate_ended = self.drained_per_s = 0
        self.dedupe: dict[str, int] = {}
        self.batch_of: dict[int, int] = {}
        self.windows: dict[Key, Window] = {}
        self.timers = Timers()
        self.all_use = Usage()
        self.all_use.limit_by_policy(self.policy)
        self.tenant_use: dict[str, TenantUse] = {}
        self.model_use: dict[ModelId, ModelUse] = {}
        self.outcome_bytes = self.quarantine_bytes = 0
        self.outcome_texts = self.id_texts = 0
        self.tenant_outcomes: dict[str, int] = {}
        self.overlaid: tuple[str, ...] = ()

    def request(self, tenant: str, request_id: str) -> Request | Outcome | None:
        """Return what is known of an id: the request, its outcome, or nothing."""
        return self.named(f"{tenant}\0{request_id}")

    def named(self, name: str) -> Request | Outcome | None:
        """Return what is known of an id, given tenant, NUL, request id."""
        known = self.dedupe.get(name)
        if known is None:
            return None
        return self.requests[known] if known >= 0 else self.ended[~known]

    def settle(self, steps: int = _MERGE_STEPS) -> None:
        """Move some of what was written during a capture back; nothing that anybody sees."""
        for name in self.overlaid:
            setattr(self, name, getattr(self, name).merge(steps))
        if self.overlaid:
            left = [name for name in self.overlaid if isinstance(getattr(self, name), Overlay)]
            self.overlaid = tuple(left)

    def freeze(self) -> list[Overlay[Any, Any]]:
        """Put an overlay over each table, in their order, and return them. At once."""
        overlays: list[Overlay[Any, Any]] = []
        for name in TABLES:
            overlay: Overlay[Any, Any] = Overlay(getattr(self, name))
            setattr(self, name, overlay)
            overlays.append(overlay)
        self.overlaid = TABLES
        return overlays

    def use_of_tenant(self, tenant: str) -> TenantUse | None:
        """Return what a tenant has waiting, made where it has nothing; None: too many tenants."""
        use = self.tenant_use.get(tenant)
        if use is None:
            if len(self.tenant_use) >= self.policy.tenants_max:
                return None
            use = self.tenant_use[tenant] = TenantUse()
            use.limit_by_tenant(self.policy, tenant)
        return use

    def keep_outcomes(self, tenant: str, size: int) -> None:
        """Count bytes of a tenant's outcomes, which are kept from now on."""
        self.outcome_bytes += size
        self.tenant_outcomes[tenant] = self.tenant_outcomes.get(tenant, 0) + size

    def drop_outcomes(self, tenant: str, size: int) -> None:
        """Count them no more."""
        self.outcome_bytes -= size
        left = self.tenant_outcomes[tenant] - size
        if left:
            self.tenant_outcomes[tenant] = left
        else:
            del self.tenant_outcomes[tenant]

    def forget_idle_tenant(self, tenant: str) -> None:
        """Drop the counters of a tenant that has nothing."""
        use = self.tenant_use.get(tenant)
        if use is not None and use.is_idle:
            del self.tenant_use[tenant]

    def window(self, key: Key) -> Window:
        """Return the window of a key, made where there is none; it must not stay empty."""
        window = self.windows.get(key)
        if window is None:
            window = self.windows[key] = Window(key)
            self.model_use[key[:2]].windows[key] = window
        return window

    def window_id(self, key: Key) -> tuple[int, int] | None:
        """Return what a window is called by: log time of its opening, first index that admitted.

        A window opens with the oldest request that waits in it; None: it is empty.
        """
        window = self.windows.get(key)
        if window is None:
            return None
        first = min([next(iter(lane)) for lane in window.lanes.values()])
        return self.requests[first].at_ms, self.requests[first].ticket

    def add_to_window(self, request: Request) -> None:
        """Let a request wait in its window."""
        window = self.window(request.key)
        window.lane(request.priority)[request.number] = None
        window.requests += 1
        window.rows += request.rows
        window.size += request.size

    def take_from_windows(self, requests: Sequence[Request]) -> None:
        """Let requests wait in their windows no more."""
        if not requests:
            return
        for key, places in places_of([request.key for request in requests]).items():
            window = self.windows[key]
            of_key = at(requests, places)
            for priority, found in places_of([request.priority for request in of_key]).items():
                lane = window.lanes[priority]
                for request in at(of_key, found):
                    del lane[request.number]
                if not lane:
                    del window.lanes[priority]
            window.requests -= len(of_key)
            window.rows -= sum([request.rows for request in of_key])
            window.size -= sum([request.size for request in of_key])
            if not window.requests:
                del self.windows[key]
                del self.model_use[key[:2]].windows[key]
