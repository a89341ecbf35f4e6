"""What operators of the workload `membership` hold against a node at once, shown to fire."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from chaos.history import History
from chaos.limits import Limits
from chaos.workloads import members
from chaos.workloads.scene import Scene
from chaos.worlds.changing import Former

REFUSED = "exit status 1; n2.log ends with\nError: start it with --join"


class World:
    """A world of which a test says how its processes end."""

    def __init__(self, ending: str, *, serves: bool = False) -> None:
        self.nodes: tuple[str, ...] = ("n1", "n2", "n3")
        self.addresses = ()
        self.files = SimpleNamespace(peer=lambda node: f"{node}:1")
        self.ending = ending
        self.serves = serves
        self.done: list[str] = []

    def leave(self, name: str) -> None:
        self.nodes = tuple(each for each in self.nodes if each != name)

    def join(self, name: str) -> None:
        self.nodes = tuple(sorted({*self.nodes, name}))

    def kill(self, name: str) -> None:
        self.done.append(f"kill {name}")

    def forget(self, name: str) -> Former:
        self.done.append(f"forget {name}")
        return Former(name, Path(name))

    def try_start(self, name: str, flags: object, timeout_s: float) -> tuple[str, bool]:
        return self.ending, self.serves

    def wait_end(self, name: str, timeout_s: float) -> str:
        return self.ending

    def statuses(self) -> dict[str, Any]:
        ranks = [SimpleNamespace(node_id=each, rank="voter") for each in self.nodes]
        return {"n1": SimpleNamespace(role="leader", term=2, members=ranks)}


def play(
    world: World,
    act: Callable[[Scene], Coroutine[Any, Any, None]],
    *,
    is_calm: bool = True,
    limits: Limits = Limits(),  # noqa: B008 - it is a value
) -> Scene:
    """Let an operator act; return the scene."""

    async def main() -> Scene:
        calm, whole = asyncio.Event(), asyncio.Event()
        if is_calm:
            calm.set()
        whole.set()
        scene = Scene(
            cast("Any", world),
            History(),
            [],
            [],
            Random(1),
            Counter(),
            1,
            asyncio.Event(),
            calm,
            whole,
            limits=limits,
        )
        await act(scene)
        return scene

    return asyncio.run(main())


def answering(monkeypatch: pytest.MonkeyPatch, *statuses: int) -> list[tuple[str, ...]]:
    """Let commands end with these, one after the other; return what is told."""
    told: list[tuple[str, ...]] = []
    left = list(statuses)

    async def tell(_scene: Scene, *words: str) -> int:
        told.append(words)
        return left.pop(0) if len(left) > 1 else left[0]

    monkeypatch.setattr(members, "_told", tell)
    monkeypatch.setattr(members, "_BETWEEN_S", 0.0)
    return told


@pytest.mark.parametrize("serves", [False, True])
@pytest.mark.parametrize("ending", [REFUSED, ""])  # it may wait for a founder that is silent
def test_node_that_serves_without_its_disk_is_found(ending: str, serves: bool) -> None:
    world = World(ending, serves=serves)
    scene = play(world, lambda scene: members._wipe(scene, "n2", ()))
    assert [each.rule for each in scene.findings] == ["served-without-disk"] * serves
    assert scene.counts["refused_start"] == bool(ending)
    assert world.done == ["kill n2", "forget n2"]
    assert "n2" in world.nodes


@pytest.mark.parametrize(("ending", "rules"), [(REFUSED, set()), ("", {"runs-though-removed"})])
def test_node_that_runs_though_it_was_removed_is_found(
    monkeypatch: pytest.MonkeyPatch, ending: str, rules: set[str]
) -> None:
    world = World(ending)
    told = answering(monkeypatch, 3, 0)  # at first nobody knows
    scene = play(world, lambda scene: members._remove(scene, "n2"))
    assert told == [("remove", "n2")] * 2
    assert {each.rule for each in scene.findings} == rules
    assert world.nodes == ("n1", "n3")
    assert world.done[-1] == "forget n2"


def test_removal_that_is_refused_leaves_all_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World("")
    monkeypatch.setattr(members, "_rank", lambda _scene, _node: "voter")
    answering(monkeypatch, 1)
    scene = play(world, lambda scene: members._remove(scene, "n2"))
    assert (scene.findings, world.nodes, world.done) == ([], ("n1", "n2", "n3"), [])


def test_removal_of_which_nobody_ever_knows_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, 3)
    limits = Limits(change_s=-1.0)
    scene = play(World(""), lambda scene: members._remove(scene, "n2"), limits=limits)
    assert [each.rule for each in scene.findings] == ["stuck-change"]
