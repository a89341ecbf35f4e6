"""What the nodes of a local cluster say of themselves, asked all at once.

What lives here: asking, and who leads by what they say. What must never live here: a process.
Called by: `cluster`.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING

from raftbatch.channels import name_options
from raftbatch.config import ClusterFile
from raftbatch.realworld.process import quiet_grpc
from raftbatch.realworld.tls import read_shown

if TYPE_CHECKING:
    import grpc

    from raftbatch.v1.admin_pb2 import StatusReply

Statuses = Mapping[str, "StatusReply"]
"""Of each node that answers, by its name."""


def statuses(cluster: ClusterFile, timeout_s: float = 2.0) -> dict[str, StatusReply]:
    """Return what those nodes say that answer in that time."""
    quiet_grpc()
    import grpc

    from raftbatch.v1.admin_pb2 import StatusRequest
    from raftbatch.v1.admin_pb2_grpc import AdminStub

    found: dict[str, StatusReply] = {}
    with ExitStack() as stack:
        calls = {
            node: AdminStub(stack.enter_context(_channel(cluster, node))).Status.future(
                StatusRequest(), timeout=timeout_s
            )
            for node in cluster.nodes
        }
        for node, call in calls.items():
            try:
                found[node] = call.result()
            except grpc.RpcError:
                continue
    return found


def agreed(found: Statuses) -> str:
    """Return who leads, by its own word and that of a majority; empty: nobody. Total."""
    for node, each in found.items():
        if each.role != "leader":
            continue
        voters = [member for member in each.members if member.rank == "voter"]
        following = [other for other in found.values() if other.leader == node]
        if len(following) > len(voters) // 2:
            return node
    return ""


def unready(found: Statuses, nodes: tuple[str, ...], executors: tuple[str, ...]) -> str:
    """Return what is missing until all nodes and executors are there; empty: nothing. Total."""
    for node in nodes:
        if node not in found:
            return f"{node} does not answer yet"
        each = found[node]
        if each.phase != "serving":
            waiting = [f"{other.node_id}: {other.why}" for other in each.waiting]
            return f"{node} is {each.phase}" + (f", waits for {waiting[0]}" if waiting else "")
    leader = agreed(found)
    if not leader:
        return "no node leads yet"
    followers = [node for node in nodes if found[node].leader != leader]
    if followers:
        return f"{followers[0]} does not follow {leader} yet"
    joined = {each.executor for each in found[leader].scheduler.executors}
    missing = [each for each in executors if each not in joined]
    return f"executor {missing[0]} has not joined yet" if missing else ""


def _channel(cluster: ClusterFile, node: str) -> grpc.Channel:
    import grpc

    address, certificates = cluster.node(node).client, cluster.operator()
    if certificates is None:
        return grpc.insecure_channel(address)
    ca, cert, key = read_shown(certificates)
    credentials = grpc.ssl_channel_credentials(ca, key or None, cert or None)
    return grpc.secure_channel(address, credentials, options=name_options(node))
