"""Models that crash, hang, eat memory and lie: what it costs their batchmates.

What lives here: real executors on real nodes, few clusters for many checks. Each way in which
one child ends is in `tests/unit/test_executor_child.py`; what an output must be, in
`tests/unit/test_collate.py`.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from raftbatch import tensors
from raftbatch.v1 import gateway_pb2 as pb
from raftbatch.v1.gateway_pb2_grpc import GatewayStub
from tests.e2e.executor_scene import Scene, is_gone, run
from tests.e2e.executors import CALL_S, ELSEWHERE
from tests.e2e.test_request_commands import command

MODEL = """
import ctypes, math, os, pathlib, time
from executor.model import Tensor

class Trouble:
    inputs = [Tensor("text", "BYTES", (1,))]
    outputs = [Tensor("loud", "BYTES", (1,)), Tensor("n", "FP32", (1,), finite=True)]
    is_warm = False

    def load(self, context):
        self.folder = pathlib.Path(context.folder)

    def warmup(self):
        if (self.folder / f"broken-{os.getppid()}").exists():
            raise RuntimeError("the device is gone")
        self.is_warm = True

    def predict(self, batch):
        assert self.is_warm
        self.warmup()
        texts = batch.inputs["text"]
        if "segfault" in texts:
            ctypes.string_at(0)
        if "hang" in texts:
            (self.folder / "hangs").write_text(str(os.getpid()))
            ctypes.PyDLL(None).sleep(1000)  # no other thread runs meanwhile
        if "endless" in texts:
            held = []
            while True:
                held.append(bytearray(1 << 24))
        if "crowded" in texts and len(texts) > 1:
            raise type("OutOfMemoryError", (RuntimeError,), {})(f"no room for {len(texts)}")
        if "raise" in texts:
            raise ValueError("no such thing")
        if "slow" in texts:
            time.sleep(0.4)
        sizes = {"large": 1_000_000}
        found = {"loud": [text.upper() * sizes.get(text, 1) for text in texts]}
        odd = {"nan": [math.nan], "misshapen": [1.0, 2.0], "wordy": ["no number"]}
        if "missing" not in texts:
            found["n"] = [odd.get(text, [1.0]) for text in texts]
        return found
"""

_SETTINGS = """
[policy]
executor_failures_max = {failures_max}
"""

_SETTINGS_OF_MODEL = """
[models.{name}]
max_batch_size = {rows}
max_queue_delay_microseconds = {delay_us}
execution_timeout_microseconds = {timeout_us}
backoff_initial_ms = {backoff_ms}
backoff_max_ms = 60_000
attempts_max = {attempts}
inputs = [{{ name = "text", datatype = "BYTES", dims = [1] }}]
[models.{name}.executor]
file = "trouble.py"
class = "Trouble"
prefetch = {prefetch}
memory_bytes_max = 536_870_912
"""

_MINUTE_MS = 60_000


def settings(*models: str, failures_max: int = 1000) -> str:
    """Return the tables of models, and when an executor is suspended."""
    return "".join([_SETTINGS.format(failures_max=failures_max), *models])


def model(name: str, **more: int) -> str:
    """Return the tables of a model that is `Trouble`."""
    values: dict[str, Any] = {
        "name": name,
        "rows": 4,
        "delay_us": 1_000_000,
        "timeout_us": 30_000_000,
        "backoff_ms": 1,
        "attempts": 1,
        "prefetch": 1,
    }
    return _SETTINGS_OF_MODEL.format(**(values | more))


async def ask(scene: Scene, name: str, *texts: str) -> list[str]:
    """Have requests of one row each taken in by one call; return their ids, in their order."""
    ids = [f"{name}-{place}-{text}" for place, text in enumerate(texts)]
    submissions = []
    for request_id, text in zip(ids, texts, strict=True):
        data = tensors.join_elements([text.encode()])
        payload = tensors.encode([tensors.Tensor("text", "BYTES", (1, 1), data)])
        submissions.append(
            pb.Submission(request_id=request_id, model=name, rows=1, payload=payload)
        )
    request = pb.SubmitRequest(submissions=submissions)
    while True:
        reply = await scene.cluster.ask(
            lambda channel: GatewayStub(channel).Submit(request, timeout=CALL_S)
        )
        errors = [each.error for each in reply.results if each.HasField("error")]
        if not errors:
            return ids
        assert errors[0].slug in ELSEWHERE, errors[0]
        await scene.cluster.turn_to(errors[0].leader)


async def came_of(scene: Scene, *ids: str) -> dict[str, str]:
    """Return what became of requests: `ok`, or a code; by the text of each."""
    found = {}
    for request_id in ids:
        outcome = await scene.told(request_id)
        found[request_id.rpartition("-")[2]] = outcome.code or "ok"
    return found


async def shown(scene: Scene, kind: str, *words: str) -> dict[str, Any]:
    """Return what a command of the command line tells as JSON."""
    where = ("--json", "--config", scene.served.file)
    told = await asyncio.to_thread(command, kind, *words, *where)
    found: dict[str, Any] = json.loads(told)
    return found


async def story(scene: Scene, request_id: str) -> dict[str, Any]:
    """Return what `raftbatch request show` tells of a request."""
    return await shown(scene, "request", "show", request_id)


def kinds(told: dict[str, Any]) -> list[str]:
    """Return what happened to a request, in order."""
    return [each["kind"] for each in told["events"]]


@pytest.fixture(autouse=True)
def _model(tmp_path: Path) -> None:
    (tmp_path / "trouble.py").write_text(MODEL, encoding="utf-8")


@pytest.mark.slow
def test_poison_costs_its_batchmates_nothing_but_time(tmp_path: Path) -> None:
    """G11: 'the batch is bisected until the culprit is alone, then quarantined'."""

    async def test(scene: Scene) -> None:
        executor = await scene.start("gpu-1")
        good = [f"good {place}" for place in range(31)]
        many = await ask(scene, "many", *good[:13], "segfault", *good[13:])
        few = [
            await ask(scene, "few", "a", "endless", "b", "c"),
            await ask(scene, "few", "missing", "d", "e", "f"),
            await ask(scene, "few", "crowded", "g", "h", "i"),
            await ask(scene, "few", "nan", "misshapen", "wordy", "j"),
            await ask(scene, "few", "large", "k", "l", "m"),
            await ask(scene, "hung", "n", "o", "hang", "p"),
        ]
        assert await came_of(scene, *many) == dict.fromkeys(good, "ok") | {"segfault": "child_died"}
        found = await came_of(scene, *[each for ids in few for each in ids])
        assert {text: code for text, code in found.items() if code != "ok"} == {
            "endless": "out_of_memory",
            "missing": "bad_output",
            "nan": "not_finite",
            "misshapen": "bad_output",
            "wordy": "bad_output",
            "large": "result_too_large",
            "hang": "timed_out",
        }
        assert is_gone(int((tmp_path / "hangs").read_text("ascii")))
        whys = [each["why"] for each in executor.logged("child.ended")]
        assert sum(["SIGSEGV" in why for why in whys]) == 6, "32, 16, 8, 4, 2, and alone"
        assert sum(["its batch ran for too long" in why for why in whys]) == 3
        assert sum(["its batch broke it: MemoryError" in why for why in whys]) == 3
        assert len(whys) == 12
        assert executor.is_up
        assert len(executor.logged("executor.joined")) == 1
        await tells_its_story(scene, many)
        [large] = [each for ids in few for each in ids if each.endswith("large")]
        told = await story(scene, large)
        assert kinds(told)[-1] == "ended"
        assert told["runs"] == 1, "it may have waited behind one that died, and gone back"
        assert "what may travel is" in told["outcome"]["message"]
        assert await asyncio.to_thread(executor.terminate) == 0

    models = (
        model("many", rows=32),
        model("few"),
        model("hung", timeout_us=2_000_000),
    )
    run(tmp_path, test, settings=settings(*models))


async def tells_its_story(scene: Scene, many: list[str]) -> None:
    """Look at the stories of a batch in which one request was poison."""
    [poison] = [each for each in many if each.endswith("segfault")]
    told = await story(scene, poison)
    assert kinds(told)[:2] == ["admitted", "sealed"]
    assert Counter(kinds(told))["bisected"] == 5
    assert set(kinds(told)[-2:]) == {"ended", "quarantined"}
    assert told["state"]["quarantined"]
    assert "SIGSEGV" in told["outcome"]["message"]
    told = await story(scene, many[0])
    assert kinds(told)[-1] == "ended"
    assert not told["state"]["quarantined"]
    assert (await shown(scene, "batch", "show", "1"))["end"] == "bisected"


@pytest.mark.slow
def test_only_running_counts_and_what_waits_for_its_backoff_holds_no_slot(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        executor = await scene.start("gpu-1")
        # Each has 2.1 s to spare; the last waits for longer than any may run.
        slow = await ask(scene, "slow", *["slow"] * 8)
        patient = await ask(scene, "patient", "raise", "raise")
        await asyncio.to_thread(executor.wait_for, "batch.failed", count=2)
        [good] = await ask(scene, "patient", "good")
        assert await came_of(scene, good) == {"good": "ok"}, "there is one slot, and it is free"
        for request_id in patient:
            assert kinds(await story(scene, request_id))[-1] == "lapsed"
        brisk = await ask(scene, "brisk", "raise", "raise")
        for request_id in brisk:
            assert (await scene.told(request_id)).code == "model_failed"
            events = (await story(scene, request_id))["events"]
            lapsed = [each["at_ms"] for each in events if each["kind"] == "lapsed"]
            again = [each["at_ms"] for each in events if each["kind"] == "assigned"][1:]
            waited = [later - before for before, later in zip(lapsed, again, strict=False)]
            assert len(waited) == 2
            assert waited[0] >= 100, "each has its own backoff"
            assert waited[1] >= 200
        runs = [(await scene.told(each)).run for each in slow]
        assert [each.attempt for each in runs] == [1] * 8
        assert max([each.queue_ns for each in runs]) > 2_500_000_000

    models = (
        model("slow", rows=1, timeout_us=2_500_000, prefetch=7),
        model("patient", rows=1, prefetch=0, attempts=2, backoff_ms=_MINUTE_MS),
        model("brisk", rows=1, prefetch=0, attempts=3, backoff_ms=100),
    )
    run(tmp_path, test, settings=settings(*models))


def test_broken_executor_is_suspended_beside_a_good_one_and_resumes_by_itself(
    tmp_path: Path,
) -> None:
    async def test(scene: Scene) -> None:
        bad, good = await scene.start("gpu-1"), await scene.start("gpu-2")

        async def is_suspended() -> bool:
            status = await asyncio.to_thread(scene.served.heard, "n1")
            suspended = [each.executor for each in status.scheduler.executors if each.suspended]
            assert "gpu-2" not in suspended
            return bool(suspended)

        broken = tmp_path / f"broken-{bad.pid}"
        broken.touch()
        asked, request_id = 0, ""
        while not await is_suspended():
            asked += 1
            [request_id] = await ask(scene, "few", f"text {asked}")
            assert await came_of(scene, request_id) == {f"text {asked}": "ok"}
        assert {(await scene.told(request_id)).run.executor} == {"gpu-2"}
        await asyncio.to_thread(bad.wait_for, "child.ended")
        broken.unlink()
        while await is_suspended():
            await scene.cluster.pause(0.05)
        assert await asyncio.to_thread(good.terminate) == 0
        [request_id] = await ask(scene, "few", "last")
        assert await came_of(scene, request_id) == {"last": "ok"}
        assert (await scene.told(request_id)).run.executor == "gpu-1"
        assert len(bad.logged("executor.joined")) == 1

    run(tmp_path, test, settings=settings(model("few", rows=1, attempts=3), failures_max=3))
