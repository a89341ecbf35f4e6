"""Real executors on real nodes: batches run, children die, executors die, drain and go."""

from __future__ import annotations

import asyncio
import signal
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.cluster import ServedCluster
from tests.e2e.executor_scene import LOSS_MS, MODEL, SETTINGS, Scene, is_gone, run
from tests.e2e.processes import RAFTBATCH, Process
from tests.e2e.processes import run as command


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


@pytest.mark.slow
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
        lives: dict[str, list[str]] = {}
        for line in (tmp_path / "notes").read_text("utf-8").splitlines():
            lives.setdefault(line.split()[0], []).append(line.split()[1])
        assert len(lives) > 2
        assert all(noted[0] == "warm-up" for noted in lives.values()), "each was warmed up first"
        assert sum("batch" in noted for noted in lives.values()) > 2

    run(tmp_path, test)


@pytest.mark.slow
def test_batch_that_hangs_is_killed_after_its_running_time(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        await scene.start("gpu-1")
        await scene.ask("a", "hang once")
        pid = await scene.running()
        assert await scene.loud("a") == ["HANG ONCE!"]
        assert is_gone(pid)

    run(tmp_path, test, timeout_us=2_000_000)


@pytest.mark.slow
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

    run(tmp_path, test, lease_ms=LOSS_MS)


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


@pytest.mark.slow
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


@pytest.mark.slow
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

    run(tmp_path, test, ("n1", "n2", "n3"), lease_ms=LOSS_MS)


@pytest.mark.slow
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

    run(tmp_path, test, lease_ms=LOSS_MS)


@pytest.mark.slow
def test_killed_executor_comes_back_under_its_id(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        first = await scene.start("gpu-1")
        await scene.ask("a", "hang once")
        await scene.running()
        second = scene.begin("gpu-1")
        await asyncio.to_thread(second.wait_for, "join.waited")
        first.kill()  # however long a busy machine takes to start another: it waits by now
        await asyncio.to_thread(second.wait_for, "executor.joined")
        assert await scene.loud("a") == ["HANG ONCE!"]
        assert await asyncio.to_thread(second.terminate) == 0

    run(tmp_path, test, lease_ms=LOSS_MS)


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


@pytest.mark.slow
def test_executor_id_is_one_executors(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        await scene.start("gpu-1")
        arguments = ("executor", "--id", "gpu-1", "--config", scene.served.file, "--join", "3")
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


def test_executor_that_finds_nobody_stops_when_it_is_told_to(tmp_path: Path) -> None:
    (tmp_path / "shout.py").write_text(MODEL, encoding="utf-8")
    served = ServedCluster(tmp_path, ("n1",), SETTINGS.format(timeout_us=0), replica="scheduler")
    command = [*RAFTBATCH, "executor", "--id", "gpu-1", "--config", served.file]
    with Process(command, anew=True) as executor:
        executor.wait_for("model.loaded", count=2)
        assert executor.terminate() == 0
        assert [each["event"] for each in executor.events][-2:] == [
            "stop.begun",
            "executor.stopped",
        ]
