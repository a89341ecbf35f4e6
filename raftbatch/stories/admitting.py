"""What the fold makes of ids: taken in, known already, refused, cancelled, acknowledged.

What lives here: Admit, Cancel, Acknowledge and Forget, by the limits that the log itself has
set. What must never live here: batches (`batching`). Called by: `fold`. Total. Deterministic.
"""

from __future__ import annotations

from raftbatch import records as r
from raftbatch.kinds import OutcomeKind
from raftbatch.settings import Model, Policy
from raftbatch.stories.ledger import OUTCOME_BYTES, Ledger, Waiting
from raftbatch.stories.values import Event, Outcome, Story

_SKIPPED_MAX = 1 << 32


def admit(ledger: Ledger, record: r.Admit) -> None:
    """Take in what can be."""
    count = len(record.request_id)
    least = ledger.next_request or record.first
    if not least <= record.first <= least + _SKIPPED_MAX:
        return
    ledger.next_request = record.first + count
    admitted = ledger.event("admitted")
    for place in range(count):
        _admit_one(ledger, record, place, admitted)
    ledger.forget_idle_tenants(record.tenants)


def _admit_one(ledger: Ledger, record: r.Admit, place: int, admitted: Event) -> None:
    key = record.keys[record.key[place]]
    tenant = record.tenants[record.tenant[place]]
    number, timeout_ms = record.first + place, record.timeout_ms[place]
    story = Story(
        number,
        tenant,
        record.request_id[place],
        key,
        record.rows[place],
        len(record.payload[place]) + len(record.parameters[place]),
        record.priority[place],
        ledger.now_ms,
        0,
        ledger.index,
        record.content_hash[place],
    )
    known = ledger.known.get(story.name)
    if known is not None:
        same = known.content_hash in (b"", story.content_hash)
        note = "the same id came again" if same else "the same id came again, with other content"
        known.events.append(ledger.event("repeated", note=note))
        ledger.repeats[number] = known
        ledger.counts.repeated += 1
        return
    model = None if key[:2] in ledger.deleting else ledger.models.get(key[:2])
    is_unknown = ledger.is_partial and model is None and key[:2] not in ledger.deleting
    if not is_unknown and (model is None or not _fits(ledger, story, model)):
        ledger.counts.refused += 1
        return
    default_ms = model.default_timeout_ms if model is not None else 0
    story.events.append(admitted)
    ledger.counts.requests += 1
    ledger.admit(story, timeout_ms or default_ms)


def _fits(ledger: Ledger, story: Story, model: Model) -> bool:
    """Return whether a request is within its model's limits, and leaves the others theirs."""
    policy = ledger.policy
    if (
        story.rows > model.rows_max
        or story.priority >= model.priority_levels
        or story.size > min(model.max_batch_bytes, policy.request_bytes_max)
    ):
        return False
    if ledger.is_partial:  # what waited before is not known
        return True
    if story.tenant not in ledger.tenants and len(ledger.tenants) >= policy.tenants_max:
        return False
    if story.key not in ledger.windows and len(ledger.windows) >= policy.windows_max:
        return False
    everything = ledger.waiting[None]
    reserved = (everything.requests + 1) * policy.outcome_reserve_bytes
    if (
        len(ledger.known) >= policy.dedupe_entries_max
        or ledger.outcome_bytes + reserved > policy.outcome_bytes_max
    ):
        return False
    own = ledger.tenant_use(story.tenant)
    reserved = (own.requests + 1) * policy.outcome_reserve_bytes
    if _is_beyond_share(ledger, story.tenant, reserved):
        return False
    return (
        _has_room(everything, story, _limits(policy))
        and _has_room(ledger.model_use(story.key), story, _limits(model))
        and _has_room(own, story, _tenant_limits(policy, story.tenant))
    )


def _is_beyond_share(ledger: Ledger, tenant: str, more: int) -> bool:
    """Return whether a tenant's outcomes would be more than it may leave."""
    policy = ledger.policy
    listed = [each.outcome_bytes_max for each in policy.tenants if each.tenant == tenant]
    share = next(filter(None, (*listed, policy.tenant_outcome_bytes_max)), 0)
    return share > 0 and ledger.left[tenant] + more > share


def _has_room(use: Waiting, story: Story, limits: tuple[int, int, int]) -> bool:
    return (
        use.requests + 1 <= limits[0]
        and use.rows + story.rows <= limits[1]
        and use.size + story.size <= limits[2]
    )


def _limits(of: Policy | Model) -> tuple[int, int, int]:
    return of.requests_waiting_max, of.rows_waiting_max, of.bytes_waiting_max


def _tenant_limits(policy: Policy, tenant: str) -> tuple[int, int, int]:
    for own in policy.tenants:
        if own.tenant == tenant:
            return own.requests_waiting_max, own.rows_waiting_max, own.bytes_waiting_max
    return (
        policy.tenant_requests_waiting_max,
        policy.tenant_rows_waiting_max,
        policy.tenant_bytes_waiting_max,
    )


def cancel(ledger: Ledger, record: r.Cancel) -> None:
    """Give requests the outcome `cancelled`, unless they have one; remember unknown ids."""
    for name in zip(record.tenant, record.request_id, strict=True):
        story = ledger.known.get(name)
        if story is None:
            _remember(ledger, *name)
        elif story.outcome is None:
            ledger.end_early([story], OutcomeKind.CANCELLED)
        else:
            story.events.append(ledger.event("repeated", note="a cancel that came too late"))


def _remember(ledger: Ledger, tenant: str, request_id: str) -> None:
    """Remember the cancel of an id that may still come."""
    policy = ledger.policy
    if not ledger.is_partial:
        if (
            (tenant not in ledger.tenants and len(ledger.tenants) >= policy.tenants_max)
            or len(ledger.known) >= policy.dedupe_entries_max
            or ledger.outcome_bytes + OUTCOME_BYTES > policy.outcome_bytes_max
            or _is_beyond_share(ledger, tenant, OUTCOME_BYTES)
        ):
            return
        own = ledger.tenants.get(tenant)
        if own is not None and own.cancels >= policy.cancels_remembered_max:
            return
    ledger.tenant_use(tenant).cancels += 1
    story = Story(0, tenant, request_id, at_ms=ledger.now_ms, is_whole=not ledger.is_partial)
    outcome = Outcome(OutcomeKind.CANCELLED, "", "", 0, ledger.index, ledger.now_ms)
    story.outcome = outcome
    story.events.append(ledger.event("ended", note="cancelled, before it came"))
    ledger.known[story.name] = story
    ledger.cancelled.append(story)
    ledger.remember(story)


def acknowledge(ledger: Ledger, record: r.Acknowledge | r.Forget) -> None:
    """Let outcomes' contents go."""
    kind = "acknowledged" if isinstance(record, r.Acknowledge) else "forgotten"
    done = ledger.event(kind)
    for name in zip(record.tenant, record.request_id, strict=True):
        story = ledger.known.get(name)
        if story is not None and story.outcome is not None and ledger.drop_content(story):
            story.events.append(done)
