"""Wall clocks that err, and memory that runs out.

What lives here: these nemeses. What must never live here: how it is done
(`chaos.worlds.preloaded`, `chaos.worlds.groups`). Called by: `chaos.nemeses`.
"""

from __future__ import annotations

from random import Random

from chaos.nemeses.kinds import Heal, Nemesis, leader_or_any
from chaos.worlds.preloaded import Faults
from chaos.worlds.processes import ProcessWorld

_PRELOAD = frozenset({"preload"})
_MEMORY = frozenset({"memory"})

_JUMPS_S = (-86_400.0, -3_600.0, -30.0, -1.0, 1.0, 30.0, 3_600.0, 86_400.0)
_PPM_MAX = 1_000_000  # twice as fast; half a million slower is half as fast
_EXECUTOR_BYTES = 32 << 20  # beside what it has: its model can run, and not eat
_NODE_BYTES = 8 << 20  # beside what it has: soon gone under load


def _right(world: ProcessWorld, names: list[str]) -> Heal:
    def heal() -> None:
        for name in names:
            world.preloads[name].tell(Faults())

    return heal


def _jump(world: ProcessWorld, rng: Random) -> Heal:
    """Set the clocks of some nodes and executors wrong, the leader's among them."""
    names = [leader_or_any(world, rng)]
    names += [name for name in world.everyone if name not in names and rng.random() < 0.5]
    for name in names:
        ahead_ns = int(rng.choice(_JUMPS_S) * 1e9)
        world.preloads[name].tell(Faults(clock_ahead_ns=ahead_ns))
    return _right(world, names)


def _drift(world: ProcessWorld, rng: Random) -> Heal:
    """Let every clock go at a rate of its own, from half to twice."""
    for name in world.everyone:
        world.preloads[name].drift(rng.randint(-_PPM_MAX // 2, _PPM_MAX))
    return _right(world, list(world.everyone))


def _limit_executor(world: ProcessWorld, rng: Random) -> Heal:
    return _limited(world, rng.choice(world.executors), _EXECUTOR_BYTES)


def _limit_node(world: ProcessWorld, rng: Random) -> Heal:
    return _limited(world, rng.choice(world.nodes), _NODE_BYTES)


def _limited(world: ProcessWorld, name: str, limit_bytes: int) -> Heal:
    lift = world.limit_memory(name, limit_bytes)

    def heal() -> None:
        lift()
        world.restart(name)

    return heal


MACHINES = (
    Nemesis("clock-jump", "set wall clocks wrong, by seconds to a day", _jump, _PRELOAD),
    Nemesis("clock-rate", "let every wall clock go at its own rate", _drift, _PRELOAD),
    Nemesis("low-memory-executor", "give an executor little more memory", _limit_executor, _MEMORY),
    Nemesis("low-memory-node", "give a node little more memory", _limit_node, _MEMORY),
)
