"""What callers may do to a node, and to each other: cancel, go away, hurry, ask too much, not read.

What lives here: real nodes, one cluster for many checks. Each rule alone is in the unit tests of
the core; what the SDK does about a refusal, in `tests/network/test_client_engine.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from raftbatch import tensors
from raftbatch.client import AsyncClient, ClientOptions, Payload, RequestCancelled, Result
from raftbatch.client.tickets import Ticket
from raftbatch.errors import DeadlineExceeded, OutcomeUnknown
from raftbatch.v1 import admin_pb2, dispatch_pb2
from raftbatch.v1 import gateway_pb2 as pb
from raftbatch.v1.admin_pb2_grpc import AdminStub
from raftbatch.v1.dispatch_pb2_grpc import DispatchStub
from raftbatch.v1.gateway_pb2_grpc import GatewayStub
from tests.e2e.cluster import ServedCluster
from tests.e2e.executors import CALL_S, Cluster, EchoExecutor, error_of, run_served
from tests.e2e.test_requests import outcome, submission

TEXT = 'inputs = [{ name = "text", datatype = "BYTES", dims = [1] }]'
MODELS = f"""
[sessions]
unread_bytes_max = 1_000_000
[leader]
lease_ms = 60_000
[models.echo]
max_batch_size = 8
{TEXT}
[models.single]
max_batch_size = 1
priority_aging_ms = 0
{TEXT}
[models.patient]
max_batch_size = 4
max_queue_delay_microseconds = 600_000_000
{TEXT}
[models.shaped]
max_batch_size = 32
inputs = [{{ name = "text", datatype = "BYTES", dims = [-1] }}]
[models.small]
max_batch_size = 8
requests_waiting_max = 16
{TEXT}
[models.nobodys]
{TEXT}
"""
NAMES = ("echo", "single", "patient", "shaped", "small")
STORM = 500
AWAY_MS = 10_000
TRIES_MAX = 20


class Stage:
    """A node, its executor, which reports only when it may, and a client."""

    def __init__(self, channel: grpc.aio.Channel, executor: EchoExecutor, client: AsyncClient):
        self.channel = channel
        self.executor = executor
        self.client = client

    async def scheduler(self) -> admin_pb2.SchedulerStatus:
        """Return what the node says of requests."""
        call = AdminStub(self.channel).Status(admin_pb2.StatusRequest(), timeout=CALL_S)
        found: admin_pb2.SchedulerStatus = (await call).scheduler
        return found

    async def until(self, holds: Callable[[admin_pb2.SchedulerStatus], bool]) -> None:
        """Wait until something holds that the node says; the test's own time bounds it."""
        while not holds(await self.scheduler()):  # noqa: ASYNC110 - nothing tells it
            await asyncio.sleep(0.01)

    async def hold(self, count: int = 2) -> list[Ticket]:
        """Let every slot have a batch that runs; return its tickets."""
        self.executor.may_report.clear()
        tickets = [await self.client.submit("single", "hold") for _ in range(count)]
        await self.until(lambda found: found.executors[0].held == count)
        return tickets

    async def settled(self) -> None:
        """Let batches end; see that nothing waits, and that each slot is free."""
        self.executor.may_report.set()
        await self.until(lambda found: found.requests == found.batches == 0)
        await self.until(lambda found: found.executors[0].held == 0)
        values = [f"after {n}" for n in range(32)]
        found = [each.value async for each in self.client.map("echo", values)]
        assert found == values


def play(folder: Path, *checks: Callable[[Stage], Awaitable[None]]) -> None:
    """Run checks, one after the other, on one node; nothing is left of any."""

    async def test(served: ServedCluster, cluster: Cluster) -> None:
        address = served.clients["n1"]
        async with (
            EchoExecutor(cluster, models=NAMES) as executor,
            AsyncClient(address, ClientOptions(acknowledges=False)) as client,
        ):
            stage = Stage(cluster.channel(address), executor, client)
            for check in checks:
                await check(stage)
                await stage.settled()

    run_served(folder, test, MODELS, ("n1",))


async def cancel_in_every_state(stage: Stage) -> None:
    done = await stage.client.submit("echo", "done")
    await stage.until(lambda found: found.requests == 0)  # read, it would soon be forgotten
    held = await stage.hold()
    given = len(stage.executor.batches)
    queued = await stage.client.submit("single", "sealed, and waits for a slot")
    open_ = await stage.client.submit("patient", "in a window")
    for ticket in (*held, queued, open_):
        assert await ticket.cancel() is True
        with pytest.raises(RequestCancelled):
            await ticket.result()
    assert await done.cancel() is False
    assert (await done.result()).value == "done"
    stage.executor.may_report.set()
    await stage.until(lambda found: found.batches == found.executors[0].held == 0)
    assert len(stage.executor.batches) == given, "what had not begun never does"


async def cancel_in_a_batch_that_runs(stage: Stage) -> None:
    stage.executor.may_report.clear()
    values = ["a", "b", "c", "d"]
    tickets = [await stage.client.submit("patient", each) for each in values]
    await stage.until(lambda found: found.executors[0].held == 1)
    assert await tickets[1].cancel() is True
    stage.executor.may_report.set()
    came = await asyncio.gather(*[each.result() for each in tickets], return_exceptions=True)
    assert isinstance(came.pop(1), RequestCancelled)
    assert [each.value for each in came if isinstance(each, Result)] == ["a", "c", "d"]


async def reports_that_are_none_of_the_present_attempt(stage: Stage) -> None:
    held = await stage.hold()
    reports = [stage.executor.report_of(each) for each in stage.executor.held]
    first = reports[0]
    others: dict[str, object] = {
        "fence": first.fence - 1,
        "attempt": first.attempt + 1,
        "incarnation": first.incarnation - 1,
        "executor": "x9",
    }
    for wrong, other in others.items():
        forged = dispatch_pb2.Complete()
        forged.CopyFrom(first)
        forged.results[0] = b"forged"
        setattr(forged, wrong, other)
        assert await _reported(stage, forged) in ("stale_fence", "stale_incarnation"), wrong
    assert (await stage.scheduler()).requests == 2
    stage.executor.may_report.set()
    assert [(await each.result()).value for each in held] == ["hold"] * 2
    for again in reports:
        again.results[0] = b"another"
        assert await _reported(stage, again) == "stale_fence"
    assert [(await each.result()).value for each in held] == ["hold"] * 2


async def _reported(stage: Stage, complete: dispatch_pb2.Complete) -> str:
    """Report a batch; return why that is refused, empty where it is not."""
    request = dispatch_pb2.ReportRequest(reports=[dispatch_pb2.Report(complete=complete)])
    [result] = (await DispatchStub(stage.channel).Report(request, timeout=CALL_S)).results
    return str(result.error.slug)


async def calls_given_up(stage: Stage) -> None:
    await stage.hold()
    call = GatewayStub(stage.channel).Infer(pb.InferRequest(submission=submission("gone", b"x")))
    await stage.until(lambda found: found.requests == 3)
    call.cancel()
    await stage.until(lambda found: found.requests == 2)
    assert (await outcome(stage.channel, "gone")).kind == pb.OUTCOME_KIND_CANCELLED


async def storm_of_cancels(stage: Stage) -> None:
    await stage.hold()
    asked = [
        asyncio.ensure_future(stage.client.infer("echo", f"{n}", request_id=f"storm{n}"))
        for n in range(STORM)
    ]
    await stage.until(lambda found: found.requests >= STORM)
    cancels = [stage.client.cancel(f"storm{n}") for n in range(STORM)]
    assert all(await asyncio.gather(*cancels))
    told = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(each) for each in told] == [RequestCancelled] * STORM
    assert (await stage.scheduler()).requests == 2


async def all_of_a_window_cancelled(stage: Stage) -> None:
    tickets = [await stage.client.submit("patient", f"{n}") for n in range(3)]
    for ticket in tickets:
        assert await ticket.cancel() is True
    values = ["a", "b", "c", "d"]
    assert [each.value async for each in stage.client.map("patient", values)] == values


async def most_clients_disconnect(stage: Stage) -> None:
    await stage.hold()
    clients = [AsyncClient(stage.client.addresses) for _ in range(5)]
    asked = [
        [asyncio.ensure_future(client.infer("echo", f"{n}")) for n in range(20)]
        for client in clients
    ]
    await stage.until(lambda found: found.requests >= 102)
    for client, calls in list(zip(clients, asked, strict=True))[:4]:
        await client.close()
        gone = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(each) for each in gone} == {OutcomeUnknown}
    left_ms = (await stage.scheduler()).at_ms
    stage.executor.may_report.set()
    values = [f"{n}" for n in range(20)]
    assert [each.value for each in await asyncio.gather(*asked[4])] == values
    # While they are away whoever stayed is served, and what they had asked for runs in vain.
    while (await stage.scheduler()).at_ms < left_ms + AWAY_MS:
        served = [clients[4].infer("echo", value) for value in values]
        assert [each.value for each in await asyncio.gather(*served)] == values
        with pytest.raises(DeadlineExceeded):  # nobody runs it: a second passes, of log time
            await clients[4].infer("nobodys", "x", timeout_s=1.0)
    assert (await stage.scheduler()).requests == 0
    # They come back, and get all of the next wave.
    again = [AsyncClient(stage.client.addresses) for _ in clients[:4]] + clients[4:]
    wave = [client.infer("echo", value) for client in again for value in values]
    assert [each.value for each in await asyncio.gather(*wave)] == values * 5
    for client in again:
        await client.close()


@pytest.mark.slow
def test_cancels_and_disconnects_leave_nothing_behind(tmp_path: Path) -> None:
    play(
        tmp_path,
        cancel_in_every_state,
        cancel_in_a_batch_that_runs,
        reports_that_are_none_of_the_present_attempt,
        calls_given_up,
        storm_of_cancels,
        all_of_a_window_cancelled,
        most_clients_disconnect,
    )


async def deadline_where_all_are_busy(stage: Stage) -> None:
    await stage.hold()
    before = sum(stage.executor.batches.values())
    loop = asyncio.get_running_loop()
    waits: list[float] = []
    # A machine with other things to do may answer later at times, and not mostly.
    while len(waits) < 3 or sorted(waits)[len(waits) // 2] >= 1.1:
        assert len(waits) < TRIES_MAX, waits
        began = loop.time()
        with pytest.raises(DeadlineExceeded):
            await stage.client.infer("echo", f"{len(waits)}", timeout_s=1.0)
        waits.append(loop.time() - began)
    stage.executor.may_report.set()
    await stage.until(lambda found: found.requests == found.batches == 0)
    assert sum(stage.executor.batches.values()) == before, "none of them was run"


async def what_waits_leaves_together_and_in_order(stage: Stage) -> None:
    held = await stage.hold()
    together = [await stage.client.submit("echo", f"{n}") for n in range(4)]
    urgency = (2, 1, 0, 2, 1, 0)
    asked = [stage.client.submit("single", f"{n}", priority=n) for n in urgency]
    ranked = await asyncio.gather(*asked)  # of one entry: none is sealed before the others came
    stage.executor.may_report.set()
    batches = {(await each.result()).run.batch for each in together}
    assert len(batches) == 1, "four that wait for a busy executor are one batch"
    numbers = [(await each.result()).run.batch for each in ranked]
    by_time = sorted(zip(numbers, urgency, range(len(urgency)), strict=True))
    in_turn = [each[1:] for each in by_time]
    assert in_turn == sorted(in_turn), "by urgency, and of one urgency as they came"
    for each in held:
        await each.result()


async def signatures_and_rows_that_do_not_fit_never_meet(stage: Stage) -> None:
    await stage.hold()
    shapes = [(rows, width) for rows in (1, 32, 1, 7, 1, 32, 20) for width in (1, 2, 3)]
    asked = []
    for n, (rows, width) in enumerate(shapes):
        data = tensors.join_elements([b"x"] * (rows * width))
        payload = tensors.encode([tensors.Tensor("text", "BYTES", (rows, width), data)])
        fields = {"model": "shaped", "rows": rows, "signature": f"BYTES {width}"}
        asked.append(submission(f"shaped{n}", payload, **fields))
    reply = await GatewayStub(stage.channel).Submit(
        pb.SubmitRequest(submissions=asked), timeout=CALL_S
    )
    assert all(each.HasField("ticket") for each in reply.results), reply
    stage.executor.may_report.set()
    batches: dict[int, list[tuple[int, int]]] = {}
    for n, shape in enumerate(shapes):
        batch = (await outcome(stage.channel, f"shaped{n}")).run.batch
        batches.setdefault(batch, []).append(shape)
    for members in batches.values():
        assert len({width for _, width in members}) == 1, "one signature a batch"
        assert sum(rows for rows, _ in members) <= 32, "and no more rows than it may have"
    assert max(map(len, batches.values())) > 1, "those that fit together met"


async def three_times_the_capacity(stage: Stage) -> None:
    await stage.hold()
    asked = [submission(f"over{n}", b"x", model="small") for n in range(48)]
    request = pb.SubmitRequest(submissions=asked)
    reply = await GatewayStub(stage.channel).Submit(request, timeout=CALL_S)
    refused = [each.error for each in reply.results if each.HasField("error")]
    assert len(refused) == 32, "explicit, and at once"
    assert {(each.slug, each.definite) for each in refused} == {("overloaded", True)}
    assert all(each.retry_after_ms > 0 for each in refused)
    stage.executor.may_report.set()
    values = [f"{n}" for n in range(48)]
    calls = [stage.client.infer("small", each, request_id=f"kept{each}") for each in values]
    assert [each.value for each in await asyncio.gather(*calls)] == values


async def client_that_does_not_read(stage: Stage) -> None:
    whole = bytes(100_000)
    data = tensors.join_elements([whole])
    payload = tensors.encode([tensors.Tensor("text", "BYTES", (1, 1), data)])
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.http2.bdp_probe", 0)]
    async with grpc.aio.insecure_channel(stage.client.addresses[0], options) as own:
        session = GatewayStub(own).Session()
        await stage.hold()
        for n in range(100):
            asked = [submission(f"unread{n}", payload, number=n, model="echo")]
            await session.write(pb.SessionRequest(submissions=asked))
        await stage.until(lambda found: found.requests == 102)
        stage.executor.may_report.set()
        for n in range(100):  # of each there is an outcome by then, whoever reads it
            await outcome(stage.channel, f"unread{n}")
        assert (await stage.client.infer("echo", Payload(b"another's"))).payload == b"another's"
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await _to_the_end(session)
        error = error_of(caught.value)
        assert error is not None, caught.value
        assert error.slug == "overloaded"
        assert "wait to be read" in error.message


async def _to_the_end(session: Any) -> None:
    while await session.read() is not grpc.aio.EOF:
        pass


@pytest.mark.slow
def test_who_hurries_or_asks_too_much_is_told_so(tmp_path: Path) -> None:
    play(
        tmp_path,
        deadline_where_all_are_busy,
        what_waits_leaves_together_and_in_order,
        signatures_and_rows_that_do_not_fit_never_meet,
        three_times_the_capacity,
        client_that_does_not_read,
    )
