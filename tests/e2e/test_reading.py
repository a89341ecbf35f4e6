"""The Admin service lets the log be read, over a real socket, whatever its readers do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from coordinator.config import NodeConfig, load_node
from coordinator.node import Node, Phase
from coordinator.raft.counters import Counters
from coordinator.rpc import entries
from coordinator.rpc.port import ClientPort
from raftbatch.realworld import RealFiles
from raftbatch.v1 import admin_pb2 as pb
from raftbatch.v1.admin_pb2_grpc import AdminStub
from tests.e2e.cluster import free_ports
from tests.e2e.executors import error_of
from tests.unit.test_inspecting import FakeLog

LIMIT_S = 60.0
MIB = 1 << 20


class ReadNode(Node):
    """A node whose log is the test's."""

    def __init__(self, config: NodeConfig) -> None:
        super().__init__(config, Counters())
        self.read = FakeLog()
        self.phase = Phase.SERVING

    def log_to_read(self) -> Any:
        """Return it."""
        self.read.first_index = self.read.first  # type: ignore[attr-defined]
        return self.read


Test = Callable[[ReadNode, AdminStub], Coroutine[Any, Any, None]]


def run(folder: Path, test: Test) -> None:
    """Run a test against an open client port."""
    peer, client = free_ports(2)
    path = folder / "cluster.toml"
    path.write_text(
        f'[cluster]\nname = "t"\nreplica = "opaque"\n[nodes.n1]\npeer = "127.0.0.1:{peer}"\n'
        f'client = "127.0.0.1:{client}"\n',
        encoding="utf-8",
    )
    config = load_node(RealFiles(), str(path), "n1")

    async def main() -> None:
        node = ReadNode(config)
        port = ClientPort(node, None)
        await port.open()
        try:
            async with grpc.aio.insecure_channel(config.addresses.client) as channel:
                async with asyncio.timeout(LIMIT_S):
                    await test(node, AdminStub(channel))
        finally:
            await port.close(0.0)

    asyncio.run(main())


async def turns(stub: AdminStub, until: Callable[[], bool]) -> None:
    """Let the node have turns of its loop until something holds; the test's time bounds it."""
    while not until():
        await stub.Status(pb.StatusRequest())


async def failure(call: Any) -> Any:
    """Return the error with which a stream ends."""
    try:
        while await call.read() is not grpc.aio.EOF:
            pass
    except grpc.aio.AioRpcError as error:
        return error_of(error)
    raise AssertionError("it ended well")


def test_entries_are_whole_and_in_order(tmp_path: Path) -> None:
    async def test(node: ReadNode, stub: AdminStub) -> None:
        node.read = FakeLog(10, 3 * MIB, 0, 20)
        node.read.first = 2
        request = pb.EntriesRequest(payloads=True)
        replies = [reply async for reply in stub.Entries(request)]
        assert (replies[0].span.node_id, replies[0].span.first, replies[0].span.applied) == (
            "n1",
            2,
            4,
        )
        sizes: dict[int, int] = {}
        for reply in replies:
            assert len(reply.entries) < 5
            for entry in reply.entries:
                sizes[entry.index] = sizes.get(entry.index, 0) + len(entry.data)
        assert sizes == {2: 3 * MIB, 3: 0, 4: 20}
        newest = [reply async for reply in stub.Entries(pb.EntriesRequest(newest=2))]
        assert [entry.index for reply in newest for entry in reply.entries] == [3, 4]

    run(tmp_path, test)


def test_index_that_is_gone_is_an_error_that_names_the_first(tmp_path: Path) -> None:
    async def test(node: ReadNode, stub: AdminStub) -> None:
        node.read = FakeLog(1, 1, 1)
        node.read.first = 3
        error = await failure(stub.Entries(pb.EntriesRequest(first=1)))
        assert (error.slug, error.definite) == ("compacted", True)
        assert "the log begins with 3" in error.message
        error = await failure(stub.Entries(pb.EntriesRequest(first=3, last=2)))
        assert error.slug == "invalid_request"

    run(tmp_path, test)


def test_follower_hears_of_each_entry_and_of_the_end(tmp_path: Path) -> None:
    async def test(node: ReadNode, stub: AdminStub) -> None:
        node.read = FakeLog(1)
        call = stub.Entries(pb.EntriesRequest(newest=1, follow=True))
        assert (await call.read()).HasField("span")
        assert [entry.index for entry in (await call.read()).entries] == [1]
        for index in (2, 3):
            node.read.append(5)
            assert [entry.index for entry in (await call.read()).entries] == [index]
        node.stop_taking()
        error = await failure(call)
        assert (error.slug, error.definite) == ("draining", True)
        assert node.on_stopping == []

    run(tmp_path, test)


def test_reader_that_goes_away_leaves_nothing_behind(tmp_path: Path) -> None:
    async def test(node: ReadNode, stub: AdminStub) -> None:
        node.read = FakeLog(1)
        call = stub.Entries(pb.EntriesRequest(follow=True))
        assert (await call.read()).HasField("span")
        call.cancel()
        await turns(stub, lambda: not node.on_stopping)

    run(tmp_path, test)


def test_call_that_gRPC_cannot_go_on_with_is_told_so_where_it_lives(  # noqa: N802
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(node: ReadNode, stub: AdminStub) -> None:
        node.read = FakeLog(1)
        call = stub.Entries(pb.EntriesRequest(follow=True))
        assert (await call.read()).HasField("span")
        node.read.error = grpc.aio.InternalError("Failed grpc_call_start_batch")
        node.read.append(1)
        error = await failure(call)
        assert (error.slug, error.definite) == ("outcome_unknown", False)
        assert node.on_stopping == []

    run(tmp_path, test)
    assert "Failed grpc_call_start_batch" in caplog.text, "a fault, of which the log tells"


def test_streams_are_bounded(tmp_path: Path) -> None:
    async def test(node: ReadNode, stub: AdminStub) -> None:
        node.read = FakeLog(1)
        calls = [stub.Entries(pb.EntriesRequest(follow=True)) for _ in range(entries.STREAMS_MAX)]
        for call in calls:
            assert (await call.read()).HasField("span")
        error = await failure(stub.Entries(pb.EntriesRequest()))
        assert (error.slug, error.definite) == ("overloaded", True)
        assert error.retry_after_ms > 0
        calls.pop().cancel()
        await turns(stub, lambda: len(node.on_stopping) == entries.STREAMS_MAX - 1)
        assert (await stub.Entries(pb.EntriesRequest()).read()).HasField("span")
        for call in calls:
            call.cancel()

    run(tmp_path, test)


def test_slow_reader_costs_no_more_than_what_is_under_way(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The log is read no further than it is taken; and the node stops without it."""

    async def test(node: ReadNode, stub: AdminStub) -> None:
        count = 400
        node.read = FakeLog(*[MIB] * count)
        slow = stub.Entries(pb.EntriesRequest(payloads=True))
        assert (await slow.read()).HasField("span")
        quick = stub.Entries(pb.EntriesRequest(payloads=True))
        taken = 0
        while (reply := await quick.read()) is not grpc.aio.EOF:
            taken += sum(not entry.more for entry in reply.entries)
        assert taken == count, "others are not kept waiting"
        assert node.read.reads - count < count // 4, "some mebibytes wait in the windows of HTTP/2"
        node.stop_taking()

    run(tmp_path, test)
    assert caplog.records == []
