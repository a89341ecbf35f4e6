"""Snapshots on a disk whose operations fail, and on one that writes other bytes than it was told.

A shortage is definite and leaves nothing behind; anything else stops the node;
the old snapshot is there in any case. As in the crash tests, checks return
complaints, so that they can be shown to complain.
"""

import errno
from collections.abc import Callable, Iterator, Sequence

import pytest

from chaos.worlds.disk import Fault, Faults, SimDisk
from coordinator.raft.snapshots import SnapshotReader, Snapshots, SnapshotWriter
from raftbatch.errors import (
    CannotStart,
    Corrupt,
    DiskFailed,
    Fatal,
    Invariant,
    NoSpace,
    Overloaded,
    RaftbatchError,
)
from raftbatch.world import Buffer, File, OpenMode
from tests.unit.test_snapshots import DIRECTORY, content_of, open_snapshots, path_of, write_all
from tests.unit.test_snapshots_crash import (
    CHUNK_BYTES,
    NEW,
    OLD,
    Life,
    Through,
    ThroughFile,
    complaints_after,
    disk_with_old,
    plain,
)


class WritesBadly(Through):
    """The n-th write of a snapshot stores one flipped bit."""

    def __init__(self, disk: SimDisk, bad: int) -> None:
        super().__init__(disk)
        self.bad = bad

    def open(self, path: str, mode: OpenMode) -> File:
        files = self

        class Flipped(ThroughFile):
            def write_at(self, offset: int, buffers: Sequence[Buffer]) -> None:
                data = bytearray(b"".join(buffers))
                files.bad -= 1
                if files.bad == 0:
                    data[len(data) // 2] ^= 1
                super().write_at(offset, [data])

        return Flipped(self.disk.open(path, mode))


def write_badly_everywhere() -> list[str]:
    """Store a wrong bit in each write; return complaints."""
    complaints = []
    for bad in range(1, 6):  # a header, three chunks, a footer
        disk = disk_with_old()
        life = Life(WritesBadly(disk, bad))
        try:
            life.run()
            complaints.append(f"write {bad}: nothing was noticed")
        except Corrupt as error:
            if not error.path.endswith(".tmp"):
                complaints.append(f"write {bad}: noticed when {error.path} had its name")
        disk.crash(power=False)
        try:
            complaints += complaints_after(disk, life, plain)
        except Fatal as error:
            complaints.append(f"write {bad}: {error!r}")
    return complaints


def test_a_write_that_went_wrong_is_noticed_before_the_file_gets_its_name() -> None:
    assert write_badly_everywhere() == []


class ReadsAnother(Through):
    """Reading the new file back gives the old one: a write that went elsewhere, or nowhere."""

    def open(self, path: str, mode: OpenMode) -> File:
        if mode == "read" and path.endswith(".tmp"):
            path = f"{DIRECTORY}/snapshot-{10:020d}-{1:020d}"
        return self.disk.open(path, mode)


def test_an_intact_file_that_is_another_is_noticed() -> None:
    disk = disk_with_old()
    with pytest.raises(Corrupt, match="another snapshot"):
        Life(ReadsAnother(disk)).run()
    assert_old_is_intact(disk)


@pytest.mark.parametrize(
    "fault",
    [
        Fault("write", 3, errno.EIO),
        Fault("datasync", 1, errno.EIO),
        Fault("read", 3, errno.EIO),  # while it verifies
        Fault("rename", 1, errno.EIO),
        Fault("sync_directory", 1, errno.EIO),
    ],
)
def test_a_writer_that_failed_touches_nothing_any_more(fault: Fault) -> None:
    disk = disk_with_old()
    writer = open_snapshots(disk, CHUNK_BYTES).begin(20, 2, b"")
    disk.fault = Faults(fault)
    with pytest.raises(Fatal):
        write_all(writer, NEW, 400)
    before = disk.operations
    writer.abort()
    with pytest.raises(Invariant):
        writer.write(b"more")
    with pytest.raises(Invariant):
        writer.finish()
    assert not writer.ended
    assert disk.operations == before


def test_a_skipped_verification_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SnapshotWriter, "_verify", lambda self, meta: None)
    complaints = write_badly_everywhere()
    assert sum("nothing was noticed" in complaint for complaint in complaints) == 5
    assert any("Corrupt" in complaint for complaint in complaints)


def test_a_verification_of_the_ends_alone_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SnapshotReader, "verify", lambda self, progress=None: None)
    assert sum("nothing was noticed" in complaint for complaint in write_badly_everywhere()) == 3


def fail_everywhere(
    operation: str, error: int, run: Callable[[Snapshots], None]
) -> Iterator[tuple[SimDisk, Snapshots, Exception]]:
    """Fail the n-th operation of a kind, for each n; yield what came of it."""
    for at in range(1, 100):
        disk = disk_with_old()
        snapshots = open_snapshots(disk, 20)  # small: 75 chunks, and syncs before the end
        disk.fault = Faults(Fault(operation, at, error, path=DIRECTORY))
        try:
            run(snapshots)
            assert at > 1, f"there is no {operation}"
            return
        except (Fatal, RaftbatchError) as failure:
            disk.fault = None
            yield disk, snapshots, failure


def write_new(snapshots: Snapshots) -> None:
    write_all(snapshots.begin(20, 2, b"new"), NEW, 20)


def assert_old_is_intact(disk: SimDisk) -> None:
    """Start again, and find the old snapshot as it was."""
    snapshots = open_snapshots(disk, CHUNK_BYTES)
    assert snapshots.all[0].index == 10
    assert content_of(snapshots, snapshots.all[0]) == OLD
    assert snapshots.newest
    assert content_of(snapshots, snapshots.newest) == {10: OLD, 20: NEW}[snapshots.newest.index]


@pytest.mark.parametrize("operation", ["create", "write", "rename"])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENOMEM])
def test_a_shortage_is_definite_and_leaves_nothing_behind(operation: str, error: int) -> None:
    for disk, snapshots, failure in fail_everywhere(operation, error, write_new):
        expected = NoSpace if error in (errno.ENOSPC, errno.EDQUOT) else Overloaded
        assert type(failure) is expected
        assert [meta.index for meta in snapshots.all] == [10]
        assert disk.list(DIRECTORY) == [path_of(snapshots.all[0]).rpartition("/")[2]]
        write_new(snapshots)  # and when there is room again
        assert_old_is_intact(disk)


def test_a_disk_that_fills_up_does_the_same() -> None:
    disk = disk_with_old()
    snapshots = open_snapshots(disk, CHUNK_BYTES)
    for spare in range(4):  # the new one needs 4 sectors: 1500 bytes, header and footer
        disk.capacity = 512 * (3 + spare)  # the old one has 3
        with pytest.raises(NoSpace):
            write_new(snapshots)
        assert len(disk.list(DIRECTORY)) == 1
    disk.capacity = 512 * 7
    write_new(snapshots)


@pytest.mark.parametrize("operation", ["datasync", "sync_directory"])
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.ENOMEM])
@pytest.mark.parametrize("power", [False, True])
def test_a_failed_sync_stops_the_node_and_the_old_snapshot_is_there(
    operation: str, error: int, power: bool
) -> None:
    for disk, snapshots, failure in fail_everywhere(operation, error, write_new):
        assert type(failure) is DiskFailed
        before = disk.operations
        with pytest.raises(Invariant):
            snapshots.begin(30, 3, b"")
        assert disk.operations == before  # nothing was tried again
        disk.crash(power)
        assert_old_is_intact(disk)


@pytest.mark.parametrize("operation", ["create", "write", "rename", "remove"])
def test_any_other_failure_of_a_write_stops_the_node(operation: str) -> None:
    def run(snapshots: Snapshots) -> None:
        if operation != "remove":
            write_new(snapshots)
        else:
            writer = snapshots.begin(20, 2, b"")
            writer.abort()

    for disk, _, failure in fail_everywhere(operation, errno.EIO, run):
        assert type(failure) is DiskFailed
        disk.crash(power=False)
        assert_old_is_intact(disk)


@pytest.mark.parametrize("operation", ["remove", "sync_directory"])
def test_a_failed_prune_stops_the_node_and_the_newest_is_there(operation: str) -> None:
    disk = disk_with_old()
    snapshots = open_snapshots(disk, CHUNK_BYTES)
    write_new(snapshots)
    disk.fault = Faults(Fault(operation, 1, errno.EIO))
    with pytest.raises(DiskFailed):
        snapshots.prune(20)
    disk.crash(power=True)
    newest = open_snapshots(disk).newest
    assert newest
    assert newest.index == 20


@pytest.mark.parametrize("error", [errno.EIO, errno.EACCES, errno.EMFILE, errno.ENOSPC])
def test_a_start_that_cannot_read_says_so_in_our_words(error: int) -> None:
    seen = set()
    for at in range(1, 40):
        disk = disk_with_old()
        disk.open(f"{DIRECTORY}/snapshot-{11:020d}-{1:020d}.tmp", "create").close()
        disk.fault = Faults(Fault("any", at, error))
        try:
            open_snapshots(disk)
            break
        except (Corrupt, CannotStart, DiskFailed) as failure:
            seen.add(type(failure))
            disk.fault = None
            assert open_snapshots(disk).newest  # nothing was harmed
    assert (Corrupt in seen) == (error == errno.EIO)
    assert CannotStart in seen


def test_a_shortage_while_verifying_gives_the_snapshot_up() -> None:
    disk = disk_with_old()
    snapshots = open_snapshots(disk, CHUNK_BYTES)
    disk.fault = Faults(Fault("open", 1, errno.EMFILE))
    with pytest.raises(Overloaded):
        write_new(snapshots)
    assert len(disk.list(DIRECTORY)) == 1
    write_new(snapshots)
