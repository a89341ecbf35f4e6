"""Whole states, held against the checker's model, and against what executors hold.

What lives here: these comparisons. What must never live here: when they are made.
Called by: `chaos.checkers.scheduler`. Total. Deterministic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from chaos.checkers.scheduler_model import Model
from coordinator.core.state import State
from raftbatch.ids import NodeId

_COUNTERS = ("admitted", "refused", "succeeded", "failed", "expired", "cancelled")


class LiveExecutor(Protocol):
    """What is asked of a simulated executor."""

    @property
    def incarnation(self) -> int:
        """The one it lives under; 0: it has none."""

    @property
    def holds(self) -> tuple[tuple[int, int], ...]:
        """Batch and fence of all that takes one of its slots."""


def still_open(
    model: Model, states: Mapping[NodeId, State], executors: Mapping[str, LiveExecutor]
) -> str | None:
    """Return the first thing that is not at rest; None: all is."""
    return next(_open_things(model, states, executors), None)


def _open_things(
    model: Model, states: Mapping[NodeId, State], executors: Mapping[str, LiveExecutor]
) -> Iterator[str]:
    if model.open:
        story = next(iter(model.open.values()))
        yield f"{len(model.open)} requests have no outcome, the first is {story}"
    for node, state in states.items():
        if state.requests or state.batches:
            yield f"{node} has {len(state.requests)} requests and {len(state.batches)} batches"
        if state.deleting:
            yield f"{node} has not finished to delete {sorted(state.deleting)}"
        for name in sorted(state.executors):
            executor, live = state.executors[name], executors.get(name)
            if executor.held:
                yield f"{node}: {name} holds {executor.held}"
            if live is None or live.incarnation != executor.incarnation:
                yield f"{node}: incarnation {executor.incarnation} of {name} is not over"
        for name, live in executors.items():
            if live.holds:
                yield f"{name} holds {live.holds}, {node} has {state.executors.get(name)}"
            if name not in state.executors:
                yield f"{name} lives as {live.incarnation}, and {node} does not know it"


def differs(model: Model, state: State) -> str | None:
    """Return the first thing in a state that is not as the model has it; None: nothing is."""
    return next(_differences(model, state), None)


def _differences(model: Model, state: State) -> Iterator[str]:
    counters = state.counters
    for name in _COUNTERS:
        if getattr(counters, name) != model.totals[name]:
            yield f"{getattr(counters, name)} are counted {name}, and {model.totals[name]} were"
    if state.all_use.counts() != model.waiting.of(None):
        yield f"{state.all_use.counts()} wait, and {model.waiting.of(None)} do"
    yield from _of_requests(model, state)
    yield from _of_outcomes(model, state)
    yield from _of_batches(model, state)
    yield from _of_executors(model, state)
    models = {each: model.models[each] for each in model.models}
    if dict(state.models) != models or sorted(state.deleting) != sorted(model.deleting):
        yield f"the models are {sorted(state.models)}, not {sorted(models)}"
    if state.policy != model.policy:
        yield f"the policy is {state.policy}"
    if (state.now_ms, state.term) != (model.now_ms, model.term):
        yield f"it is {state.now_ms} in term {state.term}"


def _of_requests(model: Model, state: State) -> Iterator[str]:
    if sorted(state.requests) != sorted(model.open):
        yield f"the open requests are {sorted(state.requests)}, not {sorted(model.open)}"
        return
    for number, story in model.open.items():
        request = state.requests[number]
        found = (*request[:9], request.payload, request.parameters, request.traceparent)
        wanted = (
            *(number, story.name, story.key, story.rows, story.priority, story.at_ms),
            *(story.deadline_ms, story.ticket, story.content_hash),
            *(story.payload, story.parameters, story.traceparent),
        )
        if found != wanted:
            yield f"request {number} is {found}, not {wanted}"
        if state.batch_of.get(number, 0) != story.batch:
            yield f"request {number} is in {state.batch_of.get(number)}, not in {story.batch}"


def _of_outcomes(model: Model, state: State) -> Iterator[str]:
    """An outcome never changes, and stays for its retention; an id stays for longer."""
    for name, story in model.names.items():
        ended, known = story.ended, state.dedupe.get(name)
        if ended is None:
            continue
        if known is None or known >= 0:
            if story.must_be_known(model.policy, model.now_ms):
                yield f"{name!r} is not known any more"
            continue
        outcome = state.ended[~known]
        if not outcome.is_kept and not story.must_be_whole(model.policy, model.now_ms):
            outcome = outcome._replace(
                message=ended.message, result=ended.result, run=ended.run, is_kept=ended.is_kept
            )
        if outcome != ended:
            yield f"{name!r} has the outcome {outcome}, and had {ended}"


def _of_batches(model: Model, state: State) -> Iterator[str]:
    found = {
        number: (
            *(batch.key, batch.members, batch.open_requests, batch.executor, batch.incarnation),
            *(batch.fence, batch.assigned, batch.failed, batch.not_before_ms, batch.root),
        )
        for number, batch in state.batches.items()
    }
    wanted = {
        number: (
            *(group.key, group.members, len(group.open), group.executor, group.incarnation),
            *(group.fence, group.assigned, group.failed, group.not_before_ms, group.root),
        )
        for number, group in model.batches.groups.items()
    }
    if found != wanted:
        yield f"the batches are {found}, not {wanted}"


def _of_executors(model: Model, state: State) -> Iterator[str]:
    found = {
        name: (
            *(each.incarnation, each.slots, [tuple(held) for held in each.held]),
            *(each.is_draining, each.is_suspended, each.models, list(each.failures)),
        )
        for name, each in state.executors.items()
    }
    wanted = {
        name: (
            *(each.incarnation, each.slots, [(*at, lapsed) for at, lapsed in each.held.items()]),
            *(each.is_draining, each.is_suspended, tuple(sorted(each.models)), each.failures),
        )
        for name, each in model.batches.holders.items()
    }
    if found != wanted:
        yield f"the executors are {found}, not {wanted}"
