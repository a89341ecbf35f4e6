"""Calls that are meant for another cluster are refused, by name.

Whoever has a configuration file says which cluster it describes, in the call's metadata; where
the addresses in it are another cluster's, that one must not be shown, or changed, as if it were
the file's. What lives here: that comparison. What must never live here: who may call
(`rights`). Called by: gRPC, for each call. One thread: the loop's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

from coordinator.node import Node
from coordinator.rpc.callers import Context
from coordinator.rpc.errors import abort
from coordinator.rpc.rights import Details
from raftbatch.channels import CLUSTER_KEY
from raftbatch.errors import InvalidRequest

if TYPE_CHECKING:
    Handler = grpc.RpcMethodHandler[Any, Any]

_SHOWN_BYTES = 128


class Meant(grpc.aio.ServerInterceptor):
    """See the module's docstring.

    Args:
        node: whose cluster it is.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._name = node.config.cluster.name.encode()

    async def intercept_service(
        self, continuation: Callable[[Details], Awaitable[Handler | None]], details: Details
    ) -> Handler | None:
        """Return what serves a call, or refuses it."""
        for key, value in details.invocation_metadata or ():
            if key == CLUSTER_KEY and value != self._name:
                return self._refusing(bytes(value))  # type: ignore[arg-type]  # -bin: bytes
        return await continuation(details)

    def _refusing(self, meant: bytes) -> Handler:
        config = self._node.config
        error = InvalidRequest(
            f"{config.node_id} is a node of the cluster {config.cluster.name!r}, and this is "
            f"meant for {meant[:_SHOWN_BYTES].decode(errors='replace')!r}: the addresses in the "
            "configuration file are another cluster's"
        )

        async def refuse(_requests: object, context: Context) -> None:
            await abort(context, error, self._node.client_address)

        return grpc.stream_stream_rpc_method_handler(refuse)  # it suits calls of every kind
