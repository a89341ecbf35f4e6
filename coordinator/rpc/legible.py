"""Messages that cannot be read: whoever sends one is told so, and the node goes on as before.

gRPC by itself would call it a fault of the server's, of which nobody knows what came
(UNKNOWN), and log it as an error each time. Nothing was done with such a message, and it
never will be: `invalid_request`, which is definite.

    bytes -> Illegible, where they are no message -> a call ends; a stream's reader raises

What lives here: that answer. What must never live here: what a message means. Called by:
gRPC, for each call; readers of streams. One thread: the loop's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from coordinator.node import Node
from coordinator.rpc.callers import Context
from coordinator.rpc.errors import abort
from coordinator.rpc.rights import Details, guarded
from raftbatch.errors import InvalidRequest

if TYPE_CHECKING:
    Handler = grpc.RpcMethodHandler[Any, Any]


class Illegible:
    """Stands where a message would: what came is none."""


def check(message: object) -> None:
    """Refuse what is no message.

    Raises:
        InvalidRequest: definite.
    """
    if isinstance(message, Illegible):
        raise InvalidRequest(
            "the message cannot be read: it is damaged, of another kind than the call takes, or "
            "text in it is not UTF-8"
        )


class Legible(grpc.aio.ServerInterceptor):
    """See the module's docstring.

    Args:
        node: where others are to be found, for those who are refused.
    """

    def __init__(self, node: Node) -> None:
        self._node = node

    async def intercept_service(
        self, continuation: Callable[[Details], Awaitable[Handler | None]], details: Details
    ) -> Handler | None:
        """Return what serves a call, and refuses what cannot be read."""
        handler = await continuation(details)
        if handler is None:
            return None
        parse: Any = handler.request_deserializer

        def read(data: bytes) -> object:
            try:
                return parse(data)
            except DecodeError:
                return Illegible()

        async def look(request: object, context: Context) -> None:
            try:
                check(request)
            except InvalidRequest as error:
                await abort(context, error, self._node.client_address)

        return guarded(handler, look, read)
