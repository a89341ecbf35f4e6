"""A follower that is cut off for ten minutes under load: disks stay bounded, one snapshot mends it.

Three nodes of the product over simulated disks and links, in virtual time. Seen at nats#2936 and
hashicorp/raft#697: logs that grew for as long as a follower was away, and snapshots that were sent
again and again, since the next one was there before the last had arrived.
"""

from __future__ import annotations

from collections import Counter

from chaos.suites.raft_ends import AllPeers, LogEnd
from chaos.suites.raft_replica import ListReplica
from chaos.worlds.cluster import SimCluster
from chaos.worlds.ends import Endpoint, Port
from chaos.worlds.loop import VirtualLoop
from chaos.worlds.names import Directory
from chaos.worlds.sim import SimNode
from coordinator.raft.datadir import DataDirectory, StorageLimits
from coordinator.raft.log import LogConfig, ReplicatedLog
from coordinator.raft.membership import founders
from coordinator.raft.messages import BULK, InstallSnapshot
from coordinator.raft.retention import RetentionLimits
from coordinator.raft.segments.layout import Entry
from coordinator.raft.segments.limits import JournalLimits
from coordinator.raft.snapshots import SnapshotLimits
from coordinator.raft.standing import Role
from raftbatch.errors import Fatal
from raftbatch.ids import ClusterId, Identity, NodeId

CLUSTER = ClusterId("0123456789abcdef" * 2)
NODES = [NodeId(name) for name in ("n1", "n2", "n3")]
FOUNDERS = founders({node: f"{node}:1" for node in NODES})
K = 1024
AWAY_S = 600
ENTRY_BYTES, ENTRIES_PER_S = 2 * K, 4  # 5 MB while it is away
SEGMENT_BYTES, SNAPSHOT_BYTES = 64 * K, 96 * K
STORAGE = StorageLimits(
    JournalLimits(
        segment_bytes=SEGMENT_BYTES,
        entry_bytes_max=32 * K,
        group_bytes_max=64 * K,
        pending_bytes_max=32 << 20,
        tail_bytes_max=16 * K,
        disk_low_bytes=768 * K,
        disk_reserve_bytes=512 * K,
        snapshot_bytes_max=2 * SNAPSHOT_BYTES,
    ),
    SnapshotLimits(snapshot_bytes_max=2 * SNAPSHOT_BYTES, chunk_bytes=4 * K),
    RetentionLimits(
        log_retention_bytes=0, log_retention_ms=0, trailing_entries=0, snapshots_kept_max=2
    ),
)
CONFIG = LogConfig(snapshot_bytes_min=64 * K, stagger_bytes=0)
DISK_BYTES_MAX = 8 * SEGMENT_BYTES + 4 * SNAPSHOT_BYTES
"""A fifth of what was written: what was not let go of would be seen."""


class Scene:
    """Three nodes, and what each has taken in.

    Attributes:
        logs: of each node.
        installed: snapshots that each has installed.
        pieces_bytes: of snapshots that were sent to each.
    """

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.logs: dict[NodeId, ReplicatedLog] = {}
        self.installed: Counter[NodeId] = Counter()
        self.pieces_bytes: Counter[NodeId] = Counter()
        self.cluster = SimCluster(loop, 7, NODES, self._boot, bulk=BULK)
        self.cluster.links.observer = self._observe
        for node in NODES:
            assert self.cluster.start(node)

    def _boot(self, world: SimNode, port: Port) -> Endpoint:
        node = NodeId(world.machine.name)

        def applied(_before: int, entry: Entry) -> bytes:
            return b"%016d" % entry.index

        def installed(_index: int, _digest: bytes) -> None:
            self.installed[node] += 1

        def failed(error: Fatal) -> None:
            raise AssertionError(f"{node} failed: {error}")

        DataDirectory.create(world, "/data", Identity(CLUSTER, node, 1), STORAGE, FOUNDERS)
        replica = ListReplica(SNAPSHOT_BYTES, 4 * K, applied, installed)
        log = ReplicatedLog(world, "/data", STORAGE, AllPeers(port), replica, CONFIG, failed)
        self.logs[node] = log
        return LogEnd(log)

    def _observe(self, what: str, _one: NodeId, other: NodeId, message: object) -> None:
        if what == "send" and isinstance(message, InstallSnapshot):
            self.pieces_bytes[other] += len(message.data)

    def leader(self) -> NodeId:
        """Return who leads, once somebody does."""
        for _ in range(100):
            for node, log in self.logs.items():
                if log.role is Role.LEADER:
                    return node
            self.loop.run_for(0.1)
        raise AssertionError("nobody leads")

    def write_for(self, leader: NodeId, time_s: int) -> int:
        """Let the leader write; return the most bytes that any node's disk held meanwhile."""
        most = 0
        log = self.logs[leader]
        for _ in range(time_s):
            world = self.cluster.machines[leader].node
            assert world is not None
            for _ in range(ENTRIES_PER_S):
                world.process.call(log.propose, log.term, bytes(ENTRY_BYTES))
            self.loop.run_for(1.0)
            most = max(most, *(self.disk_bytes(node) for node in NODES))
        return most

    def disk_bytes(self, node: NodeId) -> int:
        """Return what is on a node's disk."""
        return _bytes(self.cluster.machines[node].disk.root)


def _bytes(directory: Directory) -> int:
    return sum(
        _bytes(each) if isinstance(each, Directory) else each.cache.length
        for each in directory.names.values()
    )


def test_follower_that_was_away_for_long_catches_up_by_one_snapshot() -> None:
    with VirtualLoop() as loop:
        scene = Scene(loop)
        leader = scene.leader()
        away = next(node for node in NODES if node != leader)
        others = [node for node in NODES if node != away]
        scene.write_for(leader, 2)
        heal = scene.cluster.links.cut(
            [pair for node in others for pair in ((node, away), (away, node))]
        )
        most = scene.write_for(leader, AWAY_S)
        assert most <= DISK_BYTES_MAX
        behind = scene.logs[leader].commit - scene.logs[away].commit
        assert behind == AWAY_S * ENTRIES_PER_S
        assert scene.installed[away] == 0

        heal()
        scene.write_for(leader, 10)  # the load goes on while it is fed
        loop.run_for(2.0)
        assert scene.logs[leader].role is Role.LEADER
        assert {log.applied for log in scene.logs.values()} == {scene.logs[leader].commit}
        assert scene.installed[away] == 1
        assert scene.pieces_bytes[away] < 2 * SNAPSHOT_BYTES, "in one pass"
        assert scene.disk_bytes(away) <= DISK_BYTES_MAX
