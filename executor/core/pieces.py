"""Feed messages, put together of the pieces in which they travel.

What lives here: joining. What must never live here: what a message means. Called by:
`executor.link`. Total. Deterministic.

Source: proto/raftbatch/v1/dispatch.proto, FeedMessage.
"""

from __future__ import annotations

from raftbatch.v1 import dispatch_pb2 as pb


class Joiner:
    """Joins the pieces of one tail; a new tail begins with a new one."""

    def __init__(self) -> None:
        self._message: pb.FeedMessage | None = None

    def add(self, piece: pb.FeedMessage) -> pb.FeedMessage | None:
        """Take a piece in; return the message, if that was its last."""
        message = self._message
        if message is None:
            message = piece
        else:
            _join(message, piece)
        self._message = message if piece.more else None
        return None if piece.more else message


def _join(message: pb.FeedMessage, piece: pb.FeedMessage) -> None:
    into = message.current if message.HasField("current") else message.changes
    of = piece.current if piece.HasField("current") else piece.changes
    starts = list(of.start)
    if starts and into.start and _name(starts[0]) == _name(into.start[-1]):
        _continue(into.start[-1], starts.pop(0))
    into.start.extend(starts)
    # The rest of a message stands in its first piece, but nothing says that it must.
    into.shed.extend(of.shed)
    if isinstance(into, pb.Current) and isinstance(of, pb.Current):
        into.keep.extend(of.keep)
        into.drop.extend(of.drop)
    elif isinstance(into, pb.Changes) and isinstance(of, pb.Changes):
        into.stop.extend(of.stop)
        into.finished.extend(of.finished)


def _name(assignment: pb.Assignment) -> tuple[int, int]:
    return assignment.batch, assignment.fence


def _continue(first: pb.Assignment, more: pb.Assignment) -> None:
    """Append columns; one that is absent in one piece stands for its empty values."""
    _fill(first)
    _fill(more)
    first.numbers.extend(more.numbers)
    first.rows.extend(more.rows)
    first.payloads.extend(more.payloads)
    first.parameters.extend(more.parameters)
    first.traceparents.extend(more.traceparents)
    first.deadlines_ms.extend(more.deadlines_ms)


def _fill(assignment: pb.Assignment) -> None:
    count = len(assignment.numbers)
    if not assignment.parameters:
        assignment.parameters.extend([b""] * count)
    if not assignment.traceparents:
        assignment.traceparents.extend([""] * count)
    if not assignment.deadlines_ms:
        assignment.deadlines_ms.extend([0] * count)
