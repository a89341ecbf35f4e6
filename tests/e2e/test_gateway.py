"""Clients' single calls over a real socket: what is asked, what is answered, and how it fails."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from coordinator.config import ServerLimits
from coordinator.raft.log import ReplicatedLog
from coordinator.submission import Submission
from raftbatch.errors import (
    DeadlineExceeded,
    DiskFailed,
    NoLeader,
    NotLeader,
    OutcomeForgotten,
    Overloaded,
    RaftbatchError,
    RequestIdConflict,
    UnknownRequest,
)
from raftbatch.v1 import admin_pb2, dispatch_pb2
from raftbatch.v1 import gateway_pb2 as pb
from raftbatch.v1.admin_pb2_grpc import AdminStub
from raftbatch.v1.dispatch_pb2_grpc import DispatchStub
from raftbatch.v1.gateway_pb2_grpc import GatewayStub
from tests.e2e.executors import error_of
from tests.e2e.scripted import ScriptedNode, outcome, run

FULL = pb.Submission(
    request_id="r",
    model="m",
    version="3",
    signature="s",
    rows=4,
    payload=b"payload",
    priority=0,
    timeout_ms=5,
    parameters=b"parameters",
    traceparent="00-1-2-01",
)


def test_submission_reaches_the_api_as_it_was_sent(tmp_path: Path) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        node.scripted.answers["bad"] = Overloaded("full", retry_after_ms=9)
        least = pb.Submission(request_id="bad", model="m", rows=1)
        request = pb.SubmitRequest(tenant="t", submissions=[FULL, least], forward=True)
        reply = await GatewayStub(channel).Submit(request)
        assert node.scripted.submitted == [
            Submission("t", "r", "m", "3", "s", 4, b"payload", 0, 5, b"parameters", "00-1-2-01"),
            Submission("t", "bad", "m", "", "", 1, b""),
        ]
        assert reply.results[0].ticket == pb.Ticket(request_id="r", index=2)
        error = reply.results[1].error
        assert (error.slug, error.definite, error.retry_after_ms) == ("overloaded", True, 9)

    run(tmp_path, test)


def test_await_tells_an_outcome_or_that_the_wait_is_over(tmp_path: Path) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        stub = GatewayStub(channel)
        request = pb.AwaitRequest(request_id="r", index=2, wait_ms=7)
        waiting = await stub.Await(request)
        assert (waiting.ticket.index, waiting.HasField("outcome")) == (2, False)
        node.scripted.known["r"] = outcome("r", b"result")
        ended = await stub.Await(request)
        assert (ended.ticket.request_id, ended.outcome.result) == ("r", b"result")
        assert (ended.outcome.final, ended.outcome.run.fence) == (True, 7)
        assert node.scripted.heard == [("default", "r", 2, 7)] * 2

    run(tmp_path, test)


def test_infer_waits_for_as_long_as_the_call_lasts(tmp_path: Path) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        node.scripted.known["r"] = outcome("r", b"result")
        reply = await GatewayStub(channel).Infer(pb.InferRequest(submission=FULL))
        assert reply.outcome.result == b"result"
        await GatewayStub(channel).Infer(pb.InferRequest(submission=FULL, wait_ms=7))
        waits = [each for each in node.scripted.heard if len(each) == 4]
        assert waits == [("default", "r", 2, 3_600_000), ("default", "r", 2, 7)]

    run(tmp_path, test)


@pytest.mark.parametrize("error", [NoLeader("behind"), Overloaded("full"), UnknownRequest("?")])
def test_infer_error_after_the_ticket_is_never_definite(
    tmp_path: Path, error: RaftbatchError
) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        api = node.scripted
        api.outcome_error = error
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await GatewayStub(channel).Infer(pb.InferRequest(submission=FULL))
        said = error_of(caught.value)
        assert said is not None
        assert (said.slug, said.definite) == ("outcome_unknown", False)
        api.outcome_error = OutcomeForgotten("it was acknowledged")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await GatewayStub(channel).Infer(pb.InferRequest(submission=FULL))
        said = error_of(caught.value)
        assert said is not None
        assert said.slug == "outcome_forgotten"

    run(tmp_path, test)


def test_cancel_and_acknowledge_answer_each_id(tmp_path: Path) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        stub = GatewayStub(channel)
        node.scripted.answers["b"] = UnknownRequest("nobody knows b")
        cancelled = await stub.Cancel(pb.CancelRequest(request_ids=["a", "b"]))
        assert [each.state for each in cancelled.results] == [pb.CANCEL_STATE_CANCELLED] * 2
        done = await stub.Acknowledge(pb.AcknowledgeRequest(tenant="t", request_ids=["a", "b"]))
        assert [each.error.slug for each in done.results] == ["", "unknown_request"]
        assert node.scripted.asked == [
            ("default", "a"),
            ("default", "b"),
            ("t", "a"),
            ("t", "b"),
        ]

    run(tmp_path, test)


@pytest.mark.parametrize(
    ("error", "code", "definite"),
    [
        (NotLeader("n2 leads", leader="n2"), grpc.StatusCode.FAILED_PRECONDITION, True),
        (NoLeader("nobody leads"), grpc.StatusCode.UNAVAILABLE, True),
        (Overloaded("full"), grpc.StatusCode.RESOURCE_EXHAUSTED, True),
        (RequestIdConflict("taken"), grpc.StatusCode.ALREADY_EXISTS, True),
        (DeadlineExceeded("late"), grpc.StatusCode.DEADLINE_EXCEEDED, True),
        (DiskFailed("gone"), grpc.StatusCode.DATA_LOSS, False),
    ],
)
def test_error_of_a_call_is_in_its_trailer(
    tmp_path: Path, error: Exception, code: grpc.StatusCode, definite: bool
) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        node.scripted.error = error
        stub = GatewayStub(channel)
        for call in (
            stub.Submit(pb.SubmitRequest()),
            stub.Await(pb.AwaitRequest()),
            stub.Infer(pb.InferRequest()),
            stub.Cancel(pb.CancelRequest()),
            stub.Acknowledge(pb.AcknowledgeRequest()),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call
            assert caught.value.code() is code
            said = error_of(caught.value)
            assert said is not None
            assert said.definite is definite
            expected = node.client_address("n2") if isinstance(error, NotLeader) else ""
            assert said.leader == expected

    run(tmp_path, test)


def test_clients_that_wait_keep_nobody_else_out(tmp_path: Path) -> None:
    """What is one too many is refused as all else is: for sure, and with when to come again."""

    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        api, stub = node.scripted, GatewayStub(channel)
        api.is_open.clear()
        waiting = [
            asyncio.ensure_future(stub.Await(pb.AwaitRequest(request_id="r", index=1))),
            asyncio.ensure_future(stub.Infer(pb.InferRequest(submission=FULL))),
        ]
        await api.until(lambda: len(api.heard) == len(api.submitted) == 1)
        for more in (stub.Await(pb.AwaitRequest()), stub.Submit(pb.SubmitRequest())):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await more
            error = error_of(caught.value)
            assert error is not None
            assert (error.slug, error.definite) == ("overloaded", True)
            assert error.retry_after_ms > 0
        await stub.Nodes(pb.NodesRequest())
        await DispatchStub(channel).Heartbeat(dispatch_pb2.HeartbeatRequest(executor="gpu-1"))
        await DispatchStub(channel).Report(dispatch_pb2.ReportRequest())
        await AdminStub(channel).Status(admin_pb2.StatusRequest())
        api.is_open.set()
        await asyncio.gather(*waiting)
        await stub.Submit(pb.SubmitRequest())

    run(tmp_path, test, server=ServerLimits(calls_max=3, client_calls_max=2, caller_calls_max=2))


async def sent(channel: Any, method: str, data: bytes) -> None:
    """Send bytes as a message, and read to the end of what comes."""
    if not method.endswith("Session"):
        await channel.unary_unary(method)(data)
        return
    session = channel.stream_stream(method)()
    await session.write(data)
    while await session.read() is not grpc.aio.EOF:
        pass


@pytest.mark.parametrize("data", [b"\x0a\x02\xff\xfe", b"\xff" * 50], ids=["utf-8", "message"])
def test_message_that_cannot_be_read_is_refused_for_sure(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, data: bytes
) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        for kind in ("Submit", "Await", "Infer", "Cancel", "Acknowledge", "Nodes", "Session"):
            method = f"/raftbatch.v1.Gateway/{kind}"
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                # Nodes has no fields, so any field is one that it does not know.
                await sent(channel, method, b"\xff" * 50 if kind == "Nodes" else data)
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT, kind
            said = error_of(caught.value)
            assert said is not None
            assert (said.slug, said.definite) == ("invalid_request", True)
        assert node.scripted.submitted == []

    run(tmp_path, test)
    assert caplog.text == ""


def test_nodes_are_told_before_there_is_a_log(tmp_path: Path) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        log: ReplicatedLog | None = node.log
        assert log is None
        reply = await GatewayStub(channel).Nodes(pb.NodesRequest())
        assert [each.node_id for each in reply.nodes] == ["n1", "n2"]
        assert reply.nodes[1].address == node.client_address("n2")
        assert (reply.node_id, reply.leader_id) == ("n1", "")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await GatewayStub(channel).Models(pb.ModelsRequest())
        said = error_of(caught.value)
        assert said is not None
        assert said.slug == "no_leader"

    run(tmp_path, test)
