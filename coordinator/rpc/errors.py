"""Errors on the wire: `raftbatch.v1.Error`, in results and in trailers.

What lives here: that translation. What must never live here: an error's meaning
(`raftbatch.errors`). Called by: the services.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import grpc
import grpc.aio

from raftbatch.errors import TRAILER, Fatal, Invariant, RaftbatchError
from raftbatch.v1 import error_pb2

AddressOf = Callable[[str], str]
"""Returns where clients reach a node, or nothing: the log names leaders by their id."""


def to_message(error: BaseException, address_of: AddressOf) -> error_pb2.Error:
    """Return an error in the form in which it travels; one of no known kind is indefinite."""
    if isinstance(error, RaftbatchError):
        return error_pb2.Error(
            slug=error.slug,
            message=error.message,
            definite=error.definite,
            leader=address_of(error.leader),
            retry_after_ms=error.retry_after_ms,
        )
    slug = error.slug if isinstance(error, Fatal) else Invariant.slug
    return error_pb2.Error(slug=slug, message=f"this node stops: {error}", definite=False)


def status_code(error: BaseException) -> grpc.StatusCode:
    """Return the status that goes with an error. Total. Deterministic."""
    known = error if isinstance(error, RaftbatchError | Fatal) else Invariant()
    code: grpc.StatusCode = getattr(grpc.StatusCode, known.grpc)
    return code


async def abort(
    context: grpc.aio.ServicerContext[Any, Any],
    error: BaseException,
    address_of: AddressOf,
) -> NoReturn:
    """End a call with an error; raises what grpc wants raised."""
    message = to_message(error, address_of)
    trailer = ((TRAILER, message.SerializeToString()),)
    await context.abort(status_code(error), message.message, trailer)
    raise AssertionError("abort raises")
