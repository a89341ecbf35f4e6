"""Waits: told once, bounded, and gone without a trace when they are over."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from chaos.worlds.loop import VirtualLoop
from coordinator.core.values import Outcome
from coordinator.waits import IndexWaits, OutcomeWaits, Wait
from raftbatch import records as r
from raftbatch.errors import Draining, OutcomeForgotten, Overloaded, RaftbatchError
from raftbatch.settings import Policy
from tests.unit.core.tables import Core


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    with VirtualLoop() as loop:
        yield loop


def test_index_is_waited_for_until_it_is_reached(loop: VirtualLoop) -> None:
    waits = IndexWaits(10)
    tasks = [loop.create_task(waits.wait(index, 1000)) for index in (7, 5, 9, 5)]
    loop.run_for(0.1)
    for index, done in ((4, []), (5, [1, 3]), (8, [0, 1, 3]), (20, [0, 1, 2, 3])):
        waits.reached(index)
        loop.run_for(0.1)
        assert [place for place, task in enumerate(tasks) if task.done()] == done
    assert all(task.result() for task in tasks)
    assert len(waits) == 0


def test_index_that_is_not_reached_in_time(loop: VirtualLoop) -> None:
    waits = IndexWaits(10)
    assert loop.run_until_complete(waits.wait(7, 250)) is False
    assert (loop.time(), len(waits)) == (0.25, 0)
    waits.reached(7)
    later = loop.create_task(waits.wait(8, 250))
    loop.run_for(0.1)
    waits.reached(8)
    assert loop.run_until_complete(later)
    assert loop.time() == pytest.approx(0.35)


def test_waits_for_an_index_are_bounded_and_may_be_given_up(loop: VirtualLoop) -> None:
    waits = IndexWaits(2)
    tasks = [loop.create_task(waits.wait(7, 1000)) for _ in range(2)]
    loop.run_for(0.1)
    with pytest.raises(Overloaded, match="2 calls"):
        loop.run_until_complete(waits.wait(7, 1000))
    tasks[0].cancel()
    loop.run_for(0.1)
    assert (tasks[0].cancelled(), len(waits)) == (True, 1)
    waits.end(Draining("it stops"))
    with pytest.raises(Draining):
        loop.run_until_complete(tasks[1])
    assert len(waits) == 0


class Waited(Core):
    """A state, and waits for its outcomes."""

    def __init__(self, waits_max: int = 100, policy: Policy | None = None) -> None:
        super().__init__(policy=policy)
        self.waits = OutcomeWaits(waits_max)
        self.heard: list[tuple[str, str]] = []

    def wait_for(self, request_id: str, who: str = "") -> Wait:
        """Wait for a request."""

        def told(result: Outcome | RaftbatchError) -> None:
            said = result.slug if isinstance(result, RaftbatchError) else result.kind.name
            self.heard.append((who or request_id, said))

        return self.waits.add(f"t\0{request_id}", told)

    def tell(self, *records: r.Record) -> list[tuple[str, str]]:
        """Apply an entry, and return what was heard."""
        self.heard.clear()
        applied = self.do(*records)
        self.waits.applied(self.state, applied)
        return self.heard


def test_outcome_is_told_to_all_who_wait_for_it_once() -> None:
    core = Waited()
    batch = core.start("a", "b")
    core.admit("c")
    for who in ("1", "2"):
        core.wait_for("a", who)
    core.wait_for("c")
    assert core.tell(core.report(batch, numbers=(1,), last=False)) == [("1", "OK"), ("2", "OK")]
    assert len(core.waits) == 1
    assert core.tell(core.report(batch)) == []
    assert core.tell(r.Cancel(("t",), ("c",))) == [("c", "CANCELLED")]
    assert len(core.waits) == 0


def test_wait_that_is_dropped_is_not_told() -> None:
    core = Waited()
    core.admit("a")
    first, second = core.wait_for("a", "1"), core.wait_for("a", "2")
    core.waits.drop(first)
    core.waits.drop(first)
    assert len(core.waits) == 1
    assert core.tell(r.Cancel(("t",), ("a",))) == [("2", "CANCELLED")]
    core.waits.drop(second)
    assert len(core.waits) == 0
    core.wait_for("b")
    core.waits.drop(Wait("t\0b", 999))
    assert len(core.waits) == 1


def test_outcome_that_is_forgotten_in_the_same_entry() -> None:
    core = Waited()
    batch = core.start("a")
    core.wait_for("a")
    told = core.tell(core.report(batch), r.Acknowledge(("t",), ("a",)))
    assert told == [("a", OutcomeForgotten.slug)]


def test_waits_for_outcomes_are_bounded() -> None:
    core = Waited(waits_max=2)
    core.admit("a", "b")
    first = core.wait_for("a")
    core.wait_for("a")
    with pytest.raises(Overloaded, match="2 calls wait for outcomes already"):
        core.wait_for("b")
    core.waits.drop(first)
    core.wait_for("b")


def test_after_a_snapshot_every_wait_is_looked_up_again() -> None:
    policy = Policy(outcome_retention_ms=100, dedupe_retention_ms=200)
    core = Waited(policy=policy)
    core.admit("gone", "old", "new", "open")
    for each in ("gone", "old", "new", "open"):
        core.wait_for(each)
    for each in ("gone", "old"):
        core.one(r.Cancel(("t",), (each,)))
        core.wait(101)
    core.one(r.Cancel(("t",), ("new",)))
    assert core.heard == []
    core.waits.installed(core.state)
    assert core.heard == [
        ("gone", OutcomeForgotten.slug),
        ("old", OutcomeForgotten.slug),
        ("new", "CANCELLED"),
    ]
    assert len(core.waits) == 1
    assert core.state.request("t", "gone") is None
    assert core.tell(r.Cancel(("t",), ("open",))) == [("open", "CANCELLED")]


def test_node_that_stops_tells_all_who_wait() -> None:
    core = Waited()
    core.admit("a", "b")
    core.wait_for("a")
    core.wait_for("b")
    core.waits.end(Draining("it stops"))
    assert core.heard == [("a", "draining"), ("b", "draining")]
    assert len(core.waits) == 0


def test_one_who_gives_up_as_the_index_is_reached(loop: VirtualLoop) -> None:
    waits = IndexWaits(2)
    task = loop.create_task(waits.wait(7, 1000))
    loop.run_for(0.1)
    waits.reached(7)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(task)
    assert len(waits) == 0
