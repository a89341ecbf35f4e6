"""Messages that cannot be read: whoever sends one is told so, and the node goes on as before.

gRPC by itself would call it a fault of the server's, of which nobody knows what came
(UNKNOWN), and log it as an error each time. Nothing was done with such a message, and it
never will be: `invalid_request`, which is definite. A message of more parts than any may have is
`payload_too_large`: to read it would take memory and time without measure.

    bytes -> Illegible, where nobody reads them -> a call ends; a stream's reader raises

What lives here: that answer. What must never live here: what a message means. Called by:
gRPC, for each call; readers of streams. One thread: the loop's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError

from coordinator.node import Node
from coordinator.rpc.callers import Context
from coordinator.rpc.errors import abort
from coordinator.rpc.parts import FIELDS_MAX, PARTS_MAX, is_within
from coordinator.rpc.rights import Details, guarded
from raftbatch.errors import InvalidRequest, PayloadTooLarge, RaftbatchError

if TYPE_CHECKING:
    Handler = grpc.RpcMethodHandler[Any, Any]


class Illegible:
    """Stands where a message would, which came as bytes that nobody reads.

    Args:
        error: for whoever sent it.
    """

    def __init__(self, error: RaftbatchError) -> None:
        self.error = error


def _damaged() -> Illegible:
    return Illegible(
        InvalidRequest(
            "the message cannot be read: it is damaged, of another kind than the call takes, or "
            "text in it is not UTF-8"
        )
    )


def _crowded() -> Illegible:  # whoever has put much into one message may try less
    most = f"{PARTS_MAX} parts, or {FIELDS_MAX} fields"
    return Illegible(PayloadTooLarge(f"the message has more than {most}: send several"))


def check(message: object) -> None:
    """Refuse what was not read.

    Raises:
        InvalidRequest, PayloadTooLarge: definite.
    """
    if isinstance(message, Illegible):
        raise message.error


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
        kind: Descriptor = parse.__self__.DESCRIPTOR  # it is the class method FromString

        def read(data: bytes) -> object:
            if not is_within(data, kind):
                return _crowded()
            try:
                return parse(data)
            except DecodeError:
                return _damaged()

        async def look(request: object, context: Context) -> None:
            try:
                check(request)
            except RaftbatchError as error:
                await abort(context, error, self._node.client_address)

        return guarded(handler, look, read)
