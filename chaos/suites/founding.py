"""First starts under faults: one seed, one identical run.

Three or five nodes are started with empty directories. They crash, at any
operation of their disks too; lose power, their disks, their connections; are
restarted, as a service manager does; and whoever is told to join is started so,
as an operator does. Then all is healed: if no disk was lost, the cluster must
have begun within half a minute, and if some were, then every node is in it, or
says for whom it waits or what to do.

What lives here: the schedule. What must never live here: what holds all the time
(`chaos.suites.founding_checks`). Called by: `chaos.runner`, the property tests.
"""

from __future__ import annotations

from random import Random

from chaos.suites.founding_checks import FoundingChecks
from chaos.suites.founding_world import FoundingWorld
from chaos.worlds.hooks import Crash, Torn
from chaos.worlds.loop import VirtualLoop
from coordinator.raft.membership import founders
from coordinator.starting import Mode
from raftbatch.ids import NodeId

HEALED_S = 60.0
_SLICE_S = 0.05
_RESTART_S = (0.01, 1.5)


class Violation(Exception):
    """A promise was broken."""


def run_seed(seed: int) -> dict[str, int]:
    """Run one; return what was counted.

    Raises:
        Violation: a promise was broken.
    """
    rng = Random(f"{seed} founding")
    with VirtualLoop() as loop:
        return _Run(loop, seed, rng).run()


class _Run:
    def __init__(self, loop: VirtualLoop, seed: int, rng: Random) -> None:
        self._loop = loop
        self._rng = rng
        self._nodes = [NodeId(f"n{n}") for n in range(1, rng.choice((3, 3, 3, 5, 1)) + 1)]
        self._checks = FoundingChecks()
        members = founders({node: f"{node}:1" for node in self._nodes})
        self._world = FoundingWorld(loop, seed, members, self._checks)
        self._checks.world = self._world
        self._may_wipe = rng.random() < 0.6
        self._may_lose_power = rng.random() < 0.7
        self._due: dict[NodeId, float] = {}
        if rng.random() < 0.3:
            self._world.delay_s = (0.0002, rng.choice((0.05, 1.0)))
        if rng.random() < 0.4:
            self._world.late_chance = 0.1

    def run(self) -> dict[str, int]:
        """Faults, then healing."""
        loop, rng, world = self._loop, self._rng, self._world
        for node in self._nodes:
            self._due[node] = rng.uniform(0, 2.0)
        end = rng.choice((1.0, 4.0, 12.0))
        while loop.time() < end:
            loop.run_for(rng.uniform(0.005, 0.25))
            self._restart()
            self._fault()
            self._look()
        world.cut.clear()
        world.delay_s, world.late_chance = (0.0002, 0.002), 0.0
        for node in self._nodes:
            world.seats[node].machine.hooks.clear()
            world.seats[node].machine.hooks_after.clear()
        while loop.time() < end + HEALED_S and not self._all_serve():
            loop.run_for(_SLICE_S)
            self._restart()
            self._look()
        self._judge()
        return {**self._checks.counts, "founded": int(self._all_serve())}

    def _fault(self) -> None:
        """Let something go wrong, or nothing."""
        rng, world = self._rng, self._world
        node = rng.choice(self._nodes)
        power = self._may_lose_power and rng.random() < 0.5
        match rng.randrange(8):
            case 0:
                world.kill(node, power)
            case 1:
                self._arm(node, power)
            case 2 if self._may_wipe and rng.random() < 0.5:
                world.kill(node, power)
                world.wipe(node)
            case 3 if len(self._nodes) > 1:
                one, other = rng.sample(self._nodes, 2)
                world.cut ^= {frozenset((one, other))}
            case 4:
                world.cut.clear()

    def _arm(self, node: NodeId, power: bool) -> None:
        """Let a node die at one of its disk's next operations."""
        machine, rng = self._world.seats[node].machine, self._rng
        machine.power = power
        left = rng.randint(0, 25)
        fatal = rng.choice((Crash, Torn))

        def die(operation: str, path: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                disarm()
                raise fatal(f"died at {operation} {path}")

        disarm = machine.arm(die, after=fatal is Crash and rng.random() < 0.5)

    def _restart(self) -> None:
        """Start what is down after a while, as it was told to."""
        world, now = self._world, self._loop.time()
        for node in self._nodes:
            seat = world.seats[node]
            if world.is_up(node):
                continue
            if node not in self._due:
                self._due[node] = now + self._rng.uniform(*_RESTART_S)
            elif self._due[node] <= now:
                del self._due[node]
                says_join = seat.failure is not None and "serve --node" in str(seat.failure)
                seat.mode = Mode.JOIN if says_join else Mode.BOOTSTRAP
                world.start(node)

    def _look(self) -> None:
        if any(not self._world.is_up(node) for node in self._nodes):
            self._checks.count_directories()
        if self._checks.violations:
            raise Violation("; ".join(self._checks.violations))

    def _all_serve(self) -> bool:
        return all(seat.is_serving for seat in self._world.seats.values())

    def _judge(self) -> None:
        """Hold the end against what had happened."""
        world = self._world
        clusters = {each.cluster_id for node in self._nodes if (each := world.identity(node))}
        if self._all_serve():
            if len(clusters) != 1:
                raise Violation(f"all serve, but in {clusters}")
            return
        was_wiped = any(seat.disk > 1 for seat in world.seats.values())
        if not was_wiped:
            raise Violation(f"no disk was lost, but the cluster has not begun: {self._state()}")
        quorum = len(self._nodes) // 2 + 1
        if any(world.serving(cluster) >= quorum for cluster in clusters):
            raise Violation(f"a majority serves, but others are not in: {self._state()}")
        if late := self._checks.unfinished():
            raise Violation(f"{late} could serve, but does not: {self._state()}")
        for node, seat in world.seats.items():
            if not seat.is_serving and seat.failure is None and not seat.waited:
                raise Violation(f"{node} neither serves nor says why: {self._state()}")

    def _state(self) -> str:
        return "; ".join(
            f"{node}: {self._world.identity(node)}, disk {seat.disk}, serves {seat.is_serving}, "
            f"{seat.failure or seat.waited[-1:]}"
            for node, seat in self._world.seats.items()
        )
