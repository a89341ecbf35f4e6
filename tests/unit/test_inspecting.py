"""Reading the applied log on, within bounds; and what a state tells of one request or batch."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from coordinator.inspecting import (
    MEMBERS_SHOWN_MAX,
    READ_BYTES,
    applied_entries,
    batch_state,
    request_state,
)
from coordinator.raft.membership import encode
from coordinator.raft.segments.layout import Entry, record_bytes
from coordinator.rpc.entries import messages
from raftbatch import records as r
from raftbatch.codec import encode_entry
from raftbatch.cut import read_cut
from raftbatch.errors import Compacted, OutcomeUnknown, UnknownRequest
from raftbatch.settings import Model
from tests.scenarios.fakes import N1, N2, members
from tests.unit.core.tables import Core
from tests.unit.record_examples import EXAMPLES
from tests.unit.record_examples import entry as entry_of


class FakeLog:
    """A log that is applied, and let go of, when the test says so.

    Attributes:
        entries_there: all that were ever appended, from index 1.
        first: index of the oldest that is kept.
        applied: index of the last that is applied.
        reads: how often it was read.
        error: raised by whoever waits; None: nothing.
    """

    def __init__(self, *sizes: int) -> None:
        self.there = [Entry(index, 1, bytes(size)) for index, size in enumerate(sizes, start=1)]
        self.first, self.applied, self.reads = 1, len(sizes), 0
        self.error: Exception | None = None
        self.changed = asyncio.Event()

    async def entries(self, first: int, bytes_max: int) -> tuple[Entry, ...]:
        """Return applied entries, as the log does."""
        self.reads += 1
        await asyncio.sleep(0)
        if first < self.first:
            raise Compacted(f"entry {first} is gone: the log begins with {self.first}")
        found = []
        for entry in self.there[first - 1 : self.applied]:
            found.append(entry)
            bytes_max -= record_bytes(len(entry.data))
            if bytes_max <= 0:
                break
        return tuple(found)

    async def reached(self, index: int) -> None:
        """Return once an index is applied."""
        while index > self.applied:
            await self.changed.wait()
            self.changed.clear()
            if self.error is not None:
                raise self.error

    def append(self, size: int) -> None:
        """Append an entry, and apply it."""
        self.there.append(Entry(len(self.there) + 1, 1, bytes(size)))
        self.applied = len(self.there)
        self.changed.set()


async def indexes(log: FakeLog, first: int, last: int) -> list[int]:
    """Return all that is there."""
    async with aclosing(applied_entries(log, first, last, follows=False)) as read:
        return [entry.index async for group in read for entry in group]


def test_entries_come_in_order_and_end_with_what_is_applied() -> None:
    async def test() -> None:
        log = FakeLog(*[1] * 9)
        log.applied = 7
        assert await indexes(log, 1, 0) == [1, 2, 3, 4, 5, 6, 7]
        assert await indexes(log, 3, 5) == [3, 4, 5]
        assert await indexes(log, 7, 9) == [7]
        assert await indexes(log, 8, 0) == []

    asyncio.run(test())


def test_no_more_is_read_than_was_taken() -> None:
    """However far the log is ahead: one read for each group that somebody has asked for."""

    async def test() -> None:
        log = FakeLog(*[READ_BYTES] * 20)
        async with aclosing(applied_entries(log, 1, 0, follows=True)) as read:
            for expected in (1, 2, 3):
                group = await anext(read)
                assert [entry.index for entry in group] == [expected]
                assert log.reads == expected

    asyncio.run(test())


def test_follower_waits_and_goes_on() -> None:
    async def test() -> None:
        log = FakeLog(1)
        async with aclosing(applied_entries(log, 1, 3, follows=True)) as read:
            assert [entry.index for entry in await anext(read)] == [1]
            waiting = asyncio.ensure_future(anext(read))
            for _ in range(5):
                await asyncio.sleep(0)
            assert not waiting.done()
            log.append(1)
            assert [entry.index for entry in await waiting] == [2]
            log.append(1)
            log.append(1)
            assert [entry.index for entry in await anext(read)] == [3]
            with pytest.raises(StopAsyncIteration):
                await anext(read)

    asyncio.run(test())


def test_reader_that_is_overtaken_hears_where_the_log_begins() -> None:
    async def test() -> None:
        log = FakeLog(*[READ_BYTES] * 5)
        async with aclosing(applied_entries(log, 1, 0, follows=True)) as read:
            await anext(read)
            log.first = 4
            with pytest.raises(Compacted, match="the log begins with 4"):
                await anext(read)

    asyncio.run(test())


def test_follower_hears_that_the_log_has_ended() -> None:
    async def test() -> None:
        log = FakeLog(1)
        async with aclosing(applied_entries(log, 2, 0, follows=True)) as read:
            waiting = asyncio.ensure_future(anext(read))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            log.error = OutcomeUnknown("this node was stopped")
            log.changed.set()
            with pytest.raises(OutcomeUnknown):
                await waiting

    asyncio.run(test())


# Messages.


def test_messages_are_bounded_and_join_again() -> None:
    datas = [bytes([number]) * size for number, size in enumerate((10, 300, 0, 95, 5, 1000, 1))]
    entries = [Entry(index, 1, data) for index, data in enumerate(datas, start=1)]
    found: dict[int, bytes] = {}
    for reply in messages(entries, cuts=False, bytes_max=100):
        assert sum(len(entry.data) for entry in reply.entries) <= 100
        for place, entry in enumerate(reply.entries):
            assert entry.index not in found or entry.index == max(found)
            found[entry.index] = found.get(entry.index, b"") + entry.data
            assert entry.size == len(datas[entry.index - 1])
            if entry.more:
                assert place == len(reply.entries) - 1
    assert list(found.values()) == datas


def test_messages_hold_nothing_of_requests_unless_it_is_asked_for() -> None:
    data = encode_entry(entry_of(EXAMPLES["admit"]))
    [[cut]] = [reply.entries for reply in messages([Entry(1, 5, data)], cuts=True)]
    assert b"payload" not in cut.data
    assert (read_cut(cut.data).at_ms, cut.size, cut.term) == (
        1_700_000_000_123,
        len(data),
        5,
    )
    [[whole]] = [reply.entries for reply in messages([Entry(1, 5, data)], cuts=False)]
    assert whole.data == data


def test_messages_say_who_belongs_to_the_cluster() -> None:
    config = Entry(1, 1, encode(members(N1, N2)), is_config=True)
    broken = Entry(2, 1, b"\xff", is_config=True)
    [reply] = messages([config, broken, Entry(3, 1, b"")], cuts=True)
    assert [(entry.membership, entry.data) for entry in reply.entries] == [
        ("n1 n2", b""),
        ("a membership that cannot be read", b""),
        ("", b""),
    ]


def test_messages_leave_nothing_of_what_means_nothing() -> None:
    [reply] = messages([Entry(1, 1, b"opaque")], cuts=True, opaque=True)
    assert [(entry.size, entry.data) for entry in reply.entries] == [(6, b"")]


# States.


def test_state_tells_where_a_request_is() -> None:
    core = Core()
    core.admit("a", "b")
    waits = request_state(core.state, "t", "a")
    assert (waits.batch, waits.is_quarantined) == (0, False)
    core.seal("a")
    assert request_state(core.state, "t", "a").batch == 1
    core.assign()
    core.one(core.report())
    ended = request_state(core.state, "t", "a")
    assert ended.batch == 0
    with pytest.raises(UnknownRequest, match="nothing is known of request a of tenant other"):
        request_state(core.state, "other", "a")


def test_state_tells_of_quarantine() -> None:
    core = Core(Model("m", "1", attempts_max=1))
    core.start("a")
    core.lapse()
    core.one(r.Quarantine(1))
    assert request_state(core.state, "t", "a").is_quarantined


def test_state_tells_of_a_batch_that_is_not_done_with() -> None:
    core = Core()
    core.start("a", "b")
    found = batch_state(core.state, 1)
    assert ([each.request_id for each in found.members], found.batch.fence) == (["a", "b"], 6)
    core.one(core.report())
    with pytest.raises(UnknownRequest, match="batch 1 is done with"):
        batch_state(core.state, 1)
    with pytest.raises(UnknownRequest, match="there is no batch 2 yet: the next is 2"):
        batch_state(core.state, 2)


def test_batch_is_told_within_a_bound() -> None:
    count = MEMBERS_SHOWN_MAX + 5
    core = Core(Model("m", "1", max_batch_size=count))
    core.admit(*[f"r{number}" for number in range(count)])
    core.seal(*[f"r{number}" for number in range(count)])
    found = batch_state(core.state, 1)
    assert (len(found.members), found.batch.open_requests) == (MEMBERS_SHOWN_MAX, count)


def test_message_holds_no_more_entries_than_a_turn_may_take() -> None:
    entries = [Entry(index, 1, b"x") for index in range(1, 20_001)]
    replies = list(messages(entries, cuts=True, opaque=True))
    assert sum(len(reply.entries) for reply in replies) == 20_000
    assert max(len(reply.entries) for reply in replies) <= 1024
