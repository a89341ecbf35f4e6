"""A request gets its outcome: the one place where that happens.

What lives here: ending requests, and what follows for the batch they are in.
What must never live here: why. Called by: the rest of `apply`. Total.
Deterministic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from coordinator.core.effects import BatchGone, Effect, Ended, Shed
from coordinator.core.state import ModelId, State
from coordinator.core.values import OUTCOME_BYTES, Batch, Outcome, Request, Run
from raftbatch.kinds import OutcomeKind

_NO_BUCKET: dict[int, None] = {}
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
    ended, dedupe, table = state.ended, state.dedupe, state.requests
    now_ms, index, order = state.now_ms, state.index, state.next_ended
    at_last, deadline_last, bucket, key_last, scope = 0, 0, _NO_BUCKET, None, "\0"
    # Neighbours mostly have key and tenant in common: what waits is counted once for all.
    sums: dict[tuple[ModelId, str], list[int]] = {}
    counted = [0, 0, 0]
    for request, kind, code, message, result in zip(
        requests, kinds, codes, messages, results, strict=True
    ):
        number, name, key, rows, _, at_ms, deadline_ms, ticket, content_hash, size, _, _, _ = (
            request
        )
        ended[order] = _outcome(
            (
                name,
                number,
                ticket,
                content_hash,
                kind,
                code,
                message,
                result,
                now_ms,
                index,
                run,
                True,
            )
        )
        dedupe[name] = ~order
        order += 1
        del table[number]
        if deadline_ms:
            if deadline_ms != deadline_last or at_ms != at_last:
                at_last, deadline_last = at_ms, deadline_ms
                bucket = state.timers.bucket_left(at_ms, deadline_ms)
            bucket.pop(number, None)
        if key is not key_last or not name.startswith(scope):
            key_last, scope = key, name[: name.index("\0") + 1]
            counted = sums.setdefault((key[:2], scope[:-1]), [0, 0, 0])
        counted[0] += 1
        counted[1] += rows
        counted[2] += size
    state.next_ended = order
    state.rate_ended += len(requests)
    state.outcome_bytes += OUTCOME_BYTES * len(requests)
    state.outcome_bytes += sum(map(len, results)) + sum(map(len, messages))
    _uncount(state, sums)
    state.counters.succeeded += kinds.count(OutcomeKind.OK)
    state.counters.failed += kinds.count(OutcomeKind.FAILED)
    state.counters.expired += kinds.count(OutcomeKind.EXPIRED)
    state.counters.cancelled += kinds.count(OutcomeKind.CANCELLED)


def _uncount(state: State, sums: dict[tuple[ModelId, str], list[int]]) -> None:
    for (model_id, tenant), (requests, rows, size) in sums.items():
        for use in (state.all_use, state.model_use[model_id], state.tenant_use[tenant]):
            use.requests -= requests
            use.rows -= rows
            use.size -= size
        state.forget_idle_tenant(tenant)


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
