"""Where commands read a log: who is asked, and who when that one goes away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager
from typing import Any

import grpc.aio
import pytest

from coordinator.rpc.errors import abort
from raftbatch import records as r
from raftbatch.cli.calls import CallFailed, Cluster, Target
from raftbatch.cli.source import ClusterSource, Item, Span, Wanted
from raftbatch.codec import encode_entry
from raftbatch.cut import cut_entry
from raftbatch.errors import Compacted, Draining, RaftbatchError, UnknownRequest
from raftbatch.v1 import admin_pb2 as pb
from raftbatch.v1.admin_pb2_grpc import AdminServicer, add_AdminServicer_to_server
from tests.e2e.cluster import free_ports

LIMIT_S = 60.0
DATA = cut_entry(encode_entry(r.Entry(1, 5, (r.Advance(),))))


class Scripted(AdminServicer):
    """A node of a log of so many entries, that breaks off after some.

    Attributes:
        asked: the first index of each stream.
    """

    def __init__(self, name: str, applied: int, role: str = "follower") -> None:
        self.name, self.applied, self.role = name, applied, role
        self.asked: list[int] = []
        self.breaks_after = 1 << 30
        self.error: RaftbatchError | None = None
        self.hangs = False
        self.data = DATA
        self.phase = "serving"

    async def Status(  # noqa: N802 - the name of the call, as are all below
        self, _request: pb.StatusRequest, _context: Any
    ) -> pb.StatusReply:
        """Say how far it is."""
        return pb.StatusReply(
            node_id=self.name, phase=self.phase, role=self.role, applied=self.applied
        )

    async def Entries(  # noqa: N802
        self, request: pb.EntriesRequest, context: Any
    ) -> AsyncGenerator[pb.EntriesReply, None]:
        """Send entries, one a message."""
        self.asked.append(request.first)
        if self.hangs:
            await asyncio.Event().wait()
        if self.error is not None and self.breaks_after > 1000:
            await abort(context, self.error, str)
        yield pb.EntriesReply(span=pb.LogSpan(node_id=self.name, first=1, applied=self.applied))
        last = request.last or self.applied
        for index in range(request.first or 1, last + 1):
            if index > self.breaks_after:
                assert self.error is not None
                await abort(context, self.error, str)
            yield pb.EntriesReply(
                entries=[pb.LogEntry(index=index, term=1, size=9, data=self.data)]
            )

    async def Request(self, request: pb.RequestRequest, context: Any) -> pb.RequestReply:  # noqa: N802
        """Know one request."""
        if self.error is not None:
            await abort(context, self.error, str)
        if request.request_id != "known":
            await abort(context, UnknownRequest("nothing"), str)
        return pb.RequestReply(number=7)


Test = Callable[[list[Scripted], ClusterSource], Coroutine[Any, Any, None]]


@asynccontextmanager
async def served(nodes: list[Scripted]) -> AsyncIterator[list[Target]]:
    """Serve some nodes."""
    ports = free_ports(len(nodes))
    servers = []
    try:
        for node, port in zip(nodes, ports, strict=True):
            server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
            add_AdminServicer_to_server(node, server)
            server.add_insecure_port(f"127.0.0.1:{port}")
            await server.start()
            servers.append(server)
        yield [
            Target(f"127.0.0.1:{port}", node.name) for node, port in zip(nodes, ports, strict=True)
        ]
    finally:
        for server in servers:
            await server.stop(0)


def run(nodes: list[Scripted], test: Test, timeout_s: float = 5.0) -> None:
    """Run a test against nodes."""

    async def main() -> None:
        async with asyncio.timeout(LIMIT_S), served(nodes) as targets:
            await test(nodes, ClusterSource(Cluster(tuple(targets)), timeout_s))

    asyncio.run(main())


async def read(source: ClusterSource, wanted: Wanted) -> tuple[list[str], list[int]]:
    """Return who told how far the log is, and the indexes of what came."""
    nodes, indexes = [], []
    async with aclosing(source.read(wanted)) as found:
        async for each in found:
            if isinstance(each, Span):
                nodes.append(each.node)
            else:
                assert isinstance(each, Item)
                indexes.append(each.index)
    return nodes, indexes


def test_node_that_has_applied_most_is_asked_rather_than_the_leader() -> None:
    async def test(nodes: list[Scripted], source: ClusterSource) -> None:
        assert await read(source, Wanted()) == (["n3"], [1, 2, 3, 4, 5])
        assert [node.asked for node in nodes] == [[], [], [0]]

    run([Scripted("n1", 5, "leader"), Scripted("n2", 4), Scripted("n3", 5)], test)


@pytest.mark.parametrize("follows", [True, False])
def test_next_node_goes_on_where_one_goes_away(follows: bool) -> None:
    async def test(nodes: list[Scripted], source: ClusterSource) -> None:
        nodes[0].breaks_after, nodes[0].error = 3, Draining("n1 stops")
        assert await read(source, Wanted(follows=follows)) == (["n1"], [1, 2, 3, 4, 5])
        assert [node.asked for node in nodes] == [[0], [4]]

    run([Scripted("n1", 5), Scripted("n2", 5, "leader")], test)


def test_what_is_gone_is_gone() -> None:
    async def test(nodes: list[Scripted], source: ClusterSource) -> None:
        nodes[0].error = Compacted("entry 1 is gone: the log begins with 3")
        with pytest.raises(CallFailed, match="begins with 3") as caught:
            await read(source, Wanted(first=1))
        assert (caught.value.slug, caught.value.is_definite) == ("compacted", True)
        assert nodes[1].asked == []

    run([Scripted("n1", 5), Scripted("n2", 5, "leader")], test)


@pytest.mark.slow
def test_node_that_says_nothing_is_passed_over_within_a_bound() -> None:
    async def test(nodes: list[Scripted], source: ClusterSource) -> None:
        nodes[0].hangs = True
        assert await read(source, Wanted()) == (["n2"], [1, 2, 3, 4, 5])
        nodes[1].hangs = True
        with pytest.raises(CallFailed, match=r"said nothing for 1\.5 s"):
            await read(source, Wanted())

    run([Scripted("n1", 5), Scripted("n2", 5, "leader")], test, timeout_s=1.5)


def test_node_that_serves_not_yet_is_not_asked() -> None:
    async def test(nodes: list[Scripted], source: ClusterSource) -> None:
        nodes[0].phase = "starting"
        with pytest.raises(CallFailed, match=r"n1 at .* is starting"):
            await read(source, Wanted())

    run([Scripted("n1", 5)], test)


@pytest.mark.parametrize("data", [b"\xff", b"\x90" * 200, DATA[:-1]])
def test_entry_that_cannot_be_read_is_a_plain_error(data: bytes) -> None:
    async def test(nodes: list[Scripted], source: ClusterSource) -> None:
        nodes[0].data = data
        with pytest.raises(CallFailed, match="entry 1 cannot be read here") as caught:
            await read(source, Wanted())
        assert caught.value.slug == "corrupt"

    run([Scripted("n1", 5)], test)


def test_what_a_state_knows_is_asked_of_the_next_node_too() -> None:
    async def test(nodes: list[Scripted], source: ClusterSource) -> None:
        nodes[0].error = Draining("n1 stops")
        found = await source.request("default", "known")
        assert found is not None
        assert found.number == 7
        assert await source.request("default", "unknown") is None
        nodes[1].error = Draining("n2 stops")
        with pytest.raises(CallFailed, match="n2 stops"):
            await source.request("default", "known")

    run([Scripted("n1", 5), Scripted("n2", 5, "leader")], test)
