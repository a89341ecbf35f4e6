"""A request id is sent again, to whoever leads by then: one execution, and the same outcome.

After the leader was killed, while it runs and after it has ended; after a snapshot stands for the
log that had it, on nodes that restart from it, and on one that was sent it.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from raftbatch.client import AsyncClient, ClientOptions
from raftbatch.client.results import Result
from raftbatch.errors import RequestIdConflict
from raftbatch.v1 import admin_pb2
from raftbatch.v1.admin_pb2_grpc import AdminStub
from tests.e2e.cluster import ServedCluster
from tests.e2e.executor_scene import Scene, run
from tests.e2e.processes import LIMIT_S

pytestmark = pytest.mark.slow

NODES = ("n1", "n2", "n3")

# The first keys are of [storage], which stands before: what is in a snapshot is let go at once.
SETTINGS = """
log_retention_bytes = 0
log_retention_ms = 0
trailing_entries = 0
[log]
snapshot_bytes_min = 65_536
stagger_bytes = 1_024
[models.noted]
max_queue_delay_microseconds = 0
inputs = [{ name = "text", datatype = "BYTES", dims = [1] }]
[models.noted.executor]
file = "noted.py"
class = "Noted"
"""

NOTED = """
import pathlib, time
from executor.model import Tensor

class Noted:
    inputs = [Tensor("text", "BYTES", (1,))]
    outputs = [Tensor("text", "BYTES", (1,))]

    def load(self, context):
        self.folder = pathlib.Path(context.folder)

    def predict(self, batch):
        found = []
        for text in batch.inputs["text"]:
            with (self.folder / "runs").open("a") as runs:
                print(text[:10], file=runs)
            while text == "slow" and not (self.folder / "go").exists():
                time.sleep(0.001)
            found.append(f"{text[:10]} {time.monotonic_ns()}")
        return {"text": found}
"""

FILL = 50
FILLED = "x" * 65_536
"""So many of these are more than two segments of entries."""


class Asker:
    """Asks for two requests again and again, and holds each answer against the first."""

    def __init__(self, scene: Scene, client: AsyncClient) -> None:
        self.firsts: dict[str, Result] = {}
        self._scene = scene
        self._client = client

    async def ask(self, name: str) -> Result:
        """Ask for a request; its id is its text."""
        return await self._client.infer("noted", name, request_id=name)

    async def again(self) -> None:
        """Ask for what has been answered: what each says must be equal, times of the run too."""
        for name, first in self.firsts.items():
            found = await self.ask(name)
            assert (found.value, found.index, found.run) == (first.value, first.index, first.run)
            with pytest.raises(RequestIdConflict):
                await self._client.infer("noted", "another text", request_id=name)
        noted = (self._scene.served.folder / "runs").read_text(encoding="utf-8").splitlines()
        assert [noted.count(name) for name in self.firsts] == [1] * len(self.firsts)

    async def fill(self, number: int) -> None:
        """Ask for other things, until a snapshot stands for what was before."""
        asks = [
            self._client.infer("noted", FILLED, request_id=f"fill {number}.{n}")
            for n in range(FILL)
        ]
        await asyncio.gather(*asks)


def test_id_that_is_sent_again_has_one_execution_and_one_outcome(tmp_path: Path) -> None:
    (tmp_path / "noted.py").write_text(NOTED, encoding="utf-8")

    async def test(scene: Scene) -> None:
        served = scene.served
        await scene.start("x1")
        options = ClientOptions(acknowledges=False)
        async with AsyncClient(list(served.clients.values()), options) as client:
            asker = Asker(scene, client)
            asker.firsts["quick"] = await asker.ask("quick")
            slow = asyncio.create_task(asker.ask("slow"))
            runs = tmp_path / "runs"
            await asyncio.to_thread(
                served.until, lambda: "slow" in runs.read_text(encoding="utf-8"), "run"
            )
            # It runs while its leader dies, and is asked for again at the next.
            killed = await asyncio.to_thread(served.leader)
            served.processes[killed].kill()
            twin = asyncio.create_task(asker.ask("slow"))
            await asker.again()
            (tmp_path / "go").touch()
            asker.firsts["slow"] = await slow
            assert (await twin).value == asker.firsts["slow"].value
            await asker.again()
            # The one that was killed is sent a snapshot, and then leads.
            latest = max(each.index for each in asker.firsts.values())
            await asker.fill(1)
            for node in served.processes:
                if node != killed:
                    await asyncio.to_thread(until_compacted, served, node, latest)
            served.start(killed)
            await asyncio.to_thread(served.agree)
            assert first_index(served, killed) > latest
            await asyncio.to_thread(transfer, served, killed)
            await asker.again()
            # All begin anew, from snapshots.
            for node in NODES:
                assert await asyncio.to_thread(served.processes[node].terminate) == 0
            for node in NODES:
                served.start(node)
            await asker.again()
        await asyncio.to_thread(served.agree)

    run(tmp_path, test, NODES, settings=SETTINGS)


def first_index(served: ServedCluster, node: str) -> int:
    """Return the index of the oldest entry in a node's journal, as the node says."""
    with served.channel(node) as channel:
        request = admin_pb2.EntriesRequest(newest=1)
        [reply, *_] = AdminStub(channel).Entries(request, timeout=LIMIT_S)
    return int(reply.span.first)


def until_compacted(served: ServedCluster, node: str, index: int) -> None:
    """Wait until a node's journal has an entry no more."""
    served.until(lambda: first_index(served, node) > index, f"snapshot at {node}")


def transfer(served: ServedCluster, heir: str) -> None:
    """Let a node lead."""
    leader = served.leader()
    if leader != heir:
        with served.channel(leader) as channel:
            AdminStub(channel).Transfer(admin_pb2.TransferRequest(node_id=heir), timeout=10.0)
    served.until(lambda: served.leader() == heir, f"lead of {heir}")
