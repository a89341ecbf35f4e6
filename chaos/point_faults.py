"""Deaths at named points: the moments that drawn ones seldom hit.

A node dies at any operation of its disk, or around any send, but most operations are
of the journal, and most sends are appends: few nodes die while a snapshot gets its
name, or between a vote and its answer. Here the point is drawn first, each as often
as any other, and the node that comes there first dies, however long that takes.

What lives here: that fault, and its schedule. What must never live here: the points
(`chaos.worlds.points`). Called by: `chaos.suites.raft`, directed tests.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

from chaos.faults import Site
from chaos.worlds.ends import Heal
from chaos.worlds.hooks import Crash, Torn
from chaos.worlds.points import POINTS, disk_point, send_point
from chaos.worlds.sim import Machine
from raftbatch.ids import NodeId

_RATE = 1.5  # a second
_COMES_MAX = 3  # to the point, before it dies there


class PointNemesis:
    """Lets nodes die at named points until it is told to end; others start them again.

    Args:
        site: the victim; its `rng` is this nemesis's own.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        self._armed: list[Heal] = []
        self._has_ended = False

    def begin(self) -> None:
        """Strike from now on."""
        self._strike_later()

    def end(self) -> None:
        """Strike no more."""
        self._has_ended = True
        for heal in self._armed:
            heal()

    def _strike_later(self) -> None:
        site = self._site
        site.cluster.loop.after(site.rng.expovariate(_RATE), self._strike)

    def _strike(self) -> None:
        if self._has_ended:
            return
        self._armed.append(crash_at_point(self._site, self._site.rng.choice(POINTS)))
        self._strike_later()


def crash_at_point(site: Site, point: str) -> Heal:
    """Let the node die that comes to a point first, or a little later."""
    left = site.rng.randint(1, _COMES_MAX)
    when = point.rpartition(" ")[2]
    power = site.draws_power()
    heals: list[Heal] = []

    def heal() -> None:
        for each in heals:
            each()

    def comes(machine: Machine, found: str) -> bool:
        nonlocal left
        if found != point or left == 0:
            return False
        left -= 1
        if left == 0:
            machine.power = power
        return left == 0

    for node in site.nodes:
        machine = site.cluster.machines[node]
        if point.startswith("send."):
            heals.append(_arm_sends(site, node, partial(comes, machine)))
        else:
            heals.append(_arm_disk(machine, when, partial(comes, machine)))
    return heal


def _arm_disk(machine: Machine, when: str, comes: Callable[[str], bool]) -> Heal:
    def operates(operation: str, path: str) -> None:
        if comes(point := disk_point(operation, path, when)):
            raise (Torn if when == "within" else Crash)(point)

    return machine.arm(operates, after=when == "after")


def _arm_sends(site: Site, node: NodeId, comes: Callable[[str], bool]) -> Heal:
    machine, hooks = site.cluster.machines[node], site.cluster.links.send_hooks
    earlier = hooks.get(node)

    def sends(moment: Literal["before", "after"], peer: NodeId, message: object) -> None:
        if earlier is not None:
            earlier(moment, peer, message)
        if comes(point := send_point(message, moment)) and machine.node is not None:
            machine.points[point] += 1
            machine.node.exit(f"{point}, to {peer}")

    hooks[node] = sends

    def heal() -> None:
        if hooks.get(node) is sends:
            del hooks[node]

    return heal
