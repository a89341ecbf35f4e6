"""What clients say and are told, between messages and the values of `coordinator.api`.

What lives here: that translation, field by field. What must never live here: a call.
Called by: `gateway`, `session`. Payloads and results pass through as they are. Total,
but for what `api` then says of the values.
"""

from __future__ import annotations

from collections.abc import Callable

from coordinator.core.effects import Verdict
from coordinator.core.values import Outcome, Run
from coordinator.rpc.errors import AddressOf, to_message
from coordinator.submission import Submission
from raftbatch.errors import OutcomeForgotten, OutcomeUnknown, RaftbatchError
from raftbatch.kinds import OutcomeKind
from raftbatch.settings import Model
from raftbatch.trailers import error_in
from raftbatch.v1 import gateway_pb2 as pb
from raftbatch.v1 import model_pb2

DEFAULT_TENANT = "default"
"""Whose requests they are of whoever does not say."""

_KINDS = {
    OutcomeKind.OK: pb.OUTCOME_KIND_OK,
    OutcomeKind.FAILED: pb.OUTCOME_KIND_FAILED,
    OutcomeKind.EXPIRED: pb.OUTCOME_KIND_EXPIRED,
    OutcomeKind.CANCELLED: pb.OUTCOME_KIND_CANCELLED,
}
_CANCELLED = {
    Verdict.OK: pb.CANCEL_STATE_CANCELLED,
    Verdict.ENDED: pb.CANCEL_STATE_ENDED,
    Verdict.UNKNOWN_REQUEST: pb.CANCEL_STATE_REMEMBERED,
}

_VERDICTS = {state: verdict for verdict, state in _CANCELLED.items()}


def submission(tenant: str, message: pb.Submission) -> Submission:
    """Return a request as it was asked for."""
    return Submission(
        tenant or DEFAULT_TENANT,
        message.request_id,
        message.model,
        message.version,
        message.signature,
        message.rows,
        message.payload,
        message.priority if message.HasField("priority") else None,
        message.timeout_ms,
        message.parameters,
        message.traceparent,
    )


def outcome_message(
    outcome: Outcome,
    run: pb.Run | None,
    number: int = 0,
    make: Callable[..., pb.Outcome] = pb.Outcome,
) -> pb.Outcome:
    """Return an outcome as it is told.

    Args:
        outcome: which.
        run: `run_message` of its run, which many have in common.
        number: that it answers in a session.
        make: makes the message of its fields.
    """
    return make(
        kind=_KINDS[outcome.kind],
        final=True,
        result=outcome.result,
        code=outcome.code,
        message=outcome.message,
        index=outcome.ticket,
        ended_index=outcome.ended_index,
        at_ms=outcome.at_ms,
        run=run,
        number=number,
    )


def run_message(run: Run | None) -> pb.Run | None:
    """Return the run that gave an outcome, as it is told."""
    if run is None:
        return None
    return pb.Run(
        batch=run.batch,
        attempt=run.attempt,
        fence=run.fence,
        executor=run.executor,
        incarnation=run.incarnation,
        queue_ns=run.queue_ns,
        compute_input_ns=run.compute_input_ns,
        infer_ns=run.infer_ns,
        output_ns=run.output_ns,
        padded=run.padded,
        fingerprint=run.fingerprint,
    )


def cancel_result(answer: Verdict | RaftbatchError, address_of: AddressOf) -> pb.CancelResult:
    """Return what became of a cancel."""
    if isinstance(answer, RaftbatchError):
        return pb.CancelResult(error=to_message(answer, address_of))
    return pb.CancelResult(state=_CANCELLED[answer])


def acknowledge_result(
    answer: Verdict | RaftbatchError, address_of: AddressOf
) -> pb.AcknowledgeResult:
    """Return what became of an acknowledgement."""
    if isinstance(answer, RaftbatchError):
        return pb.AcknowledgeResult(error=to_message(answer, address_of))
    return pb.AcknowledgeResult()


def cancel_verdict(result: pb.CancelResult) -> Verdict | RaftbatchError:
    """Return what another node says of a cancel: `cancel_result`, read back."""
    if result.HasField("error"):
        return error_in(result.error)
    found = _VERDICTS.get(result.state)
    return OutcomeUnknown("the answer says nothing of it") if found is None else found


def acknowledge_verdict(result: pb.AcknowledgeResult) -> Verdict | RaftbatchError:
    """Return what another node says of an acknowledgement."""
    return error_in(result.error) if result.HasField("error") else Verdict.OK


def admitted_and_lost(error: RaftbatchError) -> RaftbatchError:
    """Return what a client is told who waits for the outcome of a request that was admitted.

    That this node tells no outcome does not mean that nothing happened: it did.
    """
    if isinstance(error, OutcomeForgotten):
        return error
    said = f"the request was taken, and goes on: ask for its outcome ({error.message})"
    return OutcomeUnknown(said, leader=error.leader, retry_after_ms=error.retry_after_ms)


def model_message(model: Model, is_deleting: bool) -> model_pb2.Model:
    """Return a model version's settings as they are told."""
    return model_pb2.Model(
        name=model.name,
        version=model.version,
        max_batch_size=model.max_batch_size,
        max_batch_bytes=model.max_batch_bytes,
        preferred_batch_size=model.preferred_batch_size,
        max_queue_delay_microseconds=model.max_queue_delay_microseconds,
        seal_when_idle=model.seal_when_idle,
        priority_levels=model.priority_levels,
        default_priority_level=model.default_priority_level,
        priority_aging_ms=model.priority_aging_ms,
        default_timeout_ms=model.default_timeout_ms,
        requests_waiting_max=model.requests_waiting_max,
        rows_waiting_max=model.rows_waiting_max,
        bytes_waiting_max=model.bytes_waiting_max,
        execution_timeout_microseconds=model.execution_timeout_microseconds,
        attempts_max=model.attempts_max,
        assigned_max=model.assigned_max,
        backoff_initial_ms=model.backoff_initial_ms,
        backoff_permille=model.backoff_permille,
        backoff_max_ms=model.backoff_max_ms,
        content=model.content,
        config=model.config,
        deleting=is_deleting,
    )
