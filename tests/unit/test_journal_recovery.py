"""Opening a journal: what is cut, what is refused, and what each refusal says."""

from __future__ import annotations

import errno
from random import Random

import pytest

from chaos.worlds.disk import Fault, Faults, SimDisk
from chaos.worlds.stepped import SimWorld
from coordinator.raft.segments.layout import HEAD_BYTES, SECTOR_BYTES, HardState
from coordinator.raft.segments.mark import MARK_NAME, encode_mark
from coordinator.raft.segments.recovery import create, recover
from coordinator.raft.segments.replay import is_initialised
from raftbatch.errors import CannotStart, Corrupt, DiskFailed
from raftbatch.ids import NodeId
from raftbatch.world import join
from tests.unit.journal_helpers import DIRECTORY, IDENTITY, LIMITS, Bench

MARK = join(DIRECTORY, MARK_NAME)


def forget_mark(disk: SimDisk) -> None:
    """Leave the mark as a power cut may: as old as it ever was."""
    for offset in (0, SECTOR_BYTES):
        disk.overwrite(MARK, offset, encode_mark(0))


def test_recovery_gives_back_everything() -> None:
    """Entries, terms, hard state, and where the log begins."""
    bench = Bench()
    bench.write(b"one", b"two", term=1)
    bench.journal.set_hard_state(3, NodeId("n2"))
    bench.write(b"three", term=3)
    journal = bench.reopen()
    assert (journal.first_index, journal.last_index, journal.last_term) == (1, 3, 3)
    assert [journal.term(index) for index in range(5)] == [0, 1, 1, 3, None]
    assert journal.hard_state == HardState(3, NodeId("n2"))
    assert journal.lsn == journal.durable == 4
    assert bench.read(1) == [b"one", b"two", b"three"]
    assert journal.repairs == ()


def test_recovery_cuts_a_torn_tail_and_says_so() -> None:
    """What no acknowledgement depended on."""
    bench = Bench()
    bench.write(b"kept")
    bench.disk.overwrite(bench.segment(1), SECTOR_BYTES + HEAD_BYTES + 8, b"torn bytes")
    journal = bench.reopen()
    assert bench.read(1) == [b"kept"]
    (repair,) = journal.repairs
    assert f"{bench.segment(1)} at offset {SECTOR_BYTES + HEAD_BYTES + 8}" in repair


def test_recovery_never_goes_on_in_front_of_what_it_cut() -> None:
    """Else an old record, whole, could stand behind a new one with the LSN that is due."""
    bench = Bench()
    bench.write(b"kept")
    torn = SECTOR_BYTES + HEAD_BYTES + 8
    for data in (b"torn", b"old!"):
        bench.journal.append(1, data)
    bench.settle()
    forget_mark(bench.disk)
    bench.disk.overwrite(bench.segment(1), torn, b"\1" * 8)  # the first of the group is gone
    bench.reopen()
    bench.write(b"new!")  # as long as the one that was torn
    journal = bench.reopen()
    assert journal.last_index == 2
    assert bench.read(1) == [b"kept", b"new!"]


def test_recovery_is_safe_where_its_own_sync_failed() -> None:
    """A start that could not finish must not make the next one see another tail."""
    bench = Bench()
    bench.write(b"kept")
    torn = SECTOR_BYTES + HEAD_BYTES + 8
    bench.journal.append(1, b"torn")
    bench.journal.set_hard_state(5, NodeId("n1"))
    bench.settle()
    forget_mark(bench.disk)
    bench.disk.overwrite(bench.segment(1), torn, b"\1" * 8)
    for number in range(1, 5):
        bench.crash()
        bench.disk.fault = Faults(Fault("datasync", number, errno.EIO))
        try:
            bench.open()
        except DiskFailed:
            continue
        break
    bench.reopen()
    assert bench.journal.hard_state == HardState(0, None)
    bench.write(b"new!")
    bench.journal.set_hard_state(5, NodeId("n2"))
    bench.settle()
    journal = bench.reopen(power=True)
    assert journal.hard_state == HardState(5, NodeId("n2"))
    assert bench.read(1) == [b"kept", b"new!"]


def test_recovery_refuses_damage_that_a_later_group_vouches_for() -> None:
    """Even where the mark was lost with the power."""
    bench = Bench()
    bench.write(b"acknowledged")
    bench.write(b"later")
    forget_mark(bench.disk)
    bench.disk.flip_bit(bench.segment(1), SECTOR_BYTES + HEAD_BYTES, 0)
    bench.crash()
    with pytest.raises(Corrupt, match="LSN 2 shows that it was acknowledged") as caught:
        bench.open()
    assert (caught.value.path, caught.value.offset) == (bench.segment(1), SECTOR_BYTES)


def test_recovery_refuses_a_zeroed_tail_that_the_mark_vouches_for() -> None:
    """It looks like a journal that was never longer."""
    bench = Bench()
    bench.write(b"one")
    bench.write(b"two")
    bench.disk.zero(bench.segment(1), SECTOR_BYTES + HEAD_BYTES + 8, 4096)
    bench.crash()
    with pytest.raises(Corrupt, match="end with LSN 1, but up to 2 were acknowledged"):
        bench.open()


def test_recovery_refuses_a_lost_record_at_the_end_of_a_full_segment() -> None:
    """Even one that changed nothing, where the next segment begins with the same state."""
    bench = Bench()
    bench.journal.set_hard_state(1, NodeId("n1"))
    bench.write(bytes(3400))
    bench.journal.set_hard_state(1, NodeId("n1"))
    bench.write(bytes(200))  # does not fit behind it
    offset = SECTOR_BYTES + HEAD_BYTES + 8 + HEAD_BYTES + 3400
    bench.disk.flip_bit(bench.segment(1), offset + 1, 0)
    bench.crash()
    with pytest.raises(Corrupt, match="records up to LSN 3 were acknowledged here") as caught:
        bench.open()
    assert (caught.value.path, caught.value.offset) == (bench.segment(1), offset)


def two_segments() -> Bench:
    """Return a journal whose entries 1 and 2 stand in a segment each."""
    bench = Bench()
    bench.write(bytes(3000))
    bench.write(bytes(3000))
    bench.crash()
    return bench


def test_recovery_refuses_a_missing_oldest_segment() -> None:
    """Nothing in the second one says that there was a first, but its number."""
    bench = two_segments()
    bench.disk.remove(bench.segment(1))
    with pytest.raises(Corrupt, match="missing") as caught:
        bench.open()
    assert caught.value.path == bench.segment(1)


def test_recovery_refuses_a_missing_newest_segment() -> None:
    """The mark knows more than the first one holds."""
    bench = two_segments()
    bench.disk.remove(bench.segment(2))
    with pytest.raises(Corrupt, match="up to 2 were acknowledged"):
        bench.open()


def test_recovery_refuses_missing_segments_and_a_missing_mark() -> None:
    """All segments, or the mark, cannot vanish unseen."""
    bench = two_segments()
    for seq in (1, 2):
        bench.disk.remove(bench.segment(seq))
    with pytest.raises(Corrupt, match="all segments are missing"):
        recover(bench.world, DIRECTORY, LIMITS.segment_bytes)
    bench = two_segments()
    bench.disk.remove(MARK)
    with pytest.raises(Corrupt, match="mark at offset 0: the file is missing"):
        bench.open()


def test_recovery_refuses_swapped_and_foreign_segments() -> None:
    """A file is what its header says, whatever its name."""
    bench = two_segments()
    bench.disk.rename(bench.segment(2), bench.segment(1))
    with pytest.raises(Corrupt, match="says that it is segment 2"):
        bench.open()
    bench, other = two_segments(), two_segments()
    bench.disk.overwrite(bench.segment(2), 0, other.disk.read(other.segment(1))[:SECTOR_BYTES])
    with pytest.raises(Corrupt, match="says that it is segment 1"):
        bench.open()


def test_recovery_makes_durable_what_it_found() -> None:
    """A killed process may have left records in the cache only."""
    bench = Bench()
    bench.disk.fault_after = Faults(Fault("write", 1, errno.EIO))
    bench.journal.append(1, b"in the cache")
    bench.settle()
    bench.disk.fault_after = None
    assert isinstance(bench.journal.failure, DiskFailed)
    assert bench.reopen().last_index == 1
    assert bench.reopen(power=True).last_index == 1


def test_recovery_writes_again_what_a_failed_sync_lost() -> None:
    """The kernel calls such pages clean: a second sync alone would lie."""
    for seed in range(20):
        bench = Bench()
        bench.disk.rng = Random(seed)
        bench.disk.fault = Faults(Fault("datasync", 1, errno.EIO))
        bench.journal.append(1, b"not on the platter")
        bench.settle()
        if bench.reopen().last_index == 1:  # else the cache was dropped before
            assert bench.reopen(power=True).last_index == 1


def test_create_refuses_what_holds_a_journal() -> None:
    """An empty directory is no accident to repeat."""
    bench = Bench()
    with pytest.raises(CannotStart, match="holds a journal already"):
        create(bench.world, DIRECTORY, IDENTITY, 4096)


def test_open_refuses_what_holds_no_journal() -> None:
    """Opening never begins one."""
    world = SimWorld(1, SimDisk(Random(1)))
    with pytest.raises(CannotStart, match="holds no journal"):
        recover(world, DIRECTORY, LIMITS.segment_bytes)


def test_create_says_when_there_is_no_room() -> None:
    """And leaves a directory in which it can be tried again."""
    world = SimWorld(1, SimDisk(Random(1), 4096))
    with pytest.raises(CannotStart, match="no room for a journal"):
        create(world, DIRECTORY, IDENTITY, LIMITS.segment_bytes)
    assert not is_initialised(world.files, DIRECTORY)
    world.files.capacity = 1 << 20
    create(world, DIRECTORY, IDENTITY, LIMITS.segment_bytes)
    assert is_initialised(world.files, DIRECTORY)
