"""Disks that lose power, are full, read-only or slow, or fail.

What lives here: these nemeses. What must never live here: how a disk does it
(`chaos.worlds.mounts`, `chaos.worlds.preloaded`). Called by: `chaos.nemeses`.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from random import Random

from chaos.nemeses.kinds import Act, Heal, Nemesis, leader_or_any, restarting
from chaos.worlds.preloaded import Faults
from chaos.worlds.processes import ProcessWorld
from raftbatch.config import tables_of
from raftbatch.realworld import GivenFiles

_POWER = frozenset({"power"})
_DISK = frozenset({"disk"})
_PRELOAD = frozenset({"preload"})

_SYNCS_MAX = 50  # done before the one that fails
_SLOW_NS_MIN, _SLOW_NS_MAX = 20_000_000, 400_000_000  # of each sync: bad disks, and stalled ones

Choose = Callable[[ProcessWorld, Random], Sequence[str]]


def _one(world: ProcessWorld, rng: Random) -> Sequence[str]:
    return [rng.choice(world.nodes)]


def _leader(world: ProcessWorld, rng: Random) -> Sequence[str]:
    return [leader_or_any(world, rng)]


def _majority(world: ProcessWorld, rng: Random) -> Sequence[str]:
    return rng.sample(world.nodes, len(world.nodes) // 2 + 1)


def _all(world: ProcessWorld, rng: Random) -> Sequence[str]:
    return rng.sample(world.nodes, len(world.nodes))


def _lose_power(choose: Choose) -> Act:
    def act(world: ProcessWorld, rng: Random) -> Heal:
        nodes = choose(world, rng)
        world.power_loss(nodes)
        return restarting(world, nodes)

    return act


def _fill(choose: Choose) -> Act:
    def act(world: ProcessWorld, rng: Random) -> Heal:
        nodes = choose(world, rng)
        for node in nodes:
            world.disks[node].fill()

        def heal() -> None:
            for node in nodes:
                world.disks[node].free()  # and that is enough: nobody has to start it again

        return heal

    return act


def _lower(world: ProcessWorld, rng: Random) -> Heal:
    """Leave so much on every disk that nothing new is admitted, and what is there can end."""
    storage = tables_of(GivenFiles(), str(world.config))["storage"]
    left = (storage["disk_low_bytes"] + storage["disk_reserve_bytes"]) // 2
    for node in world.nodes:
        world.disks[node].fill(left)

    def heal() -> None:
        for node in world.nodes:
            world.disks[node].free()

    return heal


def _set_read_only(world: ProcessWorld, rng: Random) -> Heal:
    """Make a disk read-only, as kernels do that see an error; a node on it cannot go on."""
    [node] = _one(world, rng)
    world.disks[node].set_read_only()
    is_healed = False

    def heal() -> None:
        nonlocal is_healed
        if not is_healed:
            is_healed = True
            world.renew(node)
        world.restart(node)

    return heal


def _break_syncs(choose: Choose, draw: Callable[[Random], Faults]) -> Act:
    def act(world: ProcessWorld, rng: Random) -> Heal:
        nodes = choose(world, rng)
        for node in nodes:
            world.preloads[node].tell(draw(rng))

        def heal() -> None:
            for node in nodes:
                was = world.preloads[node].told()
                world.preloads[node].tell(Faults())
                if was.sync_skip < 0 and (was.sync_errno or was.sync_kills):
                    world.kill(node)  # it is about to end, if it has not yet
                world.restart(node)

        return heal

    return act


def _slow(rng: Random) -> Faults:
    return Faults(sync_delay_ns=rng.randint(_SLOW_NS_MIN, _SLOW_NS_MAX))


def _failing(rng: Random) -> Faults:
    return Faults(sync_errno=errno.EIO, sync_skip=rng.randint(0, _SYNCS_MAX))


def _deadly(rng: Random) -> Faults:
    return Faults(sync_kills=1, sync_skip=rng.randint(0, _SYNCS_MAX))


DISKS = (
    Nemesis("power-loss", "cut the power of a node and its disk", _lose_power(_one), _POWER),
    Nemesis("power-loss-leader", "cut the power of the leader", _lose_power(_leader), _POWER),
    Nemesis("power-loss-majority", "cut it of a majority at once", _lose_power(_majority), _POWER),
    Nemesis("power-loss-all", "cut it of all nodes at once", _lose_power(_all), _POWER),
    Nemesis("fill-disk", "leave no space on a node's disk", _fill(_one), _DISK),
    Nemesis("fill-disk-leader", "leave no space on the leader's disk", _fill(_leader), _DISK),
    Nemesis("fill-disk-all", "leave no space on any disk", _fill(_all), _DISK),
    Nemesis("low-disk-all", "leave little space on all disks: nothing new fits", _lower, _DISK),
    Nemesis("read-only-disk", "a node's disk refuses all writing", _set_read_only, _POWER),
    Nemesis("slow-fsync", "a node's syncs take long", _break_syncs(_one, _slow), _PRELOAD),
    Nemesis("slow-fsync-leader", "the leader's do", _break_syncs(_leader, _slow), _PRELOAD),
    Nemesis("slow-fsync-all", "all nodes' do", _break_syncs(_all, _slow), _PRELOAD),
    Nemesis("fail-fsync", "a node's syncs fail with EIO", _break_syncs(_one, _failing), _PRELOAD),
    Nemesis(
        "kill-in-fsync", "kill a node in place of a sync", _break_syncs(_one, _deadly), _PRELOAD
    ),
)
