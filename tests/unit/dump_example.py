"""A small data directory to list: what is in it, and how tests look at a listing."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from chaos.worlds.disk import SimDisk
from chaos.worlds.stepped import SimWorld
from coordinator.raft.datadir import DataDirectory, StorageLimits
from coordinator.raft.dump import dump
from coordinator.raft.dump_items import (
    Item,
    Record,
    Selection,
    Verdict,
)
from coordinator.raft.membership import encode
from coordinator.raft.retention import RetentionLimits
from coordinator.raft.segments.limits import JournalLimits
from coordinator.raft.snapshots import SnapshotLimits
from raftbatch.ids import ClusterId, Identity, NodeId
from tests.scenarios.fakes import N1, members

DATA = "/data"
JOURNAL = "/data/journal"
SNAPSHOTS = "/data/snapshots"
FIRST = f"{JOURNAL}/segment-00000000000000000001"
SECOND = f"{JOURNAL}/segment-00000000000000000002"
OLDER = f"{SNAPSHOTS}/snapshot-00000000000000000003-00000000000000000001"
NEWEST = f"{SNAPSHOTS}/snapshot-00000000000000000006-00000000000000000002"
IDENTITY = Identity(ClusterId("0123456789abcdef" * 2), NodeId("n1"), 1)
LIMITS = StorageLimits(
    JournalLimits(
        segment_bytes=4096,
        entry_bytes_max=8192,
        group_bytes_max=3000,
        pending_bytes_max=20_000,
        tail_bytes_max=2500,
        disk_low_bytes=40_000,
        disk_reserve_bytes=30_000,
        snapshot_bytes_max=10_000,
    ),
    SnapshotLimits(10_000, chunk_bytes=64),
    RetentionLimits(log_retention_bytes=1 << 20, log_retention_ms=0, trailing_entries=0),
)
EVERYTHING = Selection()
CONFIG = encode(members(N1))


def ignore(what: object) -> None:
    """Do nothing with it."""


def open_directory(disk: SimDisk) -> tuple[SimWorld, DataDirectory]:
    world = SimWorld(7, disk)
    return world, DataDirectory.open(world, DATA, LIMITS, on_durable=ignore, on_failed=ignore)


def make_disk(close: bool = True) -> SimDisk:
    """Make a directory of two segments, with every kind of record, and two snapshots."""
    disk = SimDisk(Random(1))
    DataDirectory.create(SimWorld(6, disk), DATA, IDENTITY, LIMITS, None)
    world, opened = open_directory(disk)
    journal = opened.journal

    def settle() -> None:
        journal.flush()
        world.workers.run_all()
        assert journal.durable == journal.lsn

    journal.set_hard_state(1, NodeId("n1"))  # LSN 1
    for index in range(1, 6):  # 2 .. 6
        journal.append(1, b"entry %d" % index)
        settle()
    journal.truncate(4)  # 7
    journal.set_hard_state(2, None)  # 8
    journal.append(2, b"x" * 2900)  # 9, entry 5
    settle()
    journal.reset(6, 2)  # 10
    journal.append(2, b"\x1b[31mred")  # 11, entry 7
    settle()
    journal.append(2, b"y" * 300)  # 12, entry 8: the second segment
    journal.append(3, b"z" * 100)  # 13, entry 9
    settle()
    for index, term in ((3, 1), (6, 2)):
        writer = opened.snapshots.begin(index, term, CONFIG)
        writer.write(b"content" * 20)
        writer.finish()
    if close:
        opened.close()
    return disk


def dumped(disk: SimDisk, selection: Selection = EVERYTHING, directory: str = DATA) -> list[Item]:
    return list(dump(SimWorld(0, disk), directory, selection))


def verdict_of(items: Sequence[Item]) -> Verdict:
    assert isinstance(items[-1], Verdict)
    return items[-1]


def records_of(items: Sequence[Item]) -> list[Record]:
    return [item for item in items if isinstance(item, Record)]


def lsns(disk: SimDisk, selection: Selection) -> list[int]:
    return [record.lsn for record in records_of(dumped(disk, selection))]


def make_new() -> SimDisk:
    disk = SimDisk(Random(1))
    DataDirectory.create(SimWorld(6, disk), DATA, IDENTITY, LIMITS, None)
    return disk


def remove(disk: SimDisk, *paths: str) -> None:
    for path in paths:
        disk.remove(path)
