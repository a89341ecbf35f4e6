"""What time does to the books: deadlines, retentions, and model versions that are being deleted.

Each entry ends a bounded number of things that are due, in order. What lives here: that. What
must never live here: what a record does. Called by: `fold`. Total. Deterministic.
"""

from __future__ import annotations

from heapq import heappop

from raftbatch.kinds import OutcomeKind
from raftbatch.stories.ledger import Ledger, ModelId
from raftbatch.stories.values import Story

TIME_MS_MAX = 1 << 61


def advance(ledger: Ledger, at_ms: int) -> None:
    """Let log time be what an entry says; then end what is due, a bounded number of things."""
    ledger.now_ms = max(ledger.now_ms, min(at_ms, TIME_MS_MAX))
    budget = ledger.policy.expire_per_entry_max
    expired: list[Story] = []
    while ledger.due and ledger.due[0][0] <= ledger.now_ms and len(expired) < budget:
        story = ledger.open.get(heappop(ledger.due)[1])
        if story is not None:
            expired.append(story)
    ledger.end_early(expired, OutcomeKind.EXPIRED)
    budget -= len(expired)
    if ledger.deleting:
        budget = _end_deleted(ledger, budget)
    _forget(ledger, budget)


def _forget(ledger: Ledger, budget: int) -> None:
    """Drop contents, and then ids, whose retention is over, the oldest first."""
    policy = ledger.policy
    while (
        budget > 0
        and ledger.whole
        and _is_over(ledger, ledger.whole[0], policy.outcome_retention_ms)
    ):
        story = ledger.whole.popleft()
        ledger.drop_content(story)
        ledger.bare.append(story)
        budget -= 1
    while (
        budget > 0 and ledger.bare and _is_over(ledger, ledger.bare[0], policy.dedupe_retention_ms)
    ):
        story = ledger.bare.popleft()
        del ledger.known[story.name]
        if not story.number:
            ledger.tenant_use(story.tenant).cancels -= 1
            ledger.forget_idle_tenants((story.tenant,))
        budget -= 1


def _is_over(ledger: Ledger, story: Story, retention_ms: int) -> bool:
    assert story.outcome is not None
    return story.outcome.at_ms + retention_ms <= ledger.now_ms


def _end_deleted(ledger: Ledger, budget: int) -> int:
    """End what does not run of deleted versions; return how many more things may end."""
    for model in sorted(ledger.deleting):
        if budget <= 0:
            break
        doomed = _doomed(ledger, model, budget)
        said = f"{model[0]} version {model[1]} was deleted"
        ledger.end_early(doomed, OutcomeKind.FAILED, "unknown_model", said)
        budget -= len(doomed)
    return budget


def _doomed(ledger: Ledger, model: ModelId, budget: int) -> list[Story]:
    """Return requests of a deleted version: by key, priority and from the newest; batches."""
    found: list[Story] = []
    for key in sorted(key for key in ledger.windows if key[:2] == model):
        waiting = list(ledger.windows[key].values())
        found += sorted(waiting, key=lambda story: (story.priority, -story.number))
    found = found[:budget]
    for number in sorted(ledger.batches):
        if len(found) >= budget:
            break
        batch = ledger.batches[number]
        if batch.key[:2] == model and batch.live is None:
            found += [ledger.open[member] for member in batch.members if member in batch.open]
    return found


def finish_deleted(ledger: Ledger) -> None:
    """Let deleted versions be gone of which nothing is left."""
    busy = {batch.key[:2] for batch in ledger.batches.values()}
    for model in list(ledger.deleting):
        if model not in busy and not ledger.model_use((*model, "")).requests:
            del ledger.models[model], ledger.deleting[model]
