"""Calls of the simulated world: what a caller sees of a node that it cannot trust to be there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from random import Random

import pytest

from chaos.worlds.calls import CallOptions, Calls, Lost
from chaos.worlds.loop import VirtualLoop
from chaos.worlds.process import Process
from raftbatch.errors import NoLeader, OutcomeUnknown
from raftbatch.ids import NodeId

NODE = NodeId("n1")
OPTIONS = CallOptions(delay_s=(0.001, 0.002), timeout_s=(1.0, 1.0), cut_s=(0.2, 0.2))


class Door:
    """A front door that does as it is asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.cancelled = 0
        self.sent = 0
        self.closed = 0

    async def double(self, number: int) -> int:
        """Answer at once."""
        self.asked += 1
        return 2 * number

    async def refuse(self) -> int:
        """Answer with an error."""
        raise NoLeader("nobody leads")

    async def slow(self) -> int:
        """Answer after ten seconds."""
        self.asked += 1
        try:
            await asyncio.sleep(10.0)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return 1

    async def tail(self) -> Door:
        """Open a stream."""
        return self

    async def next(self) -> int:
        """Return the next number; after a hundred there are none."""
        self.sent += 1
        if self.sent > 100:
            raise OutcomeUnknown("no more")
        return self.sent

    def close(self) -> None:
        """Take note."""
        self.closed += 1


class World:
    """A loop, one node and one caller."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.calls = Calls[Door](loop, Random(1), OPTIONS)
        self.node = loop.spawn("n1")
        self.caller = loop.spawn("c")
        self.door = Door()
        self.seen: list[object] = []
        self.calls.open(NODE, self.node, self.door)

    def run(self, asking: Callable[[], Coroutine[None, None, object]]) -> None:
        """Let the caller do something, and keep what it returns or raises, and when."""

        async def run() -> None:
            try:
                self.seen.append(await asking())
            except (Lost, NoLeader, OutcomeUnknown) as error:
                self.seen.append(error)
            self.seen.append(self.loop.time())

        self.caller.call(lambda: self.loop.create_task(run()))

    def ask(self, act: Callable[[Door], Coroutine[None, None, int]]) -> None:
        """Let the caller ask."""
        self.run(lambda: self.calls.ask("c", NODE, "it", act))


@pytest.fixture
def world() -> Iterator[World]:
    """Return a world."""
    with VirtualLoop() as loop:
        yield World(loop)


def kill(process: Process, calls: Calls[Door], *, silent: bool) -> None:
    """End the node."""
    process.kill()
    calls.close(NODE, silent=silent)


def test_answer_and_error_come_back(world: World) -> None:
    world.ask(lambda door: door.double(4))
    world.ask(lambda door: door.refuse())
    world.loop.run_for(0.1)
    assert world.seen[0] == 8 or world.seen[2] == 8
    assert any(isinstance(each, NoLeader) for each in world.seen)
    assert world.calls.under_way == []


def test_node_that_is_down_has_surely_done_nothing(world: World) -> None:
    kill(world.node, world.calls, silent=False)
    world.ask(lambda door: door.double(4))
    world.loop.run_for(0.1)
    lost = world.seen[0]
    assert isinstance(lost, Lost)
    assert lost.definite


@pytest.mark.parametrize(("silent", "at_s"), [(False, 0.02), (True, 0.22)])
def test_node_that_dies_leaves_its_callers_in_doubt(
    world: World, silent: bool, at_s: float
) -> None:
    world.ask(lambda door: door.slow())
    world.loop.run_for(0.01)
    kill(world.node, world.calls, silent=silent)
    world.loop.run_for(2.0)
    lost, when = world.seen
    assert isinstance(lost, Lost)
    assert not lost.definite
    assert isinstance(when, float)
    assert when <= at_s
    assert when > 0.9 * at_s or not silent


def test_answer_that_is_lost_was_given(world: World) -> None:
    world.ask(lambda door: door.double(4))
    world.calls.cut([("n1", "c")])
    world.loop.run_for(2.0)
    assert isinstance(world.seen[0], Lost)
    assert world.door.asked == 1


def test_question_that_is_lost_was_not_heard(world: World) -> None:
    heal = world.calls.cut([("c", "n1")])
    world.ask(lambda door: door.double(4))
    world.loop.run_for(2.0)
    assert isinstance(world.seen[0], Lost)
    assert world.door.asked == 0
    heal()
    heal()
    world.ask(lambda door: door.double(4))
    world.loop.run_for(2.0)
    assert world.seen[2] == 8


def test_losses_are_drawn(world: World) -> None:
    world.calls.options = replace(OPTIONS, loss=0.5)
    for _ in range(40):
        world.ask(lambda door: door.double(4))
    world.loop.run_for(2.0)
    answered = sum(each == 8 for each in world.seen)
    assert 0 < answered < world.door.asked < 40


def test_paused_node_answers_when_it_goes_on(world: World) -> None:
    world.node.pause()
    world.ask(lambda door: door.double(4))
    world.loop.run_for(0.5)
    assert world.seen == []
    world.node.resume()
    world.loop.run_for(0.1)
    assert world.seen[0] == 8


def test_caller_that_gives_up_hangs_up(world: World) -> None:
    world.ask(lambda door: door.slow())
    world.loop.run_for(2.0)
    assert isinstance(world.seen[0], Lost)
    assert world.door.cancelled == 1


def test_caller_that_dies_hangs_up(world: World) -> None:
    world.ask(lambda door: door.slow())
    world.loop.run_for(0.1)
    world.caller.kill()
    world.calls.hang_up("c")
    world.loop.run_for(0.1)
    assert world.door.cancelled == 1


def test_stream_keeps_its_order_and_waits_for_its_reader(world: World) -> None:
    async def read() -> list[int]:
        stream = world.calls.tail("c", NODE, "tail", lambda door: door.tail(), 1.0)
        found = [await stream.next()]
        await asyncio.sleep(0.5)
        assert world.door.sent < 10, "the reader is slow: no more is sent"
        while True:
            try:
                found.append(await stream.next())
            except OutcomeUnknown:
                return found

    world.run(read)
    world.loop.run_for(2.0)
    assert world.seen[0] == list(range(1, 101))
    assert world.door.closed == 1


@pytest.mark.parametrize("silent", [False, True])
def test_stream_breaks_with_its_node(world: World, silent: bool) -> None:
    async def read() -> None:
        stream = world.calls.tail("c", NODE, "tail", lambda door: door.tail(), 1.0)
        while True:
            await stream.next()
            await asyncio.sleep(0.1)

    world.run(read)
    world.loop.run_for(0.5)
    kill(world.node, world.calls, silent=silent)
    world.loop.run_for(2.0)
    assert isinstance(world.seen[0], Lost)
    assert world.calls.under_way == []


def test_stream_that_is_cut_ends_at_both_ends(world: World) -> None:
    async def read() -> None:
        stream = world.calls.tail("c", NODE, "tail", lambda door: door.tail(), 1.0)
        while True:
            await stream.next()
            await asyncio.sleep(0.1)

    world.run(read)
    world.loop.run_for(0.5)
    world.calls.cut([("n1", "c")])
    world.loop.run_for(2.0)
    assert isinstance(world.seen[0], Lost)
    assert world.door.closed == 1
