"""Channels to nodes: plain, or with TLS, where a certificate bears the node's name.

What lives here: how one is opened, and the settings of a stream that carries many requests. What
must never live here: a call, or where certificates are read. Called by: the SDK, commands,
executors, coordinators that hand requests on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import grpc
    import grpc.aio

Option = tuple[str, int | str]

CLUSTER_KEY = "raftbatch-cluster-bin"
"""Of a call's metadata: the name of the cluster that it is meant for. Another's nodes refuse it."""

SESSION_OPTIONS: tuple[Option, ...] = (
    # What a node may say in one message is bounded by the node.
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # A connection of its own, that ends with the channel, and no back-off but the caller's.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
)
"""Of a channel that carries one Session."""


def open_channel(
    address: str,
    credentials: grpc.ChannelCredentials | None,
    node: str,
    options: Sequence[Option] = (),
    interceptors: Sequence[grpc.aio.ClientInterceptor] | None = None,
) -> grpc.aio.Channel:
    """Return a channel; nothing is connected yet.

    Args:
        address: of the node, `host:port`.
        credentials: certificates to show and to trust; None: the node speaks no TLS.
        node: its name; empty: it is not known, and the address must stand in its certificate.
        options: of gRPC.
        interceptors: of each call.
    """
    import grpc.aio

    if credentials is None:
        return grpc.aio.insecure_channel(address, options=options, interceptors=interceptors)
    options = [*options, *name_options(node)]
    return grpc.aio.secure_channel(address, credentials, options=options, interceptors=interceptors)


def meant_for(cluster: str) -> tuple[tuple[str, bytes], ...]:
    """Return the metadata of a call that is meant for a cluster; of none, where that is empty."""
    return ((CLUSTER_KEY, cluster.encode()),) if cluster else ()


def name_options(node: str) -> list[Option]:
    """Return what lets a certificate name a node, not the machine that it happens to run on."""
    return [("grpc.ssl_target_name_override", node)] if node else []
