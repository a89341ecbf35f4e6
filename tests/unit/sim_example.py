"""A tiny cluster for the simulation's own tests: nodes that keep what they hear in a journal.

Each node appends what it hears, and tells everybody what is durable there. What it
has told of must be in its journal after every restart: `Cluster.promised` remembers
it. Run as a module with a seed, it prints a digest of all that happened.
"""

from __future__ import annotations

import asyncio
import hashlib
import sys
from random import Random

from chaos.nemesis import Mix, Nemesis
from chaos.worlds.cluster import SimCluster
from chaos.worlds.ends import LinkOptions, Port
from chaos.worlds.loop import VirtualLoop
from chaos.worlds.sim import SimNode
from coordinator.raft.journal import Journal
from coordinator.raft.segments.limits import JournalLimits
from coordinator.raft.segments.recovery import create
from coordinator.raft.segments.replay import is_initialised
from raftbatch.errors import Fatal, NoSpace, Overloaded
from raftbatch.ids import ClusterId, Identity, NodeId

IDS = tuple(NodeId(name) for name in ("n1", "n2", "n3"))
LIMITS = JournalLimits(
    segment_bytes=8192,
    entry_bytes_max=2000,
    group_bytes_max=4000,
    pending_bytes_max=20_000,
    tail_bytes_max=4000,
    disk_low_bytes=60_000,
    disk_reserve_bytes=40_000,
    snapshot_bytes_max=10_000,
)
_DIRECTORY = "/data"
_TICK_S = 0.05


class EchoNode:
    """A node that journals, ticks and talks."""

    def __init__(self, cluster: Cluster, world: SimNode, port: Port) -> None:
        self.world = world
        self.port = port
        self.cluster = cluster
        self.node = NodeId(world.machine.name)
        self.peers: dict[NodeId, None] = {}
        if not is_initialised(world.files, _DIRECTORY):
            assert cluster.promised[self.node] == 0, "a journal that promised is there"
            identity = Identity(ClusterId("0123456789abcdef" * 2), self.node, 1)
            create(world, _DIRECTORY, identity, LIMITS.segment_bytes)
        self.journal = Journal(
            world, _DIRECTORY, LIMITS, on_durable=self._is_durable, on_failed=self._failed
        )
        assert self.journal.lsn >= cluster.promised[self.node], "what was promised is there"
        asyncio.get_running_loop().create_task(self._tick())

    def receive(self, peer: NodeId, message: object) -> None:
        """Keep what is new."""
        self.cluster.note(f"{self.node} hears {message} of {peer}")
        if self.journal.failure is None:
            try:
                self.journal.append(1, f"{peer} {message}".encode())
            except (NoSpace, Overloaded) as error:
                self.cluster.note(f"{self.node} refuses: {error.slug}")
            self.journal.flush()

    @property
    def incarnation(self) -> int:
        """The only one."""
        return 1

    def admits(self, peer: NodeId, incarnation: int) -> str | None:
        """Admit all."""
        return None

    def refused(self, peer: NodeId, why: str) -> None:
        """Nobody is."""

    def connected(self, peer: NodeId, incarnation: int) -> None:
        """Greet."""
        self.cluster.note(f"{self.node} +{peer}")
        self.peers[peer] = None
        self.port.send(peer, "hello")

    def disconnected(self, peer: NodeId) -> None:
        """Forget."""
        self.cluster.note(f"{self.node} -{peer}")
        self.peers.pop(peer, None)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            for peer in self.peers:
                self.port.send(peer, f"tick {self.world.clock.wall_ms()}")
            self.journal.flush()

    def _is_durable(self, lsn: int) -> None:
        self.cluster.promised[self.node] = lsn
        self.cluster.note(f"{self.node} has {lsn}")

    def _failed(self, fatal: Fatal) -> None:
        self.world.exit(f"fatal: {fatal}")


class Cluster(SimCluster):
    """Three such nodes, and what happened."""

    def __init__(self, loop: VirtualLoop, seed: int, options: LinkOptions | None = None) -> None:
        self.promised = dict.fromkeys(IDS, 0)
        self.happened: list[str] = []
        self.living: dict[NodeId, EchoNode] = {}
        super().__init__(loop, seed, IDS, self._boot_one, options)
        self.deaths.append(lambda node, why: self.note(f"{node} died: {why}"))

    def note(self, what: str) -> None:
        """Write down what happened."""
        self.happened.append(f"{self.loop.now_ns} {what}")

    def start_all(self) -> None:
        """Start all nodes."""
        for node in self.nodes:
            self.start(node)

    def leader(self) -> NodeId | None:
        """Return the lowest node that is up: it will do as a leader."""
        return next((node for node in self.nodes if self.is_up(node)), None)

    def _boot_one(self, world: SimNode, port: Port) -> EchoNode:
        node = EchoNode(self, world, port)
        self.living[node.node] = node
        return node


def run(seed: int, *, mix: Mix | None = None, chaos_s: float = 10.0) -> tuple[Cluster, Nemesis]:
    """Run a seed: faults, then none; return what is left."""
    rng = Random(f"{seed} nemesis")
    mix = mix or Mix.draw(rng, rotting=seed % 3 == 0, beyond=seed % 2 == 0)
    with VirtualLoop() as loop:
        cluster = Cluster(loop, seed)
        cluster.start_all()
        nemesis = Nemesis(cluster, cluster.leader, mix, rng)
        nemesis.begin()
        loop.run_for(chaos_s)
        nemesis.heal()
        cluster.note("healed")
        loop.run_for(5.0)
        assert all(cluster.is_up(node) for node in IDS), f"all are up again: {cluster.refused}"
        for node in IDS:
            others = sorted(other for other in IDS if other != node)
            assert sorted(cluster.living[node].peers) == others, "all see one another again"
    return cluster, nemesis


def digest(cluster: Cluster) -> str:
    """Return a digest of all that happened, disks and position included."""
    told = "\n".join([*cluster.happened, str(cluster.loop.events)])
    disks = [line for node in IDS for line in cluster.machines[node].disk.trace]
    return hashlib.sha256("\n".join([told, *disks]).encode()).hexdigest()


if __name__ == "__main__":
    sys.stdout.writelines(f"{digest(run(int(each))[0])}\n" for each in sys.argv[1:])
