"""The facade's applied entries: from memory and from disk, in order, and never one too early."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial

import pytest

from chaos.worlds.loop import VirtualLoop
from coordinator.raft.segments.layout import Entry
from raftbatch.errors import Compacted, Invariant, OutcomeUnknown
from tests.unit.test_core_log import Bench


@pytest.fixture
def bench() -> Iterator[Bench]:
    with VirtualLoop() as loop:
        yield Bench(loop)


def fill(bench: Bench, count: int, size: int = 200) -> int:
    """Append entries; return the index of the last, which is applied."""
    index = 0
    for number in range(count):
        index = bench.propose(b"%d " % number + bytes(size)).index
        bench.loop.run_for(0.1)
    assert bench.log.applied == index
    return index


def read(bench: Bench, first: int, bytes_max: int) -> tuple[Entry, ...]:
    """Return what is read."""
    found = bench.outcome(partial(bench.log.entries, first, bytes_max))
    assert isinstance(found, tuple), found
    return found


def test_all_that_is_there_is_read_from_disk_and_memory(bench: Bench) -> None:
    last = fill(bench, 12)
    journal = bench.log._driver.journal
    first = bench.log.first_index
    found: list[Entry] = []
    while len(found) < last - first + 1:
        some = read(bench, first + len(found), 500)
        assert some, found
        found += some
    assert [entry.index for entry in found] == list(range(first, last + 1))
    words = [entry.data for entry in found if entry.data and not entry.is_config]
    assert words == bench.replica.words[-len(words) :]
    assert not journal.tail(first, 1), "the oldest had to be read from disk"


def test_what_is_not_applied_is_not_read(bench: Bench) -> None:
    last = fill(bench, 1)
    assert read(bench, last + 1, 1000) == ()
    bench.propose(b"on its way")
    assert read(bench, last + 1, 1000) == ()


def test_one_entry_is_read_however_large(bench: Bench) -> None:
    last = fill(bench, 2)
    assert [entry.index for entry in read(bench, last - 1, 1)] == [last - 1]


def test_what_is_gone_is_an_error_that_names_the_first(bench: Bench) -> None:
    fill(bench, 2)
    bench.log._driver.journal.reset(40, 9)
    bench.log._driver.applying.index = 40
    error = bench.outcome(partial(bench.log.entries, 3, 1000))
    assert isinstance(error, Compacted)
    assert str(error) == "entry 3 is gone: the log begins with 41"


def test_index_is_waited_for(bench: Bench) -> None:
    last = fill(bench, 1)
    assert bench.outcome(partial(bench.log.reached, last)) is None
    waiting = bench.world.call(lambda: bench.loop.create_task(bench.log.reached(last + 1)))
    assert waiting is not None
    bench.loop.run_for(0.5)
    assert not waiting.done()
    bench.propose(b"it")
    bench.loop.run_for(0.5)
    assert waiting.done()
    assert waiting.exception() is None


def test_whoever_waits_no_more_leaves_nothing_behind(bench: Bench) -> None:
    last = fill(bench, 1)
    waiting = bench.world.call(lambda: bench.loop.create_task(bench.log.reached(last + 1)))
    assert waiting is not None
    bench.loop.run_for(0.1)
    assert len(bench.log._driver.barriers) == 1
    waiting.cancel()
    bench.loop.run_for(0.1)
    assert bench.log._driver.barriers == []
    with pytest.raises(asyncio.CancelledError):
        waiting.result()


def test_log_that_has_ended_says_so(bench: Bench) -> None:
    last = fill(bench, 1)
    waiting = bench.world.call(lambda: bench.loop.create_task(bench.log.reached(last + 1)))
    assert waiting is not None
    bench.loop.run_for(0.1)
    bench.world.call(bench.log.close)
    bench.loop.run_for(0.1)
    assert isinstance(waiting.exception(), OutcomeUnknown)
    assert isinstance(bench.outcome(partial(bench.log.entries, 1, 10)), Invariant)
    assert isinstance(bench.outcome(partial(bench.log.reached, 1)), Invariant)
