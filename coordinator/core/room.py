"""Whether there is room for more, as a leader counts it, and when there will be.

Texts count with what they take beyond their due.

`apply` counts ids and bytes without these (`admission`, `retention`): older logs mean what they
meant. So a leader refuses sooner, and never later.

Outcomes leave when they were acknowledged, which nobody can foresee, or with their retention. So
while some are acknowledged whoever is refused is to come back soon, and else when the oldest goes.

What lives here: that. What must never live here: what is refused, or said. Called by: `outlook`,
`decide`; the leader's refusals. Total. Deterministic.
"""

from __future__ import annotations

from coordinator.core.admission import FORGET_LATE_MS, ids_after_ms
from coordinator.core.effects import Verdict
from coordinator.core.state import State
from coordinator.core.texts import KNOWN_ID_BYTES
from coordinator.core.usage import Usage
from raftbatch.records import Acknowledge, Forget

_QUIET_MS = 1000
"""Where nothing was acknowledged for so long, nothing is soon."""

_LOOKS_MAX = 256
"""Outcomes that are looked at for the oldest that is kept: what is said is a lower bound beyond."""

_TENANTS_MAX = 10_000
_RETRY_MS_MIN = 10


def ids(state: State, names: int = 0) -> int:
    """Return how many ids the known ones count as: a long one as several.

    Args:
        state: the applied one.
        names: what names that are about to come take beyond what is allowed for them, in bytes.
    """
    return len(state.dedupe) + -(-(state.id_texts + names) // KNOWN_ID_BYTES)


def has_ids(state: State, count: int, names: int = 0) -> bool:
    """Return whether so many ids more may be known; `names` as of `ids`."""
    return ids(state, names) + count <= state.policy.dedupe_entries_max


def has_room(state: State, count: int, names: int = 0) -> bool:
    """Return whether ids and outcomes leave room for so many requests more; `names` as of `ids`."""
    policy = state.policy
    reserved = (state.all_use.requests + count) * policy.outcome_reserve_bytes
    return has_ids(state, count, names) and reserved <= outcome_bytes_left(state)


def outcome_bytes_left(state: State) -> int:
    """Return how many more bytes of outcomes may be kept; below 0 where there are too many."""
    return state.policy.outcome_bytes_max - state.outcome_bytes - state.outcome_texts


def outcomes_fill(state: State, coming: int) -> bool:
    """Return whether outcomes that are kept, more than what waits, are why there is no room.

    Args:
        state: the applied one.
        coming: requests that are about to wait, and this one.
    """
    reserved = (state.all_use.requests + coming) * state.policy.outcome_reserve_bytes
    kept = state.outcome_bytes + state.outcome_texts
    return reserved > outcome_bytes_left(state) and kept >= reserved


def share_is_filled(state: State, tenant: str) -> bool:
    """Return whether a tenant's outcomes are most of what fills its share."""
    own = Usage()
    own.limit_by_tenant(state.policy, tenant)
    return 0 < own.outcomes_max < 2 * state.tenant_outcomes.get(tenant, 0)


def outcomes_after_ms(state: State, now_ms: int, tenant: str = "") -> int:
    """Return when an outcome goes by itself next, of all or of a tenant; no later than it does.

    Args:
        state: the applied one.
        now_ms: log time by the leader's clock.
        tenant: whose; empty: anybody's.
    """
    scope, at_ms = f"{tenant}\0", now_ms
    last = min(state.next_ended, state.oldest_kept + _LOOKS_MAX)
    for order in range(state.oldest_kept, last):
        outcome = state.ended[order]
        at_ms = outcome.at_ms
        if outcome.is_kept and (not tenant or outcome.name.startswith(scope)):
            break
    due_ms = at_ms + state.policy.outcome_retention_ms + FORGET_LATE_MS
    return max(_RETRY_MS_MIN, due_ms - now_ms)


class Drained:
    """When outcomes were acknowledged last, of all and of each tenant.

    Args:
        now_ms: log time; nobody knows what was before.
    """

    def __init__(self, now_ms: int) -> None:
        self._since_ms = now_ms
        self._at_ms: dict[str, int] = {}  # by tenant; of all: empty

    def note(self, record: Acknowledge | Forget, now_ms: int) -> None:
        """Take in that outcomes were dropped."""
        if len(self._at_ms) > _TENANTS_MAX:
            self._at_ms.clear()
        self._at_ms.update(dict.fromkeys(("", *record.tenant), now_ms))

    def is_quiet(self, now_ms: int, tenant: str = "") -> bool:
        """Return whether none was for a while."""
        return now_ms - self._at_ms.get(tenant, self._since_ms) >= _QUIET_MS

    def retry_ms(
        self, state: State, verdict: Verdict, now_ms: int, tenant: str, coming: tuple[int, int]
    ) -> int:
        """Return when whoever is refused for load is to come back; 0: as soon as requests end.

        Args:
            state: the applied one.
            verdict: that was given.
            now_ms: log time by the leader's clock.
            tenant: who is refused.
            coming: requests about to wait, and this one; what their names take beyond their due.
        """
        if verdict is Verdict.OVERLOADED and not has_ids(state, *coming):
            return ids_after_ms(state, now_ms)
        if verdict is Verdict.OVERLOADED and outcomes_fill(state, coming[0]):
            return outcomes_after_ms(state, now_ms) if self.is_quiet(now_ms) else 0
        if verdict is Verdict.QUOTA_EXCEEDED and share_is_filled(state, tenant):
            is_quiet = self.is_quiet(now_ms, tenant)
            return outcomes_after_ms(state, now_ms, tenant) if is_quiet else 0
        return 0
