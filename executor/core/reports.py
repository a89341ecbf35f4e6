"""What is reported of an assignment: outcomes, whole or in parts, or that it is given up.

What lives here: the messages. What must never live here: when they are sent. Called by:
the core. Total. Deterministic.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from executor.core.values import Answer, Held, Name, Outcome
from raftbatch.kinds import TOO_LONG
from raftbatch.v1 import dispatch_pb2 as pb

PART_BYTES = 8 << 20
"""What the results of one report hold at most, unless they are one request's."""

RESULT_TOO_LARGE = "result_too_large"

_TEXT_LENGTH_MAX = 1000
"""Of what is said of a failure: nobody reads more, and each replica keeps it."""


def completes(
    held: Held,
    executor: str,
    incarnation: int,
    numbers: Sequence[int],
    outcome: Outcome,
    part_bytes: int = PART_BYTES,
) -> list[pb.Report]:
    """Return the report of a batch that ran, in as many parts as its size asks for.

    Args:
        held: the assignment; requests that it has shed by now are left out.
        executor: who ran it.
        incarnation: of its life.
        numbers: of the requests that ran.
        outcome: what came of them, in the same order.
        part_bytes: what a part holds at most.
    """
    told = [
        (number, answer)
        for number, answer in zip(numbers, outcome.answers, strict=True)
        if number not in held.shed
    ]
    reports = []
    for part in _parts(told, part_bytes):
        complete = pb.Complete(
            batch=held.given.batch,
            attempt=held.given.attempt,
            fence=held.given.fence,
            executor=executor,
            incarnation=incarnation,
            queue_ns=max(0, held.started_ns - held.since_ns),
            compute_input_ns=outcome.compute_input_ns,
            infer_ns=outcome.infer_ns,
            output_ns=outcome.output_ns,
            padded=outcome.padded,
            fingerprint=outcome.fingerprint,
            numbers=[number for number, _ in part],
            results=[b"" if answer.code else answer.result for _, answer in part],
            failures=[
                pb.Failure(number=number, code=answer.code, message=cut(answer.message))
                for number, answer in part
                if answer.code
            ],
        )
        reports.append(pb.Report(complete=complete))
    reports[-1].complete.last = True
    return reports


def smaller(report: pb.Report, why: str) -> list[pb.Report]:
    """Return a report of outcomes, which is more than may travel, as two; or without a result.

    Args:
        report: of a batch, or of a part of it.
        why: what was said of its size.
    """
    whole = report.complete
    count = len(whole.numbers)
    failed = {each.number: each for each in whole.failures}
    if count < 2:
        size = sum(map(len, whole.results))
        said = cut(f"the result has {size} bytes, more than may travel: {why}")
        told = [failed.get(number) for number in whole.numbers]
        failures = [
            each or pb.Failure(number=number, code=RESULT_TOO_LARGE, message=said)
            for number, each in zip(whole.numbers, told, strict=True)
        ]
        return [_part(whole, 0, count, [b""] * count, failures, last=whole.last)]
    middle = count // 2
    return [
        _part(
            whole,
            begin,
            end,
            whole.results[begin:end],
            [failed[number] for number in whole.numbers[begin:end] if number in failed],
            last=whole.last and end == count,
        )
        for begin, end in ((0, middle), (middle, count))
    ]


def _part(
    whole: pb.Complete,
    begin: int,
    end: int,
    results: Sequence[bytes],
    failures: Sequence[pb.Failure],
    *,
    last: bool,
) -> pb.Report:
    part = pb.Complete(
        batch=whole.batch,
        attempt=whole.attempt,
        fence=whole.fence,
        executor=whole.executor,
        incarnation=whole.incarnation,
        last=last,
        queue_ns=whole.queue_ns,
        compute_input_ns=whole.compute_input_ns,
        infer_ns=whole.infer_ns,
        output_ns=whole.output_ns,
        padded=whole.padded,
        fingerprint=whole.fingerprint,
        numbers=whole.numbers[begin:end],
        results=results,
        failures=failures,
    )
    return pb.Report(complete=part)


def _parts(told: list[tuple[int, Answer]], part_bytes: int) -> Iterator[list[tuple[int, Answer]]]:
    """Yield at least one part, which may be empty."""
    part: list[tuple[int, Answer]] = []
    size = 0
    for number, answer in told:
        if part and size + len(answer.result) > part_bytes:
            yield part
            part, size = [], 0
        part.append((number, answer))
        size += len(answer.result)
    yield part


def lapse(
    held: Held,
    reason: pb.LapseReason,
    ran: pb.Ran,
    code: str = "",
    message: str = "",
) -> pb.Report:
    """Return that an assignment is given up, and is held no more."""
    given = held.given
    if reason == pb.LAPSE_REASON_TIMED_OUT:
        message = message or TOO_LONG
    return pb.Report(
        lapse=pb.Lapse(
            batch=given.batch,
            attempt=given.attempt,
            fence=given.fence,
            reason=reason,
            ran=ran,
            stopped=True,
            code=code,
            message=cut(message),
        )
    )


def free(executor: str, incarnation: int, names: Sequence[Name]) -> pb.Report:
    """Return that the slots of what lapsed are free."""
    slots = [pb.Slot(batch=batch, fence=fence) for batch, fence in names]
    return pb.Report(free=pb.Free(executor=executor, incarnation=incarnation, slots=slots))


def cut(text: str) -> str:
    """Return a text as a record can carry it. Total. Deterministic."""
    plain = text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")
    return plain if len(plain) <= _TEXT_LENGTH_MAX else plain[: _TEXT_LENGTH_MAX - 1] + "…"
