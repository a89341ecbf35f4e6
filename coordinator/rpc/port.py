"""The client port itself: a gRPC server, its certificates and its bounds.

What lives here: opening and closing it, and the forwarder behind it. What must never live here:
a service.
Called by: the composition root.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import grpc
import grpc.aio

from coordinator.config import ServerLimits
from coordinator.node import Node
from coordinator.rpc.admin import AdminService
from coordinator.rpc.dispatch import DispatchService
from coordinator.rpc.forwarding import Forwarder
from coordinator.rpc.gateway import GatewayService
from coordinator.rpc.gone import Gone
from coordinator.rpc.legible import Legible
from coordinator.rpc.log import LogService
from coordinator.rpc.meant import Meant
from coordinator.rpc.onward import open_stream
from coordinator.rpc.rights import Rights
from raftbatch.errors import CannotStart
from raftbatch.ids import is_loopback
from raftbatch.v1.admin_pb2_grpc import add_AdminServicer_to_server
from raftbatch.v1.dispatch_pb2_grpc import add_DispatchServicer_to_server
from raftbatch.v1.gateway_pb2_grpc import add_GatewayServicer_to_server
from raftbatch.v1.log_pb2_grpc import add_LogServicer_to_server


def options(limits: ServerLimits) -> list[tuple[str, int]]:
    """Return what gRPC is told of the port. Total. Deterministic."""
    return [
        ("grpc.so_reuseport", 0),  # else two nodes could share the port, and neither knew
        ("grpc.max_receive_message_length", limits.message_bytes_max),
        ("grpc.max_send_message_length", limits.message_bytes_max),
        ("grpc.max_concurrent_streams", limits.calls_max),  # of one connection
        ("grpc.max_allowed_incoming_connections", limits.connections_max),
        # Whoever asks nothing keeps no place of those who would; gRPC knows no share for each.
        ("grpc.max_connection_idle_ms", limits.connection_idle_ms_max),
        # A certificate is looked at as a connection begins, so none goes on for ever.
        ("grpc.max_connection_age_ms", limits.connection_age_ms_max),
        ("grpc.max_connection_age_grace_ms", limits.connection_grace_ms_max),
        # Whoever says nothing keeps no descriptor.
        ("grpc.server_handshake_timeout_ms", 3_000),
        # A client that is gone without a word is noticed.
        ("grpc.keepalive_time_ms", 10_000),
        ("grpc.keepalive_timeout_ms", 5_000),
        ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ]


@dataclass(frozen=True, slots=True)
class Credentials:
    """Certificates of a node, for both ends of what clients ask.

    Attributes:
        server: for those who connect to it.
        channel: for the node that leads, to which it hands on what clients ask.
    """

    server: grpc.ServerCredentials
    channel: grpc.ChannelCredentials


class ClientPort:
    """See the module's docstring. Made closed; `open` opens it.

    Args:
        node: whom clients reach here.
        credentials: certificates; None for none.
    """

    def __init__(self, node: Node, credentials: Credentials | None) -> None:
        self._config = node.config
        self._credentials = credentials
        limits = self._config.server
        channel = None if credentials is None else credentials.channel
        self._forwarder = Forwarder(node, partial(open_stream, channel), self._config.sessions)
        self._server = grpc.aio.server(
            options=options(limits),
            maximum_concurrent_rpcs=limits.calls_max,
            interceptors=[
                Gone(node),  # around all others, which may be the ones that find nobody there
                Meant(node),
                Legible(node),
                *([Rights(node)] if credentials is not None else ()),
            ],
        )
        if self._config.cluster.is_opaque:
            add_LogServicer_to_server(LogService(node, limits), self._server)
        else:
            add_GatewayServicer_to_server(GatewayService(node, self._forwarder), self._server)
            add_DispatchServicer_to_server(DispatchService(node), self._server)
        add_AdminServicer_to_server(AdminService(node), self._server)

    async def open(self) -> None:
        """Begin to serve.

        Raises:
            CannotStart: the port is in use or not ours, or would be open to all.
        """
        listen = self._config.addresses.client_listen
        is_plain = self._credentials is None and not self._config.cluster.is_insecure
        if is_plain and not is_loopback(listen):
            raise CannotStart(
                f"{listen} can be reached from other machines, and without TLS whoever reaches it "
                "may do anything: configure certificates, or listen on 127.0.0.1, or say with "
                "--insecure that the network is trusted"
            )
        try:
            if self._credentials is None:
                self._server.add_insecure_port(listen)
            else:
                self._server.add_secure_port(listen, self._credentials.server)
        except RuntimeError:
            raise CannotStart(
                f"cannot listen for clients at {listen}: the port is in use, perhaps by this node, "
                "which runs already, or the address is not this machine's"
            ) from None
        await self._server.start()

    async def close(self, grace_s: float) -> None:
        """Take no new calls, and end those that are not over after so long."""
        await self._server.stop(grace_s)
        await self._forwarder.close()


def credentials(
    ca: bytes, certificate: bytes, key: bytes, *, asks_clients: bool = True
) -> Credentials:
    """Return certificates for the client port.

    Args:
        ca: the authority's certificate, in PEM.
        certificate: this node's, with those between it and the authority's.
        key: its private key.
        asks_clients: whether clients must show one of the same authority; else nobody is asked.
    """
    server = grpc.ssl_server_credentials(
        [(key, certificate)], root_certificates=ca, require_client_auth=asks_clients
    )
    return Credentials(server, grpc.ssl_channel_credentials(ca, key, certificate))
