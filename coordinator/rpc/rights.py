"""Who may call what on the client port, where it speaks TLS.

| calls | roles |
|---|---|
| Gateway, the log of opaque entries | client, operator, and peer: nodes forward what clients ask |
| Gateway.Nodes | every certificate of the authority: whoever has to find a node |
| Dispatch | executor, and the executor is the one that the certificate names |
| Admin, and whatever is not listed | operator |

Without TLS nobody says who it is, and nothing is guarded: such a port is on loopback
alone, or on a network that is trusted as it is.

What lives here: that table, and refusing. What must never live here: who has which
role (`raftbatch.roles`). Called by: gRPC, for each call; a session or a tail is one.
One thread: the loop's. Source: docs/adr/0008-roles.md.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

from coordinator.core.batches import is_current
from coordinator.node import Node
from coordinator.replica import Replica
from coordinator.rpc.callers import Context, certificate
from coordinator.rpc.errors import abort
from raftbatch.errors import NoLeader, PermissionDenied, RaftbatchError
from raftbatch.roles import Role, lacking
from raftbatch.v1 import dispatch_pb2

Details = grpc.HandlerCallDetails

if TYPE_CHECKING:
    Handler = grpc.RpcMethodHandler[Any, Any]

_RETRY_MS = 100
_PACKAGE = "/raftbatch.v1."
_ASKS = (Role.CLIENT, Role.OPERATOR, Role.PEER)
_CALLS: dict[str, tuple[Role, ...]] = {
    "Gateway": _ASKS,
    "Log": _ASKS,
    "Dispatch": (Role.EXECUTOR,),
}
_OPEN = ("Gateway/Nodes",)
_OTHERS = (Role.OPERATOR,)


class Rights(grpc.aio.ServerInterceptor):
    """See the module's docstring.

    Args:
        node: knows the roles of certificates.
    """

    def __init__(self, node: Node) -> None:
        self._node = node

    async def intercept_service(
        self, continuation: Callable[[Details], Awaitable[Handler | None]], details: Details
    ) -> Handler | None:
        """Return what serves a call, once its certificate was looked at."""
        handler = await continuation(details)
        method = details.method.removeprefix(_PACKAGE)
        if handler is None or method in _OPEN:
            return handler
        service = method.partition("/")[0]
        needed = _CALLS.get(service, _OTHERS)

        async def check(request: object, context: Context) -> None:
            try:
                self._check(method, needed, request, context)
            except RaftbatchError as error:
                await abort(context, error, self._node.client_address)

        return guarded(handler, check, handler.request_deserializer)

    def _check(
        self, method: str, needed: tuple[Role, ...], request: object, context: Context
    ) -> None:
        """Refuse who may not.

        Raises:
            PermissionDenied, NoLeader: definite.
        """
        name, uris = certificate(context)
        roles = self._node.access.roles(name, uris)
        if roles.isdisjoint(needed):
            raise PermissionDenied(lacking(name, roles, needed, method))
        if needed == (Role.EXECUTOR,) and not self._node.access.is_any_executors():
            for executor in self._executors(request):
                if executor != name:
                    raise PermissionDenied(
                        f"the certificate names {name or 'nobody'}, and {method} is about the "
                        f"executor {executor!r}: an executor's certificate bears its id"
                    )

    def _executors(self, request: object) -> Iterator[str]:
        """Yield the executors for which a message of Dispatch claims to speak."""
        if not isinstance(request, dispatch_pb2.ReportRequest):
            yield getattr(request, "executor", "")
            return
        for each in request.reports:
            match each.WhichOneof("report"):
                case None:
                    pass
                case "lapse":
                    yield from self._holder(each.lapse)
                case kind:
                    yield getattr(each, kind).executor

    def _holder(self, lapse: dispatch_pb2.Lapse) -> Iterator[str]:
        """Yield who holds what a lapse is about: it names a batch and its fence alone.

        Raises:
            NoLeader: definite; whose that is, is not known here yet.
        """
        replica = self._node.replica
        if not isinstance(replica, Replica):
            return
        if lapse.fence > replica.index:
            said = f"this node has applied {replica.index}, and the fence is {lapse.fence}"
            raise NoLeader(f"{said}: report again", retry_after_ms=_RETRY_MS)
        batch = replica.state.batches.get(lapse.batch)
        if batch is not None and is_current(batch, lapse.attempt, lapse.fence):
            yield batch.executor


def guarded(
    handler: Handler, check: Callable[[object, Context], Awaitable[None]], read: Any
) -> Handler:
    """Return a handler of the same kind that looks first.

    Args:
        handler: which.
        check: aborts what is not to be served; told the message, or a stream's messages.
        read: makes a message of bytes.
    """

    async def checked(serve: Any, request: object, context: Context) -> Any:
        await check(request, context)
        return await serve(request, context)

    return alike(handler, checked, read)


def alike(
    handler: Handler, around: Callable[[Any, object, Context], Awaitable[Any]], read: Any
) -> Handler:
    """Return a handler of the same kind, with something done before and after.

    Args:
        handler: which; what it streams it writes itself.
        around: calls what serves; told that, the message or a stream's messages, the context.
        read: makes a message of bytes.
    """
    serve: Any = (  # which of the four it is, the two flags say
        handler.unary_unary or handler.unary_stream or handler.stream_unary or handler.stream_stream
    )
    assert not inspect.isasyncgenfunction(serve), "what it yields is written out of our reach"

    async def served(request: object, context: Context) -> Any:
        return await around(serve, request, context)

    make = {
        (False, False): grpc.unary_unary_rpc_method_handler,
        (False, True): grpc.unary_stream_rpc_method_handler,
        (True, False): grpc.stream_unary_rpc_method_handler,
        (True, True): grpc.stream_stream_rpc_method_handler,
    }[bool(handler.request_streaming), bool(handler.response_streaming)]
    made: Handler = make(served, read, handler.response_serializer)
    return made
