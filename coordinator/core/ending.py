"""A request gets its outcome: the one place where that happens.

What lives here: ending requests, and what follows for the batch they are in.
What must never live here: why. Called by: the rest of `apply`. Total.
Deterministic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import repeat
from operator import methodcaller

from coordinator.core import texts
from coordinator.core.columns import at, is_uniform, places_of
from coordinator.core.effects import BatchGone, Effect, Ended, Shed
from coordinator.core.state import ModelId, State
from coordinator.core.values import OUTCOME_BYTES, Batch, Outcome, Request, Run
from raftbatch.kinds import Key, OutcomeKind

_outcome = partial(tuple.__new__, Outcome)
"""As the class itself, without the checks of a call by names: there are many."""


def end_many(
    state: State,
    requests: Sequence[Request],
    kinds: Sequence[OutcomeKind],
    codes: Sequence[str],
    messages: Sequence[str],
    results: Sequence[bytes],
    run: Run | None,
) -> None:
    """Give requests their outcomes, in order; columns of equal length.

    Where they stood, window or batch, is the caller's to mend.
    """
    if not requests:
        return
    count, order = len(requests), state.next_ended
    state.next_ended = order + count
    numbers, names, keys, rows, _, at_ms, deadlines, tickets, hashes, sizes, *_ = zip(
        *requests, strict=True
    )
    outcomes = zip(
        names,
        numbers,
        tickets,
        hashes,
        kinds,
        codes,
        messages,
        results,
        repeat(state.now_ms),
        repeat(state.index),
        repeat(run),
        repeat(True),
        strict=False,  # some of them have no end
    )
    state.ended.update(zip(range(order, order + count), map(_outcome, outcomes), strict=True))
    state.dedupe.update(zip(names, range(~order, ~order - count, -1), strict=True))
    table = state.requests
    for number in numbers:
        del table[number]
    for (admitted_ms, deadline_ms), places in places_of(
        [*zip(at_ms, deadlines, strict=True)]
    ).items():
        if deadline_ms:
            bucket = state.timers.bucket_left(admitted_ms, deadline_ms)
            for number in at(numbers, places):
                bucket.pop(number, None)
    _uncount(state, names, keys, rows, sizes, (messages, results))
    _count_texts(state, requests, codes, messages, run)
    state.rate_ended += count
    state.counters.succeeded += kinds.count(OutcomeKind.OK)
    state.counters.failed += kinds.count(OutcomeKind.FAILED)
    state.counters.expired += kinds.count(OutcomeKind.EXPIRED)
    state.counters.cancelled += kinds.count(OutcomeKind.CANCELLED)


def _uncount(
    state: State,
    names: Sequence[str],
    keys: Sequence[Key],
    rows: Sequence[int],
    sizes: Sequence[int],
    left: tuple[Sequence[str], Sequence[bytes]],
) -> None:
    """Let requests wait no more, in the counters. Mostly they have tenant and key in common.

    Args:
        state: whose counters.
        names, keys, rows, sizes: of the requests.
        left: messages and results of their outcomes.
    """
    tenant = names[0][: names[0].index("\0")]
    if is_uniform(keys) and all(map(methodcaller("startswith", f"{tenant}\0"), names)):
        groups: dict[tuple[ModelId, str], Sequence[int]]
        groups = {(keys[0][:2], tenant): range(len(names))}
    else:
        groups = places_of(
            [(key[:2], name[: name.index("\0")]) for key, name in zip(keys, names, strict=True)]
        )
    for (model_id, tenant), places in groups.items():
        of_rows, of_sizes = sum(at(rows, places)), sum(at(sizes, places))
        for use in (state.all_use, state.model_use[model_id], state.tenant_use[tenant]):
            use.requests -= len(places)
            use.rows -= of_rows
            use.size -= of_sizes
        held = OUTCOME_BYTES * len(places) + sum([sum(map(len, at(x, places))) for x in left])
        state.keep_outcomes(tenant, held)
        state.forget_idle_tenant(tenant)


def _count_texts(
    state: State,
    requests: Sequence[Request],
    codes: Sequence[str],
    messages: Sequence[str],
    run: Run | None,
) -> None:
    """Count what texts of requests took no more, and what those of their outcomes take."""
    if state.all_use.texts:
        keys, traces = [each.key for each in requests], [each.traceparent for each in requests]
        for request, size in zip(requests, texts.of_requests(keys, traces), strict=True):
            uses = [state.all_use, state.model_use[request.key[:2]]]
            own = state.tenant_use.get(request.tenant)
            for use in uses if own is None else [*uses, own]:  # an idle one is gone
                use.texts -= size
    if any(codes):
        state.id_texts += sum(map(texts.of_code, codes))
    beyond = max(0, texts.of_run(run)) * len(requests)
    if any(messages):
        beyond += sum(map(texts.of_message, messages))
    state.outcome_texts += beyond


def end(
    state: State, request: Request, kind: OutcomeKind, code: str = "", message: str = ""
) -> None:
    """Give one request its outcome, which no run gave."""
    end_many(state, (request,), (kind,), (code,), (message,), (b"",), None)


def end_early(
    state: State,
    requests: Sequence[Request],
    kind: OutcomeKind,
    effects: list[Effect],
    code: str = "",
    message: str = "",
) -> None:
    """End requests that no report is about, wherever they are, in order."""
    count = len(requests)
    if not count:
        return
    waiting = []
    in_batches: dict[int, list[Request]] = {}
    for request in requests:
        batch = state.batch_of.pop(request.number, 0)
        if batch:
            in_batches.setdefault(batch, []).append(request)
        else:
            waiting.append(request)
    state.take_from_windows(waiting)
    end_many(
        state,
        requests,
        (kind,) * count,
        (code,) * count,
        (message,) * count,
        (b"",) * count,
        None,
    )
    if waiting:
        effects.append(Ended(tuple(waiting), 0))
    for number, ended in in_batches.items():
        effects.append(Ended(tuple(ended), number))
        leave_batch(state, state.batches[number], ended, effects)


def end_each(
    state: State, requests: Sequence[Request], kind: OutcomeKind, effects: list[Effect]
) -> None:
    """End requests, each once, with the effects that `end_early` of one after the other has.

    In less time than that takes; the log of older programs has such effects.
    """
    count = len(requests)
    batches = [state.batch_of.pop(request.number, 0) for request in requests]
    waiting = [request for request, batch in zip(requests, batches, strict=True) if not batch]
    state.take_from_windows(waiting)
    nothing = ("",) * count
    end_many(state, requests, (kind,) * count, nothing, nothing, (b"",) * count, None)
    for request, batch in zip(requests, batches, strict=True):
        effects.append(Ended((request,), batch))
        if batch:
            leave_batch(state, state.batches[batch], (request,), effects)


def leave_batch(
    state: State, batch: Batch, ended: Sequence[Request], effects: list[Effect]
) -> None:
    """Take requests that have ended out of a batch; an empty one that is not assigned goes."""
    left = replace(
        batch,
        open_requests=batch.open_requests - len(ended),
        rows=batch.rows - sum([each.rows for each in ended]),
        size=batch.size - sum([each.size for each in ended]),
    )
    if batch.executor:
        numbers = tuple([each.number for each in ended])
        effects.append(Shed(batch.executor, batch.incarnation, batch.number, batch.fence, numbers))
    elif not left.open_requests:
        drop_batch(state, batch)
        effects.append(BatchGone(batch.number))
        return
    state.batches[batch.number] = left


def drop_batch(state: State, batch: Batch) -> None:
    """Remove a batch none of whose requests is left."""
    del state.batches[batch.number]
    del state.model_use[batch.key[:2]].batches[batch.number]
