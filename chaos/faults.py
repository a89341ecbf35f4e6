"""What a nemesis can do to a simulated cluster: one function a fault.

Each takes the `Site` and does its worst at once; what it returns ends the fault,
or it returns None where nothing is to be ended. Faults compose: any may strike
while any others last. A node that dies of one is restarted by the nemesis.

What lives here: the faults. What must never live here: when they strike, and
which (`chaos.nemesis`). Called by: `chaos.nemesis`, directed tests.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Literal, Protocol

from chaos.worlds import cuts
from chaos.worlds.content import Inode
from chaos.worlds.ends import Heal, Pair
from chaos.worlds.hooks import Crash, Fault, Faults, Torn
from chaos.worlds.links import Links
from chaos.worlds.loop import VirtualLoop
from chaos.worlds.names import Directory
from chaos.worlds.points import send_point
from chaos.worlds.sim import Machine
from chaos.worlds.threads import Speed
from raftbatch.errors import Fatal
from raftbatch.ids import NodeId
from raftbatch.world import join

_OPERATIONS_MAX = 60  # a group of the journal takes five, an installed snapshot some forty
_SENDS_MAX = 40  # an election among five takes some twenty
_SYNCS_MAX = 10
_JUMPS_MS = (-3_600_000, -60_000, -1_000, 1_000, 60_000, 3_600_000)
_SPACES_BYTES = (0, 2_000, 40_000, 400_000)  # below, about and above the limits small journals have


class Cluster(Protocol):
    """A cluster as a nemesis sees it; `chaos.worlds.cluster.SimCluster` is one."""

    @property
    def loop(self) -> VirtualLoop:
        """Time."""
        ...

    @property
    def nodes(self) -> Sequence[NodeId]:
        """Who there is."""
        ...

    @property
    def machines(self) -> Mapping[NodeId, Machine]:
        """Disks and clocks."""
        ...

    @property
    def links(self) -> Links:
        """Connections."""
        ...

    @property
    def refused(self) -> Mapping[NodeId, Fatal]:
        """Who refused to start, and why."""
        ...

    @property
    def deaths(self) -> list[Callable[[NodeId, str], None]]:
        """Whom to tell of each death."""
        ...

    def is_up(self, node: NodeId) -> bool:
        """Whether a process lives there."""
        ...

    def start(self, node: NodeId) -> bool:
        """Start a node that is down; return whether it is up then."""
        ...

    def kill(self, node: NodeId, power: bool) -> None:
        """End a node's process, or its machine's power."""
        ...

    def pause(self, node: NodeId) -> None:
        """Let a node stand still."""
        ...

    def resume(self, node: NodeId, *, timers_first: bool = False) -> None:
        """Let it go on."""
        ...


@dataclass(slots=True)
class Site:
    """What a fault works on and draws from.

    Attributes:
        cluster: the victim.
        rng: the nemesis's own.
        leader: who leads, as far as anybody can tell.
        power: chance that a death takes the power along.
        timers_first: chance that a process wakes to its timers first.
        speed: of a healthy disk.
        starts: how often each node came up; kept by the nemesis.
        rotten: nodes whose disks were damaged and may not have been mended.
    """

    cluster: Cluster
    rng: Random
    leader: Callable[[], NodeId | None]
    power: float = 0.5
    timers_first: float = 0.2
    speed: Speed = field(default_factory=Speed)
    starts: dict[NodeId, int] = field(default_factory=dict)
    rotten: dict[NodeId, None] = field(default_factory=dict)

    @property
    def nodes(self) -> Sequence[NodeId]:
        """All nodes."""
        return self.cluster.nodes

    def any_node(self) -> NodeId:
        """Return a node: often the leader, which makes faults tell."""
        leader = self.leader()
        if leader is not None and self.rng.random() < 0.4:
            return leader
        return self.rng.choice(self.nodes)

    def draws_power(self) -> bool:
        """Return whether this death takes the power along."""
        return self.rng.random() < self.power

    def shuffled(self) -> list[NodeId]:
        """Return all nodes in an order of chance."""
        return self.rng.sample(self.nodes, len(self.nodes))

    def two(self) -> Pair:
        """Return two nodes."""
        one = self.any_node()
        return one, self.rng.choice([node for node in self.nodes if node != one])


Action = Callable[[Site], Heal | None]


# Processes.


def kill(site: Site) -> None:
    """End any node, often the leader."""
    site.cluster.kill(site.any_node(), site.draws_power())


def kill_leader(site: Site) -> None:
    """End the leader."""
    leader = site.leader()
    if leader is not None:
        site.cluster.kill(leader, site.draws_power())


def kill_follower(site: Site) -> None:
    """End a node that does not lead."""
    leader = site.leader()
    followers = [node for node in site.nodes if node != leader]
    if followers:
        site.cluster.kill(site.rng.choice(followers), site.draws_power())


def kill_all(site: Site) -> None:
    """End all nodes in one instant."""
    power = site.draws_power()
    for node in site.nodes:
        site.cluster.kill(node, power)


def pause(site: Site) -> Heal:
    """Stop a node (SIGSTOP); its inbox goes on filling."""
    return _pause(site, [site.any_node()])


def pause_all(site: Site) -> Heal:
    """Stop all nodes: a snapshot of the whole virtual machine, a laptop's lid."""
    return _pause(site, site.nodes)


# Links.


def break_link(site: Site) -> None:
    """Reset a connection."""
    site.cluster.links.break_link(*site.two())


def one_way(site: Site) -> Heal:
    """Cut one direction between two nodes."""
    return site.cluster.links.cut([site.two()])


def cut_two(site: Site) -> Heal:
    """Cut two nodes off from each other."""
    return site.cluster.links.cut(cuts.both(*site.two()))


def isolate(site: Site) -> Heal:
    """Cut a node off: wholly, or so that it only hears, or is only heard."""
    shape = site.rng.choice((cuts.around, cuts.around, cuts.deaf, cuts.mute))
    return site.cluster.links.cut(shape(site.any_node(), site.nodes))


def split(site: Site) -> Heal:
    """Cut the nodes into two groups, perhaps with one that sees both, or into a ring."""
    nodes = site.shuffled()
    border = site.rng.randint(1, len(nodes) - 1)
    some, others = nodes[:border], nodes[border:]
    shapes = (
        cuts.between(some, others),
        cuts.bridge(nodes[0], some, others),
        cuts.ring(nodes),
    )
    return site.cluster.links.cut(site.rng.choice(shapes))


def swizzle(site: Site) -> Heal:
    """Clog some nodes one by one, then free them one by one in another order."""
    loop, links, rng = site.cluster.loop, site.cluster.links, site.rng
    chosen = site.shuffled()[: rng.randint(1, len(site.nodes))]
    heals: list[Heal] = []
    is_over = False

    def clog(node: NodeId) -> None:
        if not is_over:
            heals.append(links.cut(cuts.around(node, site.nodes)))

    def heal() -> None:
        nonlocal is_over
        is_over = True
        for place, one in enumerate(rng.sample(heals, len(heals))):
            loop.after(0.1 * place * rng.random(), one)

    for place, node in enumerate(chosen):
        loop.after(0.2 * place * rng.random(), clog, node)
    return heal


def slow_link(site: Site) -> Heal:
    """Delay all that a node sends, receives, or both."""
    node = site.any_node()
    shape = site.rng.choice((cuts.around, cuts.deaf, cuts.mute))
    return site.cluster.links.slow(shape(node, site.nodes), site.rng.choice((0.01, 0.1, 0.4)))


# Disks.


def slow_disk(site: Site) -> Heal:
    """Let a disk take its time."""
    machine = site.cluster.machines[site.any_node()]
    low_s = site.rng.choice((0.005, 0.05, 0.4))
    machine.speed = Speed((low_s, 3 * low_s), slow_chance=site.rng.choice((0.0, 0.3)))

    def heal() -> None:
        machine.speed = site.speed

    return heal


def fail_sync(site: Site) -> Heal:
    """Let one of the next syncs fail: the node must stop."""
    machine = site.cluster.machines[site.any_node()]
    kind = site.rng.choice(("datasync", "datasync", "sync_directory"))
    rule = Fault(kind, site.rng.randint(1, _SYNCS_MAX), errno.EIO)
    return machine.arm(Faults(rule))


def fill_disk(site: Site) -> Heal:
    """Let others use up a disk's space, but for some."""
    disk = site.cluster.machines[site.any_node()].disk
    taken = max(0, disk.bytes_left - site.rng.choice(_SPACES_BYTES))
    disk.capacity -= taken

    def heal() -> None:
        disk.capacity += taken

    return heal


def crash_at_operation(site: Site) -> Heal:
    """Let a node die at, in, or after one of its disk's next operations."""
    machine = site.cluster.machines[site.any_node()]
    machine.power = site.draws_power()
    fatal = site.rng.choice((Crash, Crash, Torn))
    rule = Fault("any", site.rng.randint(1, _OPERATIONS_MAX), fatal)
    return machine.arm(Faults(rule), after=fatal is Crash and site.rng.random() < 0.5)


def rot(site: Site) -> Heal | None:
    """Kill a node and flip a bit of what its disk holds; at most on a minority at a time.

    It must then refuse to start, or lack nothing. The bit is put back at the end
    of the fault where it has refused so long.
    """
    node = site.any_node()
    machine = site.cluster.machines[node]
    if len(site.rotten) >= (len(site.nodes) - 1) // 2 or node in site.rotten:
        return None
    site.cluster.kill(node, site.draws_power())
    paths = [path for path, inode in _files("", machine.disk.root) if inode.cache.length]
    if not paths:
        return None
    path = site.rng.choice(paths)
    content = machine.disk.read(path)
    written = len(content.rstrip(b"\0")) or 1
    offset, bit = site.rng.randrange(written), site.rng.randrange(8)
    machine.disk.flip_bit(path, offset, bit)
    damaged = machine.disk.read(path)
    site.rotten[node] = None
    starts = site.starts.get(node, 0)

    def mend() -> None:
        del site.rotten[node]
        if site.starts.get(node, 0) == starts:
            there = dict(_files("", machine.disk.root))
            if path in there and machine.disk.read(path) == damaged:
                machine.disk.flip_bit(path, offset, bit)

    return mend


# Points in the code, and time.


def crash_at_send(site: Site) -> Heal:
    """Let a node die just before or just after one of its next sends."""
    node, hooks = site.any_node(), site.cluster.links.send_hooks
    machine = site.cluster.machines[node]
    machine.power = site.draws_power()
    when: Literal["before", "after"] = site.rng.choice(("before", "after"))
    left = site.rng.randint(1, _SENDS_MAX)

    def hook(moment: Literal["before", "after"], peer: NodeId, message: object) -> None:
        nonlocal left
        if moment == when:
            left -= 1
            if left == 0 and machine.node is not None:
                hooks.pop(node, None)
                machine.points[send_point(message, when)] += 1
                machine.node.exit(f"{when} a send to {peer}")

    hooks[node] = hook

    def heal() -> None:
        if hooks.get(node) is hook:
            del hooks[node]

    return heal


def jump_clock(site: Site) -> None:
    """Set a wall clock forward or back."""
    site.cluster.machines[site.any_node()].wall.jump(site.rng.choice(_JUMPS_MS))


def bend_clock(site: Site) -> Heal:
    """Let a wall clock run fast or slow, or stand still."""
    wall = site.cluster.machines[site.any_node()].wall
    wall.run_at(site.rng.choice((0.0, 0.5, 1.01, 10.0)))
    return lambda: wall.run_at(1.0)


def _pause(site: Site, nodes: Sequence[NodeId]) -> Heal:
    cluster = site.cluster
    for node in nodes:
        cluster.pause(node)

    def heal() -> None:
        timers_first = site.rng.random() < site.timers_first
        for node in nodes:
            cluster.resume(node, timers_first=timers_first)

    return heal


def _files(path: str, directory: Directory) -> Iterator[tuple[str, Inode]]:
    """Yield the files of a stopped node, in the order of their paths; passes no hook."""
    for name, node in sorted(directory.names.items()):
        if isinstance(node, Directory):
            yield from _files(join(path, name), node)
        else:
            yield join(path, name), node
