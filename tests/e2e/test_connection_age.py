"""No connection goes on for ever, and neither clients nor executors notice where one ends."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc
import grpc.aio
import pytest

from raftbatch.client import AsyncClient
from raftbatch.v1 import gateway_pb2_grpc
from tests.e2e.cluster import ServedCluster
from tests.e2e.processes import LIMIT_S, RAFTBATCH, Process

SETTINGS = """
[models.echo]
inputs = [{ name = "text", datatype = "BYTES", dims = [1] }]
outputs = [{ name = "text", datatype = "BYTES", dims = [1] }]
[models.echo.executor]
module = "executor.examples.echo"
class = "Echo"
[server]
connection_age_ms_max = 1000
connection_grace_ms_max = 100
[leader]
lease_ms = 60_000
"""


@pytest.mark.slow
def test_old_connections_are_cut_and_requests_go_on(tmp_path: Path) -> None:
    async def main(served: ServedCluster, executor: Process) -> None:
        address = served.clients["n1"]

        async def held() -> None:
            """Hold a session that says nothing, to its end."""
            async with grpc.aio.insecure_channel(address) as channel:
                call = gateway_pb2_grpc.GatewayStub(channel).Session()
                assert (await call.read()).HasField("opened")
                with pytest.raises(grpc.aio.AioRpcError) as cut:
                    await call.read()
                assert cut.value.code() is grpc.StatusCode.UNAVAILABLE

        async with AsyncClient(address) as client:
            for _ in range(2):
                holding = asyncio.ensure_future(held())
                count = 0
                while not holding.done() or not count:
                    count += 1
                    text = f"text {count}"
                    assert (await client.infer("echo", text)).value == text
                await holding
        await asyncio.to_thread(executor.wait_for, "tail.moved")  # its tail was cut too
        assert len(executor.logged("executor.joined")) == 1, "and its life went on"

    with ServedCluster(tmp_path, ("n1",), SETTINGS, replica="scheduler") as served:
        served.start_all("--bootstrap")
        served.leader()
        command = [*RAFTBATCH, "executor", "--id", "gpu-1", "--config", served.file]
        with Process(command) as executor:
            executor.wait_for("executor.joined")
            asyncio.run(asyncio.wait_for(main(served, executor), 2 * LIMIT_S))
            assert executor.terminate() == 0
        assert "Traceback" not in served.processes["n1"].said
