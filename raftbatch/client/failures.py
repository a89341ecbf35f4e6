"""What the SDK raises: the errors of `raftbatch.errors`, and two that are made of outcomes.

What lives here: from messages to exceptions. What must never live here: what to do about
one (`engine`). Called by: the SDK.
"""

from __future__ import annotations

import grpc.aio

from raftbatch import errors
from raftbatch.errors import TRAILER, OutcomeUnknown, RaftbatchError
from raftbatch.handshakes import explain
from raftbatch.v1 import error_pb2


class RequestFailed(RaftbatchError):
    """The request has the outcome `failed`: the model could not, and that is final.

    Args:
        message: the model's.
        code: a slug for why, such as `item_error` or `attempts_exhausted`.
    """

    slug, grpc, http = "failed", "", 0  # it never travels: it is made of an outcome

    def __init__(self, message: str, *, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class RequestCancelled(RaftbatchError):
    """The request has the outcome `cancelled`, and that is final."""

    slug, grpc, http = "cancelled", "", 0  # the same


class Refused(RaftbatchError):
    """A definite error of a kind that only a newer node knows.

    Args:
        message: the node's.
        slug: the node's.
        retry_after_ms: the node's.
    """

    slug, grpc, http = "refused", "", 0

    def __init__(self, message: str, *, slug: str, retry_after_ms: int = 0) -> None:
        super().__init__(message, retry_after_ms=retry_after_ms)
        self.slug = slug  # type: ignore[misc]  # of this one, rather than of its class


_KNOWN: dict[str, type[RaftbatchError]] = {
    each.slug: each
    for each in vars(errors).values()
    if isinstance(each, type) and issubclass(each, RaftbatchError) and each is not RaftbatchError
}


def of_message(message: error_pb2.Error) -> RaftbatchError:
    """Return the exception that a node's error stands for. Total. Deterministic."""
    known = _KNOWN.get(message.slug)
    if known is not None and known.definite == message.definite:
        return known(message.message, leader=message.leader, retry_after_ms=message.retry_after_ms)
    if message.definite:
        return Refused(message.message, slug=message.slug, retry_after_ms=message.retry_after_ms)
    return OutcomeUnknown(
        f"{message.slug}: {message.message}",
        leader=message.leader,
        retry_after_ms=message.retry_after_ms,
    )


def of_call(address: str, error: grpc.aio.AioRpcError) -> RaftbatchError:
    """Return what a failed call stands for: without a trailer nobody knows. Total."""
    for key, value in error.trailing_metadata() or ():
        if key == TRAILER and isinstance(value, bytes):
            return of_message(error_pb2.Error.FromString(value))
    return OutcomeUnknown(f"{address}: {explain(error.details() or error.code().name)}")
