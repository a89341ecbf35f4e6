"""Memberships in the journal: found again at once, after a restart, and by whoever begins one."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.suites.journal_run import DIRECTORY, IDENTITY, LIMITS
from chaos.worlds.disk import Fault, Faults, SimDisk
from chaos.worlds.hooks import Crash
from chaos.worlds.stepped import SimWorld
from coordinator.raft.journal import Journal
from coordinator.raft.membership import encode
from coordinator.raft.segments.configs import Configs
from coordinator.raft.segments.layout import Entry, HardState, Kind
from coordinator.raft.segments.recovery import create
from coordinator.raft.segments.replay import is_initialised
from raftbatch.errors import Corrupt
from tests.scenarios.fakes import N1, N2, N3, members
from tests.unit.journal_helpers import Bench

ONE, TWO, THREE = (encode(members(*each)) for each in ((N1,), (N1, N2), (N1, N2, N3)))


def found(bench: Bench, *indices: int) -> list[int | None]:
    """Return where the membership in force at each index stands."""
    entries = [bench.journal.config(index) for index in indices]
    return [None if entry is None else entry.index for entry in entries]


def written(bench: Bench, *data: bytes) -> None:
    """Append memberships, or plain entries where data is empty."""
    for each in data:
        bench.journal.append(1, each or b"x", is_config=bool(each))
    bench.settle()


def test_membership_is_found_at_every_index() -> None:
    bench = Bench()
    assert found(bench, 0, 9) == [None, None]
    written(bench, ONE, b"", TWO, b"")
    assert found(bench, 0, 1, 2, 3, 4) == [None, 1, 1, 3, 3]
    assert bench.journal.config(4) == Entry(3, 1, TWO, is_config=True)


@pytest.mark.parametrize("power", [False, True])
def test_membership_is_found_again_after_a_restart(power: bool) -> None:
    bench = Bench()
    written(bench, ONE, b"", TWO)
    bench.journal.truncate(2)
    written(bench, b"", THREE)
    bench.reopen(power)
    assert found(bench, 2, 3, 4) == [1, 1, 4]
    assert bench.journal.config(4) == Entry(4, 1, THREE, is_config=True)


def test_membership_is_taken_back_with_its_entry_and_gone_behind_a_snapshot() -> None:
    bench = Bench()
    written(bench, ONE, b"", TWO)
    bench.journal.truncate(2)
    assert found(bench, 9) == [1]
    bench.journal.truncate(1)
    assert found(bench, 9) == [1]
    bench.journal.reset(7, 2)
    assert found(bench, 7, 9) == [None, None]
    bench.settle()
    bench.reopen()
    assert found(bench, 7, 9) == [None, None]


def test_membership_outlives_the_segment_of_its_entry_while_the_process_lives() -> None:
    """After a restart the snapshot tells it, which compaction presupposes."""
    bench = Bench()
    written(bench, ONE, b"", TWO)
    while len(bench.journal.spans()) < 3:
        bench.write(bytes(2000))
    last = bench.journal.last_index
    bench.journal.compact(last)
    bench.settle()
    assert bench.journal.first_index > 3
    assert found(bench, last) == [3]
    bench.reopen()
    assert found(bench, last) == [None]


def test_read_from_disk_tells_memberships_from_other_entries() -> None:
    bench = Bench()
    written(bench, ONE, b"", TWO)
    bench.reopen()
    entries: list[tuple[Entry, ...]] = []
    bench.journal.read(1, 1 << 20, lambda future: entries.append(future.result()))
    bench.world.workers.run_all()
    assert [(each.index, each.is_config) for each in entries[0]] == [
        (1, True),
        (2, False),
        (3, True),
    ]


def test_entry_that_is_said_to_be_a_membership_and_is_none_is_damage() -> None:
    """Whoever wrote it: nobody could say who belongs to the cluster."""
    bench = Bench()
    bench.journal._add(Kind.CONFIG, 1, 1, b"nonsense")
    bench.settle()
    with pytest.raises(Corrupt, match="said to be a membership"):
        bench.reopen()


# Founding.


def begun(disk: SimDisk) -> Journal:
    """Open what is there."""
    return Journal(
        SimWorld(2, disk),
        DIRECTORY,
        LIMITS,
        on_durable=lambda lsn: None,
        on_failed=lambda error: None,
    )


def test_founders_are_there_as_soon_as_the_journal_is() -> None:
    disk = SimDisk(Random(1))
    create(SimWorld(1, disk), DIRECTORY, IDENTITY, LIMITS.segment_bytes, THREE)
    disk.crash(power=True)
    journal = begun(disk)
    assert (journal.first_index, journal.last_index, journal.last_term) == (1, 1, 1)
    assert journal.config(1) == Entry(1, 1, THREE, is_config=True)
    assert journal.hard_state == HardState(1, None), "no entry is of a later term than the node"
    assert journal.repairs == ()


def test_founding_that_is_cut_short_leaves_nothing_or_all_of_it() -> None:
    """Whichever operation of the disk is the last, and whether the power goes too."""
    for power in (False, True):
        outcomes = []
        for number in range(1, 40):
            disk = SimDisk(Random(number))
            disk.fault = Faults(Fault("any", number, Crash))
            try:
                create(SimWorld(1, disk), DIRECTORY, IDENTITY, LIMITS.segment_bytes, THREE)
            except Crash:
                disk.fault = None
                disk.crash(power)
            else:
                break
            is_there = is_initialised(disk, DIRECTORY)
            outcomes.append(is_there)
            if is_there:
                assert begun(disk).config(1) == Entry(1, 1, THREE, is_config=True)
        assert {*outcomes} == {False, True}


def test_founders_that_are_damaged_are_no_torn_write() -> None:
    """A node without them would take itself for one that joins."""
    disk = SimDisk(Random(1))
    create(SimWorld(1, disk), DIRECTORY, IDENTITY, LIMITS.segment_bytes, THREE)
    disk.flip_bit(f"{DIRECTORY}/segment-{1:020d}", 512 + 60, 3)
    with pytest.raises(Corrupt, match="acknowledged"):
        begun(disk)


# The list, against a plain one.


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("append"), st.integers(1, 3)),
            st.tuples(st.just("keep"), st.integers(0, 30)),
            st.tuples(st.just("forget_below"), st.integers(0, 30)),
        ),
        max_size=40,
    )
)
def test_configs_are_what_a_plain_list_says(steps: list[tuple[str, int]]) -> None:
    configs, plain, last, floor = Configs(), dict[int, Entry](), 0, 0
    for name, number in steps:
        match name:
            case "append":
                last += number
                plain[last] = Entry(last, 1, b"", is_config=True)
                configs.append(plain[last])
            case "keep":
                last = max(min(last, number), floor)
                plain = {index: each for index, each in plain.items() if index <= last}
                configs.keep(last)
            case _:
                floor = max(floor, min(number, last))
                configs.forget_below(floor)
        for index in range(floor, last + 3):
            wanted = max((each for each in plain if each <= index), default=None)
            entry = configs.at(index)
            assert (None if entry is None else entry.index) == wanted
