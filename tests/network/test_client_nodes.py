"""Which nodes the SDK knows, and what it says where they do not let it in."""

from __future__ import annotations

import pytest

from raftbatch.client import AsyncClient, ClientOptions, Payload
from raftbatch.client.nodes import Nodes
from raftbatch.errors import NoLeader, PermissionDenied
from raftbatch.v1 import gateway_pb2 as pb
from tests.unit.fake_gateway import FakeNode, infer_all, play


def test_nodes_that_refuse_the_client_are_an_error_at_once_and_it_is_theirs() -> None:
    async def test(nodes: list[FakeNode]) -> None:
        for node in nodes:
            node.refusal = "the certificate of web has no role"
        async with AsyncClient(nodes[0].address, ClientOptions(connect_timeout_s=60.0)) as client:
            with pytest.raises(PermissionDenied, match="web has no role"):
                await client.infer("echo", Payload(b""))
            with pytest.raises(PermissionDenied, match="web has no role"):
                await client.connect()
            nodes[0].refusal = ""
            await infer_all(client, 3)

    play(test, 2)


@pytest.mark.slow
def test_leader_that_lets_nobody_in_is_named_with_its_reason() -> None:
    async def test(nodes: list[FakeNode]) -> None:
        nodes[0].leader = nodes[1].address
        nodes[1].refusal = "1000 sessions are open"
        options = ClientOptions(patience_s=1.0)
        async with AsyncClient(nodes[0].address, options) as client:
            for call in (client.infer("echo", Payload(b"")), client.connect()):
                with pytest.raises(NoLeader) as caught:
                    await call
                assert f"{nodes[1].address}: 1000 sessions are open" in caught.value.message

    play(test, 2)


def test_node_that_does_not_know_an_address_makes_nobody_forget_it() -> None:
    nodes = Nodes(["a:1"], None)
    named = [pb.NodeAddress(node_id=f"n{n}", address=f"{host}:1") for n, host in enumerate("abc")]
    nodes.learned(pb.NodesReply(nodes=named))
    assert nodes.addresses == ["a:1", "b:1", "c:1"]
    nodes.learned(pb.NodesReply(nodes=[*named[:2], pb.NodeAddress(node_id="n2")]))
    assert nodes.addresses == ["a:1", "b:1", "c:1"]
    moved = pb.NodeAddress(node_id="n2", address="d:1")
    nodes.learned(pb.NodesReply(nodes=[named[0], moved, pb.NodeAddress(node_id="n9")]))
    assert nodes.addresses == ["a:1", "d:1"]
    nodes.learned(pb.NodesReply(nodes=[pb.NodeAddress(node_id="n2", address="no address")]))
    assert nodes.addresses == ["a:1"], "what was named at the start is never forgotten"
