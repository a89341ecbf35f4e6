"""What is true of every state, whatever was applied to it.

Every index is made anew from the tables and compared, every count is counted
anew. Slow: tests and simulations call it after each entry, a replica seldom.
What lives here: the check. Called by: tests, simulations, the replica's own
doubts. Total but for Invariant. Deterministic.
"""

from __future__ import annotations

from collections.abc import Mapping

from coordinator.core.indexes import Indexing
from coordinator.core.state import TABLES, State
from coordinator.core.table import ordered
from coordinator.core.usage import ModelUse, TenantUse, Window
from coordinator.core.values import Batch
from raftbatch.errors import Invariant


def check(state: State) -> None:
    """Look at everything.

    Raises:
        Invariant: something is not as it must be; the message says what.
    """
    _check_scalars(state)
    _check_requests(state)
    _check_outcomes(state)
    _check_batches(state)
    _check_executors(state)
    _check_indexes(state)


def _hold(holds: bool, message: str) -> None:
    if not holds:
        raise Invariant(message)


def _check_scalars(state: State) -> None:
    policy = state.policy
    _hold(set(state.model_use) == set(state.models), "each model version has its counters")
    _hold(set(state.deleting) <= set(state.models), "what is being deleted is there")
    _hold(
        0 <= state.oldest_ended <= state.oldest_kept <= state.next_ended,
        "outcomes go in the order in which they came",
    )
    _hold(len(state.quarantine) <= policy.quarantine_requests_max, "quarantine is bounded")
    _hold(state.quarantine_bytes <= policy.quarantine_bytes_max, "its bytes are, too")
    for name, value in zip(state.counters.__slots__, state.counters.values(), strict=True):
        _hold(value >= 0, f"the counter {name} is {value}")
    counters = state.counters
    given = counters.succeeded + counters.failed + counters.expired + counters.cancelled
    _hold(
        counters.admitted == given + len(state.requests),
        f"{counters.admitted} were admitted, {given} ended, {len(state.requests)} are open",
    )


def _check_requests(state: State) -> None:
    for number in ordered(state.requests):
        request = state.requests[number]
        _hold(request.number == number < state.next_request, f"request {number} has its number")
        _hold(request.key[:2] in state.models, f"the model of request {number} is there")
        _hold(number not in state.quarantine, f"request {number} is not set aside")
        _hold(request.at_ms <= state.now_ms, f"request {number} came in the past")
        _hold(
            not request.deadline_ms or request.deadline_ms > request.at_ms,
            f"request {number} had time",
        )


def _check_outcomes(state: State) -> None:
    orders = ordered(state.ended)
    _hold(
        orders == list(range(state.oldest_ended, state.next_ended)),
        "outcomes are known without a gap",
    )
    at_ms = 0
    for order in orders:
        outcome = state.ended[order]
        _hold(outcome.at_ms >= at_ms, f"outcome {order} follows the one before")
        _hold(
            not outcome.is_kept or order >= state.oldest_kept,
            f"outcome {order} is kept, though it is old",
        )
        _hold(outcome.number not in state.requests, f"request {outcome.number} has one state")
        at_ms = outcome.at_ms


def _check_batches(state: State) -> None:
    seen: set[int] = set()
    for number in ordered(state.batches):
        batch = state.batches[number]
        _hold(batch.number == number < state.next_batch, f"batch {number} has its number")
        _hold(not seen & set(batch.members), f"batch {number} shares no request")
        seen |= set(batch.members)
        found = [state.requests[each] for each in batch.members if each in state.requests]
        _hold(len(found) == batch.open_requests, f"batch {number} counts its requests")
        _hold(sum([each.rows for each in found]) == batch.rows, f"batch {number} counts rows")
        _hold(sum([each.size for each in found]) == batch.size, f"batch {number} counts bytes")
        _hold(all(each.key == batch.key for each in found), f"batch {number} mixes no keys")
        model = state.models[batch.key[:2]]
        _hold(
            batch.rows <= model.rows_max and batch.size <= model.max_batch_bytes,
            f"batch {number} is within its limits",
        )
        _hold(bool(found) or bool(batch.executor), f"batch {number} is there for something")
        _hold(batch.failed <= batch.assigned, f"batch {number} failed no more than it ran")
        _check_assignment(state, batch)


def _check_assignment(state: State, batch: Batch) -> None:
    if not batch.executor:
        _hold(not batch.fence and not batch.incarnation, f"batch {batch.number} is nowhere")
        return
    executor = state.executors.get(batch.executor)
    _hold(
        executor is not None and executor.incarnation == batch.incarnation,
        f"batch {batch.number} is with a live executor",
    )
    _hold(
        batch.failed < batch.attempts_max and batch.assigned <= batch.assigned_max,
        f"batch {batch.number} was not exhausted",
    )
    _hold(0 < batch.fence <= state.index, f"batch {batch.number} has a fence")


def _check_executors(state: State) -> None:
    for name in ordered(state.executors):
        executor = state.executors[name]
        _hold(executor.executor == name, f"{name} has its name")
        _hold(0 < executor.incarnation <= state.index, f"{name} has an incarnation")
        _hold(executor.free_slots >= 0, f"{name} holds no more than it has slots")
        _hold(len(set(executor.held)) == len(executor.held), f"{name} holds each thing once")
        for held in executor.held:
            batch = state.batches.get(held.batch)
            is_current = batch is not None and batch.executor == name and batch.fence == held.fence
            _hold(is_current != held.is_lapsed, f"{name} holds what it was assigned: {held}")
    places = sorted(
        [
            (batch.executor, batch.number, batch.fence)
            for batch in state.batches.values()
            if batch.executor
        ]
    )
    slots = sorted(
        [
            (name, held.batch, held.fence)
            for name, executor in state.executors.items()
            for held in executor.held
            if not held.is_lapsed
        ]
    )
    _hold(places == slots, "each assignment takes its slot")


def _check_indexes(state: State) -> None:
    fresh = State()
    for name in TABLES:
        setattr(fresh, name, getattr(state, name))
    fresh.policy = state.policy
    indexing = Indexing(fresh)
    while indexing.step(1 << 20):
        pass
    _hold(fresh.dedupe == state.dedupe, "each id is known")
    _hold(len(state.dedupe) == len(state.requests) + len(state.ended), "no id is known twice")
    _hold(fresh.batch_of == state.batch_of, "each request knows its batch")
    _hold(fresh.outcome_bytes == state.outcome_bytes, "bytes of outcomes are counted")
    _hold(fresh.tenant_outcomes == state.tenant_outcomes, "bytes of each tenant's outcomes, too")
    _hold(fresh.outcome_texts == state.outcome_texts, "texts of outcomes are counted")
    _hold(fresh.id_texts == state.id_texts, "texts of ids are counted")
    _hold(fresh.all_use.texts == state.all_use.texts, "texts of what waits are counted")
    _hold(fresh.quarantine_bytes == state.quarantine_bytes, "bytes in quarantine are counted")
    _hold(_windows(fresh.windows) == _windows(state.windows), "windows hold what waits")
    _hold(fresh.all_use.counts() == state.all_use.counts(), "what waits is counted")
    _hold(_tenants(fresh.tenant_use) == _tenants(state.tenant_use), "for each tenant")
    _hold(_models(fresh.model_use) == _models(state.model_use), "for each model version")
    alive = [number for number in state.timers.watched() if number in state.requests]
    _hold(alive == fresh.timers.watched(), "each deadline is watched")


def _windows(windows: Mapping[tuple[str, str, str], Window]) -> object:
    return {
        key: (
            {priority: list(lane) for priority, lane in window.lanes.items()},
            (window.requests, window.rows, window.size),
        )
        for key, window in windows.items()
    }


def _tenants(tenants: Mapping[str, TenantUse]) -> object:
    return {
        tenant: (use.counts(), use.cancels, use.texts, use.cancel_names)
        for tenant, use in tenants.items()
    }


def _models(models: Mapping[tuple[str, str], ModelUse]) -> object:
    return {
        model_id: (use.counts(), use.texts, sorted(use.windows), sorted(use.batches))
        for model_id, use in models.items()
    }
