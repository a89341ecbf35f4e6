"""A cluster of real nodes on a network that can be broken; the harness reaches all, always.

What lives here: where the nodes are, and how they are started there. What must never live here:
what should come of it. Called by: tests of this folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from chaos.worlds.fabric import Fabric
from raftbatch.v1 import admin_pb2
from tests.e2e.cluster import ServedCluster
from tests.e2e.processes import RAFTBATCH, Process

NODES = ("n1", "n2", "n3")
_PEER, _CLIENT = 7000, 7100  # of each node: it has its namespace to itself
_INSECURE = """
[tls]
insecure = true
"""


class FabricCluster(ServedCluster):
    """A cluster whose nodes are those of a fabric, each in its own namespace.

    Args:
        folder: an empty folder of its own.
        fabric: the network.
        settings: further tables of the file.
        nodes: which of them vote; by default all of the network.
        replica: what they replicate.
    """

    def __init__(
        self,
        folder: Path,
        fabric: Fabric,
        settings: str = "",
        nodes: Sequence[str] = (),
        replica: str = "opaque",
    ) -> None:
        nodes = nodes or fabric.nodes
        super().__init__(folder, nodes, _INSECURE + settings, replica=replica)
        self.fabric = fabric
        self.peers = {node: f"{fabric.address(node)}:{_PEER}" for node in nodes}
        self.clients = {node: f"{fabric.address(node)}:{_CLIENT}" for node in nodes}
        self.write(self.file, nodes)

    def start(self, node: str, *flags: str, file: str = "") -> Process:
        """Start a node in its namespace; the process before it must have ended."""
        assert node not in self.processes or not self.processes[node].is_up
        command = [*RAFTBATCH, "serve", "--node", node, "--config", file or self.file, *flags]
        process = self._stack.enter_context(Process(self.fabric.enter(node, command)))
        self.processes[node] = process
        return process

    def seen(self, node: str) -> admin_pb2.StatusReply:
        """Return what a node says of itself, once it answers: the harness reaches all."""
        return self.heard(node)

    def others(self, *nodes: str) -> list[str]:
        """Return the other nodes."""
        return [node for node in self.clients if node not in nodes]

    def leader_among(self, nodes: Sequence[str]) -> str:
        """Return who leads, once one of these does, and all of these say so."""

        found: list[str] = []

        def agreed() -> bool:
            leaders = {self.seen(node).leader for node in nodes}
            if len(leaders) == 1 and leaders <= set(nodes):
                found.extend(leaders)
            return bool(found)

        self.until(agreed, f"leader among {nodes}")
        return found[0]


@contextmanager
def serving(folder: Path, settings: str = "", seed: int = 0) -> Iterator[FabricCluster]:
    """Make a fabric, and three nodes in it that have begun and agree on a leader."""
    with Fabric(NODES, seed=seed) as fabric, FabricCluster(folder, fabric, settings) as cluster:
        cluster.start_all("--bootstrap")
        cluster.leader()
        yield cluster
