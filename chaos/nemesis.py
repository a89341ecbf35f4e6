"""The nemesis: which faults strike a simulated cluster, when, and that all end at last.

    nemesis = Nemesis(cluster, leader, Mix.draw(rng), rng)
    nemesis.begin()                # the safety phase
    loop.run_for(14.0)
    nemesis.heal()                 # the liveness phase: nothing strikes any more
    loop.run_for(12.0)

Swarm: each seed draws a mix of its own, which leaves most faults out, so that what
one fault hides another seed shows.

What lives here: the mix, and the schedule. What must never live here: the faults
themselves (`chaos.faults`). Called by: suites.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random

from chaos import faults
from chaos.faults import Action, Cluster, Site
from chaos.worlds.ends import Heal, LinkOptions
from chaos.worlds.threads import Speed
from raftbatch.ids import NodeId

ACTIONS: dict[str, tuple[Action, int]] = {
    "kill": (faults.kill, 3),
    "kill_leader": (faults.kill_leader, 3),
    "kill_follower": (faults.kill_follower, 1),
    "kill_all": (faults.kill_all, 1),
    "pause": (faults.pause, 3),
    "pause_all": (faults.pause_all, 1),
    "break_link": (faults.break_link, 4),
    "one_way": (faults.one_way, 3),
    "cut_two": (faults.cut_two, 2),
    "isolate": (faults.isolate, 3),
    "split": (faults.split, 3),
    "swizzle": (faults.swizzle, 1),
    "slow_link": (faults.slow_link, 2),
    "slow_disk": (faults.slow_disk, 2),
    "fail_sync": (faults.fail_sync, 2),
    "fill_disk": (faults.fill_disk, 2),
    "crash_at_operation": (faults.crash_at_operation, 4),
    "crash_at_send": (faults.crash_at_send, 4),
    "jump_clock": (faults.jump_clock, 1),
    "bend_clock": (faults.bend_clock, 1),
}
"""Every fault that any seed may draw, and how often it strikes beside the others."""

_OF_TWO = ("kill_follower", "break_link", "one_way", "cut_two", "isolate", "split", "swizzle")
"""Faults that need another node."""

_REFUSED_RETRY_S = 1.0  # an operator, or systemd, tries again
_SPAN = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Mix:
    """What one seed's nemesis is like.

    Args:
        weights: how often each fault strikes beside the others; names of `ACTIONS`, or `rot`.
        rate: faults a second.
        durations_s: ranges from which a fault's duration is drawn, after one of them is.
        restart_s: how long a node that died stays down.
        power: chance that a death takes the power along.
        timers_first: chance that a paused process wakes to its timers first.
        links: how links behave while faults strike.
        speed: of healthy disks.
    """

    weights: dict[str, int]
    rate: float = 1.2
    durations_s: tuple[_SPAN, ...] = ((0.1, 1.0), (0.5, 3.3), (2.0, 6.0))
    restart_s: _SPAN = (0.1, 3.0)
    power: float = 0.5
    timers_first: float = 0.2
    links: LinkOptions = field(default_factory=LinkOptions)
    speed: Speed = field(default_factory=Speed)

    @classmethod
    def draw(cls, rng: Random, *, rotting: bool = False, beyond: bool = False) -> Mix:
        """Draw a mix.

        Args:
            rng: all is drawn from it.
            rotting: disks may rot too.
            beyond: links may break their contract: messages may be lost, come
                twice, out of order, or after their connection was replaced.
        """
        share = rng.choice((0.25, 0.5, 0.8))
        weights = {name: each for name, (_, each) in ACTIONS.items() if rng.random() < share}
        if rotting:
            weights["rot"] = 2
        slowest_s = rng.choice((0.0005, 0.002, 0.02))
        links = LinkOptions(
            delay_s=(0.0001, slowest_s),
            bulk_s=(0.0, rng.choice((0.0, 0.0, 0.05, 1.0))),
            notice_s=(0.0, rng.choice((0.001, 0.005, 0.2))),
            connect_s=rng.choice(((0.001, 0.02), (0.01, 0.3))),
            timeout_s=rng.choice((0.8, 3.5)),
            reset_chance=rng.choice((0.0, 0.5, 1.0)),
        )
        if beyond:
            chances = (0.0, 0.02, 0.2)
            links = replace(
                links,
                stale=rng.choice((0.0, 0.5)),
                loss=rng.choice(chances),
                duplicate=rng.choice(chances),
                reorder=rng.choice(chances),
            )
        return cls(
            weights=weights or {"kill": 1},
            rate=rng.choice((0.4, 1.2, 3.0, 6.0)),
            restart_s=rng.choice(((0.001, 0.05), (0.01, 0.5), (0.1, 3.0))),
            power=rng.choice((0.0, 0.5, 1.0)),
            timers_first=rng.choice((0.0, 0.5)),
            links=links,
            speed=Speed(
                usual_s=rng.choice(((0.0001, 0.001), (0.0005, 0.005), (0.005, 0.05))),
                slow_chance=rng.choice((0.0, 0.01, 0.1)),
            ),
        )


class Nemesis:
    """Strikes until it is told to heal.

    Args:
        cluster: the victim.
        leader: who leads, as far as anybody can tell.
        mix: what strikes.
        rng: draws when and where.

    Attributes:
        counts: how often each fault has struck.
        site: what the faults work on.
    """

    def __init__(
        self, cluster: Cluster, leader: Callable[[], NodeId | None], mix: Mix, rng: Random
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.site = Site(cluster, rng, leader, mix.power, mix.timers_first, mix.speed)
        self._cluster = cluster
        self._mix = mix
        self._rng = rng
        self._lasting: dict[int, Heal] = {}
        self._struck = 0
        self._is_healed = False

    def begin(self) -> None:
        """Let faults strike from now on, and nodes that die be started again."""
        cluster, mix = self._cluster, self._mix
        cluster.deaths.append(self._has_died)
        cluster.links.options = mix.links
        for node in cluster.nodes:
            cluster.machines[node].speed = mix.speed
        self._strike_later()

    def heal(self) -> None:
        """End all faults, and start all nodes that are down."""
        self._is_healed = True
        cluster = self._cluster
        for number in list(self._lasting):
            self._end(number)
        cluster.links.send_hooks.clear()
        cluster.links.options = replace(
            self._mix.links, bulk_s=(0.0, 0.0), stale=0.0, loss=0.0, duplicate=0.0, reorder=0.0
        )
        cluster.links.heal()
        for node in cluster.nodes:
            machine = cluster.machines[node]
            machine.hooks.clear()
            machine.hooks_after.clear()
            machine.power = False
            machine.speed = Speed()
            machine.wall.run_at(1.0)
            cluster.resume(node)
            self._start(node)

    def strike(self, name: str) -> None:
        """Let one fault strike now, and end after its time."""
        action = faults.rot if name == "rot" else ACTIONS[name][0]
        self.counts[name] += 1
        heal = action(self.site)
        if heal is not None:
            self._struck += 1
            self._lasting[self._struck] = heal
            duration_s = self._rng.uniform(*self._rng.choice(self._mix.durations_s))
            self._cluster.loop.after(duration_s, self._end, self._struck)

    def _strike_later(self) -> None:
        self._cluster.loop.after(self._rng.expovariate(self._mix.rate), self._strike_one)

    def _strike_one(self) -> None:
        if not self._is_healed:
            names = list(self._mix.weights)
            name = self._rng.choices(names, list(self._mix.weights.values()))[0]
            if len(self._cluster.nodes) > 1 or name not in _OF_TWO:
                self.strike(name)
            self._strike_later()

    def _end(self, number: int) -> None:
        heal = self._lasting.pop(number, None)
        if heal is not None:
            heal()

    def _has_died(self, node: NodeId, why: str) -> None:
        """Start it again in a while, also when all is healed: it may have died of an old fault."""
        refused = node in self._cluster.refused
        delay_s = _REFUSED_RETRY_S if refused else self._rng.uniform(*self._mix.restart_s)
        self._cluster.loop.after(delay_s, self._start, node)

    def _start(self, node: NodeId) -> None:
        if not self._cluster.is_up(node) and self._cluster.start(node):
            self.site.starts[node] = self.site.starts.get(node, 0) + 1
