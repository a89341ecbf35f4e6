"""Three nodes that start for the first time, for tests that take one certain way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from chaos.suites.founding_checks import FoundingChecks
from chaos.suites.founding_world import DIRECTORY, FoundingWorld
from chaos.worlds.hooks import Crash
from chaos.worlds.loop import VirtualLoop
from coordinator.raft.membership import founders
from coordinator.starting import Mode
from raftbatch.ids import Identity, NodeId

N1, N2, N3, N4 = (NodeId(f"n{number}") for number in range(1, 5))
MEMBERS = founders({node: f"{node}:1" for node in (N1, N2, N3)})
LONG_S = 60.0


class Scene:
    """Three nodes that are about to start; checked all along."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.checks = FoundingChecks()
        self.world = FoundingWorld(loop, 1, MEMBERS, self.checks)
        self.checks.world = self.world

    def start(self, *nodes: NodeId, mode: Mode = Mode.BOOTSTRAP) -> None:
        """Start nodes that are down."""
        for node in nodes:
            self.world.seats[node].mode = mode
            self.world.start(node)

    def run(self, duration_s: float = LONG_S) -> None:
        """Let time pass."""
        self.loop.run_for(duration_s)
        self.checks.count_directories()
        assert self.checks.violations == []

    def says(self, node: NodeId) -> str:
        """Return why a node gave up, or for whom it waits."""
        seat = self.world.seats[node]
        return str(seat.failure) if seat.failure else "; ".join(seat.waited[-2:])

    def serving(self) -> list[NodeId]:
        """Return who serves; all in one cluster."""
        clusters = {each.cluster_id for node in MEMBERS.voters if (each := self.identity(node))}
        assert len(clusters) <= 1
        return [node for node, seat in self.world.seats.items() if seat.is_serving]

    def identity(self, node: NodeId) -> Identity | None:
        """Return whose directory a node has."""
        return self.world.identity(node)

    def heal(self) -> None:
        """Restart whoever is down as it was told to, until nothing changes."""
        for _ in range(4):
            for node, seat in self.world.seats.items():
                if not self.world.is_up(node):
                    is_told = seat.failure is not None and "serve --node" in str(seat.failure)
                    self.start(node, mode=Mode.JOIN if is_told else Mode.BOOTSTRAP)
            self.run(20)


@contextmanager
def begin() -> Iterator[Scene]:
    """Begin a scene of its own."""
    with VirtualLoop() as loop:
        yield Scene(loop)


def die_at(scene: Scene, node: NodeId, at: int, *, after: bool, power: bool) -> None:
    """Let a node die at its n-th operation from now."""
    machine = scene.world.seats[node].machine
    machine.power = power
    left = at

    def die(operation: str, path: str) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Crash(f"{operation} {path}")

    machine.arm(die, after=after)


def die_with_plan(scene: Scene) -> None:
    """Let the founder die when its plan is noted, and nobody told: at its second note."""
    seen = 0

    def die(operation: str, path: str) -> None:
        nonlocal seen
        seen += operation == "sync_directory" and path == DIRECTORY
        if seen == 2:
            seen = 3
            raise Crash(f"{operation} {path}")

    scene.world.seats[N1].machine.arm(die, after=True)
