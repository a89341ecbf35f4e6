"""What the SDK raises: the errors of `raftbatch.errors`, and two that are made of outcomes.

What lives here: those two, and what a failed call stands for. What must never live here:
what to do about one (`engine`). Called by: the SDK.
"""

from __future__ import annotations

import grpc.aio

from raftbatch.errors import OutcomeUnknown, RaftbatchError
from raftbatch.handshakes import explain
from raftbatch.trailers import said_by


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


def of_call(address: str, error: grpc.aio.AioRpcError) -> RaftbatchError:
    """Return what a failed call stands for: without a trailer nobody knows. Total."""
    said = said_by(error.trailing_metadata())
    if said is not None:
        return said.error()
    return OutcomeUnknown(f"{address}: {explain(error.details() or error.code().name)}")
