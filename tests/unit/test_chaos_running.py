"""What a run over real processes does with a fault that could not be done."""

from __future__ import annotations

import asyncio
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from chaos.history import History
from chaos.limits import Limits
from chaos.nemeses import NEMESES, Heal, Planned
from chaos.nemeses.kinds import Nemesis
from chaos.running import Plan, Run
from chaos.workloads import WORKLOADS
from chaos.workloads.scene import Scene
from chaos.worlds.owners import Unable
from raftbatch.errors import CannotStart

STRIKE = Planned(0.0, "test", 1.0, 1)


def struck(monkeypatch: pytest.MonkeyPatch, error: Exception) -> History:
    """Let a run do a fault that fails so; return what it noted."""

    def act(world: Any, rng: Random) -> Heal:
        raise error

    monkeypatch.setitem(NEMESES, "test", Nemesis("test", "fails", act))
    history = History()
    plan = Plan(WORKLOADS["submit"], [STRIKE], 1.0, 1)
    run = Run(plan, cast("Any", SimpleNamespace()), history, None, print)
    asyncio.run(run._strike(0, STRIKE))
    return history


@pytest.mark.parametrize("error", [CannotStart("nobody leads"), LookupError(), OSError(5, "io")])
def test_fault_whose_victim_is_down_is_missed(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    [noted] = struck(monkeypatch, error).events
    assert (noted.op, noted.value["missed"]) == ("fault", str(error))


def test_machine_that_cannot_do_a_fault_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not as a finding: an error of `OSError`'s kind is told in a line, with status 2."""
    with pytest.raises(Unable):
        struck(monkeypatch, Unable("tc qdisc: it is not there"))


def test_pause_that_is_over_as_it_is_cancelled_ends_what_it_is_part_of() -> None:
    """Else a run that breaks off waits for ever for what its workload has begun."""

    async def test() -> None:
        over = asyncio.Event()
        scene = cast("Scene", SimpleNamespace(over=over))
        pausing = asyncio.create_task(Scene.pause(scene, 60.0))
        await asyncio.sleep(0)
        over.set()
        pausing.cancel()
        await asyncio.wait([pausing])
        assert pausing.cancelled()

    asyncio.run(test())


class World:
    """A world whose processes do not come to run, or do not stop."""

    nodes, executors, everyone = ("n1",), ("x1",), ("n1", "x1")

    def __init__(self) -> None:
        self.killed: list[str] = []

    def is_alive(self, name: str) -> bool:
        return True

    def wait_ready(self, timeout_s: float) -> None:
        raise CannotStart(f"not ready after {timeout_s:g} s: n1 has no leader")

    def ending(self, name: str) -> str:
        return ""

    def terminate(self, name: str, timeout_s: float) -> int:
        if name == "n1":
            raise TimeoutError(f"n1 has not ended in {timeout_s:g} s")
        return 0

    def kill(self, name: str) -> None:
        self.killed.append(name)


def run_of(world: World) -> Run:
    """Return a run over a world."""
    plan = Plan(WORKLOADS["submit"], [], 1.0, 1, limits=Limits(answers_s=0.01, calm_s=0.0))
    return Run(plan, cast("Any", world), History(), None, print)


def test_cluster_that_does_not_heal_is_a_finding() -> None:
    run = run_of(World())
    assert not asyncio.run(run._heal())
    [found] = run._failed
    assert (found.rule, found.what) == (
        "not-healed",
        "after all faults: not ready after 120 s: n1 has no leader",
    )


@pytest.mark.parametrize("kind", ["fail", "late", "ok"])
def test_request_after_the_heal_has_to_be_answered(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    async def infer(*_: object) -> Any:
        if kind == "late":
            await asyncio.sleep(60.0)
        return SimpleNamespace(kind=kind, value={"slug": "no_leader"})

    scene = SimpleNamespace(
        callers=[SimpleNamespace(infer=infer)],
        new_id=lambda: "r1",
        text=lambda _: "r1|ok|",
        enough=asyncio.Event(),
    )
    scene.enough.set()
    run = run_of(World())
    asyncio.run(run._alive(cast("Scene", scene)))
    assert [each.rule for each in run._failed] == ([] if kind == "ok" else ["not-alive"])


def test_process_that_does_not_stop_is_a_finding_and_killed() -> None:
    world = World()
    run = run_of(world)
    run._stop()
    assert [each.rule for each in run._failed] == ["hangs"]
    assert world.killed == ["n1"]
