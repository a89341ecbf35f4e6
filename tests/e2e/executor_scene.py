"""A cluster, executors of it, and a model that misbehaves as it is told.

What lives here: starting, asking, looking. What must never live here: what should come of
it. Called by: end-to-end tests of executors.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from raftbatch import tensors
from raftbatch.v1 import gateway_pb2 as pb
from raftbatch.v1.gateway_pb2_grpc import GatewayStub
from tests.e2e.cluster import ServedCluster
from tests.e2e.executors import CALL_S, ELSEWHERE, Cluster
from tests.e2e.processes import LIMIT_S, RAFTBATCH, Process
from tests.e2e.test_requests import outcome

MODEL = """
import os, pathlib, time
from executor.model import ItemError, Tensor

class Shout:
    inputs = [Tensor("text", "BYTES", (1,))]
    outputs = [Tensor("loud", "BYTES", (1,))]

    def load(self, context):
        self.folder = pathlib.Path(context.folder)
        self.mark = context.options["mark"]

    def warmup(self):
        self.note("warm-up")
        self.check()

    def check(self):
        if (self.folder / "broken").exists():
            raise RuntimeError("the device is gone")

    def note(self, what):
        with open(self.folder / "notes", "a") as notes:
            notes.write(f"{os.getpid()} {what}\\n")

    def predict(self, batch):
        self.note("batch")
        self.check()
        print("noise on standard output")
        loud = []
        for text, parameters in zip(batch.inputs["text"], batch.parameters):
            if text == "die" or (text == "die once" and self.first(text)):
                os._exit(7)
            if text == "raise":
                raise ValueError("no such thing")
            if text == "slow" or (text == "hang once" and self.first(text)):
                (self.folder / "runs").write_text(str(os.getpid()))
                while not (self.folder / "go").exists():
                    time.sleep(0.01)
            bad = ItemError("not this one", "bad_text") if text == "bad" else None
            loud.append(bad or text.upper() + parameters.get("mark", self.mark))
        return {"loud": loud}

    def first(self, text):
        try:
            (self.folder / text).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True
"""

SETTINGS = """
[models.shout]
max_batch_size = 4
execution_timeout_microseconds = {timeout_us}
backoff_initial_ms = 1
attempts_max = 2
inputs = [{{ name = "text", datatype = "BYTES", dims = [1] }}]
[models.shout.executor]
file = "shout.py"
class = "Shout"
options = {{ mark = "!" }}
[models.echo]
[models.echo.executor]
module = "executor.examples.echo"
class = "Echo"
"""

LEASE_MS = 20_000
"""No executor that lives is silent for so long, on however busy a machine."""
LOSS_MS = 3_000
"""A lease for tests in which executors are lost: they wait for so long."""

# Leases have to run out, one after another, on machines that have other things to do too.
_LIMIT_S = 4 * LIMIT_S

Test = Callable[["Scene"], Coroutine[Any, Any, None]]


class Scene:
    """A cluster, and executors of it.

    Attributes:
        served: the nodes.
        cluster: calls to them.
        executors: by id.
    """

    def __init__(self, served: ServedCluster, cluster: Cluster) -> None:
        self.served = served
        self.cluster = cluster
        self.executors: dict[str, Process] = {}
        self._before: list[Process] = []  # of the same ids, which may live

    async def start(self, name: str, *arguments: str) -> Process:
        """Start an executor, and return it once it has joined."""
        process = self.begin(name, *arguments)
        await asyncio.to_thread(process.wait_for, "executor.joined")
        return process

    def begin(self, name: str, *arguments: str) -> Process:
        """Start an executor."""
        command = [*RAFTBATCH, "executor", "--id", name, "--config", self.served.file, *arguments]
        if name in self.executors:
            self._before.append(self.executors[name])
        self.executors[name] = Process(command)
        return self.executors[name]

    def end(self) -> None:
        """Kill and reap all executors."""
        for process in (*self._before, *self.executors.values()):
            process.__exit__(None, None, None)

    async def ask(self, request_id: str, *texts: str, model: str = "shout", **more: Any) -> int:
        """Take a request in; return the index of its ticket."""
        shape = (len(texts), 1)
        data = tensors.join_elements([text.encode() for text in texts])
        payload = tensors.encode([tensors.Tensor("text", "BYTES", shape, data)])
        submission = pb.Submission(
            request_id=request_id, model=model, rows=len(texts), payload=payload, **more
        )
        request = pb.SubmitRequest(submissions=[submission])

        async def once(channel: grpc.aio.Channel) -> pb.SubmitReply:
            reply: pb.SubmitReply = await GatewayStub(channel).Submit(request, timeout=CALL_S)
            return reply

        while True:
            [result] = (await self.cluster.ask(once)).results
            if result.HasField("ticket"):
                return int(result.ticket.index)
            assert result.error.slug in ELSEWHERE, result.error
            await self.cluster.turn_to(result.error.leader)

    async def told(self, request_id: str, index: int = 0) -> pb.Outcome:
        """Return what became of a request."""
        return await self.cluster.ask(lambda channel: outcome(channel, request_id, index))

    async def loud(self, request_id: str, index: int = 0) -> list[str]:
        """Return the texts that came of a request."""
        found = await self.told(request_id, index)
        assert (found.kind, found.code) == (0, ""), found
        [tensor] = tensors.decode(found.result)
        return [each.decode() for each in tensors.elements(tensor)]

    async def running(self) -> int:
        """Return the process that runs a slow batch, once there is one."""
        file = self.served.folder / "runs"
        looks = partial(self.served.until, lambda: file.exists() and bool(file.read_text()), "run")
        await asyncio.to_thread(looks)
        return int(file.read_text())

    def go(self) -> None:
        """Let slow batches end."""
        (self.served.folder / "go").touch()


def is_gone(pid: int) -> bool:
    """Return whether a process is dead, reaped or not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    except (FileNotFoundError, ProcessLookupError):
        return True
    return stat.rpartition(")")[2].split()[0] in ("Z", "X")


def run(
    folder: Path,
    test: Test,
    nodes: tuple[str, ...] = ("n1",),
    timeout_us: int = 30_000_000,
    settings: str = "",
    *,
    serves_http: bool = False,
    limit_s: float = _LIMIT_S,
    lease_ms: int = LEASE_MS,
) -> None:
    """Run a test against nodes that serve; it fails where it takes longer."""
    settings = settings or SETTINGS.format(timeout_us=timeout_us)
    if "[leader]" not in settings:
        settings += f"[leader]\nlease_ms = {lease_ms}\n"
    (folder / "shout.py").write_text(MODEL, encoding="utf-8")
    with ServedCluster(
        folder, nodes, settings, replica="scheduler", serves_http=serves_http
    ) as served:
        served.start_all("--bootstrap")
        served.leader()

        async def main() -> None:
            scene = Scene(served, Cluster(served.clients))
            try:
                async with asyncio.timeout(limit_s):
                    await test(scene)
            except BaseException as error:
                for name, process in scene.executors.items():
                    error.add_note(f"{name} said:\n{process.said}")
                raise
            finally:
                await scene.cluster.close()
                scene.end()

        asyncio.run(main())
