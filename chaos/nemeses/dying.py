"""Processes that die, stand still, or are stopped in turn.

What lives here: these nemeses. What must never live here: signals (`chaos.worlds.started`).
Called by: `chaos.nemeses`.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from chaos.nemeses.kinds import Act, Heal, Nemesis, follower, leader_or_any, restarting
from chaos.worlds.processes import ProcessWorld

_READY_S = 60.0  # for a cluster of which all but one member ran to be whole again

Choose = Callable[[ProcessWorld, Random], str]


def _executor(world: ProcessWorld, rng: Random) -> str:
    return rng.choice(world.executors)


def _kill(choose: Choose) -> Act:
    def act(world: ProcessWorld, rng: Random) -> Heal:
        name = choose(world, rng)
        world.kill(name)
        return restarting(world, [name])

    return act


def _pause(choose: Choose) -> Act:
    def act(world: ProcessWorld, rng: Random) -> Heal:
        name = choose(world, rng)
        world.pause(name)
        return lambda: world.resume(name)

    return act


def _kill_all_nodes(world: ProcessWorld, rng: Random) -> Heal:
    order = rng.sample(world.nodes, len(world.nodes))
    for node in order:
        world.kill(node)
    return restarting(world, order)


def _kill_all_executors(world: ProcessWorld, rng: Random) -> Heal:
    order = rng.sample(world.executors, len(world.executors))
    for executor in order:
        world.kill(executor)
    return restarting(world, order)


def _roll(world: ProcessWorld, rng: Random) -> Heal:
    """Stop each process in good order and start it again, each after the one before is back."""
    order = [*rng.sample(world.nodes, len(world.nodes)), *world.executors]
    for name in order:
        world.terminate(name)
        world.restart(name)
        world.wait_ready(_READY_S)
    return restarting(world, order)


DYING = (
    Nemesis("kill-leader", "SIGKILL the node that leads", _kill(leader_or_any)),
    Nemesis("kill-follower", "SIGKILL a node that does not lead", _kill(follower)),
    Nemesis("kill-all", "SIGKILL all nodes, one right after the other", _kill_all_nodes),
    Nemesis("kill-executor", "SIGKILL an executor", _kill(_executor)),
    Nemesis("kill-executors", "SIGKILL all executors", _kill_all_executors),
    Nemesis("pause-leader", "SIGSTOP the node that leads", _pause(leader_or_any)),
    Nemesis("pause-follower", "SIGSTOP a node that does not lead", _pause(follower)),
    Nemesis("pause-executor", "SIGSTOP an executor and its model", _pause(_executor)),
    Nemesis("restart-rolling", "stop and start every process in turn, in good order", _roll),
)
