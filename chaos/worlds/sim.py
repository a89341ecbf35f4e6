"""A machine of the simulated cluster, and the worlds of the processes that live on it.

A machine has a disk and a wall clock, which survive; each process on it has a
world of its own, `SimNode`, which dies with it. A death comes to the world first:
from then on its files raise `Crash`, its workers run and report nothing, its
callbacks and timers are dropped; the tasks are disposed of when the run is over,
so that no `finally` can write.

What lives here: `Machine`, `SimNode` (a `raftbatch.world.World`) and its files.
What must never live here: messages (`chaos.worlds.links`), the product. Called
by: `chaos.worlds.cluster`, tests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import NoReturn, ParamSpec, TypeVar

from chaos.worlds.clocks import SimClock, WallClock
from chaos.worlds.disk import SimDisk, SimFile, SimLock
from chaos.worlds.hooks import Crash, Hook, Torn
from chaos.worlds.loop import VirtualLoop
from chaos.worlds.points import disk_point
from chaos.worlds.stepped import SeededEntropy
from chaos.worlds.threads import SimWorkers, Speed
from raftbatch.world import Network, OpenMode

T = TypeVar("T")
P = ParamSpec("P")

_PARTIAL_OPERATIONS_MAX = 8  # of the disk; a group of the journal takes five, a new segment nine


Burial = Callable[["SimNode", str, bool], None]
"""Told which process has died, why, and whether the power went too."""


class Machine:
    """What stays when a process dies.

    Args:
        loop: of the run.
        seed: all that is left to chance on this machine is drawn from it.
        name: of the node that lives here; each machine's draws are its own.
        on_death: told after each death; runs as the harness.

    Attributes:
        disk: what was written. Its hooks are this class's: use `hooks`.
        wall: the wall clock.
        speed: of the disk; may be replaced at any time.
        hooks: asked before each operation of the disk; one that raises `Crash` kills the process.
        hooks_after: asked after each operation that succeeded.
        power: whether a death by a hook, or by the process's own doing, takes the power along.
        node: the process that lives, if one does.
        lives: how many began.
        points: at which points (`chaos.worlds.points`) how many have died.
    """

    def __init__(self, loop: VirtualLoop, seed: int, name: str, on_death: Burial) -> None:
        self.loop = loop
        self.name = name
        self.disk = self._new_disk(Random(f"{seed} {name} disk"))
        self.wall = WallClock(loop, Random(f"{seed} {name} wall"))
        self.speed = Speed()
        self.hooks: list[Hook] = []
        self.hooks_after: list[Hook] = []
        self.power = False
        self.node: SimNode | None = None
        self.lives = 0
        self.points: Counter[str] = Counter()
        self._seed = seed
        self._rng = Random(f"{seed} {name} machine")
        self._on_death = on_death

    def boot(self) -> SimNode:
        """Begin a process; the one before must be dead."""
        if self.node is not None:
            assert not self.node.alive, f"{self.name} lives"
            self._bury(self.node, self.power, "died")  # at this very instant
        self.lives += 1
        self.node = SimNode(self, f"{self._seed} {self.name} {self.lives}")
        return self.node

    def kill(self, power: bool) -> None:
        """End the process from outside, in the midst of whatever its threads do.

        The power may also go while no process lives: the cache is lost then.
        """
        node = self.node
        if node is None:
            if power:
                self.disk.crash(power=True)
            return
        if node.alive:
            self._leave_jobs_half_done(node)
        node.die()
        self._bury(node, power, "power lost" if power else "killed")

    def wipe(self) -> None:
        """Put an empty disk into a machine on which no process lives."""
        assert self.node is None, f"{self.name} lives"
        self.disk = self._new_disk(Random(f"{self._seed} {self.name} disk {self.lives}"))

    def arm(self, hook: Hook, *, after: bool = False) -> Callable[[], None]:
        """Add a hook of the disk; return what takes it away again."""
        hooks = self.hooks_after if after else self.hooks
        hooks.append(hook)

        def disarm() -> None:
            if hook in hooks:
                hooks.remove(hook)

        return disarm

    def died(self, node: SimNode, why: str) -> None:
        """Take note that a process has died in the midst of a callback; bury it after that."""
        if node.alive:
            node.die()
            self.loop.after(0, self._bury, node, self.power, why)

    def _new_disk(self, rng: Random) -> SimDisk:
        disk = SimDisk(rng)
        disk.fault = self._before
        disk.fault_after = self._after
        return disk

    def _bury(self, node: SimNode, power: bool, why: str) -> None:
        if self.node is node:
            self.node = None
            self.disk.crash(power)
            self._on_death(node, why, power)

    def _leave_jobs_half_done(self, node: SimNode) -> None:
        """Let each thread get somewhere in its job, or nowhere, before the end."""
        for worker in node.workers.started:
            if not worker.is_busy:
                continue
            left = self._rng.randint(0, _PARTIAL_OPERATIONS_MAX)
            fatal: type[Crash] = self._rng.choice((Crash, Torn))

            def stop(operation: str, path: str, fatal: type[Crash] = fatal) -> None:
                nonlocal left
                left -= 1
                if left < 0:
                    raise fatal(f"killed at {operation} {path}")

            disarm = self.arm(stop)
            worker.run_now()
            disarm()
            if not node.alive:
                return

    def _before(self, operation: str, path: str) -> None:
        self._ask("before", self.hooks, operation, path)

    def _after(self, operation: str, path: str) -> None:
        self._ask("after", self.hooks_after, operation, path)

    def _ask(self, when: str, hooks: list[Hook], operation: str, path: str) -> None:
        try:
            for hook in list(hooks):
                hook(operation, path)
        except Crash as crash:
            moment = "within" if isinstance(crash, Torn) else when
            self.points[disk_point(operation, path, moment)] += 1
            if self.node is not None:
                self.died(self.node, str(crash))
            raise


class SimNode:
    """The world of one process: a `raftbatch.world.World`, and the handle to the process.

    Attributes:
        process: whom its callbacks and tasks belong to.
        machine: where it lives.
        clock, entropy, files, workers: the ports.
    """

    def __init__(self, machine: Machine, seed: str) -> None:
        loop = machine.loop
        self.machine = machine
        self.process = loop.spawn(f"{machine.name}.{machine.lives}")
        self.clock = SimClock(loop, Random(f"{seed} clock"), machine.wall)
        self.entropy = SeededEntropy(Random(f"{seed} entropy"))
        self.files = SimFiles(self)
        self.workers = SimWorkers(
            loop, self.process, Random(f"{seed} workers"), lambda: machine.speed
        )

    @property
    def network(self) -> Network:
        """None: nodes talk through `chaos.worlds.links`, in messages rather than bytes."""
        raise NotImplementedError("a simulated node has links, not a network of bytes")

    @property
    def alive(self) -> bool:
        """Whether it has not died."""
        return self.process.alive

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Call a function at once as the process; return None where the process died of it.

        For the harness, whose own callback must survive that. The process must be
        alive, and not paused.
        """
        try:
            return self.process.call(function, *args, **kwargs)
        except Crash:
            if self.alive:
                raise
            return None

    def exit(self, why: str) -> NoReturn:
        """End the process by its own doing, as `os._exit` does: nothing of it runs after this.

        Raises:
            Crash: always, to leave the callback that runs.
        """
        self.machine.died(self, why)
        raise Crash(why)

    def die(self) -> None:
        """Cut it off from the world. The machine's part: use `Machine.kill` or `exit`."""
        self.process.kill()
        self.machine.disk.dead = True


class SimFiles:
    """The machine's disk as one process may use it: not at all once it is dead."""

    def __init__(self, node: SimNode) -> None:
        self._node = node
        self._disk = node.machine.disk

    @property
    def _living(self) -> SimDisk:
        if not self._node.alive:
            raise Crash(f"{self._node.process.name} is dead")
        return self._disk

    def open(self, path: str, mode: OpenMode) -> SimFile:
        """Open a file; its descriptor dies with the process."""
        return self._living.open(path, mode)

    def exists(self, path: str) -> bool:
        """Return whether the name is there."""
        return self._living.exists(path)

    def list(self, path: str) -> list[str]:
        """Return the sorted names."""
        return self._living.list(path)

    def make_directory(self, path: str) -> None:
        """Create what is missing."""
        self._living.make_directory(path)

    def rename(self, source: str, target: str) -> None:
        """Rename a file."""
        self._living.rename(source, target)

    def remove(self, path: str) -> None:
        """Take a name away."""
        self._living.remove(path)

    def sync_directory(self, path: str) -> None:
        """Make a directory's names durable."""
        self._living.sync_directory(path)

    def space_left(self, path: str) -> int:
        """Return the bytes that may still be written."""
        return self._living.space_left(path)

    def lock(self, path: str) -> SimLock:
        """Claim a path for the process."""
        return self._living.lock(path)
