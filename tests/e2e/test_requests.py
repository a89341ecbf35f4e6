"""Real nodes take requests in, an executor that says what it hears runs them, all get outcomes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from raftbatch.v1 import dispatch_pb2
from raftbatch.v1 import gateway_pb2 as pb
from raftbatch.v1.dispatch_pb2_grpc import DispatchStub
from raftbatch.v1.gateway_pb2_grpc import GatewayStub
from tests.e2e.cluster import ServedCluster
from tests.e2e.executors import CALL_S, Cluster, EchoExecutor, Test, error_of, run_served

MODELS = """
[leader]
lease_ms = 60_000
[models.echo]
max_batch_size = 8
inputs = [{ name = "x", datatype = "BYTES", dims = [1] }]
[models.idle]
"""


def run(folder: Path, test: Test, nodes: tuple[str, ...] = ("n1", "n2", "n3")) -> None:
    """Run a test against nodes that serve."""
    run_served(folder, test, MODELS, nodes)


def submission(request_id: str, payload: bytes = b"", **fields: Any) -> pb.Submission:
    """Return a request for the echo."""
    return pb.Submission(
        **{"request_id": request_id, "model": "echo", "rows": 1, "payload": payload, **fields}
    )


async def submit(channel: grpc.aio.Channel, *submissions: pb.Submission) -> list[int]:
    """Take requests in; return the indexes of their tickets."""
    request = pb.SubmitRequest(submissions=submissions)
    reply = await GatewayStub(channel).Submit(request, timeout=CALL_S)
    assert all(each.HasField("ticket") for each in reply.results), reply
    return [each.ticket.index for each in reply.results]


async def outcome(channel: grpc.aio.Channel, request_id: str, index: int = 0) -> pb.Outcome:
    """Return what became of a request."""
    request = pb.AwaitRequest(request_id=request_id, index=index, wait_ms=60_000)
    reply = await GatewayStub(channel).Await(request)
    assert reply.HasField("outcome"), reply
    found: pb.Outcome = reply.outcome
    return found


async def answers(session: Any, count: int) -> tuple[dict[int, int], dict[int, pb.Outcome]]:
    """Return the tickets and outcomes of a session, once there are so many outcomes."""
    tickets: dict[int, int] = {}
    outcomes: dict[int, pb.Outcome] = {}
    while len(outcomes) < count:
        reply = await session.read()
        assert not reply.errors, reply.errors
        tickets.update(zip(reply.tickets.numbers, reply.tickets.indexes, strict=True))
        for each in reply.outcomes:
            assert each.number not in outcomes, "one last answer each"
            outcomes[each.number] = each
    return tickets, outcomes


def test_one_node_gives_each_request_its_outcome(tmp_path: Path) -> None:
    async def test(served: ServedCluster, cluster: Cluster) -> None:
        channel = cluster.channel(served.clients["n1"])
        stub = GatewayStub(channel)
        async with EchoExecutor(cluster) as executor:
            indexes = await submit(channel, submission("a", b"one"), submission("b", b"two"))
            assert (await outcome(channel, "a", indexes[0])).result == b"one"
            found = await outcome(channel, "b")
            assert (found.kind, found.result, found.final) == (0, b"two", True)
            assert (found.run.executor, found.index) == ("x1", indexes[1])

            reply = await stub.Infer(pb.InferRequest(submission=submission("c", b"three")))
            assert reply.outcome.result == b"three"
            again = await stub.Infer(pb.InferRequest(submission=submission("c", b"three")))
            assert again == reply  # nothing is run twice
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await stub.Infer(pb.InferRequest(submission=submission("c", b"other")))
            assert caught.value.code() is grpc.StatusCode.ALREADY_EXISTS
            assert _slug(caught.value) == "request_id_conflict"

            session = stub.Session()
            assert (await session.read()).opened.leader == served.clients["n1"]
            for begin in range(0, 96, 32):
                asked = [
                    submission(f"s{n}", b"%d" % n, number=n, want=pb.WANT_TICKET_AND_OUTCOME)
                    for n in range(begin, begin + 32)
                ]
                await session.write(pb.SessionRequest(submissions=asked))
            tickets, outcomes = await answers(session, 96)
            assert all(outcomes[n].result == b"%d" % n for n in range(96))
            assert tickets == {n: outcomes[n].index for n in range(96)}
            assert max(executor.batches.values()) == 8  # they met
            await session.write(
                pb.SessionRequest(
                    acknowledgements=[pb.SessionNames(number=1, request_ids=["s0", "s1"])],
                    cancels=[pb.SessionNames(number=2, request_ids=["s0", "never"])],
                )
            )
            acknowledged: list[pb.SessionAcknowledged] = []
            cancelled: list[pb.SessionCancelled] = []
            while not (acknowledged and cancelled):
                told = await session.read()
                acknowledged += told.acknowledged
                cancelled += told.cancelled
            assert [(each.number, len(each.results)) for each in acknowledged] == [(1, 0)]
            states = [each.state for each in cancelled[0].results]
            assert states == [pb.CANCEL_STATE_ENDED, pb.CANCEL_STATE_REMEMBERED]
            await session.done_writing()
            assert await session.read() is grpc.aio.EOF

    run(tmp_path, test, ("n1",))


_MOST = (1 << 64) - 1
_ABSURD = [
    submission(""),
    submission("\0"),
    submission("a" * 257),
    submission("a", rows=0),
    submission("a", rows=_MOST),
    submission("a", rows=33),
    submission("a", timeout_ms=_MOST),
    submission("a", priority=(1 << 32) - 1),
    submission("a", signature="s" * 4097),
    submission("a", traceparent="t" * 4097),
    submission("a", parameters=bytes((1 << 20) + 1)),
    submission("a", payload=bytes(17 << 20)),
    submission("a", model="none"),
    submission("a", version="none"),
]


def absurd_calls(channel: grpc.aio.Channel) -> list[Any]:
    """Return calls, each of which a node refuses for good."""
    stub, executors = GatewayStub(channel), DispatchStub(channel)
    return [
        stub.Await(pb.AwaitRequest(request_id="a", wait_ms=_MOST)),
        stub.Await(pb.AwaitRequest(request_id="a", index=_MOST)),
        stub.Cancel(pb.CancelRequest(request_ids=["a"] * 4097)),
        stub.Acknowledge(pb.AcknowledgeRequest(request_ids=[""])),
        executors.Join(dispatch_pb2.JoinRequest(executor="", slots=1)),
        executors.Join(dispatch_pb2.JoinRequest(executor="x", slots=(1 << 32) - 1)),
        executors.Join(dispatch_pb2.JoinRequest(executor="x", replaces=_MOST)),
        executors.Ready(dispatch_pb2.ReadyRequest(executor="x", incarnation=_MOST)),
        executors.Drain(dispatch_pb2.DrainRequest(executor="x", incarnation=_MOST)),
        executors.Leave(dispatch_pb2.LeaveRequest(executor="x", running=[_MOST])),
        executors.Heartbeat(dispatch_pb2.HeartbeatRequest(executor="x", incarnation=_MOST)),
        executors.Tail(dispatch_pb2.TailRequest(executor="x", incarnation=_MOST)).read(),
    ]


def test_absurd_values_are_refused_for_good(tmp_path: Path) -> None:
    """Whatever a record could not hold is an error of its caller's, and the node goes on."""
    complete = dispatch_pb2.Complete(batch=_MOST, fence=_MOST, executor="x", numbers=[_MOST])
    complete.results.append(b"")
    free = dispatch_pb2.Free(executor="x", slots=[dispatch_pb2.Slot(batch=_MOST, fence=_MOST)])
    probe = dispatch_pb2.Probe(executor="\0", incarnation=_MOST)
    reports = [
        dispatch_pb2.Report(complete=complete),
        dispatch_pb2.Report(free=free),
        dispatch_pb2.Report(probe=probe),
    ]

    async def test(served: ServedCluster, cluster: Cluster) -> None:
        channel = cluster.channel(served.clients["n1"])
        request = pb.SubmitRequest(submissions=_ABSURD)
        reply = await GatewayStub(channel).Submit(request, timeout=CALL_S)
        assert all(each.error.definite for each in reply.results)
        assert {each.error.slug for each in reply.results} == {
            "invalid_request",
            "payload_too_large",
            "unknown_model",
        }
        for call in absurd_calls(channel):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call
            error = error_of(caught.value)
            assert error is not None, caught.value
            assert error.definite, error
        told = await DispatchStub(channel).Report(dispatch_pb2.ReportRequest(reports=reports))
        assert all(each.error.definite for each in told.results)
        assert all(each.HasField("error") for each in told.results)
        async with EchoExecutor(cluster):
            await submit(channel, submission("a", b"one"))
            assert (await outcome(channel, "a")).result == b"one"

    run(tmp_path, test, ("n1",))


@pytest.mark.slow
def test_outcomes_and_waiting_requests_outlive_every_process(tmp_path: Path) -> None:
    async def test(served: ServedCluster, cluster: Cluster) -> None:
        channel = cluster.channel(served.clients["n1"])
        async with EchoExecutor(cluster):
            [before] = await submit(channel, submission("a", b"one"))
            assert (await outcome(channel, "a", before)).result == b"one"
        [index] = await submit(channel, submission("b", b"two", model="idle"))
        served.processes["n1"].kill()
        served.start("n1")
        await asyncio.to_thread(served.ready, "n1")
        await asyncio.to_thread(served.leader)
        found = await cluster.ask(lambda channel: outcome(channel, "a", before))
        assert found.result == b"one"
        reply = await cluster.ask(
            lambda channel: GatewayStub(channel).Await(
                pb.AwaitRequest(request_id="b", index=index), timeout=CALL_S
            )
        )
        assert (reply.ticket.index, reply.HasField("outcome")) == (index, False)
        async with EchoExecutor(cluster, "x2", ["idle"]):
            assert (await outcome(channel, "b", index)).result == b"two"
        assert served.processes["n1"].terminate() == 0

    run(tmp_path, test, ("n1",))


def test_any_node_waits_and_only_the_leader_admits(tmp_path: Path) -> None:
    async def test(served: ServedCluster, cluster: Cluster) -> None:
        leader = await asyncio.to_thread(served.leader)
        others = [node for node in served.clients if node != leader]
        channels = {node: cluster.channel(address) for node, address in served.clients.items()}
        stub = GatewayStub(channels[others[0]])
        reply = await stub.Submit(pb.SubmitRequest(submissions=[submission("a", b"one")]))
        error = reply.results[0].error
        assert (error.slug, error.definite) == ("not_leader", True)
        assert error.leader == served.clients[leader]
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Await(pb.AwaitRequest(request_id="a"))
        assert _slug(caught.value) == "not_leader"
        nodes = await stub.Nodes(pb.NodesRequest())
        assert {each.node_id: each.address for each in nodes.nodes} == served.clients
        assert (nodes.node_id, nodes.leader_id) == (others[0], leader)

        async with EchoExecutor(cluster):
            [index] = await submit(channels[leader], submission("a", b"one"))
            for channel in channels.values():
                assert (await outcome(channel, "a", index)).result == b"one"
            session = stub.Session()
            assert (await session.read()).opened.leader == served.clients[leader]
            awaits = [pb.SessionAwait(number=4, request_id="a", index=index)]
            await session.write(pb.SessionRequest(awaits=awaits))
            _, outcomes = await answers(session, 1)
            assert outcomes[4].result == b"one"
            session.cancel()
        models = await stub.Models(pb.ModelsRequest())
        assert [each.name for each in models.models] == ["echo", "idle"]
        assert b'"inputs"' in models.models[0].config

    run(tmp_path, test)


def test_outcome_comes_though_the_leader_is_killed_after_the_ticket(tmp_path: Path) -> None:
    async def test(served: ServedCluster, cluster: Cluster) -> None:
        leader = await asyncio.to_thread(served.leader)
        channels = {node: cluster.channel(address) for node, address in served.clients.items()}
        async with EchoExecutor(cluster) as executor:
            executor.may_report.clear()
            asked = [submission(f"a{n}", b"%d" % n) for n in range(20)]
            indexes = await submit(channels[leader], *asked)
            await executor.started.wait()
            served.processes[leader].kill()
            executor.may_report.set()
            survivor = next(node for node in served.clients if node != leader)
            for n, index in enumerate(indexes):
                assert (await outcome(channels[survivor], f"a{n}", index)).result == b"%d" % n
        survivors = tuple(node for node in served.clients if node != leader)
        await asyncio.to_thread(served.agree, *survivors)

    run(tmp_path, test)


def test_node_that_stops_sends_sessions_elsewhere(tmp_path: Path) -> None:
    async def test(served: ServedCluster, cluster: Cluster) -> None:
        leader = await asyncio.to_thread(served.leader)
        session = GatewayStub(cluster.channel(served.clients[leader])).Session()
        await session.read()
        asked = [submission("a", b"one", number=7, model="idle")]
        asked += [submission("b", b"", number=8, want=pb.WANT_TICKET)]
        await session.write(pb.SessionRequest(submissions=asked))
        reply = await session.read()
        assert list(reply.tickets.numbers) == [8]
        ending = asyncio.ensure_future(asyncio.to_thread(served.processes[leader].terminate))
        errors: list[pb.SessionError] = []

        async def read_to_the_end() -> None:
            while True:
                errors.extend((await session.read()).errors)

        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await read_to_the_end()
        assert _slug(caught.value) == "draining"
        [error] = errors
        assert (list(error.numbers), error.error.slug) == ([7], "outcome_unknown")
        assert await ending == 0
        async with EchoExecutor(cluster, models=["idle"]):
            found = await cluster.ask(lambda channel: outcome(channel, "a"))
            assert found.result == b"one"

    run(tmp_path, test)


def _slug(error: grpc.aio.AioRpcError) -> str:
    said = error_of(error)
    assert said is not None, error
    slug: str = said.slug
    return slug
