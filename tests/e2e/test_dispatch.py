"""Executors' calls over a real socket: what is asked, what is told, and how it fails."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from coordinator.core.watch import Holding
from coordinator.feed_messages import Assignment, Changes, Current, Shed, Slot, Stop
from coordinator.loads import Load
from coordinator.rpc.pieces import pieces
from raftbatch import records as r
from raftbatch.errors import NotLeader, StaleFence, StaleIncarnation
from raftbatch.kinds import LapseReason, Ran
from raftbatch.v1 import dispatch_pb2 as pb
from raftbatch.v1 import load_pb2
from raftbatch.v1.dispatch_pb2_grpc import DispatchStub
from tests.e2e.executors import error_of
from tests.e2e.scripted import ScriptedNode, run

COMPLETE = pb.Complete(
    batch=1,
    attempt=2,
    fence=3,
    executor="x",
    incarnation=4,
    last=True,
    queue_ns=5,
    compute_input_ns=6,
    infer_ns=7,
    output_ns=8,
    padded=[9, 10],
    fingerprint=b"f",
    numbers=[11, 12],
    results=[b"one", b""],
    failures=[pb.Failure(number=12, code="bad_input", message="it is bad")],
)


def assignment(batch: int, *sizes: int, plain: bool = True) -> Assignment:
    """Return a batch of requests with payloads of these sizes."""
    count = len(sizes)
    numbers = tuple(range(100 * batch, 100 * batch + count))
    return Assignment(
        batch,
        1,
        batch + 50,
        ("m", "1", "s"),
        numbers,
        (1,) * count,
        tuple(bytes([batch]) * size for size in sizes),
        (b"" if plain else b"p",) * count,
        ("" if plain else "t",) * count,
        (0 if plain else 9,) * count,
    )


def test_life_of_an_executor_becomes_records(tmp_path: Path) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        stub = DispatchStub(channel)
        models = [pb.ModelVersion(name="m", version="1")]
        joined = await stub.Join(
            pb.JoinRequest(executor="x", replaces=3, slots=2, models=models, attributes=b"a")
        )
        assert (joined.incarnation, joined.lease_ms) == (77, 3000)
        await stub.Ready(pb.ReadyRequest(executor="x", incarnation=77, models=models))
        await stub.Heartbeat(
            pb.HeartbeatRequest(
                executor="x",
                incarnation=77,
                tailed_index=8,
                holdings=[pb.Holding(batch=1, fence=2, running=True)],
            )
        )
        await stub.Drain(pb.DrainRequest(executor="x", incarnation=77, on=True))
        assert node.scripted.loads == [None]
        await stub.Leave(pb.LeaveRequest(executor="x", incarnation=77, running=[1]))
        assert node.scripted.heard == [
            r.Join("x", 3, 2, (("m", "1"),), b"a"),
            r.Ready("x", 77, (("m", "1"),)),
            ("x", 77, 8, [Holding(1, 2, True)]),
            r.Drain("x", 77, True),
            r.Leave("x", 77, False, (1,)),
        ]

    run(tmp_path, test)


def test_load_comes_with_a_heartbeat_and_one_that_makes_no_sense_is_passed_over(
    tmp_path: Path,
) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        stub = DispatchStub(channel)
        for permille in (250, 2500):
            load = load_pb2.ExecutorLoad(running=1, cpu_permille=permille)
            await stub.Heartbeat(pb.HeartbeatRequest(executor="x", incarnation=7, load=load))
        assert node.scripted.loads == [Load(1, 0, 250, 0, 0), None]
        assert len(node.scripted.heard) == 2, "the heartbeat counts"

    run(tmp_path, test)


def test_reports_become_records_and_each_has_its_answer(tmp_path: Path) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        lapse = pb.Lapse(
            batch=1,
            attempt=2,
            fence=3,
            reason=pb.LAPSE_REASON_FAILED,
            ran=pb.RAN_YES,
            stopped=True,
            code="oom",
            message="too large",
        )
        free = pb.Free(executor="x", incarnation=4, slots=[pb.Slot(batch=1, fence=3)])
        probe = pb.Probe(executor="x", incarnation=4, succeeded=True)
        reports = [
            pb.Report(complete=COMPLETE),
            pb.Report(lapse=lapse),
            pb.Report(free=free),
            pb.Report(probe=probe),
        ]
        reply = await DispatchStub(channel).Report(pb.ReportRequest(reports=reports))
        assert [each.HasField("error") for each in reply.results] == [False] * 4
        complete = r.Complete(
            *(1, 2, 3, "x", 4, True, 5, 6, 7, 8, (9, 10), b"f", (11, 12)),
            *((0, 1), ("", "bad_input"), ("", "it is bad"), (b"one", b"")),
        )
        assert node.scripted.heard == [
            complete,
            r.Lapse(1, 2, 3, LapseReason.FAILED, Ran.YES, True, "oom", "too large"),
            r.Free("x", 4, (1,), (3,)),
            r.Probe("x", 4, True),
        ]
        node.scripted.error = StaleFence("over")
        reply = await DispatchStub(channel).Report(pb.ReportRequest(reports=reports[:2]))
        assert [each.error.slug for each in reply.results] == ["stale_fence"] * 2

    run(tmp_path, test)


@pytest.mark.parametrize(
    "report",
    [
        pb.Report(),
        pb.Report(complete=pb.Complete(numbers=[1, 2], results=[b""])),
        pb.Report(complete=pb.Complete(failures=[pb.Failure(number=1)])),
        pb.Report(lapse=pb.Lapse(batch=1)),
        pb.Report(lapse=pb.Lapse(batch=1, reason=pb.LAPSE_REASON_FAILED, ran=7)),  # type: ignore[arg-type]
    ],
)
def test_report_that_is_none_is_refused(tmp_path: Path, report: pb.Report) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        good = pb.Report(probe=pb.Probe(executor="x"))
        reply = await DispatchStub(channel).Report(pb.ReportRequest(reports=[report, good]))
        assert [each.error.slug for each in reply.results] == ["invalid_request", ""]
        assert node.scripted.heard == [r.Probe("x", 0, False)]

    run(tmp_path, test)


def test_too_many_reports_are_refused(tmp_path: Path) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        reports = [pb.Report(probe=pb.Probe(executor="x"))] * 1025
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await DispatchStub(channel).Report(pb.ReportRequest(reports=reports))
        assert _slug(caught.value) == "invalid_request"
        assert node.scripted.heard == []

    run(tmp_path, test)


def test_tail_tells_what_the_feed_says_until_it_ends(tmp_path: Path) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        request = pb.TailRequest(
            executor="x", incarnation=4, held=[pb.Slot(batch=1, fence=2)], seen_index=9
        )
        call = DispatchStub(channel).Tail(request)
        await node.scripted.until(lambda: bool(node.scripted.tails))
        [tail] = node.scripted.tails
        assert node.scripted.heard == [("x", 4, [(1, 2)], 9)]
        start = assignment(1, 3, 4)
        current = Current(
            5, 6, (start,), (Slot(7, 8),), (Shed(7, 8, (9,)),), (Slot(1, 2),), True, False
        )
        tail.messages.put_nowait(current)
        told = await call.read()
        assert not told.more
        found = told.current
        assert (found.index, found.at_ms, found.draining, found.suspended) == (5, 6, True, False)
        assert [(each.batch, each.fence) for each in found.keep] == [(7, 8)]
        assert [(each.batch, list(each.numbers)) for each in found.shed] == [(7, [9])]
        assert [(each.batch, each.fence) for each in found.drop] == [(1, 2)]
        [given] = found.start
        assert (given.batch, given.attempt, given.fence) == (1, 1, 51)
        assert (given.model, given.version, given.signature) == ("m", "1", "s")
        assert list(given.numbers) == [100, 101]
        assert list(given.payloads) == [b"\1" * 3, b"\1" * 4]
        assert (list(given.rows), list(given.parameters), list(given.traceparents)) == (
            [1, 1],
            [],
            [],
        )
        full = assignment(2, 1, plain=False)
        stops = (Stop(1, 51, LapseReason.TIMED_OUT), Stop(3, 53, None))
        changes = Changes(7, 8, (full,), stops, (), (Slot(7, 8),), False, True)
        tail.messages.put_nowait(changes)
        told = (await call.read()).changes
        assert [each.reason for each in told.stop] == [
            pb.LAPSE_REASON_TIMED_OUT,
            pb.LAPSE_REASON_NONE,
        ]
        assert [(each.batch, each.fence) for each in told.finished] == [(7, 8)]
        assert (told.draining, told.suspended) == (False, True)
        assert list(told.start[0].parameters) == [b"p"]
        assert list(told.start[0].traceparents) == ["t"]
        assert list(told.start[0].deadlines_ms) == [9]
        tail.messages.put_nowait(StaleIncarnation("over"))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
        assert _slug(caught.value) == "stale_incarnation"
        await tail.is_closed.wait()

    run(tmp_path, test)


def test_large_message_comes_in_pieces_that_join(tmp_path: Path) -> None:
    """A batch may be larger than any message."""

    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        options = [("grpc.max_receive_message_length", 40 << 20)]
        mib = 1 << 20
        given = (
            assignment(1, *[5 * mib] * 4),
            assignment(2, 1, 1),
            assignment(3, 9 * mib),
            assignment(4, plain=False),
        )
        async with grpc.aio.insecure_channel(node.config.addresses.client, options) as other:
            call = DispatchStub(other).Tail(pb.TailRequest(executor="x", incarnation=4))
            await node.scripted.until(lambda: bool(node.scripted.tails))
            [tail] = node.scripted.tails
            tail.messages.put_nowait(Current(5, 6, given, (), (), (Slot(8, 9),), False, False))
            came: list[pb.FeedMessage] = []
            while not came or came[-1].more:
                came.append(await call.read())
            assert len(came) == 5  # four requests that do not go together, and a larger one
            assert max(each.ByteSize() for each in came) < 9 * mib + 1000
            assert {each.current.index for each in came} == {5}
            joined: dict[int, tuple[list[int], list[bytes]]] = {}
            for each in came:
                for part in each.current.start:
                    numbers, payloads = joined.setdefault(part.batch, ([], []))
                    numbers += part.numbers
                    payloads += part.payloads
            assert joined == {
                each.batch: (list(each.numbers), list(each.payloads)) for each in given
            }
            assert sum(len(each.current.drop) for each in came) == 1
            call.cancel()
            await tail.is_closed.wait()

    run(tmp_path, test)


def test_pieces_are_never_empty() -> None:
    message = Changes(5, 6, (assignment(1, 9, 9), assignment(2, 9)), (), (), (), False, False)
    found = list(pieces(message, piece_bytes=5))
    assert [[len(each.payloads) for each in piece.changes.start] for piece in found] == [[1]] * 3
    assert [piece.more for piece in found] == [True, True, False]
    [empty] = pieces(Changes(5, 6, (), (), (), (), True, False))
    assert (empty.changes.draining, empty.more) == (True, False)


def test_pieces_count_all_that_a_request_brings() -> None:
    plain = assignment(1, *[0] * 500)
    given = replace(plain, traceparents=("x" * 4000,) * 250 + ("",) * 250)
    found = list(pieces(Changes(5, 6, (given,), (), (), (), False, False), piece_bytes=10_000))
    assert max(each.ByteSize() for each in found) < 11_000
    assert sum(len(part.numbers) for each in found for part in each.changes.start) == 500


def test_executor_that_goes_away_closes_its_tail(tmp_path: Path) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        call = DispatchStub(channel).Tail(pb.TailRequest(executor="x", incarnation=4))
        await node.scripted.until(lambda: bool(node.scripted.tails))
        call.cancel()
        await node.scripted.tails[0].is_closed.wait()

    run(tmp_path, test)


def test_errors_send_an_executor_to_the_leader(tmp_path: Path) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        node.scripted.error = NotLeader("n2 leads", leader="n2")
        stub = DispatchStub(channel)
        calls: list[Any] = [
            stub.Join(pb.JoinRequest()),
            stub.Ready(pb.ReadyRequest()),
            stub.Heartbeat(pb.HeartbeatRequest()),
            stub.Drain(pb.DrainRequest()),
            stub.Leave(pb.LeaveRequest()),
            stub.Tail(pb.TailRequest()).read(),
        ]
        for call in calls:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call
            error = error_of(caught.value)
            assert error is not None
            assert (error.slug, error.leader) == ("not_leader", node.client_address("n2"))

    run(tmp_path, test)


def _slug(error: grpc.aio.AioRpcError) -> str:
    said = error_of(error)
    assert said is not None, error
    return str(said.slug)
