"""Single calls that are given up over a real socket cancel their requests, and others do not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import grpc.aio
import pytest

from coordinator.answers import Waiting
from coordinator.core.values import Outcome
from raftbatch.v1 import gateway_pb2 as pb
from raftbatch.v1.gateway_pb2_grpc import GatewayStub
from tests.e2e.scripted import ScriptedNode, run
from tests.e2e.test_session import opened, submissions

if TYPE_CHECKING:
    Call = grpc.aio.UnaryUnaryCall[pb.InferRequest, pb.AwaitReply]

LONG_S = 600.0


class Stage:
    """A node on which no request ends, and what calls to it have ended."""

    def __init__(self, node: ScriptedNode) -> None:
        self.node = node
        self.api = node.scripted
        self.ended: list[str] = []
        self.api.outcome = self._outcome  # type: ignore[method-assign]

    async def _outcome(
        self, tenant: str, request_id: str, *, index: int = 0, timeout_ms: int
    ) -> Outcome | Waiting:
        self.api.heard.append((tenant, request_id, index, timeout_ms))
        self.api.grown.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.append(request_id)
            self.api.grown.set()
        raise AssertionError("it waits for ever")

    async def infer(
        self, channel: grpc.aio.Channel, request_id: str, timeout_s: float | None = None
    ) -> Call:
        """Begin a call; return once its request was taken, and it waits."""
        asked = pb.Submission(request_id=request_id, model="m", rows=1)
        request = pb.InferRequest(tenant="t", submission=asked)
        call: Call = GatewayStub(channel).Infer(request, timeout=timeout_s)
        await self.api.until(
            lambda: any(len(each) == 4 and each[1] == request_id for each in self.api.heard)
        )
        return call

    async def expect_cancelled(self, channel: grpc.aio.Channel, *request_ids: str) -> None:
        """Give up one more call; see that its request is cancelled, and before it only these."""
        (await self.infer(channel, "last")).cancel()
        await self.api.until(lambda: ("t", "last") in self.api.asked)
        assert self.api.asked == [("t", each) for each in (*request_ids, "last")]


def play(folder: Path, check: Callable[[Stage, grpc.aio.Channel], Awaitable[None]]) -> None:
    """Run a check before a node."""

    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        await check(Stage(node), channel)

    run(folder, test)


@pytest.mark.parametrize("timeout_s", [None, LONG_S])
def test_call_that_is_cancelled_cancels_its_request(
    tmp_path: Path, timeout_s: float | None
) -> None:
    async def check(stage: Stage, channel: grpc.aio.Channel) -> None:
        (await stage.infer(channel, "a", timeout_s)).cancel()
        await stage.api.until(lambda: stage.api.asked == [("t", "a")])

    play(tmp_path, check)


def test_call_that_is_cancelled_before_its_request_was_taken_cancels_it_too(tmp_path: Path) -> None:
    async def check(stage: Stage, channel: grpc.aio.Channel) -> None:
        stage.api.is_open.clear()
        asked = pb.Submission(request_id="a", model="m", rows=1)
        call = GatewayStub(channel).Infer(pb.InferRequest(submission=asked))
        await stage.api.until(lambda: len(stage.api.submitted) == 1)
        call.cancel()
        await stage.api.until(lambda: stage.api.asked == [("default", "a")])

    play(tmp_path, check)


@asynccontextmanager
async def relayed(address: str) -> AsyncIterator[tuple[str, asyncio.Event]]:
    """Yield an address that leads to another, and what cuts off whoever came by it."""
    cut = asyncio.Event()

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            writer.write(data)

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, _, port = address.rpartition(":")
        inner_reader, inner_writer = await asyncio.open_connection(host, int(port))
        both = [carry(reader, inner_writer), carry(inner_reader, writer)]
        carrying = asyncio.gather(*both)
        await cut.wait()
        carrying.cancel()
        for each in (writer, inner_writer):
            each.transport.abort()

    server = await asyncio.start_server(relay, "127.0.0.1", 0)
    async with server:
        yield "{}:{}".format(*server.sockets[0].getsockname()), cut


def test_call_whose_connection_breaks_cancels_its_request(tmp_path: Path) -> None:
    async def check(stage: Stage, _channel: grpc.aio.Channel) -> None:
        async with (
            relayed(stage.node.config.addresses.client) as (address, cut),
            grpc.aio.insecure_channel(address) as own,
        ):
            call = await stage.infer(own, "a")
            cut.set()
            await stage.api.until(lambda: stage.api.asked == [("t", "a")])
            with pytest.raises(grpc.aio.AioRpcError):
                await call

    play(tmp_path, check)


def test_deadline_ends_the_wait_alone(tmp_path: Path) -> None:
    async def check(stage: Stage, channel: grpc.aio.Channel) -> None:
        asked = pb.Submission(request_id="a", model="m", rows=1)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await GatewayStub(channel).Infer(pb.InferRequest(submission=asked), timeout=0.3)
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        await stage.expect_cancelled(channel)

    play(tmp_path, check)


def test_request_goes_on_for_whoever_else_waits_for_it(tmp_path: Path) -> None:
    async def check(stage: Stage, channel: grpc.aio.Channel) -> None:
        session = await opened(channel)
        await session.write(submissions(1, tenant="t"))
        await stage.api.until(lambda: "r1" in stage.api.watching)
        (await stage.infer(channel, "r1")).cancel()
        await stage.api.until(lambda: stage.ended == ["r1"])
        await stage.expect_cancelled(channel)
        session.cancel()

    play(tmp_path, check)


def test_requests_of_a_session_that_breaks_go_on(tmp_path: Path) -> None:
    async def check(stage: Stage, channel: grpc.aio.Channel) -> None:
        session = await opened(channel)
        await session.write(submissions(1, tenant="t"))
        await stage.api.until(lambda: "r1" in stage.api.watching)
        session.cancel()
        await stage.api.until(lambda: stage.api.unwatched == 1)
        await stage.expect_cancelled(channel)

    play(tmp_path, check)


def test_node_that_stops_cancels_nothing(tmp_path: Path) -> None:
    seen: list[tuple[Stage, Call]] = []

    async def check(stage: Stage, channel: grpc.aio.Channel) -> None:
        seen.append((stage, await stage.infer(channel, "a")))
        stage.node.stop_taking()

    play(tmp_path, check)
    [(stage, _)] = seen
    assert (stage.ended, stage.api.asked) == (["a"], [])
