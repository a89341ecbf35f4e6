"""Real executors on real nodes: batches run, children die, executors die, drain and go."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from raftbatch import tensors
from raftbatch.v1 import gateway_pb2 as pb
from raftbatch.v1.gateway_pb2_grpc import GatewayStub
from tests.e2e.cluster import ServedCluster
from tests.e2e.executors import CALL_S, Cluster
from tests.e2e.processes import LIMIT_S, RAFTBATCH, Process
from tests.e2e.processes import run as command
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
        if (self.folder / "broken").exists():
            raise RuntimeError("the device is gone")

    def predict(self, batch):
        self.warmup()
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

_ELSEWHERE = ("not_leader", "no_leader", "draining", "outcome_unknown")

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

    async def start(self, name: str, *arguments: str) -> Process:
        """Start an executor, and return it once it has joined."""
        command = [*RAFTBATCH, "executor", "--id", name, "--config", self.served.file, *arguments]
        process = self.executors[name] = Process(command)
        await asyncio.to_thread(process.wait_for, "executor.joined")
        return process

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
            assert result.error.slug in _ELSEWHERE, result.error
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
    folder: Path, test: Test, nodes: tuple[str, ...] = ("n1",), timeout_us: int = 30_000_000
) -> None:
    """Run a test against nodes that serve."""
    settings = SETTINGS.format(timeout_us=timeout_us)
    (folder / "shout.py").write_text(MODEL, encoding="utf-8")
    with ServedCluster(folder, nodes, settings, replica="scheduler") as served:
        served.start_all("--bootstrap")
        served.leader()

        async def main() -> None:
            scene = Scene(served, Cluster(served.clients))
            try:
                async with asyncio.timeout(LIMIT_S):
                    await test(scene)
            except BaseException as error:
                for name, process in scene.executors.items():
                    error.add_note(f"{name} said:\n{process.said}")
                raise
            finally:
                await scene.cluster.close()
                for process in scene.executors.values():
                    process.__exit__(None, None, None)

        asyncio.run(main())


def test_batches_run_and_items_fail_alone(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        executor = await scene.start("gpu-1")
        assert {each["device"] for each in executor.logged("model.loaded")} == {"cpu"}
        first = await scene.ask("a", "one", "two")
        await scene.ask("b", "bad")
        await scene.ask("c", "three", parameters=b'{"mark": "?"}')
        await scene.ask("d", "raise")
        await scene.ask("e", "plain", model="echo")
        assert await scene.loud("a", first) == ["ONE!", "TWO!"]
        assert await scene.loud("c") == ["THREE?"]
        assert await scene.loud("e") == ["plain"]
        bad = await scene.told("b")
        assert (bad.kind, bad.code, bad.message) == (1, "bad_text", "not this one")
        raised = await scene.told("d")
        assert (raised.kind, raised.code) == (1, "model_failed")
        assert "ValueError: no such thing" in raised.message
        assert await asyncio.to_thread(executor.terminate) == 0
        assert executor.logged("executor.left")[-1]["why"] == "drained"

    run(tmp_path, test)


def test_child_that_dies_is_a_failed_batch_and_is_replaced(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        executor = await scene.start("gpu-1")
        await scene.ask("a", "die once")
        assert await scene.loud("a") == ["DIE ONCE!"]
        [ended] = executor.logged("child.ended")
        assert "exited with status 7" in ended["why"]
        asked = [scene.ask(f"b{n}", "die" if n == 2 else f"good {n}") for n in range(4)]
        await asyncio.gather(*asked)
        for n in (0, 1, 3):
            assert await scene.loud(f"b{n}") == [f"GOOD {n}!"]
        poison = await scene.told("b2")
        assert (poison.kind, poison.code) == (1, "child_died")
        assert len(executor.logged("executor.joined")) == 1, "the executor lived on"

    run(tmp_path, test)


def test_batch_that_hangs_is_killed_after_its_running_time(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        await scene.start("gpu-1")
        await scene.ask("a", "hang once")
        pid = await scene.running()
        assert await scene.loud("a") == ["HANG ONCE!"]
        assert is_gone(pid)

    run(tmp_path, test, timeout_us=700_000)


def test_another_executor_runs_what_a_killed_one_held(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        first = await scene.start("gpu-1")
        index = await scene.ask("a", "hang once")
        pid = await scene.running()
        await scene.start("gpu-2")
        first.kill()
        assert await scene.loud("a", index) == ["HANG ONCE!"]
        found = await scene.told("a")
        assert found.run.executor == "gpu-2"
        await asyncio.to_thread(scene.served.until, lambda: is_gone(pid), "end of the child")

    run(tmp_path, test)


def test_executor_that_is_told_to_stop_ends_what_runs_and_gives_back_the_rest(
    tmp_path: Path,
) -> None:
    async def test(scene: Scene) -> None:
        first = await scene.start("gpu-1")
        await scene.ask("a", "slow")
        await scene.running()
        await scene.ask("b", "waits")
        second = await scene.start("gpu-2")
        first.send(signal.SIGTERM)
        assert await scene.loud("b") == ["WAITS!"]
        assert (await scene.told("b")).run.executor == "gpu-2"
        assert first.is_up, "it waits for what runs"
        scene.go()
        assert await scene.loud("a") == ["SLOW!"]
        assert (await scene.told("a")).run.executor == "gpu-1"
        assert await asyncio.to_thread(first.ended) == 0
        assert first.logged("executor.left")[-1]["why"] == "drained"
        assert await asyncio.to_thread(second.terminate) == 0

    run(tmp_path, test)


def test_drain_is_bounded(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        first = await scene.start("gpu-1", "--drain", "0.3")
        await scene.ask("a", "hang once")
        pid = await scene.running()
        assert await asyncio.to_thread(first.terminate) == 0
        assert first.logged("executor.left")[-1]["why"] == "late"
        assert is_gone(pid)
        await scene.start("gpu-2")
        assert await scene.loud("a") == ["HANG ONCE!"]

    run(tmp_path, test)


def test_executor_goes_on_though_the_leader_is_killed(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        executor = await scene.start("gpu-1")
        await scene.ask("a", "slow")
        await scene.running()
        leader = await asyncio.to_thread(scene.served.leader)
        scene.served.processes[leader].kill()
        scene.go()
        assert await scene.loud("a") == ["SLOW!"]
        await scene.ask("b", "next")
        assert await scene.loud("b") == ["NEXT!"]
        assert len(executor.logged("executor.joined")) == 1
        assert await asyncio.to_thread(executor.terminate) == 0

    run(tmp_path, test, ("n1", "n2", "n3"))


def test_each_request_has_its_outcome_though_a_leader_and_an_executor_are_killed(
    tmp_path: Path,
) -> None:
    async def test(scene: Scene) -> None:
        first = await scene.start("gpu-1")
        await scene.start("gpu-2")
        count, width = 240, 12

        async def client(number: int) -> None:
            for n in range(number, count, width):
                if n == 3 * width:
                    leader = await asyncio.to_thread(scene.served.leader)
                    scene.served.processes[leader].kill()
                if n == 10 * width:
                    first.kill()
                await scene.ask(f"r{n}", f"text {n}")
                assert await scene.loud(f"r{n}") == [f"TEXT {n}!"]

        await asyncio.gather(*[client(number) for number in range(width)])
        survivors = [node for node, each in scene.served.processes.items() if each.is_up]
        await asyncio.to_thread(scene.served.agree, *survivors)

    run(tmp_path, test, ("n1", "n2", "n3"))


def test_executor_that_was_paused_for_longer_than_its_lease_joins_anew(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        executor = await scene.start("gpu-1")
        executor.pause()
        await scene.ask("a", "one")
        second = await scene.start("gpu-2")
        assert await scene.loud("a") == ["ONE!"]
        executor.resume()
        await asyncio.to_thread(partial(executor.wait_for, "executor.joined", count=2))
        assert await asyncio.to_thread(second.terminate) == 0
        await scene.ask("b", "two")
        assert await scene.loud("b") == ["TWO!"]

    run(tmp_path, test)


def test_killed_executor_comes_back_under_its_id(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        first = await scene.start("gpu-1")
        await scene.ask("a", "hang once")
        await scene.running()
        first.kill()
        second = await scene.start("gpu-1")
        assert second.logged("join.waited"), "until the one before is found lost"
        assert await scene.loud("a") == ["HANG ONCE!"]
        assert await asyncio.to_thread(second.terminate) == 0

    run(tmp_path, test)


def test_broken_executor_is_suspended_and_resumes_once_its_warm_up_goes_well(
    tmp_path: Path,
) -> None:
    async def test(scene: Scene) -> None:
        executor = await scene.start("gpu-1")
        (tmp_path / "broken").touch()
        for n in range(2):
            await scene.ask(f"a{n}", "one")
            assert (await scene.told(f"a{n}")).code == "model_failed"
        await scene.ask("a2", "one")  # the third in a row: executor_failures_max
        ended = await asyncio.to_thread(executor.wait_for, "child.ended")
        assert "its warm-up failed: RuntimeError: the device is gone" in ended["why"]
        await scene.ask("b", "two")
        (tmp_path / "broken").unlink()
        assert await scene.loud("a2") == ["ONE!"]
        assert await scene.loud("b") == ["TWO!"]
        assert len(executor.logged("executor.joined")) == 1

    run(tmp_path, test)


def test_executor_id_is_one_executors(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        await scene.start("gpu-1")
        arguments = ("executor", "--id", "gpu-1", "--config", scene.served.file, "--join", "0.2")
        done = await asyncio.to_thread(command, *arguments)
        assert done.returncode == 1
        assert "Error: another executor has the id gpu-1" in done.stderr
        assert "Traceback" not in done.stderr

    run(tmp_path, test)


@pytest.mark.parametrize(
    ("file", "table", "status", "message"),
    [
        ("", 'file = "shout.py"\nclass = "Shout"', 1, "no coordinator lets gpu-1 join"),
        ("", 'file = "gone.py"\nclass = "Shout"', 1, "there is no "),
        ("", 'file = "shout.py"\nclass = "Whisper"', 1, "no class 'Whisper', only Shout"),
        ("import gone_module", "", 1, "does not import: No module named 'gone_module'"),
        ("def f(:", "", 1, "does not import: SyntaxError"),
        (MODEL.replace('["mark"]', "[0]"), "", 1, "shout does not load: KeyError: 0"),
        (MODEL.replace("outputs", "more"), "", 1, "shout: outputs are declared neither"),
        ("", 'file = "shout.py"', 2, "models.shout.executor.class is missing"),
        ("", 'file = "shout.py"\nclass = "A"\nclas = 1', 2, "the nearest is class"),
        ("", 'class = "A"', 2, "file or module is named"),
        ("", 'file = "shout.py"\nclass = "A"\ninstances = 0', 2, "instances is 0"),
    ],
)
def test_what_is_wrong_is_said(
    tmp_path: Path, file: str, table: str, status: int, message: str
) -> None:
    (tmp_path / "shout.py").write_text(file or MODEL, encoding="utf-8")
    table = table or 'file = "shout.py"\nclass = "Shout"'
    settings = f"""
[models.shout]
inputs = [{{ name = "text", datatype = "BYTES", dims = [1] }}]
[models.shout.executor]
{table}
options = {{ mark = "!" }}
"""
    served = ServedCluster(tmp_path, ("n1",), settings, replica="scheduler")
    done = command("executor", "--id", "gpu-1", "--config", served.file, "--join", "0.2")
    assert done.returncode == status, done.stderr
    assert message in done.stderr
    assert done.stderr.splitlines()[-1].startswith("Error: ")
