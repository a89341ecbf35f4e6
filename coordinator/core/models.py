"""Model versions and the policy: what operators put, and what becomes of what they delete.

What lives here: these records, and ending what waits for a deleted version, some
with each entry. Called by: `apply`. Total. Deterministic.
"""

from __future__ import annotations

from coordinator.core.batches import trim_quarantine
from coordinator.core.effects import (
    DONE,
    Effect,
    ModelChanged,
    PolicyChanged,
    Reply,
    Verdict,
)
from coordinator.core.ending import end_early
from coordinator.core.state import ModelId, State
from coordinator.core.usage import ModelUse
from coordinator.core.values import Request
from raftbatch.kinds import OutcomeKind
from raftbatch.records import DeleteModel, PutModel, PutPolicy


def put_model(state: State, record: PutModel, effects: list[Effect]) -> Reply:
    """Add a version, or change its settings where nothing that waits would break them."""
    model = record.model
    model_id = (model.name, model.version)
    if model_id in state.deleting:
        return Reply(Verdict.DRAINING, "it is being deleted; try again when it is gone")
    old = state.models.get(model_id)
    if old is None:
        if len(state.models) >= state.policy.models_max:
            most = state.policy.models_max
            return Reply(Verdict.OVERLOADED, f"there are models_max = {most}")
        state.model_use[model_id] = ModelUse()
    elif state.model_use[model_id].requests and (
        model.rows_max < old.rows_max
        or bool(model.max_batch_size) != bool(old.max_batch_size)
        or model.max_batch_bytes < old.max_batch_bytes
        or model.priority_levels < old.priority_levels
    ):
        return Reply(
            Verdict.INVALID_REQUEST,
            "what a batch may hold cannot shrink while requests wait; put another version",
        )
    state.models[model_id] = model
    state.model_use[model_id].limit_by_model(model)
    effects.append(ModelChanged(*model_id))
    return DONE


def delete_model(state: State, record: DeleteModel, effects: list[Effect]) -> Reply:
    """Begin to delete a version: nothing new for it is taken in, or placed."""
    model_id = (record.name, record.version)
    if model_id not in state.models or model_id in state.deleting:
        return Reply(Verdict.UNKNOWN_MODEL, "there is no such version")
    state.deleting[model_id] = None
    effects.append(ModelChanged(*model_id))
    return DONE


def put_policy(state: State, record: PutPolicy, effects: list[Effect]) -> Reply:
    """Change the limits; what exceeds them already stays until it ends."""
    state.policy = record.policy
    state.all_use.limit_by_policy(record.policy)
    for tenant, use in state.tenant_use.items():
        use.limit_by_tenant(record.policy, tenant)
    trim_quarantine(state)
    effects.append(PolicyChanged())
    return DONE


def end_deleted(state: State, budget: int, effects: list[Effect]) -> int:
    """End requests of deleted versions that do not run; return how many more things may end."""
    for model_id in sorted(state.deleting):
        if budget <= 0:
            break
        doomed = _doomed(state, state.model_use[model_id], budget)
        end_early(
            state,
            doomed,
            OutcomeKind.FAILED,
            effects,
            "unknown_model",
            f"{model_id[0]} version {model_id[1]} was deleted",
        )
        budget -= len(doomed)
    return budget


def finish_deleted(state: State, effects: list[Effect]) -> None:
    """Let deleted versions be gone of which nothing is left."""
    for model_id in sorted(state.deleting):
        _finish(state, model_id, effects)


def _doomed(state: State, use: ModelUse, budget: int) -> list[Request]:
    """Return requests of a deleted version: windows in the order of keys, then batches."""
    found: list[Request] = []
    if use.doomed is None:
        use.doomed = sorted(use.windows, reverse=True)
    while use.doomed and len(found) < budget:
        window = use.windows.get(use.doomed[-1])
        if window is None:
            use.doomed.pop()
            continue
        for _, lane in sorted(window.lanes.items()):
            # From its end: a dict that loses its first keys gets slow to begin with.
            for number in reversed(lane):
                if len(found) >= budget:
                    break
                found.append(state.requests[number])
        if len(found) < budget:
            use.doomed.pop()
    if len(found) < budget:
        for number in sorted(use.batches):
            batch = state.batches[number]
            if not batch.executor:
                found += [state.requests[n] for n in batch.members if n in state.requests]
            if len(found) >= budget:
                break
    return found


def _finish(state: State, model_id: ModelId, effects: list[Effect]) -> None:
    """Let a deleted version be gone once nothing of it is left."""
    use = state.model_use[model_id]
    if not use.requests and not use.batches:
        del state.models[model_id]
        del state.model_use[model_id]
        del state.deleting[model_id]
        effects.append(ModelChanged(*model_id))
