"""Terms of a leader: how one begins, and what becomes of what was asked when one ends."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import pairwise

import pytest

from chaos.worlds.loop import VirtualLoop
from coordinator.core.effects import Verdict
from coordinator.leader_parts import LeaderConfig
from raftbatch import records as r
from raftbatch.errors import (
    CannotStart,
    Invariant,
    NoLeader,
    NotLeader,
    OutcomeUnknown,
    PayloadTooLarge,
    RaftbatchError,
    StaleIncarnation,
)
from raftbatch.settings import Policy
from tests.unit.leader_scene import MODEL, OTHER, Scene, join, put


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    with VirtualLoop() as loop:
        yield loop


def test_nothing_is_decided_or_admitted_before_the_own_lead_is_applied(loop: VirtualLoop) -> None:
    scene = Scene(loop)
    scene.elect()
    assert scene.records(1) == ["Lead"]
    with pytest.raises(NoLeader):
        scene.admit("a")
    with pytest.raises(NoLeader):
        scene.propose(join())
    scene.loop.run_for(1.0)
    assert len(scene.log.entries) == 1
    assert not scene.is_ready()
    scene.apply()
    assert scene.is_ready()
    assert scene.leader.counts.entries_total == 1


def test_lead_names_the_node_and_wall_time_and_goes_on_in_log_time(loop: VirtualLoop) -> None:
    scene = Scene(loop)
    scene.log.term = 1
    scene.inherit(r.Lead(str(OTHER), 0, 1), put())
    scene.apply()
    scene.loop.run_for(0.25)
    scene.elect()
    entry = scene.entry(2)
    assert entry.records == (r.Lead("n1", 1_700_000_000_000, 1),)
    assert (entry.term, entry.at_ms) == (2, 1 + 250)


def test_cluster_is_founded_with_its_first_lead_alone(loop: VirtualLoop) -> None:
    founding = (r.PutPolicy(Policy(tick_ms=20)), put())
    scene = Scene(loop, founding=founding)
    scene.elect(caught_up=False)
    assert not scene.log.entries  # there may be a Lead that is not applied here yet
    scene.catch_up()
    assert scene.records(1) == ["Lead", "PutPolicy", "PutModel"]
    scene.settle()
    assert scene.is_ready()
    assert scene.replica.state.policy.tick_ms == 20
    scene.depose()
    scene.elect(caught_up=False)
    assert scene.records(2) == ["Lead"]  # known to be founded: no need to wait


def test_node_that_was_only_behind_does_not_found_the_cluster_anew(loop: VirtualLoop) -> None:
    scene = Scene(loop, founding=(r.PutPolicy(Policy(tick_ms=20)), put()))
    scene.log.term = 1
    scene.inherit(r.Lead(str(OTHER), 0, 1), r.PutPolicy(Policy(tick_ms=30)))
    scene.elect(caught_up=False)
    scene.apply()
    scene.catch_up()
    assert scene.records(2) == ["Lead"]
    scene.settle()
    assert scene.replica.state.policy.tick_ms == 30
    assert scene.is_ready()


def test_node_stops_where_no_log_holds_what_the_cluster_is_founded_with(loop: VirtualLoop) -> None:
    scene = Scene(loop, founding=(put(),))
    scene.log.refusal = PayloadTooLarge("too large")
    with pytest.raises(CannotStart):
        scene.elect()


def test_inherited_tail_is_in_the_outlook(loop: VirtualLoop) -> None:
    """It commits with the Lead, which comes behind it."""
    scene = Scene(loop)
    scene.begin(put(max_batch_size=2), join())
    flying = scene.admit("a")
    scene.turn()
    scene.depose()
    scene.elect()
    assert not flying.answers
    scene.settle()
    assert flying.landed.verdict is Verdict.OK  # whichever term had it committed
    scene.admit("b")
    scene.settle()
    assert [each.members for each in scene.replica.state.batches.values()] == [(1, 2)]
    scene.check()


def test_deposed_leader_tells_who_waits_that_nothing_was_done(loop: VirtualLoop) -> None:
    scene = Scene(loop, config=LeaderConfig(entries_inflight_max=1))
    scene.begin(put())
    flying = scene.admit("a")
    scene.turn()
    waits = [scene.admit("b"), scene.admit("b"), scene.propose(join())]
    scene.depose()
    assert all(isinstance(each.error, NotLeader) for each in waits)
    assert all(each.error.leader == OTHER for each in waits)
    assert not flying.answers
    with pytest.raises(NotLeader) as raised:
        scene.admit("c")
    assert raised.value.leader == OTHER
    with pytest.raises(NotLeader):
        scene.propose(join())
    with pytest.raises(NotLeader):
        scene.process.call(scene.leader.heartbeat, "gpu-1", 1, 0, [])
    scene.inherit(r.Lead(str(OTHER), 0, 1))
    scene.settle()
    assert flying.landed.verdict is Verdict.OK  # committed by the next leader
    scene.check()


def test_entry_that_another_stands_in_place_of_was_never_there(loop: VirtualLoop) -> None:
    scene = Scene(loop)
    scene.begin(put())
    first = len(scene.log.entries) + 1
    flying = [scene.admit("a")]
    scene.turn()
    flying += [scene.admit("b"), scene.propose(join())]
    scene.turn()
    scene.depose()
    scene.lose(first)
    scene.settle()
    for each in flying:
        assert isinstance(each.error, NotLeader)
    scene.process.call(scene.leader.close)
    scene.check()


def test_entry_is_unknown_where_this_node_took_it_back_and_leads_again(loop: VirtualLoop) -> None:
    scene = Scene(loop)
    scene.begin(put())
    entries = len(scene.log.entries)
    flying = scene.admit("a")
    scene.turn()
    scene.depose()
    del scene.log.entries[entries:]
    scene.elect()
    scene.turn()
    assert isinstance(flying.error, OutcomeUnknown)
    scene.settle()
    again = scene.admit("a")  # the same id, in the new term
    scene.settle()
    assert again.landed.verdict is Verdict.OK
    scene.check()


def test_leader_is_deposed_by_an_entry_before_it_is_told(loop: VirtualLoop) -> None:
    scene = Scene(loop)
    scene.begin(put(), join())
    pending = scene.admit("a")
    scene.depose(tell=False)
    with pytest.raises(NotLeader):
        scene.admit("b")
    scene.turn()  # the entry is offered to a log that this node leads no more
    assert isinstance(pending.error, NotLeader)
    scene = Scene(loop)
    scene.begin(put())
    pending = scene.admit("a")
    scene.depose(tell=False)
    scene.inherit(r.Lead(str(OTHER), 0, 1))
    scene.land()
    assert isinstance(pending.error, NotLeader)
    assert not scene.is_ready()
    scene.elect()
    scene.settle()
    assert scene.is_ready()


def test_term_that_ends_while_the_outlook_is_built_decides_nothing(loop: VirtualLoop) -> None:
    scene = Scene(loop)
    scene.begin(put(max_batch_size=1), join())
    scene.admit("a")
    scene.settle()
    scene.depose()
    scene.elect()

    scene.land()  # the outlook is to be built in the next turns
    current = scene.leader._current
    assert current is not None
    scene.depose()
    entries = len(scene.log.entries)
    scene.turn()
    assert not scene.is_ready()
    scene.loop.run_for(10.0)
    assert len(scene.log.entries) == entries
    assert current.outlook is None


def test_caller_waits_until_the_leader_is_ready(loop: VirtualLoop) -> None:
    scene = Scene(loop)
    outcomes: list[RaftbatchError | str] = []

    async def wait() -> None:
        try:
            await scene.leader.ready()
        except RaftbatchError as error:
            outcomes.append(error)
        else:
            outcomes.append("ready" if scene.is_ready() else "not ready")

    def begin() -> asyncio.Task[None]:
        task: asyncio.Task[None] = scene.process.call(lambda: loop.create_task(wait()))
        loop.run_for(0)
        return task

    begin()
    loop.run_for(1.9)
    assert not outcomes
    loop.run_for(0.2)
    assert isinstance(outcomes.pop(), NoLeader)  # for so long there was none

    begin()
    scene.elect()
    loop.run_for(0)
    assert not outcomes
    scene.apply()
    assert outcomes.pop() == "ready"
    begin()
    assert outcomes.pop() == "ready"

    scene.depose()
    begin()
    assert isinstance(outcomes.pop(), NotLeader)

    scene.elect()
    begin()
    scene.depose()
    loop.run_for(0)
    assert isinstance(outcomes.pop(), NotLeader)

    scene.log.leader = None
    begin().cancel()
    begin()
    scene.process.call(scene.leader.close)
    loop.run_for(0)
    assert isinstance(outcomes.pop(), NoLeader)
    assert not outcomes


def test_log_that_ends_ends_the_leadership(loop: VirtualLoop) -> None:
    scene = Scene(loop, config=LeaderConfig(entries_inflight_max=1))
    scene.begin(put())
    flying = scene.admit("a")
    scene.turn()
    waits = scene.admit("b")
    scene.fail(Invariant("it broke"))
    assert isinstance(waits.error, NotLeader)
    loop.run_for(1.0)
    assert isinstance(flying.error, OutcomeUnknown)
    with pytest.raises(NoLeader):
        scene.admit("c")
    scene.check()


def test_snapshot_under_a_leader_that_decides_stops_the_node(loop: VirtualLoop) -> None:
    scene = Scene(loop)
    scene.elect()
    scene.process.call(scene.leader.installed)  # it came before the Lead: nothing is built yet
    scene.apply()
    assert scene.is_ready()
    with pytest.raises(Invariant):
        scene.process.call(scene.leader.installed)


def test_outlook_that_erred_is_counted_and_built_anew(loop: VirtualLoop) -> None:
    scene = Scene(loop)
    scene.begin(put(max_batch_size=1), join())
    current = scene.leader._current
    assert current is not None
    assert current.outlook is not None
    current.outlook.next_batch = 1 << 50  # a bug: no replica accepts that number
    flying = scene.admit("a")
    scene.turn()
    also = scene.admit("b")
    scene.turn()
    scene.apply(1)
    assert flying.landed.verdict is Verdict.OK
    assert (scene.leader.counts.stale_total, scene.leader.counts.voids_total) == (1, 2)
    assert not scene.is_ready()
    with pytest.raises(NoLeader):
        scene.admit("c")
    entries = len(scene.log.entries)
    loop.run_for(1.0)
    assert len(scene.log.entries) == entries  # until all that is in flight has landed
    scene.apply()
    assert also.landed.verdict is Verdict.OK
    assert scene.is_ready()
    scene.settle(10)
    assert [each.executor for each in scene.replica.state.batches.values()].count("gpu-1") == 1
    assert scene.leader.counts.stale_total == 1


def test_heartbeat_of_a_life_that_is_over_is_refused(loop: VirtualLoop) -> None:
    scene = Scene(loop)
    scene.begin(put(), join())
    incarnation = scene.replica.state.executors["gpu-1"].incarnation
    for executor, life, error in (
        ("gpu-1", incarnation - 1, StaleIncarnation),
        ("gpu-2", incarnation, StaleIncarnation),
        ("gpu-1", scene.replica.index + 1, NoLeader),  # it joined with a later leader
        ("gpu-2", scene.replica.index + 1, NoLeader),
    ):
        with pytest.raises(error):
            scene.process.call(scene.leader.heartbeat, executor, life, 0, [])
    scene.beat()


def test_new_leader_looks_at_all_windows_a_part_in_each_turn(
    loop: VirtualLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coordinator.core.decide._LOOKS_MAX", 4)
    scene = Scene(loop)
    scene.begin(put(max_queue_delay_microseconds=1_000_000), join())
    for number in range(14):
        scene.admit(f"{number}", key=(*MODEL, f"{number}"))
    scene.settle()
    scene.depose()
    scene.elect()
    scene.land()
    before = len(scene.log.entries)
    seen = [0]
    while seen[-1] < 14:
        assert loop.step()
        current = scene.leader._current
        assert current is not None
        seen.append(0 if current.outlook is None else len(current.outlook.due))
    assert max(after - earlier for earlier, after in pairwise(seen)) == 4
    assert len(scene.log.entries) == before
    scene.settle(1100)
    assert scene.replica.state.batches
    scene.check()


@pytest.mark.parametrize("what", ["leadership.encode_entry", "core.outlook.Outlook.refresh_batch"])
@pytest.mark.parametrize("error", [KeyError(7), Invariant("so it is")])
def test_leader_that_fails_midway_stops_its_node(
    loop: VirtualLoop, monkeypatch: pytest.MonkeyPatch, what: str, error: Exception
) -> None:
    scene = Scene(loop)
    scene.begin(put(max_batch_size=1), join())
    scene.admit("a")
    scene.settle()

    def fails(*_: object) -> None:
        raise error

    if "Outlook" in what:  # as it is built
        scene.depose()
        scene.elect()
    else:
        scene.admit("b")
    monkeypatch.setattr(f"coordinator.{what}", fails)
    scene.settle()
    assert isinstance(scene.log.failure, Invariant)
    assert not scene.leader.is_ready
    with pytest.raises(NoLeader):
        scene.admit("c")
