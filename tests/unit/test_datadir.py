"""The data directory: one writer, and parts that must agree with each other."""

from __future__ import annotations

from random import Random

import pytest

from chaos.suites.journal_run import IDENTITY, LIMITS
from chaos.worlds.disk import SimDisk
from chaos.worlds.stepped import SimWorld
from coordinator.raft.datadir import DataDirectory, StorageLimits, snapshots_directory
from coordinator.raft.membership import encode
from coordinator.raft.retention import RetentionLimits
from coordinator.raft.snapshots import SnapshotLimits, Snapshots
from raftbatch.errors import CannotStart, Corrupt, Fatal
from raftbatch.ids import ClusterId, Identity, NodeId
from raftbatch.world import join
from tests.scenarios.fakes import N1, members

STORAGE = StorageLimits(
    journal=LIMITS,
    snapshots=SnapshotLimits(snapshot_bytes_max=LIMITS.snapshot_bytes_max),
    retention=RetentionLimits(
        log_retention_bytes=0, log_retention_ms=1000, trailing_entries=2, snapshots_kept_max=2
    ),
)
DATA = "/data"


class Node:
    """A data directory and the process that has it open."""

    def __init__(self) -> None:
        self.disk = SimDisk(Random(1), 4 << 20)
        self.failures: list[Fatal] = []
        self.world = SimWorld(1, self.disk)
        DataDirectory.create(self.world, DATA, IDENTITY, STORAGE, None)
        self.data = self.open()

    def open(self) -> DataDirectory:
        """Open in a new process."""
        self.world = SimWorld(1, self.disk)
        self.data = DataDirectory.open(
            self.world,
            DATA,
            STORAGE,
            on_durable=lambda lsn: None,
            on_failed=self.failures.append,
        )
        return self.data

    def reopen(self, power: bool = False) -> DataDirectory:
        """Kill the process and open anew."""
        self.disk.crash(power)
        return self.open()

    def append(self, count: int, size: int = 500) -> None:
        """Append entries, each in a group of its own."""
        for _ in range(count):
            self.data.journal.append(1, bytes(size))
            self.data.journal.flush()
            self.world.workers.run_all()

    def snapshot(self, index: int, term: int = 1) -> None:
        """Write a snapshot."""
        writer = self.data.snapshots.begin(index, term, encode(members(N1)))
        writer.write(b"the state")
        writer.finish()


def test_directory_has_one_writer() -> None:
    """The second is told who has it; after the first's death it opens."""
    node = Node()
    holder = f"is in use: held by the process with pid {node.disk.pid}"
    with pytest.raises(CannotStart, match=holder):
        DataDirectory.open(
            SimWorld(2, node.disk),
            DATA,
            STORAGE,
            on_durable=lambda lsn: None,
            on_failed=node.failures.append,
        )
    node.reopen()
    node.data.close()
    node.open()


def test_directory_is_begun_once() -> None:
    """A second `create` changes nothing."""
    node = Node()
    node.data.close()
    with pytest.raises(CannotStart, match="holds a journal already"):
        DataDirectory.create(node.world, DATA, IDENTITY, STORAGE, None)
    assert node.open().identity == IDENTITY


def test_directory_with_snapshots_alone_is_not_empty() -> None:
    """A lost journal is not taken for a new node."""
    node = Node()
    node.data.close()
    for name in node.disk.list(join(DATA, "journal")):
        node.disk.remove(join(DATA, "journal") + "/" + name)
    assert DataDirectory.is_initialised(node.world, DATA)
    with pytest.raises(CannotStart, match="holds snapshots, but no journal"):
        DataDirectory.create(node.world, DATA, IDENTITY, STORAGE, None)


def test_refusal_to_open_gives_the_lock_back() -> None:
    """So that the operator's next try meets the real reason again."""
    node = Node()
    node.append(3)
    node.data.close()
    node.disk.overwrite(join(DATA, "journal/mark"), 0, bytes(1024))
    for _ in range(2):
        with pytest.raises(Corrupt, match="both slots"):
            node.open()


def test_snapshot_of_another_node_is_refused() -> None:
    """By name."""
    node, other = Node(), Node()
    node.snapshot(1)
    (name,) = node.disk.list(snapshots_directory(DATA))
    foreign = Snapshots.open(
        SimWorld(1, other.disk),
        "/elsewhere",
        Identity(ClusterId("f" * 32), NodeId("n2"), 1),
        STORAGE.snapshots,
    )
    writer = foreign.begin(1, 1, encode(members(N1)))
    writer.write(b"the state")
    writer.finish()
    content = other.disk.read(f"/elsewhere/{name}")
    node.data.close()
    path = join(snapshots_directory(DATA), name)
    node.disk.cut(path, len(content))
    node.disk.overwrite(path, 0, content)
    with pytest.raises(CannotStart, match="n2"):
        node.open()


def test_retention_drops_segments_and_old_snapshots() -> None:
    """What the newest snapshot replaces goes, but for the trailing entries."""
    node = Node()
    node.append(20)
    node.snapshot(8)
    node.append(20)
    node.snapshot(30)
    node.data.retain()
    node.data.journal.flush()
    node.world.workers.run_all()
    first = node.data.journal.first_index
    assert 8 < first <= 29
    assert [meta.index for meta in node.data.snapshots.all] == [30]
    assert node.reopen(power=True).journal.first_index == first
    assert node.failures == []


def test_journal_is_reset_to_a_snapshot_it_does_not_reach() -> None:
    """A received snapshot was durable, the journal's reset was not."""
    node = Node()
    node.append(3)
    node.snapshot(10, term=4)
    journal = node.reopen().journal
    assert (journal.first_index, journal.last_index, journal.last_term) == (11, 10, 4)
    node.world.workers.run_all()
    assert node.reopen(power=True).journal.last_index == 10


def test_journal_is_reset_to_a_snapshot_it_contradicts() -> None:
    """What stood there was never committed."""
    node = Node()
    node.append(5)
    node.snapshot(3, term=2)
    journal = node.reopen().journal
    assert (journal.first_index, journal.last_index, journal.last_term) == (4, 3, 2)


def test_journal_keeps_what_follows_its_snapshot() -> None:
    """The usual case."""
    node = Node()
    node.append(5)
    node.snapshot(3)
    journal = node.reopen().journal
    assert (journal.first_index, journal.last_index) == (1, 5)


def test_missing_snapshot_is_refused() -> None:
    """The log before it is gone, so the state cannot be rebuilt."""
    node = Node()
    node.append(20)
    node.snapshot(15)
    node.data.retain()
    node.data.journal.flush()
    node.world.workers.run_all()
    node.data.close()
    (name,) = node.disk.list(snapshots_directory(DATA))
    node.disk.remove(join(snapshots_directory(DATA), name))
    with pytest.raises(Corrupt, match="the newest snapshot is missing"):
        node.open()


def test_limits_must_agree() -> None:
    """The journal's reserve is for the snapshots that are really allowed."""
    with pytest.raises(ValueError, match="snapshot_bytes_max is 5 for snapshots, but 10000"):
        StorageLimits(LIMITS, SnapshotLimits(snapshot_bytes_max=5), STORAGE.retention)
