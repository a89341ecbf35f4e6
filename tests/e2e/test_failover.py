"""Processes of a whole cluster are killed, come and go; no request is lost or answered twice.

What each request came to is counted offline, from the files of every node, by code that the
product's own state does not share (`raftbatch.stories`), beside what the clients were told.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path

import pytest

from raftbatch.client import AsyncClient
from raftbatch.errors import DeadlineExceeded
from tests.e2e.cluster import ServedCluster
from tests.e2e.executor_scene import LOSS_MS, Scene, is_gone, run
from tests.e2e.flow import Flow, settled
from tests.e2e.processes import RAFTBATCH, Process
from tests.e2e.processes import run as command

pytestmark = pytest.mark.slow

NODES = ("n1", "n2", "n3")
KILLS = 20

SETTINGS = """
[models.shout]
max_batch_size = 4
inputs = [{ name = "text", datatype = "BYTES", dims = [1] }]
[models.shout.executor]
file = "shout.py"
class = "Shout"
options = { mark = "!" }
[models.echo]
max_queue_delay_microseconds = 20_000
inputs = [{ name = "text", datatype = "BYTES", dims = [1] }]
outputs = [{ name = "text", datatype = "BYTES", dims = [1] }]
[models.echo.executor]
module = "executor.examples.echo"
class = "Echo"
[models.nobody]
inputs = [{ name = "text", datatype = "BYTES", dims = [1] }]
"""


def flow_to(scene: Scene) -> Flow:
    """Return clients of a scene's cluster."""
    return Flow(list(scene.served.clients.values()))


def test_leaders_killed_in_a_row_lose_and_double_nothing(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        served = scene.served
        await scene.start("x1")
        await scene.start("x2")
        async with flow_to(scene) as flow:
            await flow.goes_on()
            for _ in range(KILLS):
                leader = await asyncio.to_thread(served.leader)
                served.processes[leader].kill()
                await flow.goes_on()
                served.start(leader)
                await asyncio.to_thread(served.ready, leader)
        assert flow.begun > KILLS
        await asyncio.to_thread(settled, served, flow.begun)

    run(tmp_path, test, NODES, settings=SETTINGS)


def test_work_goes_on_by_itself_after_everything_was_killed_at_once(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        served, addresses = scene.served, list(scene.served.clients.values())
        executors = [await scene.start("x1"), await scene.start("x2")]
        texts = ["slow", *[f"text {n}" for n in range(60)], "slow"]
        async with AsyncClient(addresses) as client:
            tickets = [await client.submit("shout", text) for text in texts]
        child = await scene.running()
        async with AsyncClient(addresses) as client:
            await client.connect()
            # Some are in the log by then, some in nobody's: whoever asks goes on asking.
            asked = [asyncio.create_task(client.infer("echo", f"e{n}")) for n in range(50)]
            await asyncio.sleep(0)
            victims = [*served.processes.values(), *executors]
            for each in victims:
                each.send(signal.SIGKILL)
            for each in victims:
                each.kill()
            await asyncio.to_thread(served.until, lambda: is_gone(child), "end of the child")
            scene.go()
            for node in NODES:
                served.start(node)
            for node in NODES:
                await asyncio.to_thread(served.ready, node)
            await asyncio.gather(scene.start("x1"), scene.start("x2"))
            found = await asyncio.gather(*asked)
            assert [each.value for each in found] == [f"e{n}" for n in range(50)]
        await asyncio.to_thread(served.until, lambda: _open(served) == 0, "all outcomes")
        async with AsyncClient(addresses) as client:
            for text, ticket in zip(texts, tickets, strict=True):
                again = client.ticket(ticket.request_id, ticket.index)
                assert (await again.result()).value == [f"{text.upper()}!"]
        await asyncio.to_thread(settled, served, len(texts) + len(asked))

    run(tmp_path, test, NODES, settings=SETTINGS, lease_ms=LOSS_MS)


def _open(served: ServedCluster) -> int:
    """Return how many requests have no outcome yet."""
    statuses = served.statuses().values()
    return max([each.scheduler.requests for each in statuses], default=-1)


def test_model_that_nobody_runs_is_said_and_its_requests_expire(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        served = scene.served
        await scene.start("x1")
        async with AsyncClient(list(served.clients.values())) as client:
            await client.submit("nobody", "a")
            assert (await client.infer("echo", "b")).value == "b"
            shown = await asyncio.to_thread(command, "status", "--config", served.file)
            assert "no executor" in shown.stdout, shown.stdout
            told = await asyncio.to_thread(command, "status", "--config", served.file, "--json")
            [node] = json.loads(told.stdout)["nodes"]
            models = {each["name"]: each for each in node["scheduler"]["models"]}
            assert [models["nobody"][key] for key in ("requests", "executors")] == [1, 0]
            assert models["echo"]["executors"] == 1
            with pytest.raises(DeadlineExceeded) as caught:
                await client.infer("nobody", "c", timeout_s=0.2)
            assert caught.value.definite

    run(tmp_path, test, settings=SETTINGS)


_WITHOUT = """
import sys
sys.modules["torch"] = sys.modules["numpy"] = None
from raftbatch.cli.main import main
main()
"""


def test_nodes_and_clients_need_neither_torch_nor_numpy(tmp_path: Path) -> None:
    without = [sys.executable, "-c", _WITHOUT]
    with ServedCluster(tmp_path, ("n1",), SETTINGS, replica="scheduler") as served:
        serve = [*without, "serve", "--node", "n1", "--config", served.file, "--bootstrap"]
        served.processes["n1"] = served._stack.enter_context(Process(serve))
        served.leader()
        (tmp_path / "shout.py").write_text("", encoding="utf-8")
        echo = [*RAFTBATCH, "executor", "--id", "x1", "--config", served.file, "--model", "echo"]
        with Process(echo) as executor:
            executor.wait_for("executor.joined")
            infer = [*without, "infer", "echo", "hello", "--config", served.file]
            with Process(infer) as client:
                assert client.ended() == 0, client.said
