"""What the SDK raises: the errors of `raftbatch.errors`, and two that are made of outcomes.

What lives here: those two. What must never live here: what to do about one (`engine`).
Called by: the SDK.
"""

from __future__ import annotations

from raftbatch.errors import RaftbatchError


class RequestFailed(RaftbatchError):
    """The request has the outcome `failed`: the model could not, and that is final.

    Also where its outcome is `ok`, and what an executor gave cannot be read (`bad_output`).

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
