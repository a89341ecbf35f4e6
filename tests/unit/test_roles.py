"""Roles: who has which, what each may call, and what is said to who may not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import grpc
import grpc.aio
import pytest

from coordinator.access import Access
from coordinator.config import load_node
from coordinator.node import Node
from coordinator.raft.counters import Counters
from coordinator.raft.membership import Membership, Rank, founders
from coordinator.replica import Replica
from coordinator.rpc.rights import Rights
from raftbatch.config import load
from raftbatch.errors import TRAILER, NoLeader, PermissionDenied
from raftbatch.ids import NodeId
from raftbatch.realworld import RealFiles
from raftbatch.roles import ANYBODY, NOBODY, URI, Role, Roles
from raftbatch.v1 import admin_pb2, dispatch_pb2, error_pb2, gateway_pb2, log_pb2

FILE = """
[cluster]
name = "t"
[nodes.n1]
peer = "127.0.0.1:1"
client = "127.0.0.1:2"
[nodes.n2]
peer = "127.0.0.1:3"
client = "127.0.0.1:4"
[tls]
ca = "ca.pem"
cert = "{node}.pem"
key = "{node}.key"
"""
SERVICES = {
    name: [method.name for method in found.methods]
    for pb in (admin_pb2, dispatch_pb2, gateway_pb2, log_pb2)
    for name, found in pb.DESCRIPTOR.services_by_name.items()
}
ASKS = {Role.CLIENT, Role.OPERATOR, Role.PEER}
MAY = {
    "Gateway": ASKS,
    "Log": ASKS,
    "Dispatch": {Role.EXECUTOR},
    "Admin": {Role.OPERATOR},
    "New": {Role.OPERATOR},
}


def _write(folder: Path, roles: str = "") -> str:
    path = folder / "cluster.toml"
    path.write_text(FILE + roles, encoding="utf-8")
    return str(path)


class Context:
    """A call of whoever has shown a certificate."""

    def __init__(self, name: str | None, *uris: str) -> None:
        names = {"x509_common_name": [name.encode()]} if name is not None else {}
        self.found = {**names, "peer_uri": [each.encode() for each in uris]}
        self.status: grpc.StatusCode | None = None
        self.error: error_pb2.Error | None = None

    def auth_context(self) -> dict[str, list[bytes]]:
        """Return what gRPC knows of the certificate."""
        return self.found

    async def abort(self, code: grpc.StatusCode, text: str, trailer: Any) -> None:
        """End the call."""
        [(key, value)] = trailer
        assert key == TRAILER
        self.status, self.error = code, error_pb2.Error.FromString(value)
        raise grpc.aio.AbortError(text)


async def _served(_request: object, _context: object) -> str:
    return "served"


def _call(
    node: Node,
    method: str,
    context: Context,
    request: object = None,
    handler: Any = None,
) -> object:
    """Return what a call through the guard returns; None where it is refused."""

    async def call() -> object:
        async def find(_details: grpc.HandlerCallDetails) -> Any:
            return handler or grpc.unary_unary_rpc_method_handler(_served)

        details = cast("grpc.HandlerCallDetails", SimpleNamespace(method=f"/raftbatch.v1.{method}"))
        found = await Rights(node).intercept_service(find, details)
        assert found is not None
        serve: Any = found.unary_unary or found.stream_stream
        try:
            return await serve(request, context)
        except grpc.aio.AbortError:
            return None

    return asyncio.run(call())


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(load_node(RealFiles(), _write(tmp_path), "n1"), Counters())


@pytest.mark.parametrize("role", [*Role, None])
@pytest.mark.parametrize("service", [*SERVICES, "New"])
def test_role_may_call_what_the_table_says_and_nothing_else(
    node: Node, service: str, role: Role | None
) -> None:
    uris = [URI + role.value] if role else []
    for method in SERVICES.get(service, ["Anything"]):
        name = f"{service}/{method}"
        context = Context("someone", *uris)
        request = dispatch_pb2.JoinRequest(executor="someone") if service == "Dispatch" else None
        served = _call(node, name, context, request)
        if name == "Gateway/Nodes" or role in MAY[service]:
            assert (served, context.error) == ("served", None), name
            continue
        assert served is None, name
        assert context.error is not None
        assert context.status is grpc.StatusCode.PERMISSION_DENIED
        assert (context.error.slug, context.error.definite) == ("permission_denied", True)
        has = f"the role {role.value}" if role else "no role"
        assert f"the certificate of someone has {has}, and {name} needs " in context.error.message
        assert f"{URI}{_first(service)}" in context.error.message
        assert f"tls.roles.{_first(service)}" in context.error.message


def _first(service: str) -> str:
    return {"Gateway": "client", "Log": "client", "Dispatch": "executor"}.get(service, "operator")


def test_table_of_roles_knows_every_service() -> None:
    assert set(SERVICES) | {"New"} == set(MAY)


def test_executor_speaks_for_itself_alone(node: Node) -> None:
    own, other = "gpu-1", "gpu-2"
    messages: list[Callable[[str], Any]] = [
        lambda name: dispatch_pb2.JoinRequest(executor=name),
        lambda name: dispatch_pb2.TailRequest(executor=name),
        lambda name: dispatch_pb2.HeartbeatRequest(executor=name),
        lambda name: _report(complete=dispatch_pb2.Complete(executor=name)),
        lambda name: _report(free=dispatch_pb2.Free(executor=name)),
        lambda name: _report(probe=dispatch_pb2.Probe(executor=name)),
    ]
    for message in messages:
        context = Context(own, URI + "executor")
        assert _call(node, "Dispatch/Any", context, message(own)) == "served"
        for name in (other, ""):
            assert _call(node, "Dispatch/Any", context, message(name)) is None
            assert context.error is not None
            assert (
                f"the certificate names gpu-1, and Dispatch/Any is about the executor {name!r}"
                in (context.error.message)
            )
    for empty in (_report(lapse=dispatch_pb2.Lapse()), _report(), dispatch_pb2.ReportRequest()):
        assert _call(node, "Dispatch/Report", Context(own, URI + "executor"), empty) == "served"
    assert _call(node, "Dispatch/Any", Context(None, URI + "executor"), messages[0]("")) is None


def test_executor_gives_back_what_it_holds_itself(node: Node) -> None:
    """A lapse names no executor: who holds the batch under that fence is what counts."""
    held = SimpleNamespace(executor="gpu-1", fence=9, assigned=2)
    assert isinstance(node.replica, Replica)
    node.replica.state.batches[5] = cast("Any", held)
    node.replica.index = 9
    lapse = _report(lapse=dispatch_pb2.Lapse(batch=5, attempt=2, fence=9))
    stale = _report(lapse=dispatch_pb2.Lapse(batch=5, attempt=1, fence=8))
    own, other = Context("gpu-1", URI + "executor"), Context("gpu-2", URI + "executor")
    assert _call(node, "Dispatch/Report", own, lapse) == "served"
    assert _call(node, "Dispatch/Report", other, lapse) is None
    assert other.error is not None
    assert "is about the executor 'gpu-1'" in other.error.message
    assert _call(node, "Dispatch/Report", other, stale) == "served", "and is told that it is stale"
    ahead = _report(lapse=dispatch_pb2.Lapse(batch=6, attempt=1, fence=10))
    for context in (own, other):  # whoever will hold it, this node cannot say yet
        assert _call(node, "Dispatch/Report", context, ahead) is None
        assert context.error is not None
        assert (context.error.slug, context.error.definite) == ("no_leader", True)


def _report(**what: Any) -> dispatch_pb2.ReportRequest:
    return dispatch_pb2.ReportRequest(reports=[dispatch_pb2.Report(**what)])


def test_names_in_the_file_have_roles_without_a_word_in_the_certificate(tmp_path: Path) -> None:
    text = '[tls.roles]\noperator = ["alice"]\nexecutor = ["*"]\nclient = ["web", "alice"]\n'
    node = Node(load_node(RealFiles(), _write(tmp_path, text), "n1"), Counters())
    assert _call(node, "Admin/Remove", Context("alice")) == "served"
    assert _call(node, "Admin/Remove", Context("web")) is None
    assert _call(node, "Gateway/Submit", Context("web")) == "served"
    assert _call(node, "Gateway/Submit", Context("n2")) == "served", "nodes forward"
    any_executor = dispatch_pb2.JoinRequest(executor="gpu-1")
    assert _call(node, "Dispatch/Join", Context("web"), any_executor) == "served"
    assert _call(node, "Gateway/Submit", Context(None)) is None


def test_guard_serves_streams_that_are_written(node: Node) -> None:
    async def many(_request: object, _context: object) -> AsyncIterator[int]:
        yield 1

    yielded: Any = grpc.stream_stream_rpc_method_handler(many)
    with pytest.raises(AssertionError, match="out of our reach"):
        _call(node, "Gateway/Session", Context("w", URI + "client"), handler=yielded)
    stream: Any = grpc.stream_stream_rpc_method_handler(_served)
    assert _call(node, "Gateway/Session", Context("w", URI + "client"), handler=stream) == "served"
    assert _call(node, "Gateway/Session", Context("w"), handler=stream) is None


def test_roles_are_those_of_the_certificate_and_of_the_file() -> None:
    assert NOBODY.of("x", ["raftbatch://role/client", "https://role/operator"]) == {Role.CLIENT}
    assert NOBODY.of("x", ["raftbatch://role/", "raftbatch://role/root", "role/peer"]) == set()
    named = Roles({Role.OPERATOR: frozenset({"x"}), Role.CLIENT: frozenset({ANYBODY})})
    assert named.of("x", [URI + "executor"]) == {Role.OPERATOR, Role.CLIENT, Role.EXECUTOR}
    assert named.of(None, []) == {Role.CLIENT}
    assert named.of("*", []) == {Role.CLIENT}


def test_nodes_are_peers_by_name_those_of_the_file_and_all_that_ever_were_members(
    tmp_path: Path,
) -> None:
    n4, n5 = NodeId("n4"), NodeId("n5")
    known = founders({NodeId("n1"): "n1:1"})
    newest: list[Membership | None] = [None]
    access = Access(load(RealFiles(), _write(tmp_path)), lambda: newest[0])
    assert access.why_no_peer("n2", []) is None
    for name in ("n4", "", None, "web"):
        # The log may know it: a node that has none yet says that, and is asked again.
        assert isinstance(access.why_no_peer(name, [URI + "client"]), NoLeader)
    newest[0] = known
    for name in ("n4", "", None, "web"):
        error = access.why_no_peer(name, [URI + "client"])
        assert isinstance(error, PermissionDenied)
        assert f"{name or 'nobody'} has the role client, and the peer port needs peer" in str(error)
    assert access.why_no_peer("n4", [URI + "peer"]) is None
    added = newest[0] = known.added(n4, "n4:1", Rank.LEARNER)
    assert access.roles("n4", []) == {Role.PEER}
    newest[0] = added.removed(n4)
    assert access.roles("n4", []) == {Role.PEER}, "it is told that it was removed"
    assert access.roles(n5, []) == set()
