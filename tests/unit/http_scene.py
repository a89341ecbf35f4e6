"""A node with a state that a test makes, and a log that is as a test says: for what HTTP tells.

What must never live here: an expectation.
"""

from __future__ import annotations

from pathlib import Path
from typing import cast

from coordinator.api import Api
from coordinator.config import load_node
from coordinator.feed import Feed
from coordinator.leader_parts import Counts
from coordinator.loads import Load
from coordinator.node import Node, Phase
from coordinator.raft.counters import Counters
from coordinator.raft.log import ReplicatedLog
from coordinator.raft.membership import founders
from coordinator.raft.segments.limits import Space
from coordinator.raft.segments.writer import Disk
from coordinator.raft.spread import durations
from coordinator.raft.standing import Role
from coordinator.scheduler import Scheduler
from raftbatch.errors import Fatal
from raftbatch.ids import ClusterId, Identity, NodeId
from raftbatch.realworld import RealFiles
from tests.unit.replica_scene import FakeLeader, Scene

N1, N2 = NodeId("n1"), NodeId("n2")
FILE = """
[cluster]
name = "t"
[nodes.n1]
peer = "127.0.0.1:{peer}"
client = "127.0.0.1:{client}"
http = "127.0.0.1:{http}"
"""


class FakeLog:
    """A log that this node leads, until a test says otherwise."""

    def __init__(self) -> None:
        self.identity = Identity(ClusterId("a" * 32), N1, 1)
        self.membership = founders({node: f"{node}:1" for node in (N1, N2)})
        self.role = Role.LEADER
        self.leader: NodeId | None = N1
        self.term = 1
        self.commit = self.applied = self.last_index = self.heard_commit = 9
        self.failure: Fatal | None = None
        self.space = Space.ROOMY
        self.disk = Disk()


class _Leader(FakeLeader):
    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.counts = Counts()
        self.commit_ns = durations()


class _Scheduler:
    def __init__(self, scene: Scene) -> None:
        self.has_erred = False
        self.leader = _Leader(scene)
        log = cast("ReplicatedLog", FakeLog())
        self.api = Api(scene.replica, self.leader, log, Feed(scene.replica, "n1"), "n1")


class HttpScene(Scene):
    """See the module's docstring.

    Args:
        folder: for the node's file.
        ports: of peers, clients and HTTP.

    Attributes:
        node: it.
        log: what it has.
        given: loads that its executors have.
    """

    def __init__(self, folder: Path, ports: tuple[int, int, int] = (1, 2, 3)) -> None:
        super().__init__(executors=())
        path = folder / "cluster.toml"
        peer, client, http = ports
        path.write_text(FILE.format(peer=peer, client=client, http=http), encoding="utf-8")
        self.log = FakeLog()
        self.node = _Node(load_node(RealFiles(), str(path), "n1"), Counters())
        self.node.given = {}
        self.node.log = cast("ReplicatedLog", self.log)
        self.node.replica = self.replica
        self.node.scheduler = cast("Scheduler", _Scheduler(self))
        self.node.phase = Phase.SERVING

    @property
    def given(self) -> dict[str, Load]:
        """What a test wants its executors to have to do."""
        return self.node.given


class _Node(Node):
    given: dict[str, Load]

    def loads(self) -> dict[str, Load]:
        return self.given
