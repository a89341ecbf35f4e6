"""The client port, over a real socket, with a log that does what the test wants."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from coordinator.config import NodeConfig, ServerLimits
from coordinator.node import Node
from coordinator.raft.counters import Counters
from coordinator.raft.proposals import Proposal
from coordinator.rpc.log import ENTRIES_MAX
from coordinator.rpc.parts import PARTS_MAX
from coordinator.rpc.port import ClientPort
from raftbatch.errors import (
    CannotStart,
    DiskFailed,
    NotLeader,
    OutcomeUnknown,
    Overloaded,
    RaftbatchError,
)
from raftbatch.ids import NodeId
from raftbatch.trailers import Said
from raftbatch.v1 import admin_pb2, log_pb2
from raftbatch.v1.admin_pb2_grpc import AdminStub
from raftbatch.v1.log_pb2_grpc import LogStub
from tests.e2e.cluster import free_ports
from tests.e2e.executors import error_of
from tests.e2e.scripted import configured, serving


class ScriptedNode(Node):
    """A node whose log takes everything, and commits when it is told to.

    Attributes:
        proposals: all that was proposed.
        refused: how much was not taken.
        error: raised by the next proposals; None: they are taken.
    """

    def __init__(self, config: NodeConfig) -> None:
        super().__init__(config, Counters())
        self.proposals: list[Proposal] = []
        self.error: RaftbatchError | DiskFailed | None = None
        self.refused = 0
        self.grown = asyncio.Event()

    def append(self, data: bytes) -> Proposal:
        """Take it."""
        if self.error is not None:
            self.refused += 1
            raise self.error
        loop = asyncio.get_running_loop()
        self.proposals.append(Proposal(len(self.proposals) + 1, 1, loop))
        self.grown.set()
        return self.proposals[-1]

    async def until(self, count: int) -> None:
        """Wait until so much was proposed."""
        while len(self.proposals) < count:
            self.grown.clear()
            await self.grown.wait()

    def resolve(self, error: RaftbatchError | None = None) -> None:
        """Commit all, or fail all."""
        for each in self.proposals:
            each.resolve(error)


Test = Callable[[ScriptedNode, grpc.aio.Channel], Coroutine[Any, Any, None]]


def run(folder: Path, test: Test, **limits: int) -> None:
    """Run a test against an open client port."""
    config = configured(folder, replica="opaque")
    config = dataclasses.replace(config, server=ServerLimits(**limits))

    async def main() -> None:
        node = ScriptedNode(config)
        async with serving(node) as channel:
            await test(node, channel)

    asyncio.run(main())


def request(*entries: tuple[int, bytes]) -> log_pb2.AppendRequest:
    """Return a message of entries."""
    return log_pb2.AppendRequest(
        entries=[log_pb2.NumberedEntry(number=number, data=data) for number, data in entries]
    )


async def results(call: AsyncIterator[log_pb2.AppendReply]) -> list[log_pb2.AppendResult]:
    """Return all results of a stream, to its end."""
    return [result async for reply in call for result in reply.results]


def test_each_entry_gets_its_result(tmp_path: Path) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        call = LogStub(channel).Append()
        await call.write(request((7, b"a"), (7, b"b"), (9, b"c")))
        await node.until(3)
        node.resolve()
        await call.done_writing()
        found = await results(call)
        assert [(each.number, each.index) for each in found] == [(7, 1), (7, 2), (9, 3)]

    run(tmp_path, test)


def test_refusals_say_where_to_go_and_whether_it_is_sure(tmp_path: Path) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        call = LogStub(channel).Append()
        node.error = NotLeader("n2 leads", leader="n2", retry_after_ms=3)
        await call.write(request((1, b"a")))
        [first] = (await call.read()).results
        assert first.error.slug == "not_leader"
        assert first.error.definite
        assert first.error.leader == node.config.cluster.nodes[_N2].client
        assert first.error.retry_after_ms == 3
        node.error = NotLeader("n9 leads, which is in no file", leader="n9")
        await call.write(request((1, b"a")))
        [second] = (await call.read()).results
        assert second.error.leader == ""
        node.error = None
        await call.write(request((2, b"a")))
        await node.until(1)
        node.resolve(OutcomeUnknown("who knows"))
        [third] = (await call.read()).results
        assert (third.error.slug, third.error.definite) == ("outcome_unknown", False)
        node.error = DiskFailed("it is gone")
        await call.write(request((3, b"a")))
        [fourth] = (await call.read()).results
        assert (fourth.error.slug, fourth.error.definite) == ("corrupt", False)
        call.cancel()

    run(tmp_path, test)


def test_stream_is_read_no_further_than_its_bound(tmp_path: Path) -> None:
    """A client that sends for ever is slowed down: what is under way stays bounded."""

    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        call = LogStub(channel).Append()
        sent = 0

        async def send() -> None:
            nonlocal sent
            while sent < 400:
                await call.write(request((sent, bytes(100_000))))
                sent += 1

        sending = asyncio.ensure_future(send())
        await node.until(10)  # a million bytes: the bound
        done, _ = await asyncio.wait({sending}, timeout=0.5)
        assert not done
        assert len(node.proposals) == 10

        async def read() -> None:
            while True:
                await call.read()

        reading = asyncio.ensure_future(read())
        while not sending.done():  # each that is answered makes room for one
            node.resolve()
            await asyncio.wait({sending}, timeout=0.01)
            assert sum(not each.is_resolved for each in node.proposals) <= 10
        await sending
        reading.cancel()
        call.cancel()

    run(tmp_path, test, stream_bytes_max=1_000_000, message_bytes_max=900_000)


@pytest.mark.slow
def test_client_that_does_not_read_is_stopped(tmp_path: Path) -> None:
    """Results that nobody takes count too."""

    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        node.error = Overloaded("x" * 10_000)
        call = LogStub(channel).Append()

        async def send() -> None:
            for number in range(20_000):
                await call.write(request((number, b"a")))

        sending = asyncio.ensure_future(send())
        before = -1
        while node.refused > before or not before:  # until nothing more is taken
            before = node.refused
            await asyncio.wait({sending}, timeout=1.0)
        assert node.refused < 5000  # some megabytes wait in the windows of HTTP/2
        sending.cancel()
        call.cancel()

    run(tmp_path, test, stream_bytes_max=100_000, message_bytes_max=90_000)


def test_message_of_too_many_entries_breaks_its_stream_alone(tmp_path: Path) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        call = LogStub(channel).Append()
        await call.write(request(*[(number, b"a") for number in range(ENTRIES_MAX + 1)]))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
        assert _error(caught.value).slug == "invalid_request"
        assert node.proposals == []

    run(tmp_path, test)


def test_streams_are_bounded(tmp_path: Path) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        first = LogStub(channel).Append()
        await first.write(request((1, b"a")))
        await node.until(1)
        second = LogStub(channel).Append()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await second.read()
        error = _error(caught.value)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert (error.slug, error.definite, error.retry_after_ms) == ("overloaded", True, 100)
        first.cancel()

    run(tmp_path, test, streams_max=1)


def test_message_that_cannot_be_read_breaks_its_stream_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        append: Any = channel.stream_stream("/raftbatch.v1.Log/Append", request_serializer=bytes)
        call = append()
        await call.write(b"\xff" * 100)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "the message cannot be read" in str(caught.value.details())
        assert caplog.records == []
        assert (await AdminStub(channel).Status(admin_pb2.StatusRequest())).node_id == "n1"

    run(tmp_path, test)


def test_message_of_a_flood_of_parts_breaks_its_stream_alone(tmp_path: Path) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        append: Any = channel.stream_stream("/raftbatch.v1.Log/Append", request_serializer=bytes)
        call = append()
        await call.write(b"\x0a\x00" * (PARTS_MAX + 1))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert _error(caught.value).slug == "payload_too_large"  # as executors take apart
        assert f"more than {PARTS_MAX} parts" in str(caught.value.details())
        assert node.proposals == []
        other = append()
        await other.write(b"\x0a\x00" * 9)
        await node.until(9)
        other.cancel()

    run(tmp_path, test)


def test_connection_without_a_call_makes_room_for_others(tmp_path: Path) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        call = LogStub(channel).Append()
        await call.write(request((1, b"a")))
        await node.until(1)
        address = node.config.addresses.client_listen
        options = [("grpc.use_local_subchannel_pool", 1)]
        async with grpc.aio.insecure_channel(address, options) as silent:
            asks = admin_pb2.StatusRequest()
            assert (await AdminStub(silent).Status(asks)).node_id == "n1"
            while (state := silent.get_state()) is grpc.ChannelConnectivity.READY:
                await silent.wait_for_state_change(state)
            assert (await AdminStub(silent).Status(asks)).node_id == "n1"
        node.resolve()  # the stream is older, and goes on
        assert (await call.read()).results
        call.cancel()

    run(tmp_path, test, connection_idle_ms_max=200)


def test_message_over_the_limit_breaks_its_stream_alone(tmp_path: Path) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        call = LogStub(channel).Append()
        await call.write(request((1, bytes(2000))))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert node.proposals == []
        other = LogStub(channel).Append()
        await other.write(request((1, bytes(200))))
        await node.until(1)
        other.cancel()

    run(tmp_path, test, message_bytes_max=1000)


def test_client_that_goes_away_leaves_nothing_behind(tmp_path: Path) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        call = LogStub(channel).Append()
        await call.write(request((1, b"a")))
        await node.until(1)
        call.cancel()
        while node.on_stopping:
            await AdminStub(channel).Status(admin_pb2.StatusRequest())  # turns of the loop
        node.resolve()  # nobody hears of it

    run(tmp_path, test)


def test_stop_waits_for_what_is_under_way_and_then_sends_clients_away(tmp_path: Path) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        call = LogStub(channel).Append()
        await call.write(request((1, b"a")))
        await node.until(1)
        node.stop_taking()
        node.resolve()
        [result] = (await call.read()).results
        assert result.index == 1
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
        assert _error(caught.value).slug == "draining"
        assert _error(caught.value).definite

    run(tmp_path, test)


def test_node_without_a_log_answers_status_and_refuses_the_rest(tmp_path: Path) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        node.waiting = lambda: {_N2: "it does not answer"}
        stub = AdminStub(channel)
        status = await stub.Status(admin_pb2.StatusRequest())
        assert (status.phase, status.cluster_id) == ("starting", "")
        assert [(each.node_id, each.why) for each in status.waiting] == [
            ("n2", "it does not answer")
        ]
        for call in (
            stub.Members(admin_pb2.MembersRequest()),
            stub.Add(admin_pb2.AddRequest(node_id="n3", address="x:1")),
            stub.Promote(admin_pb2.PromoteRequest(node_id="n3")),
            stub.Remove(admin_pb2.RemoveRequest(node_id="n3")),
            stub.Move(admin_pb2.MoveRequest(node_id="n3", address="x:1")),
            stub.Transfer(admin_pb2.TransferRequest()),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call
            assert _error(caught.value).slug == "no_leader"
            assert "waits for n2: it does not answer" in _error(caught.value).message
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Remove(admin_pb2.RemoveRequest(node_id="-"))
        assert _error(caught.value).slug == "invalid_request"

    run(tmp_path, test)


def test_port_is_not_shared(tmp_path: Path) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        with pytest.raises(CannotStart, match="the port is in use"):
            await ClientPort(node, None).open()

    run(tmp_path, test)


_N2 = NodeId("n2")


def _error(error: grpc.aio.AioRpcError) -> Said:
    """Return what is in the trailer."""
    said = error_of(error)
    assert said is not None, error
    return said


def test_port_that_all_machines_reach_stays_closed_without_tls(tmp_path: Path) -> None:
    """The configuration refuses it first; whoever makes a node in another way is held to it too."""

    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        (free,) = free_ports(1)
        listen = f"0.0.0.0:{free}"
        addresses = dataclasses.replace(node.config.addresses, client_listen=listen)
        config = dataclasses.replace(node.config, addresses=addresses)
        with pytest.raises(CannotStart, match=f"{listen} can be reached from other machines"):
            await ClientPort(ScriptedNode(config), None).open()
        trusted = dataclasses.replace(config.cluster, is_insecure=True)
        port = ClientPort(ScriptedNode(dataclasses.replace(config, cluster=trusted)), None)
        await port.open()
        await port.close(0.0)

    run(tmp_path, test)
