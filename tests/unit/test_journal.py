"""The journal as its owner sees it: groups, durability, refusals, the end."""

from __future__ import annotations

import errno
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from itertools import product

import pytest

from chaos.worlds.disk import Fault, Faults
from coordinator.raft.segments.index import (
    ANCHOR_BYTES,
    Index,
    Opened,
    Piece,
    Placed,
    Written,
)
from coordinator.raft.segments.layout import Entry
from coordinator.raft.segments.limits import JournalLimits, Space
from raftbatch.errors import (
    Compacted,
    Corrupt,
    DiskFailed,
    Invariant,
    NoSpace,
    Overloaded,
    PayloadTooLarge,
)
from raftbatch.ids import NodeId
from tests.unit.journal_helpers import LIMITS, Bench


def test_nothing_is_durable_before_its_sync() -> None:
    """The change is there at once; that it is durable is said later, once."""
    bench = Bench()
    lsn = bench.journal.append(1, b"x")
    bench.journal.flush()
    assert (bench.journal.last_index, bench.journal.durable_index) == (1, 0)
    bench.world.workers["journal-write"].run_one()
    assert bench.durable == []
    bench.world.workers["journal-write"].deliver_one()
    assert bench.durable == [lsn]
    assert bench.journal.durable_index == 1


def test_entry_rewritten_during_a_sync_is_not_durable_by_its_index() -> None:
    """The append ABA race: the sync that ends is of the entry that was taken back.

    Source: etcd's raft, testdata/async_storage_writes_append_aba_race.txt (the scenario).
    """
    bench = Bench()
    bench.write(b"first")
    bench.journal.append(1, b"taken back")
    bench.journal.flush()
    bench.world.workers["journal-write"].run_one()  # synced, and nobody told yet
    bench.journal.truncate(1)
    lsn = bench.journal.append(2, b"put in its place")
    bench.world.workers["journal-write"].deliver_one()
    assert bench.journal.durable == lsn - 2
    assert bench.journal.durable_index == 1
    bench.settle()
    assert bench.journal.durable_index == 2
    assert bench.reopen().term(2) == 2


def test_callback_that_raises_changes_nothing() -> None:
    """The journal has moved on before it calls."""
    bench = Bench()
    bench.raising = ValueError
    for lsn in (1, 2):
        bench.journal.append(1, b"x")
        bench.journal.flush()
        with pytest.raises(ValueError, match=str(lsn)):
            bench.world.workers.run_all()
        assert bench.journal.durable == bench.journal.durable_index == lsn
    bench.raising = None
    bench.write(b"y")
    assert bench.durable == [1, 2, 3]


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize(
    ("operation", "size"),
    # The larger entry needs a new segment, so that its file and the directory are synced too.
    [("datasync", 1), ("datasync", 4000), ("sync_directory", 4000)],
)
def test_failed_sync_ends_the_journal(operation: str, size: int, code: int) -> None:
    """Whatever the reason, it is not tried again, and no change is accepted after it."""
    bench = Bench()
    bench.write(b"acknowledged")
    bench.disk.fault = Faults(Fault(operation, 1, code))
    bench.journal.append(1, bytes(size))
    bench.settle()
    (failure,) = bench.failures
    assert isinstance(failure, DiskFailed)
    assert bench.journal.failure is failure
    assert bench.durable == [1]
    changes: list[Callable[[], int]] = [
        lambda: bench.journal.append(1, b"x"),
        lambda: bench.journal.set_hard_state(9, None),
        lambda: bench.journal.truncate(0),
        lambda: bench.journal.reset(9, 9),
    ]
    for change in changes:
        with pytest.raises(DiskFailed):
            change()
    operations = bench.disk.operations
    bench.settle()
    assert bench.disk.operations == operations, "nothing is asked of the disk any more"


def test_failed_write_ends_the_journal() -> None:
    """EIO is not a full disk."""
    bench = Bench()
    bench.disk.fault = Faults(Fault("write", 1, errno.EIO))
    bench.write(b"x")
    assert isinstance(bench.journal.failure, DiskFailed)


@pytest.mark.parametrize(
    ("operation", "code"),
    [
        *product(["write", "create", "allocate", "rename"], [errno.ENOSPC, errno.EDQUOT]),
        *product(["create", "rename", "sync_directory"], [errno.EMFILE, errno.ENFILE]),
    ],
)
def test_shortage_is_waited_out(operation: str, code: int) -> None:
    """What waits is written once there is room; meanwhile appends are refused, votes are not."""
    bench = Bench()
    bench.write(b"first")
    bench.disk.fault = Faults(Fault(operation, 1, code, onwards=True))
    lsn = bench.journal.append(1, bytes(4000))
    bench.settle()
    assert bench.journal.stalled is not None
    with pytest.raises(NoSpace) as caught:
        bench.journal.append(1, b"x")
    assert caught.value.definite
    assert caught.value.retry_after_ms > 0
    vote = bench.journal.set_hard_state(4, NodeId("n2"))
    bench.settle()
    assert bench.durable == [1]
    bench.disk.fault = None
    bench.settle()
    assert bench.durable[-1] == vote == lsn + 1
    bench.write(b"again")
    assert bench.reopen(power=True).last_index == 3


def test_dropped_segments_stay_while_no_descriptor_is_free() -> None:
    """They go with the next compaction, or the next start; the node lives on."""
    bench = Bench()
    for number in range(30):
        bench.write(bytes([number]) * 500)
    before = bench.disk.list("/data/journal")
    bench.disk.fault = Faults(Fault("list", 1, errno.EMFILE))
    bench.journal.compact(10)
    bench.settle()
    assert (bench.journal.failure, bench.disk.list("/data/journal")) == (None, before)
    bench.journal.compact(20)
    bench.settle()
    assert len(bench.disk.list("/data/journal")) < len(before)
    assert bench.reopen().first_index > 10


def test_full_disk_gathers_no_hard_states() -> None:
    """An outage of a thousand elections costs one record."""
    bench = Bench()
    bench.disk.fault = Faults(Fault("write", 1, errno.ENOSPC, onwards=True))
    bench.journal.append(1, b"x")
    bench.settle()
    for term in range(2, 1000):
        bench.journal.set_hard_state(term, None)
        bench.settle()
    assert bench.journal.lsn == 2
    bench.disk.fault = None
    bench.settle()
    assert bench.reopen().hard_state.term == 999


def test_watermarks_are_told_and_kept() -> None:
    """LOW is only told; at RESERVE entries are refused while the rest goes on."""
    bench = Bench()
    for left, space in (
        (LIMITS.disk_low_bytes - 1, Space.LOW),
        (LIMITS.disk_reserve_bytes - 1, Space.RESERVE),
    ):
        bench.disk.capacity -= bench.disk.bytes_left - left
        bench.journal.set_hard_state(bench.journal.hard_state.term + 1, None)
        bench.settle()
        assert bench.journal.space is space
    with pytest.raises(NoSpace, match="disk_reserve_bytes"):
        bench.journal.append(1, b"x")
    bench.journal.set_hard_state(9, NodeId("n1"))
    bench.settle()
    assert bench.journal.durable == bench.journal.lsn
    bench.disk.capacity = 4 << 20
    bench.settle()  # a turn in which nothing is written is enough
    bench.write(b"x")
    assert bench.journal.space is Space.ROOMY


def test_low_space_is_looked_at_again_though_nothing_is_written() -> None:
    """Who refuses all that is new since space is low writes nothing that would tell otherwise."""
    bench = Bench()
    bench.disk.capacity -= bench.disk.bytes_left - (LIMITS.disk_low_bytes - 1)
    bench.write(b"x")
    before = bench.journal.space
    bench.disk.capacity = 4 << 20
    bench.settle()
    assert [before, bench.journal.space] == [Space.LOW, Space.ROOMY]


def test_room_is_looked_at_some_ms_apart_and_when_a_segment_has_taken_some() -> None:
    """After each group it cost a lone entry 7 %."""
    bench = Bench()
    bench.write(b"x")
    low = LIMITS.disk_low_bytes - 1
    bench.disk.capacity -= bench.disk.bytes_left - low
    bench.write(b"x")
    assert bench.journal.disk.space_left > low, "not yet: it was looked at just now"
    bench.world.clock.advance_ms(20)
    bench.write(b"x")
    assert [bench.journal.disk.space_left, bench.journal.space] == [low, Space.LOW]
    bench.disk.capacity = 4 << 20
    segments = len(bench.journal.spans())
    while len(bench.journal.spans()) == segments:
        bench.write(bytes(1000))
    assert bench.journal.disk.space_left == bench.disk.bytes_left


def test_what_waits_is_bounded() -> None:
    """Past the bound an append is refused, definitely, and changes nothing."""
    bench = Bench()
    for _ in range(4):
        bench.journal.append(1, bytes(4000))
    with pytest.raises(Overloaded) as caught:
        bench.journal.append(1, bytes(4000))
    assert caught.value.definite
    assert bench.journal.last_index == 4
    bench.settle()
    assert bench.journal.durable_index == 4


def test_entry_beyond_the_limit_is_refused() -> None:
    """By name; one as large as the limit is taken, though it is larger than a segment."""
    bench = Bench()
    with pytest.raises(PayloadTooLarge, match="entry_bytes_max = 8192"):
        bench.journal.append(1, bytes(8193))
    bench.write(bytes(8192))
    bench.reopen()
    assert bench.read(1) == [bytes(8192)]


def test_impossible_changes_are_bugs() -> None:
    """Terms and votes go one way."""
    bench = Bench()
    bench.write(b"x", term=3)
    bench.journal.set_hard_state(3, NodeId("n1"))
    changes: list[Callable[[], int]] = [
        lambda: bench.journal.append(2, b"x"),
        lambda: bench.journal.set_hard_state(2, None),
        lambda: bench.journal.set_hard_state(3, NodeId("n2")),
        lambda: bench.journal.set_hard_state(9, NodeId("n" * 64)),
        lambda: bench.journal.truncate(2),
    ]
    for change in changes:
        with pytest.raises(Invariant):
            change()
    assert bench.journal.lsn == 2


def test_old_entries_come_from_disk() -> None:
    """Memory holds the newest, within its bound, and all that is not durable."""
    bench = Bench()
    for number in range(40):
        bench.write(bytes([number]) * 300)
    assert bench.journal.tail(1, 1000) == ()
    assert bench.journal.tail(40, 1000) == (Entry(40, 1, bytes([39]) * 300),)
    assert bench.read(1, 700) == [bytes([0]) * 300, bytes([1]) * 300]
    assert bench.read(1, 1) == [bytes([0]) * 300], "at least one"
    with pytest.raises(Invariant):
        bench.journal.read(40, 1, lambda future: None)


def test_memory_is_bounded_by_the_limits() -> None:
    """Not by the log: a thousand entries leave no more behind than a hundred."""
    bench = Bench()
    for number in range(1000):
        bench.write(bytes([number % 251]) * 300)
    journal = bench.journal
    assert journal._tail.size <= LIMITS.tail_bytes_max
    assert journal.tail(1, 1) == ()
    anchors = len(journal._index._indices)
    assert anchors <= len(journal.spans()) + 1000 * 352 // ANCHOR_BYTES
    assert not journal.waiting


def test_offsets_have_64_bits() -> None:
    """A segment may be longer than 4 GiB, and LSNs and indices go on for ever."""
    index, far, many = Index(), 5 << 32, 1 << 40
    index.apply(Opened(1, 7, far + 4096, many, many, 0))
    index.apply(Placed(many + 1, 1, far))
    index.apply(Written(many + 1, far + 4096))
    piece = Piece(1, 7, far, far + 4096, many + 1, many + 1)
    assert index.pieces(many + 1, many + 1, 1) == [piece]


def test_read_of_damaged_entries_ends_the_journal() -> None:
    """It was acknowledged, so it is not what it was: the node stops."""
    bench = Bench()
    for number in range(40):
        bench.write(bytes([number]) * 300)
    bench.disk.flip_bit(bench.segment(1), 800, 3)
    found: list[Future[tuple[Entry, ...]]] = []
    bench.journal.read(1, 1000, found.append)
    bench.world.workers.run_all()
    assert isinstance(found[0].exception(), Corrupt)
    assert isinstance(bench.journal.failure, Corrupt)


def test_compaction_drops_whole_segments_only() -> None:
    """Entries that share a segment with a live one stay readable."""
    bench = Bench()
    for number in range(30):
        bench.write(bytes([number]) * 500)
    segments = [name for name in bench.disk.list("/data/journal") if name.startswith("segment")]
    bench.journal.compact(20)
    bench.settle()
    left = [name for name in bench.disk.list("/data/journal") if name.startswith("segment")]
    assert left == segments[-len(left) :]
    first = bench.journal.first_index
    assert 1 < first <= 21
    with pytest.raises(Compacted):
        bench.journal.read(first - 1, 1, lambda future: None)
    assert bench.read(first, 1) == [bytes([first - 1]) * 500]
    assert bench.reopen().first_index == first
    assert bench.journal.spans()[0].first_index == first


def test_read_of_a_lost_segment_ends_the_journal() -> None:
    """A dropped one goes only behind the reads that may be using it."""
    bench = Bench()
    for number in range(40):
        bench.write(bytes([number]) * 300)
    bench.disk.remove(bench.segment(1))
    found: list[Future[tuple[Entry, ...]]] = []
    bench.journal.read(1, 1000, found.append)
    bench.world.workers.run_all()
    assert isinstance(bench.journal.failure, Corrupt)
    assert isinstance(found[0].exception(), Corrupt)


def test_read_skips_over_what_was_taken_back() -> None:
    """However much of it there is, and however small the window is that is read at once."""
    limits = replace(
        LIMITS,
        segment_bytes=1 << 20,
        entry_bytes_max=300_000,
        pending_bytes_max=1 << 20,
        disk_reserve_bytes=3 << 20,
        disk_low_bytes=3 << 20,
    )
    bench = Bench(limits, capacity=64 << 20)
    bench.write(b"kept", bytes(250_000), bytes(250_000))
    bench.journal.truncate(1)
    bench.write(bytes(200_000), b"last", term=2)
    bench.reopen()
    assert bench.read(1) == [b"kept", bytes(200_000), b"last"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"segment_bytes": 4095}, "segment_bytes = 4095"),
        ({"entry_bytes_max": 0}, "entry_bytes_max = 0"),
        ({"pending_bytes_max": 8191}, "pending_bytes_max = 8191 is less than entry_bytes_max"),
        ({"disk_reserve_bytes": 18_191}, "snapshot_bytes_max \\+ 2 \\* segment_bytes = 18192"),
        ({"disk_low_bytes": 29_999}, "disk_low_bytes = 29999 is less than disk_reserve_bytes"),
    ],
)
def test_limits_that_cannot_hold_together_are_refused(change: dict[str, int], message: str) -> None:
    """Both are named."""
    with pytest.raises(ValueError, match=message):
        replace(LIMITS, **change)
    assert JournalLimits() == JournalLimits()
