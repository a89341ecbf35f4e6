"""The leader is killed between a report and its commit, fifty times: each outcome is there once.

What each request came to is counted offline, from the files of every node (`flow.settled`).
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import NamedTuple

import pytest

from raftbatch.client import AsyncClient, ClientOptions
from raftbatch.client.results import Result
from tests.e2e.cluster import ServedCluster
from tests.e2e.executor_scene import Scene, run
from tests.e2e.flow import PATIENCE_S, settled

pytestmark = pytest.mark.slow

NODES = ("n1", "n2", "n3", "n4", "n5")
KILLS = 50
DOWN_MAX = 2
"""Killed nodes, until they are started again, at one time: it is what takes longest."""
BATCHES = 3
"""That run in each round, one after another: more than entries may be in flight (2)."""

SETTINGS = """
[models.gate]
max_batch_size = 0
inputs = [{ name = "text", datatype = "BYTES", dims = [1] }]
[models.gate.executor]
file = "gate.py"
class = "Gate"
prefetch = 2
[models.echo]
inputs = [{ name = "text", datatype = "BYTES", dims = [1] }]
[models.echo.executor]
module = "executor.examples.echo"
class = "Echo"
[timing]
# The leader goes on for so long without the others; who saw it die does not wait for it.
election_ms_min = 1500
election_ms_max = 3000
[leader]
lease_ms = 10_000
"""

GATE = """
import pathlib, time
from executor.model import Tensor

class Gate:
    inputs = [Tensor("text", "BYTES", (1,))]
    outputs = [Tensor("text", "BYTES", (1,))]

    def load(self, context):
        self.folder = pathlib.Path(context.folder)

    def predict(self, batch):
        [text] = batch.inputs["text"]
        gate = self.folder / text.partition(".")[0]
        gate.with_suffix(".waits").touch()
        while not gate.exists():
            time.sleep(0.001)
        return {"text": batch.inputs["text"]}
"""


def start_those_down(served: ServedCluster) -> None:
    """Start all nodes that were killed, and wait until they serve."""
    down = [node for node, each in served.processes.items() if not each.is_up]
    for node in down:
        served.start(node)
    for node in down:
        served.ready(node)


class Window(NamedTuple):
    """How it stood with a leader just before it was killed.

    Attributes:
        reports: that it had taken in, and that were not committed.
        is_open: whether that is sure: it led, and none of the requests had an outcome.
    """

    reports: int
    is_open: bool


class Round:
    """One kill.

    Args:
        scene: the cluster and its executor.
        client: that asks.
        number: of the round.
    """

    def __init__(self, scene: Scene, client: AsyncClient, number: int) -> None:
        self.asked: dict[str, asyncio.Task[Result]] = {}
        self._scene = scene
        self._served = scene.served
        self._client = client
        self._number = number
        self._gate = scene.served.folder / f"gate{number}"

    async def run(self) -> Window:
        """Run batches, stop the followers, let the batches end, and kill the leader."""
        served = self._served
        leader = await asyncio.to_thread(served.leader)
        others = [each for node, each in served.processes.items() if node != leader]
        followers = [each for each in others if each.is_up]
        for place in range(BATCHES):
            self._ask("gate", f"{self._gate.name}.{place}")
        waits = self._gate.with_suffix(".waits")
        await asyncio.to_thread(served.until, waits.exists, "batch that runs")
        before, held = self._reports(leader), self._held(leader)
        for each in followers:
            each.pause()
        # Entries of requests take the places in flight: of what follows, or behind it.
        if self._number % 2:
            self._ask("echo", f"echo{self._number}")
        self._gate.touch()
        await asyncio.to_thread(
            served.until, lambda: self._reports(leader) - before >= held, "reports of the batches"
        )
        if not self._number % 2:
            self._ask("echo", f"echo{self._number}")
        status = served.heard(leader)
        reports = status.counters["leader_reports_total"] - before
        [gate] = [each for each in status.scheduler.models if each.name == "gate"]
        is_open = status.role == "leader" and gate.requests == BATCHES
        served.processes[leader].kill()
        for each in followers:
            each.resume()
        for name, task in self.asked.items():
            assert (await task).value in (name, [name])  # without and with the batch axis
        return Window(reports, is_open)

    def _ask(self, model: str, name: str) -> None:
        ask = self._client.infer(model, name, request_id=name)
        self.asked[name] = asyncio.create_task(ask)

    def _reports(self, node: str) -> int:
        return self._served.heard(node).counters["leader_reports_total"]

    def _held(self, node: str) -> int:
        [executor] = self._served.heard(node).scheduler.executors
        return executor.held


def test_leader_killed_between_report_and_commit(tmp_path: Path) -> None:
    (tmp_path / "gate.py").write_text(GATE, encoding="utf-8")

    async def test(scene: Scene) -> None:
        executor = await scene.start("x1")
        options = ClientOptions(patience_s=PATIENCE_S)
        asked = 0
        windows: list[Window] = []
        async with AsyncClient(list(scene.served.clients.values()), options) as client:
            while sum(each.is_open for each in windows) < KILLS:
                kill = Round(scene, client, len(windows))
                windows.append(await kill.run())
                asked += len(kill.asked)
                assert len(windows) < 2 * KILLS, windows
                if not len(windows) % DOWN_MAX:
                    await asyncio.to_thread(start_those_down, scene.served)
            await asyncio.to_thread(start_those_down, scene.served)
        assert min(each.reports for each in windows if each.is_open) > 0
        await asyncio.to_thread(settled, scene.served, asked)
        assert len(executor.logged("executor.joined")) == 1

    # Fifty starts of nodes, on a machine that may have other things to do.
    run(tmp_path, test, NODES, settings=SETTINGS, limit_s=280.0)
