"""A feed's message as it travels: in pieces, where its batches are large.

    piece, piece, ..., last piece      `more` is set in all but the last

A batch may be larger than any message, so a piece ends before a request with which it
would hold more than some megabytes. A request that is larger has a piece of its own.

What lives here: that cut, and feed messages into protobuf. What must never live here:
what is told. Called by: `dispatch`. Total. Deterministic.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from coordinator.feed_messages import Assignment, Changes, Current, Shed, Slot, Stop
from raftbatch.kinds import LapseReason
from raftbatch.v1 import dispatch_pb2 as pb

if TYPE_CHECKING:  # it is named in annotations alone
    from google.protobuf.internal.containers import RepeatedCompositeFieldContainer

    _Starts = RepeatedCompositeFieldContainer[pb.Assignment]

PIECE_BYTES = 8 << 20
"""What a piece holds at most, unless it is one request's."""

_REQUEST_BYTES = 36  # what a request takes beside its own bytes: numbers, lengths

_REASONS = {
    LapseReason.EXECUTOR_LOST: pb.LAPSE_REASON_EXECUTOR_LOST,
    LapseReason.TIMED_OUT: pb.LAPSE_REASON_TIMED_OUT,
    LapseReason.DRAINED: pb.LAPSE_REASON_DRAINED,
    LapseReason.REFUSED: pb.LAPSE_REASON_REFUSED,
    LapseReason.FAILED: pb.LAPSE_REASON_FAILED,
}


def pieces(message: Current | Changes, piece_bytes: int = PIECE_BYTES) -> Iterator[pb.FeedMessage]:
    """Yield the pieces of a message.

    Args:
        message: of the feed.
        piece_bytes: of requests; most that a piece holds of several.
    """
    piece = _first(message)
    starts, held = _starts(piece), 0
    for assignment in message.start:
        sizes = [
            len(payload) + len(parameters) + len(traceparent.encode()) + _REQUEST_BYTES
            for payload, parameters, traceparent in zip(
                assignment.payloads, assignment.parameters, assignment.traceparents, strict=True
            )
        ]
        begin = 0
        for place, size in enumerate(sizes):
            if held and held + size > piece_bytes:
                _add(starts, assignment, begin, place)
                piece.more = True
                yield piece
                piece = _next(message)
                starts, held, begin = _starts(piece), 0, place
            held += size
        _add(starts, assignment, begin, len(sizes))
    yield piece


def _first(message: Current | Changes) -> pb.FeedMessage:
    """Return all of a message but what is to start."""
    shed = [_shed(each) for each in message.shed]
    if isinstance(message, Current):
        return pb.FeedMessage(
            current=pb.Current(
                index=message.index,
                at_ms=message.at_ms,
                keep=_slots(message.keep),
                shed=shed,
                drop=_slots(message.drop),
                draining=message.is_draining,
                suspended=message.is_suspended,
            )
        )
    return pb.FeedMessage(
        changes=pb.Changes(
            index=message.index,
            at_ms=message.at_ms,
            stop=[_stop(each) for each in message.stop],
            shed=shed,
            finished=_slots(message.finished),
            draining=message.is_draining,
            suspended=message.is_suspended,
        )
    )


def _next(message: Current | Changes) -> pb.FeedMessage:
    """Return a further piece, with what must be the same in all."""
    if isinstance(message, Current):
        return pb.FeedMessage(
            current=pb.Current(
                index=message.index,
                at_ms=message.at_ms,
                draining=message.is_draining,
                suspended=message.is_suspended,
            )
        )
    return pb.FeedMessage(
        changes=pb.Changes(
            index=message.index,
            at_ms=message.at_ms,
            draining=message.is_draining,
            suspended=message.is_suspended,
        )
    )


def _starts(piece: pb.FeedMessage) -> _Starts:
    return piece.current.start if piece.HasField("current") else piece.changes.start


def _add(starts: _Starts, of: Assignment, begin: int, end: int) -> None:
    """Add an assignment, or those of its requests from one place on and before another."""
    if begin == end and of.numbers:
        return
    parameters, traceparents = of.parameters[begin:end], of.traceparents[begin:end]
    deadlines = of.deadlines_ms[begin:end]
    model, version, signature = of.key
    starts.add(
        batch=of.batch,
        attempt=of.attempt,
        fence=of.fence,
        model=model,
        version=version,
        signature=signature,
        numbers=of.numbers[begin:end],
        rows=of.rows[begin:end],
        payloads=of.payloads[begin:end],
        parameters=parameters if any(parameters) else (),
        traceparents=traceparents if any(traceparents) else (),
        deadlines_ms=deadlines if any(deadlines) else (),
    )


def _slots(slots: Sequence[Slot]) -> list[pb.Slot]:
    return [pb.Slot(batch=each.batch, fence=each.fence) for each in slots]


def _shed(shed: Shed) -> pb.Shed:
    return pb.Shed(batch=shed.batch, fence=shed.fence, numbers=shed.numbers)


def _stop(stop: Stop) -> pb.Stop:
    reason = pb.LAPSE_REASON_NONE if stop.reason is None else _REASONS[stop.reason]
    return pb.Stop(batch=stop.batch, fence=stop.fence, reason=reason)
