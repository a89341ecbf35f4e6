"""Callers that have gone in the midst of an answer: no fault of this node's, and no news.

gRPC ends a call whose caller has gone, or whose port has closed, by cancelling it. But a message
that is on its way just then may fail a moment before gRPC hears of that, with an error of its
own, which it would log as a fault of the server's. Such a call ends here as if it had
been cancelled. Whether it is over is asked of gRPC: an end can be put only to a call that lives.
Where it lives, the error is a fault: the caller hears that the call failed, and gRPC logs it.

What lives here: that distinction. What must never live here: what a call does. Called by: gRPC,
for each call, before all else. One thread: the loop's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

from coordinator.node import Node
from coordinator.rpc.callers import Context
from coordinator.rpc.errors import abort
from coordinator.rpc.rights import Details, alike
from raftbatch.errors import OutcomeUnknown

if TYPE_CHECKING:
    Handler = grpc.RpcMethodHandler[Any, Any]


class _Cancelled(logging.Filter):
    """Drops what gRPC logs as an error of a call that was cancelled at the wrong moment."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether it is anything else."""
        return not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))


_CANCELLED = _Cancelled()  # one, which a logger holds but once


class Gone(grpc.aio.ServerInterceptor):
    """See the module's docstring.

    Args:
        node: where others are to be found, for those whose call went wrong.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        logging.getLogger("grpc._cython.cygrpc").addFilter(_CANCELLED)

    async def intercept_service(
        self, continuation: Callable[[Details], Awaitable[Handler | None]], details: Details
    ) -> Handler | None:
        """Return what serves a call, and is silent where its caller has gone."""
        handler = await continuation(details)
        if handler is None:
            return None

        async def until_gone(serve: Any, request: object, context: Context) -> Any:
            try:
                return await serve(request, context)
            except (grpc.aio.AbortError, grpc.aio.UsageError):
                raise  # an end that was put to it; a fault
            except grpc.aio.BaseError as error:
                await self._end(context, error)
                raise

        return alike(handler, until_gone, handler.request_deserializer)

    async def _end(self, context: Context, error: grpc.aio.BaseError) -> None:
        """Put an end to a call that failed; return where it had none yet.

        Raises:
            CancelledError: it had.
        """
        if isinstance(error, grpc.aio.InternalError):
            said = "gRPC could not go on with this call: ask again, with the same request id"
            try:
                await abort(context, OutcomeUnknown(said), self._node.client_address)
            except grpc.aio.AbortError:
                return
            except grpc.aio.BaseError:
                pass
        # Else the whole port has stopped, and calls with it.
        raise asyncio.CancelledError from error
