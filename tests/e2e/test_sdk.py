"""The SDK against real nodes: what it returns, and that a killed leader loses nothing."""

from __future__ import annotations

import ast
import asyncio
import inspect
import textwrap
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

import raftbatch.client
from raftbatch.client import (
    AsyncClient,
    Client,
    ClientOptions,
    Payload,
    RequestCancelled,
    aio,
    sync,
)
from raftbatch.errors import (
    DeadlineExceeded,
    InvalidRequest,
    NoLeader,
    OutcomeForgotten,
    RequestIdConflict,
    UnknownModel,
    UnknownRequest,
)
from raftbatch.v1 import gateway_pb2 as pb
from raftbatch.v1.gateway_pb2_grpc import GatewayStub
from tests.e2e.cluster import ServedCluster, free_ports
from tests.e2e.executors import CALL_S, Cluster, EchoExecutor, Test, run_served

MODELS = """
[leader]
lease_ms = 60_000
[models.echo]
max_batch_size = 8
inputs = [{ name = "text", datatype = "BYTES", dims = [1] }]
[models.numbers]
max_batch_size = 8
inputs = [
    { name = "x", datatype = "FP32", dims = [2] },
    { name = "ids", datatype = "INT64", dims = [-1], buckets = [4, 8] },
]
[models.idle]
inputs = [{ name = "text", datatype = "BYTES", dims = [1] }]
"""


def run(folder: Path, test: Test, nodes: tuple[str, ...] = ("n1",)) -> None:
    """Run a test against nodes that serve."""
    run_served(folder, test, MODELS, nodes)


def test_sdk_returns_what_models_return(tmp_path: Path) -> None:
    async def test(served: ServedCluster, cluster: Cluster) -> None:
        address = served.clients["n1"]
        models = ("echo", "numbers")
        async with EchoExecutor(cluster, models=models), AsyncClient(address) as client:
            result = await client.infer("echo", {"text": "grüß dich"})
            assert result["text"] == result.value == "grüß dich"
            assert result.keys() == ["text"]
            assert (result.run.executor, len(result.request_id)) == ("x1", 32)
            assert result.ended_index > result.index > 0
            rows = await client.infer("echo", ["one", "two"])
            assert rows["text"] == ["one", "two"]
            raw = await client.infer("echo", Payload(b"anything", signature="raw"))
            assert raw.payload == b"anything"
            found = await client.infer("numbers", {"x": [1, 2.5], "ids": [1, 2, 3]})
            assert [float(each) for each in found["x"]] == [1.0, 2.5]
            assert [int(each) for each in found["ids"]] == [1, 2, 3]
            with pytest.raises(InvalidRequest, match="x"):
                await client.infer("numbers", {"x": [1, 2, 3], "ids": [1]})
            with pytest.raises(UnknownModel):
                await client.infer("nothing", "x")

            ticket = await client.submit("echo", "later", request_id="mine")
            again = await client.submit("echo", "later", request_id="mine")
            assert (ticket.request_id, ticket.index) == ("mine", again.index)
            with pytest.raises(RequestIdConflict):
                await client.submit("echo", "other", request_id="mine")
            assert (await ticket.result()).value == (await ticket.result()).value == "later"
            assert await ticket.cancel() is False
            with pytest.raises(UnknownRequest):
                await client.ticket("never").result()

            values = [f"item {n}" for n in range(100)]
            found_all = [each.value async for each in client.map("echo", values, in_flight=16)]
            assert found_all == values
            mixed = client.map("echo", ["a", 3, "b"], return_errors=True)
            kinds = [type(each).__name__ async for each in mixed]
            assert kinds == ["Result", "InvalidRequest", "Result"]
            with pytest.raises(InvalidRequest):
                async for _ in client.map("echo", ["a", 3, "b"]):
                    pass
        # What was read is acknowledged, by the time that the client is closed.
        async with AsyncClient(address) as client:
            with pytest.raises(OutcomeForgotten):
                await client.ticket("mine", ticket.index).result()

    run(tmp_path, test)


def test_sdk_ends_what_nobody_waits_for(tmp_path: Path) -> None:
    async def test(served: ServedCluster, cluster: Cluster) -> None:
        channel = cluster.channel(served.clients["n1"])
        async with AsyncClient(served.clients["n1"]) as client:
            await client.submit("idle", "before")  # from then on both go in one message
            waiting = asyncio.ensure_future(client.infer("idle", "a", request_id="a"))
            ticket = await client.submit("idle", "b", request_id="b")
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await ticket_of(channel, "a", pb.OUTCOME_KIND_CANCELLED)
            assert await ticket.cancel() is True
            with pytest.raises(RequestCancelled):
                await ticket.result()
            with pytest.raises(DeadlineExceeded) as caught:
                await client.infer("idle", "c", timeout_s=0.2)
            assert caught.value.definite
            assert await client.cancel("to come") is True
            with pytest.raises(RequestCancelled):
                await client.infer("idle", "d", request_id="to come")

    run(tmp_path, test)


async def ticket_of(channel: grpc.aio.Channel, request_id: str, kind: int) -> int:
    """Return the ticket of a request that has its outcome, as another client is told; 0: none.

    Whoever had the outcome, or cancelled the request, acknowledges it: then it is gone.
    """
    request = pb.AwaitRequest(request_id=request_id, wait_ms=5000)
    try:
        reply = await GatewayStub(channel).Await(request, timeout=CALL_S)
    except grpc.aio.AioRpcError as error:
        if error.code() is not grpc.StatusCode.OUT_OF_RANGE:
            raise
        return 0
    assert (reply.HasField("outcome"), reply.outcome.kind) == (True, kind)
    index: int = reply.ticket.index
    return index


@pytest.mark.slow
def test_sdk_knows_all_nodes_from_one(tmp_path: Path) -> None:
    async def test(served: ServedCluster, cluster: Cluster) -> None:
        leader = await asyncio.to_thread(served.leader)
        follower = next(node for node in served.clients if node != leader)
        async with EchoExecutor(cluster) as x1, AsyncClient(served.clients[follower]) as client:
            assert (await client.infer("echo", "a")).value == "a"
            assert client.leader == served.clients[leader]
            served.processes[leader].kill()
            assert (await client.infer("echo", "b")).value == "b"
            assert client.leader != served.clients[leader]
            assert set(client.addresses) == set(served.clients.values())
            await x1.leave()
        dead = f"127.0.0.1:{free_ports(1)[0]}"
        options = ClientOptions(connect_timeout_s=1.0)
        async with AsyncClient([dead], options) as client:
            with pytest.raises(NoLeader, match=f"named answers.*{dead}.*name another") as caught:
                await client.infer("echo", "a")
            assert caught.value.definite
        async with EchoExecutor(cluster, "x2"), AsyncClient([dead, served.clients[follower]]) as c:
            assert (await c.infer("echo", "c")).value == "c"

    run(tmp_path, test, ("n1", "n2", "n3"))


def test_sdk_gives_each_its_own_result_though_the_leader_is_killed(tmp_path: Path) -> None:
    async def test(served: ServedCluster, cluster: Cluster) -> None:
        leader = await asyncio.to_thread(served.leader)
        async with EchoExecutor(cluster) as executor, AsyncClient(served.clients["n1"]) as client:
            executor.may_report.clear()
            asked = [
                asyncio.ensure_future(client.infer("echo", f"text {n}", request_id=f"id{n}"))
                for n in range(500)
            ]
            await executor.started.wait()  # some are admitted, some on their way
            served.processes[leader].kill()
            executor.may_report.set()
            results = await asyncio.gather(*asked)
            assert [each.value for each in results] == [f"text {n}" for n in range(500)]
            assert Counter(each.request_id for each in results) == {f"id{n}": 1 for n in range(500)}
            indexes = [each.index for each in results]
            survivor = next(node for node in served.clients if node != leader)
            # Each was admitted once: a survivor knows it by the ticket that was told.
            channel = cluster.channel(served.clients[survivor])
            for n in (0, 250, 499):
                known = await ticket_of(channel, f"id{n}", pb.OUTCOME_KIND_OK)
                assert known in (0, indexes[n])
        survivors = tuple(node for node in served.clients if node != leader)
        await asyncio.to_thread(served.agree, *survivors)

    run(tmp_path, test, ("n1", "n2", "n3"))


@pytest.mark.slow
@pytest.mark.parametrize("is_hurt", [False, True])
def test_sdk_that_asks_a_follower_alone_loses_nothing(tmp_path: Path, is_hurt: bool) -> None:
    """It hands on a thousand requests, while the leader is killed."""

    async def test(served: ServedCluster, cluster: Cluster) -> None:
        leader = await asyncio.to_thread(served.leader)
        asked_node = next(node for node in served.clients if node != leader)
        address = served.clients[asked_node]
        options = ClientOptions(forward=True)
        async with EchoExecutor(cluster) as executor, AsyncClient(address, options) as client:
            executor.may_report.clear()
            asked = [
                asyncio.ensure_future(client.infer("echo", f"text {n}", request_id=f"id{n}"))
                for n in range(1000)
            ]
            await executor.started.wait()  # some are admitted, some on their way
            if is_hurt:
                served.processes[leader].kill()
            executor.may_report.set()
            results = await asyncio.gather(*asked)
            assert [each.value for each in results] == [f"text {n}" for n in range(1000)]
            assert Counter(each.request_id for each in results) == {
                f"id{n}": 1 for n in range(1000)
            }
            # Each was admitted once: however often a batch was assigned, no request is in two.
            batches = {batch: count for (batch, _), count in executor.batches.items()}
            assert sum(batches.values()) == 1000
            # It has asked that node alone, whoever led.
            assert client.leader in ("", address)
            assert (await client.submit("echo", "more", request_id="more")).index > 0
            assert await client.cancel("to come") is True
        survivors = tuple(node for node in served.clients if served.processes[node].is_up)
        await asyncio.to_thread(served.agree, *survivors)

    run(tmp_path, test, ("n1", "n2", "n3"))


def examples() -> Iterator[tuple[str, str]]:
    """Yield where an example stands in the SDK's docstrings, and its code."""
    places = {
        "raftbatch.client": raftbatch.client,
        "AsyncClient": AsyncClient,
        "AsyncClient.submit": AsyncClient.submit,
        "AsyncClient.map": AsyncClient.map,
        "Client": Client,
        "Client.submit": Client.submit,
        "Client.map": Client.map,
    }
    for name, place in places.items():
        lines = (inspect.getdoc(place) or "").splitlines()
        code = [line for line in lines if line.startswith("    ") or not line]
        until = next(
            (n for n, line in enumerate(code) if line.strip().startswith("addresses:")), len(code)
        )
        block = "\n".join(_first_block(code[:until]))
        yield name, textwrap.dedent(block)


def _first_block(lines: list[str]) -> list[str]:
    """Return the first run of indented lines, and those behind it without a gap of two lines."""
    found: list[str] = []
    for line in lines:
        if line.strip():
            found.append(line)
        elif found and not line:
            rest = lines[lines.index(line, len(found)) :]
            if not any(each.strip().startswith(("with ", "async with ")) for each in rest):
                break
            found.append(line)
    return found


def test_sdk_examples_in_docstrings_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def test(served: ServedCluster, cluster: Cluster) -> None:
        address = served.clients["n1"]
        names: dict[str, Any] = {"AsyncClient": AsyncClient, "Client": Client}

        def compiled(code: str) -> Any:
            code = code.replace("127.0.0.1:8001", address)
            return compile(code, "example", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)

        async with EchoExecutor(cluster):
            for name, code in examples():
                capsys.readouterr()
                is_async = "await " in code or "async " in code
                if is_async:
                    async with AsyncClient(address) as client:
                        await eval(compiled(code), {**names, "client": client})
                else:

                    def in_thread(code: str = code) -> None:
                        with Client(address) as client:
                            exec(compiled(code), {**names, "client": client})

                    await asyncio.to_thread(in_thread)
                told = capsys.readouterr().out
                assert "submit" in name or told in ("hello\n", "a\nb\nc\n"), (name, code, told)

    run(tmp_path, test)


def test_sdk_without_a_loop_of_the_callers(tmp_path: Path) -> None:
    async def test(served: ServedCluster, cluster: Cluster) -> None:
        def calls() -> None:
            with Client(served.clients["n1"]) as client:
                client.connect()
                assert client.leader == served.clients["n1"]
                assert client.infer("echo", "a").value == "a"
                ticket = client.submit("echo", "b")
                assert isinstance(ticket, sync.Ticket)
                assert ticket.result().value == "b"
                assert ticket.cancel() is False
                with pytest.raises(UnknownModel):
                    client.infer("nothing", "a")
                values = [str(n) for n in range(200)]
                assert [each.value for each in client.map("echo", values)] == values
                for each in client.map("echo", values):
                    assert each.value == "0"
                    break
                assert [each.name for each in client.models()] == ["echo", "idle", "numbers"]
            client.close()
            with pytest.raises(InvalidRequest, match="closed"):
                client.infer("echo", "a")

        async with EchoExecutor(cluster):
            await asyncio.to_thread(calls)

    run(tmp_path, test)


def test_sdk_ticket_is_found_from_another_client(tmp_path: Path) -> None:
    async def test(served: ServedCluster, cluster: Cluster) -> None:
        async with AsyncClient(served.clients["n1"]) as client:
            ticket = await client.submit("echo", "kept")
        async with EchoExecutor(cluster), AsyncClient(served.clients["n1"]) as client:
            found = client.ticket(ticket.request_id, ticket.index)
            assert isinstance(found, aio.Ticket)
            assert (await found.result())["text"] == ["kept"]

    run(tmp_path, test)
