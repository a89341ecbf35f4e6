"""What executors report: outcomes, fenced by the attempt that gave them.

A report that is late, doubled or about somebody else's batch changes nothing.
What lives here: Complete. Called by: `apply`. Total. Deterministic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from coordinator.core.batches import is_current
from coordinator.core.effects import Effect, Ended, Finished, Reply, Verdict
from coordinator.core.ending import drop_batch, end, end_many
from coordinator.core.slots import note_failure, note_success, release_slot
from coordinator.core.state import State
from coordinator.core.values import Batch, Request, Run
from raftbatch.kinds import OutcomeKind
from raftbatch.records import Complete

_T = TypeVar("_T")
_FAILED = OutcomeKind.FAILED
_KINDS = (OutcomeKind.OK, _FAILED)
NO_OUTCOME = "no_outcome"
RESULT_TOO_LARGE = "result_too_large"


def complete(state: State, record: Complete, effects: list[Effect]) -> Reply:
    """Give the requests of a batch, or of a part of it, their outcomes."""
    batch = state.batches.get(record.batch)
    if (
        batch is None
        or not is_current(batch, record.attempt, record.fence)
        or batch.executor != record.executor
        or batch.incarnation != record.incarnation
    ):
        return Reply(Verdict.STALE_FENCE, "that is not the current attempt")
    if not frozenset(batch.members).issuperset(record.numbers):
        return Reply(Verdict.INVALID_REQUEST, "the report names requests of another batch")
    ended = _end_reported(state, record)
    succeeded = batch.has_success or OutcomeKind.OK in record.kind
    if record.last:
        ended += _end_the_rest(state, batch)
    if ended:
        effects.append(Ended(tuple(ended), batch.number))
    if not record.last:
        state.batches[batch.number] = replace(
            batch,
            open_requests=batch.open_requests - len(ended),
            rows=batch.rows - sum([each.rows for each in ended]),
            size=batch.size - sum([each.size for each in ended]),
            has_success=succeeded,
        )
        return Reply(Verdict.OK, "", len(ended))
    release_slot(state, state.executors[batch.executor], batch.number, batch.fence)
    if succeeded:
        note_success(state, batch.executor)
    elif record.kind:
        # Every single request failed: as likely the device's doing as the requests'.
        note_failure(state, batch.executor, batch.root, effects)
    drop_batch(state, batch)
    state.counters.completed += 1
    effects.append(Finished(batch.executor, batch.incarnation, batch.number, batch.fence))
    return Reply(Verdict.OK, "", len(ended))


def _end_reported(state: State, record: Complete) -> list[Request]:
    """End those that have no outcome yet: a cancelled one keeps the one it has."""
    run = Run(
        record.batch,
        record.attempt,
        record.fence,
        record.executor,
        record.incarnation,
        record.queue_ns,
        record.compute_input_ns,
        record.infer_ns,
        record.output_ns,
        record.padded,
        record.fingerprint,
    )
    found = [state.requests.get(number) for number in record.numbers]
    kinds = [_KINDS[kind] for kind in record.kind]
    codes, messages, results = record.code, record.message, record.result
    ended = [request for request in found if request is not None]
    if len(ended) < len(found):
        left = [place for place, request in enumerate(found) if request is not None]
        kinds = [kinds[place] for place in left]
        codes = tuple([codes[place] for place in left])
        messages = tuple([messages[place] for place in left])
        results = tuple([results[place] for place in left])
    result_bytes_max = state.policy.result_bytes_max
    if results and max(map(len, results)) > result_bytes_max:
        said = f"the result is more than result_bytes_max = {result_bytes_max} bytes"
        large = [len(result) > result_bytes_max for result in results]
        kinds = [_FAILED if it else kind for it, kind in zip(large, kinds, strict=True)]
        codes = _where(large, RESULT_TOO_LARGE, codes)
        messages = _where(large, said, messages)
        results = _where(large, b"", results)
    for request in ended:
        del state.batch_of[request.number]
    end_many(state, ended, kinds, codes, messages, results, run)
    return ended


def _where(chosen: Sequence[bool], value: _T, column: Sequence[_T]) -> tuple[_T, ...]:
    return tuple([value if it else each for it, each in zip(chosen, column, strict=True)])


def _end_the_rest(state: State, batch: Batch) -> list[Request]:
    """End those that the whole report said nothing about, so that none is without an outcome."""
    rest = [state.requests[number] for number in batch.members if number in state.requests]
    for request in rest:
        del state.batch_of[request.number]
        end(state, request, OutcomeKind.FAILED, NO_OUTCOME, "the report does not name it")
    return rest
