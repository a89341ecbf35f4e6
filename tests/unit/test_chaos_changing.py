"""Who comes and goes in a world of real processes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from chaos.worlds.changing import Changing


class World(Changing):
    """A world whose processes are names; it notes who was missed as each of them began."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, ("n1", "n2"), ("x1",), ("n1", "n2", "n3"), ("x1", "x2"))
        self.alive = {"n1", "n2", "x1"}
        self.begun: list[tuple[str, bool]] = []

    def data_dir(self, node: str) -> Path:
        return self.directory / node

    def is_alive(self, name: str) -> bool:
        return name in self.alive

    def _begin(self, name: str, flags: Sequence[str] | None = None) -> None:
        self.begun.append((name, name in self.everyone))
        self.alive.add(name)


def test_whoever_joins_runs_before_it_is_missed(tmp_path: Path) -> None:
    """Its last life may have ended with an error, as it had to: that is no end of this one."""
    world = World(tmp_path)
    world.join("n3")
    world.join("x2")
    world.join("x2")
    assert world.begun == [("n3", False), ("x2", False)]
    assert (world.nodes, world.executors) == (("n1", "n2", "n3"), ("x1", "x2"))


def test_whoever_has_left_is_not_started_again(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.leave("n2")
    world.alive.clear()
    for name in world.places:
        world.restart(name)
    assert [name for name, _ in world.begun] == ["n1", "x1"]
