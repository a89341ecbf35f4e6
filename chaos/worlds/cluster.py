"""A cluster in one thread: machines, links, and the product's nodes on them.

    with VirtualLoop() as loop:
        cluster = SimCluster(loop, seed, ids, boot)
        for node in ids:
            cluster.start(node)
        loop.run_for(5.0)

`boot(world, port)` starts a node of the product on a world and returns what takes
its messages; it runs as the node's process, so that all it begins is the node's.

What lives here: starting, killing and pausing nodes. What must never live here:
when that happens (`chaos.nemesis`), or what must hold (suites). Called by: suites.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from chaos.worlds.ends import Endpoint, LinkOptions, Port
from chaos.worlds.hooks import Crash
from chaos.worlds.links import Links
from chaos.worlds.loop import VirtualLoop
from chaos.worlds.sim import Machine, SimNode
from raftbatch.errors import Fatal
from raftbatch.ids import NodeId

Boot = Callable[[SimNode, Port], Endpoint]
"""Starts the product; may raise `Fatal`: then the node has refused to start."""

Death = Callable[[NodeId, str], None]
"""Told that a node's process has died, and why."""


class SimCluster:
    """See the module's docstring.

    Args:
        loop: of the run.
        seed: of the run; everything here is drawn from it.
        nodes: who there is.
        boot: starts the product.
        options: how links behave.
        wire, bulk: see `Links`.

    Attributes:
        machines: by node.
        links: between them.
        refused: why a node does not start; it stays down until it is started again.
        deaths: all told of each death, a refusal to start among them.
    """

    def __init__(
        self,
        loop: VirtualLoop,
        seed: int,
        nodes: Sequence[NodeId],
        boot: Boot,
        options: LinkOptions | None = None,
        wire: Callable[[object], object] | None = None,
        bulk: tuple[type, ...] = (),
    ) -> None:
        self.loop = loop
        self.nodes: list[NodeId] = []
        self.machines: dict[NodeId, Machine] = {}
        self.links = Links(loop, Random(f"{seed} links"), options, wire, bulk)
        self.refused: dict[NodeId, Fatal] = {}
        self.deaths: list[Death] = []
        self._seed = seed
        self._boot = boot
        for node in nodes:
            self.add(node)

    def add(self, node: NodeId) -> None:
        """Add a machine; nothing runs on it yet."""
        self.nodes.append(node)
        self.machines[node] = Machine(self.loop, self._seed, node, self._has_died)

    def is_up(self, node: NodeId) -> bool:
        """Whether a process lives there, paused or not."""
        world = self.machines[node].node
        return world is not None and world.alive

    def is_paused(self, node: NodeId) -> bool:
        """Whether a process lives there and stands still."""
        world = self.machines[node].node
        return world is not None and world.process.paused

    def start(self, node: NodeId) -> bool:
        """Start a node that is down; return whether it is up now.

        It may have refused to, or died in the attempt.
        """
        self.refused.pop(node, None)
        world = self.machines[node].boot()
        port = self.links.open(node, world.process)
        try:
            endpoint = world.process.call(self._boot, world, port)
        except Crash:
            if world.alive:
                raise
            return False
        except Fatal as error:
            self.refused[node] = error
            self.machines[node].kill(power=False)
            return False
        if world.alive:
            port.register(endpoint)
        return world.alive

    def kill(self, node: NodeId, power: bool) -> None:
        """End a node's process; with `power` the machine goes dark: its peers hear nothing."""
        self.machines[node].kill(power)

    def pause(self, node: NodeId) -> None:
        """Let a node stand still, if it is up."""
        world = self.machines[node].node
        if world is not None:
            world.process.pause()

    def resume(self, node: NodeId, *, timers_first: bool = False) -> None:
        """Let a paused node go on; see `Process.resume`."""
        world = self.machines[node].node
        if world is not None and world.process.paused:
            world.process.resume(timers_first=timers_first)

    def _has_died(self, world: SimNode, why: str, power: bool) -> None:
        node = NodeId(world.machine.name)
        self.links.close(node, silent=power)
        for death in self.deaths:
            death(node, why)
