"""Which changes share a sync, and what becomes of those behind a group that failed."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from chaos.worlds.disk import Fault, Faults, SimFile
from coordinator.raft.segments.mark import MARK_NAME
from raftbatch.errors import DiskFailed
from tests.unit.journal_helpers import LIMITS, Bench


def count_syncs(bench: Bench) -> list[str]:
    """Return a list that gets the path of each file that is synced."""
    syncs: list[str] = []
    bench.disk.fault = lambda operation, path: (
        syncs.append(path) if operation == "datasync" else None
    )
    return syncs


def test_changes_of_one_turn_share_a_sync() -> None:
    """And those of all turns that end while it runs share the next."""
    bench = Bench()
    writing, syncs = bench.world.workers["journal-write"], count_syncs(bench)
    for _ in range(5):
        bench.journal.append(1, b"x")
    bench.journal.flush()
    assert writing.run_one()
    for _ in range(5):
        bench.journal.append(1, b"x")
        bench.journal.flush()
    bench.settle()
    assert (len(syncs), bench.durable) == (2, [5, 10])


def test_next_group_is_written_before_the_loop_hears_of_the_last() -> None:
    """One job waits at the thread, and takes what is there when it begins."""
    bench = Bench()
    writing, syncs = bench.world.workers["journal-write"], count_syncs(bench)
    for _ in range(4):
        bench.journal.append(1, b"x")
        bench.journal.flush()
    assert writing.waiting == 1, "one call takes them all: another would find nothing"
    assert writing.run_one()
    bench.journal.append(1, b"y")
    bench.journal.flush()
    assert writing.waiting == 1
    assert writing.run_one()
    assert (len(syncs), bench.journal.durable) == (2, 0)
    bench.journal.append(1, b"z")
    bench.journal.flush()  # no third job before a report
    assert writing.waiting == 0
    bench.settle()
    assert (len(syncs), bench.durable) == (3, [4, 5, 6])


def test_no_group_is_written_behind_one_that_failed() -> None:
    """Although it was asked for before the loop knew of that."""
    bench = Bench()
    writing = bench.world.workers["journal-write"]
    bench.disk.fault = Faults(Fault("datasync", 1, errno.EIO))
    bench.journal.append(1, b"x")
    bench.journal.flush()
    assert writing.run_one()
    operations = bench.disk.operations
    bench.journal.append(1, b"y")
    bench.journal.flush()
    assert writing.run_one()
    assert bench.disk.operations == operations
    bench.settle()
    assert (len(bench.failures), bench.durable) == (1, [])


def test_mark_that_cannot_be_written_ends_the_journal() -> None:
    """It is written when its group was told, or is about to be; nothing is written behind that."""
    bench = Bench()

    def fault(operation: str, path: str) -> None:
        if operation == "write" and path.endswith(MARK_NAME):
            raise OSError(errno.EIO, "no")

    bench.disk.fault = fault
    bench.journal.append(1, b"x")
    bench.settle()
    assert (len(bench.failures), bench.durable) == (1, [])
    with pytest.raises(DiskFailed):
        bench.journal.append(1, b"y")
    with pytest.raises(DiskFailed):
        bench.journal._groups.write(bench.journal._writer)


def test_group_that_found_no_room_goes_before_the_next() -> None:
    """Whether the next tries with it, or is taken back with it."""
    for tries in (1, 2):
        bench = Bench()
        writing = bench.world.workers["journal-write"]
        bench.disk.fault = Faults(*(Fault("write", at + 1, errno.ENOSPC) for at in range(tries)))
        bench.journal.append(1, b"x")
        bench.journal.flush()
        assert writing.run_one()
        bench.journal.append(1, b"y")
        bench.journal.flush()
        bench.world.workers.run_all()
        assert bench.durable == ([2] if tries == 1 else [])
        bench.settle()
        assert bench.durable == [2]
        assert bench.reopen().last_index == 2


def test_system_may_forget_what_is_synced_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it, a mebibyte at a time, and the rest of a segment at its end."""
    forgotten: list[tuple[int, int]] = []

    def uncache(file: SimFile, offset: int, length: int) -> None:
        assert not file.inode.pending, "the system holds what is not on the platter yet"
        forgotten.append((offset, length))

    monkeypatch.setattr(SimFile, "uncache", uncache)
    mib = 1 << 20
    limits = replace(
        LIMITS,
        segment_bytes=3 * mib,
        entry_bytes_max=mib,
        group_bytes_max=mib,
        pending_bytes_max=8 * mib,
        disk_low_bytes=9 * mib,
        disk_reserve_bytes=8 * mib,
    )
    bench = Bench(limits, 32 * mib)
    bench.write(b"small")
    assert forgotten == []
    for _ in range(10):
        bench.write(bytes(mib // 2))
    starts, lengths = [offset for offset, _ in forgotten], [length for _, length in forgotten]
    assert len(forgotten) == 5
    assert starts[0] == 512  # behind the header, which is all there was when it was opened
    assert starts[1:3] == [starts[0] + lengths[0], starts[1] + lengths[1]]
    assert starts[3] == 0
    assert min(*lengths[:2], lengths[3]) >= mib
    assert lengths[2] < mib  # what was left of the first segment
