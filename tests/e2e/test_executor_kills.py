"""Executors are killed mid-batch, again and again: each request ends once, nobody mends anything.

What each request came to is counted offline, from the node's files (`flow.settled`).
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from raftbatch.client import AsyncClient, ClientOptions
from raftbatch.client.results import Result
from tests.e2e.executor_scene import Scene, run
from tests.e2e.flow import PATIENCE_S, settled
from tests.e2e.local_scene import until_gone
from tests.e2e.processes import Process

LIMIT_S = 540.0
"""For fifty executors to start, each a few processes, on however busy a machine."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

KILLS = 50
WIDTH = 4
EXECUTORS = ("x1", "x2", "x3")

SETTINGS = """
[models.held]
max_batch_size = 4
backoff_initial_ms = 1
attempts_max = 10
inputs = [{ name = "text", datatype = "BYTES", dims = [1] }]
[models.held.executor]
file = "held.py"
class = "Held"
[leader]
lease_ms = 1000
"""

HELD = """
import os, pathlib, time
from executor.model import Tensor

class Held:
    inputs = [Tensor("text", "BYTES", (1,))]
    outputs = [Tensor("text", "BYTES", (1,))]

    def load(self, context):
        self.folder = pathlib.Path(context.folder)

    def predict(self, batch):
        for text in batch.inputs["text"]:
            name = text.partition(".")[0]
            part = self.folder / f"{name}.{os.getpid()}.part"
            part.write_text(f"{os.getppid()} {os.getpid()}")
            part.rename(self.folder / f"{name}.{os.getpid()}.runs")
            while not (self.folder / name).exists():
                time.sleep(0.002)
        return {"text": batch.inputs["text"]}
"""


async def runs(scene: Scene, name: str) -> tuple[int, int]:
    """Return who runs a batch, once somebody does: the executor's number, and the child's."""
    found: list[Path] = []

    def are_there() -> bool:
        found.extend(scene.served.folder.glob(f"{name}.*.runs"))
        return bool(found)

    await asyncio.to_thread(scene.served.until, are_there, f"run of {name}", LIMIT_S)
    executor, child = map(int, found[0].read_text(encoding="utf-8").split())
    return executor, child


def test_executors_killed_mid_batch_cost_no_request(tmp_path: Path) -> None:
    (tmp_path / "held.py").write_text(HELD, encoding="utf-8")

    async def test(scene: Scene) -> None:
        served = scene.served
        await asyncio.gather(*map(scene.start, EXECUTORS))
        options = ClientOptions(patience_s=PATIENCE_S)
        asked: dict[str, asyncio.Task[Result]] = {}
        starting: dict[str, asyncio.Task[Process]] = {}
        children: list[int] = []
        async with AsyncClient(list(served.clients.values()), options) as client:
            for kill in range(KILLS):
                for place in range(WIDTH):
                    text = f"{kill}.{place}"
                    ask = client.infer("held", text, request_id=text)
                    asked[text] = asyncio.create_task(ask)
                pid, child = await runs(scene, str(kill))
                [name] = [each for each, process in scene.executors.items() if process.pid == pid]
                scene.executors[name].kill()
                children.append(child)
                (tmp_path / str(kill)).touch()  # whoever has it next ends it
                starting[name] = asyncio.create_task(scene.start(name))
            for text, task in asked.items():
                assert (await task).value == text
            await asyncio.gather(*starting.values())
        await asyncio.to_thread(until_gone, children)
        await asyncio.to_thread(settled, served, KILLS * WIDTH)

    run(tmp_path, test, settings=SETTINGS, limit_s=LIMIT_S)
