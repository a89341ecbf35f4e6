"""Networks that are cut, slow or lossy.

What lives here: these nemeses. What must never live here: frames (`chaos.worlds.switch`). Called
by: `chaos.nemeses`.

Executors are on the network too. What a nemesis heals are the links that it changed: it leaves
another one's faults alone unless both changed the same link, which is then as in the beginning.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from itertools import combinations
from random import Random

from chaos.nemeses.kinds import Heal, Nemesis, follower, leader_or_any
from chaos.worlds.fabric import Fabric
from chaos.worlds.processes import ProcessWorld

_NEEDS = frozenset({"network"})
_LOSS = 0.05
_DELAY_S, _JITTER_S = 0.03, 0.04
_NARROW_BYTES_PER_S = 2_000_000
_DEPOSED_S = 60.0  # for another to lead, while the rest hears each other
_LOOK_S = 0.1


def _fabric(world: ProcessWorld) -> Fabric:
    if world.fabric is None:
        raise ValueError("this world has no network of its own")
    return world.fabric


def _healing(fabric: Fabric, pairs: Iterable[tuple[str, str]]) -> Heal:
    changed = frozenset(pairs)
    return lambda: fabric.heal(changed)


def _across(*groups: Sequence[str]) -> list[tuple[str, str]]:
    """Return the links between members of different groups, each both ways."""
    return [
        pair
        for mine, others in combinations(groups, 2)
        for a in mine
        for b in others
        for pair in ((a, b), (b, a))
    ]


def _partition(world: ProcessWorld, rng: Random) -> Heal:
    """Split all into two, drawn: the smaller part has one node, or with five nodes two."""
    fabric = _fabric(world)
    nodes = rng.sample(world.nodes, len(world.nodes))
    few = rng.randint(1, max(1, (len(nodes) - 1) // 2))
    executors = [rng.random() < 0.5 for _ in world.executors]
    drawn = list(zip(world.executors, executors, strict=True))
    drawn += [(name, rng.random() < 0.5) for name in world.places if name not in world.everyone]
    minority = [*nodes[:few], *(name for name, is_there in drawn if is_there)]
    majority = [*nodes[few:], *(name for name, is_there in drawn if not is_there)]
    fabric.split(minority, majority)
    return _healing(fabric, _across(minority, majority))


def _one_way(world: ProcessWorld, rng: Random) -> Heal:
    """Cut one direction between two nodes, one of which leads."""
    fabric = _fabric(world)
    leader = leader_or_any(world, rng)
    other = rng.choice([node for node in world.nodes if node != leader])
    pair = (leader, other) if rng.random() < 0.5 else (other, leader)
    fabric.cut(*pair, one_way=True)
    return _healing(fabric, [pair])


def _isolate(world: ProcessWorld, node: str, *, hears: bool = False, speaks: bool = False) -> Heal:
    fabric = _fabric(world)
    fabric.isolate(node, hears=hears, speaks=speaks)
    return _healing(fabric, _across([node], [each for each in world.places if each != node]))


def _isolate_leader(world: ProcessWorld, rng: Random) -> Heal:
    return _isolate(world, leader_or_any(world, rng))


def _depose_leader(world: ProcessWorld, rng: Random) -> Heal:
    """Cut the leader off until another one leads, so that something has replaced what it wrote.

    An isolation of drawn length may be over before, on a machine that is busy: then nothing of
    what its leader did is ever lost.
    """
    leader = leader_or_any(world, rng)
    heal = _isolate(world, leader)
    is_deposed = False

    def heal_once_deposed() -> None:
        nonlocal is_deposed
        end_s = time.monotonic() + _DEPOSED_S
        while not is_deposed and time.monotonic() < end_s:
            is_deposed = world.leader() not in (None, leader)
            time.sleep(_LOOK_S)
        is_deposed = True  # or it is not to be: healed again, it may well lead again
        heal()

    return heal_once_deposed


def _isolate_follower(world: ProcessWorld, rng: Random) -> Heal:
    return _isolate(world, follower(world, rng))


def _deafen_leader(world: ProcessWorld, rng: Random) -> Heal:
    """Let the leader speak and not hear, or hear and not speak."""
    hears = rng.random() < 0.5
    return _isolate(world, leader_or_any(world, rng), hears=hears, speaks=not hears)


def _isolate_executor(world: ProcessWorld, rng: Random) -> Heal:
    return _isolate(world, rng.choice(world.executors))


def _scatter(world: ProcessWorld, rng: Random) -> Heal:
    fabric = _fabric(world)
    groups = [[name] for name in world.places]
    fabric.split(*groups)
    return _healing(fabric, _across(*groups))


def _slow(world: ProcessWorld, rng: Random) -> Heal:
    """Delay all links, and make those of one node narrow."""
    fabric = _fabric(world)
    pairs = list(combinations(world.places, 2))
    narrow = rng.choice(world.nodes)
    for a, b in pairs:
        rate = _NARROW_BYTES_PER_S if narrow in (a, b) else 0
        delay_s = rng.random() * _DELAY_S
        fabric.slow(a, b, delay_s=delay_s, jitter_s=_JITTER_S, bytes_per_s=rate)
    return _healing(fabric, [pair for a, b in pairs for pair in ((a, b), (b, a))])


def _lose(world: ProcessWorld, rng: Random) -> Heal:
    fabric = _fabric(world)
    pairs = list(combinations(world.places, 2))
    for a, b in pairs:
        fabric.lossy(a, b, loss=rng.random() * _LOSS, duplicate=rng.random() * _LOSS)
    return _healing(fabric, [pair for a, b in pairs for pair in ((a, b), (b, a))])


NETWORKS = (
    Nemesis("partition", "cut nodes and executors into two parts", _partition, _NEEDS),
    Nemesis("one-way", "cut one direction between the leader and a node", _one_way, _NEEDS),
    Nemesis("isolate-leader", "cut the leader off from everyone", _isolate_leader, _NEEDS),
    Nemesis("depose-leader", "cut the leader off until another leads", _depose_leader, _NEEDS),
    Nemesis("isolate-follower", "cut a follower off from everyone", _isolate_follower, _NEEDS),
    Nemesis("half-deaf-leader", "the leader only speaks, or only hears", _deafen_leader, _NEEDS),
    Nemesis("isolate-executor", "cut an executor off from everyone", _isolate_executor, _NEEDS),
    Nemesis("scatter", "cut everyone off from everyone", _scatter, _NEEDS),
    Nemesis("slow-net", "delay all links, and make one node's narrow", _slow, _NEEDS),
    Nemesis("lossy-net", "lose and double a few of a hundred frames", _lose, _NEEDS),
)
