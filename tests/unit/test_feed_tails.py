"""Tails: how they are opened, wait and end, and their bounds."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from chaos.worlds.loop import VirtualLoop
from coordinator.feed import FeedConfig
from coordinator.tail import Tail
from raftbatch import records as r
from raftbatch.errors import Draining, InvalidRequest, NoLeader, Overloaded, StaleIncarnation
from tests.unit.feed_scene import Fed, now


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    with VirtualLoop() as loop:
        yield loop


def test_reader_is_woken_when_there_is_something_to_say(loop: VirtualLoop) -> None:
    fed = Fed(loop)
    reading = loop.create_task(fed.tail.next())
    loop.run_for(10)
    fed.join("gpu-2")
    fed.admit("a")
    loop.run_for(10)
    assert not reading.done()
    with pytest.raises(InvalidRequest, match="read twice"):
        now(loop, fed.tail)
    fed.seal("a")
    fed.assign()
    message = loop.run_until_complete(reading)
    assert [each.batch for each in message.start] == [1]


def test_tail_is_an_iterator(loop: VirtualLoop) -> None:
    fed = Fed(loop)
    fed.start("a")

    async def read() -> list[int]:
        seen: list[int] = []
        async for message in fed.tail:
            seen.append(len(message.start))
            fed.tail.close()
            break
        return seen

    assert loop.run_until_complete(read()) == [1]


@pytest.mark.parametrize("lost", [True, False])
def test_tail_ends_with_the_incarnation(loop: VirtualLoop, lost: bool) -> None:
    fed = Fed(loop)
    fed.start("a")
    reading = loop.create_task(_until_it_ends(fed.tail))
    fed.one(r.Leave("gpu-1", fed.incarnation, lost, ()))
    error = loop.run_until_complete(reading)
    assert isinstance(error, StaleIncarnation)
    assert str(fed.incarnation) in error.message
    assert fed.feed.tails == 0
    with pytest.raises(StaleIncarnation):
        loop.run_until_complete(fed.feed.open("gpu-1", fed.incarnation, [], 0))


def test_tail_of_a_life_that_another_replaces_ends(loop: VirtualLoop) -> None:
    fed = Fed(loop)
    fed.join("gpu-1", replaces=fed.incarnation)
    assert isinstance(loop.run_until_complete(_until_it_ends(fed.tail)), StaleIncarnation)


def test_tail_ends_with_an_incarnation_that_a_snapshot_does_not_know(loop: VirtualLoop) -> None:
    fed = Fed(loop)
    fed.replica.listeners.remove(fed.feed)
    fed.one(r.Leave("gpu-1", fed.incarnation, True, ()))
    fed.replica.listeners.append(fed.feed)
    fed.install()
    assert isinstance(loop.run_until_complete(_until_it_ends(fed.tail)), StaleIncarnation)


async def _until_it_ends(tail: Tail) -> Exception:
    try:
        while True:
            await tail.next()
    except (StaleIncarnation, Draining, InvalidRequest) as error:
        return error


def test_newer_tail_takes_the_place_of_the_older(loop: VirtualLoop) -> None:
    fed = Fed(loop)
    reading = loop.create_task(_until_it_ends(fed.tail))
    loop.run_for(1)
    newer, _ = fed.open()
    assert isinstance(loop.run_until_complete(reading), InvalidRequest)
    fed.tail.close()
    assert fed.feed.tails == 1
    fed.start("a")
    assert now(loop, newer) is not None


def test_closing_frees_what_a_tail_keeps(loop: VirtualLoop) -> None:
    fed = Fed(loop)
    fed.start("a")
    fed.read()
    reading = loop.create_task(_until_it_ends(fed.tail))
    loop.run_for(1)
    fed.tail.close()
    fed.tail.close()
    assert isinstance(loop.run_until_complete(reading), Draining)
    assert fed.feed.tails == 0
    assert (fed.tail._runs, fed.tail._stops) == ({}, {})
    fed.one(fed.report())


def test_node_that_stops_ends_all_tails_and_takes_no_more(loop: VirtualLoop) -> None:
    fed = Fed(loop)
    reading = loop.create_task(_until_it_ends(fed.tail))
    behind = loop.create_task(fed.feed.open("gpu-1", fed.incarnation, [], 100))
    loop.run_for(0.1)
    fed.feed.close()
    assert isinstance(loop.run_until_complete(reading), Draining)
    with pytest.raises(Draining):
        loop.run_until_complete(behind)
    with pytest.raises(Draining):
        loop.run_until_complete(fed.feed.open("gpu-1", fed.incarnation, [], 0))


@pytest.mark.parametrize("how", ["seen", "fence", "incarnation"])
def test_node_that_is_behind_catches_up_first(loop: VirtualLoop, how: str) -> None:
    fed = Fed(loop)
    other = fed.state.index + 2
    call = {
        "seen": ("gpu-1", fed.incarnation, (), other),
        "fence": ("gpu-1", fed.incarnation, ((1, other),), 0),
        "incarnation": ("gpu-9", other, (), 0),
    }[how]
    opening = loop.create_task(fed.feed.open(*call))
    loop.run_for(0.2)
    fed.admit("a")
    loop.run_for(0.2)
    assert not opening.done()
    fed.join("gpu-9")
    first = now(loop, loop.run_until_complete(opening))
    assert first is not None
    assert first.index == other


def test_node_that_stays_behind_says_so(loop: VirtualLoop) -> None:
    fed = Fed(loop)
    begun = loop.time()
    with pytest.raises(NoLeader, match=r"n1 has applied 3, and gpu-1 has seen 50: try another"):
        loop.run_until_complete(fed.feed.open("gpu-1", fed.incarnation, [], 50))
    assert loop.time() - begun == pytest.approx(0.5)
    assert fed.feed.tails == 1


def test_snapshot_catches_up_too(loop: VirtualLoop) -> None:
    fed = Fed(loop)
    opening = loop.create_task(fed.feed.open("gpu-1", fed.incarnation, [], 50))
    loop.run_for(0.1)
    fed.install(60)
    assert loop.run_until_complete(opening).executor == "gpu-1"


def test_bounds_of_tails(loop: VirtualLoop) -> None:
    fed = Fed(loop, config=FeedConfig(tails_max=1, holdings_max=2), executors=("gpu-1", "gpu-2"))
    other = fed.state.executors["gpu-2"].incarnation
    with pytest.raises(Overloaded):
        loop.run_until_complete(fed.feed.open("gpu-2", other, [], 0))
    with pytest.raises(InvalidRequest, match="3 assignments are held, at most 2"):
        fed.open((1, 1), (2, 1), (3, 1))
    fed.open((1, 1), (2, 1))  # in place of the one that it has
    first = loop.create_task(fed.feed.open("gpu-1", fed.incarnation, [], 50))
    loop.run_for(0.1)
    with pytest.raises(Overloaded):
        loop.run_until_complete(fed.feed.open("gpu-1", fed.incarnation, [], 50))
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(first)
