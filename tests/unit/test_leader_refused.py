"""Entries that the log refuses, callers that are told at the end, and who asks while being told."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chaos.worlds.loop import VirtualLoop
from coordinator.core.effects import Verdict
from coordinator.leader_parts import LeaderConfig
from coordinator.raft.segments.limits import Space
from raftbatch import records as r
from raftbatch.errors import (
    Draining,
    NoLeader,
    NoSpace,
    NotLeader,
    OutcomeUnknown,
    Overloaded,
    PayloadTooLarge,
    RaftbatchError,
)
from raftbatch.ids import NodeId
from tests.unit.leader_scene import Answer, Asked, Scene, admission, join, put


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    with VirtualLoop() as loop:
        yield loop


def test_full_disk_takes_no_request_but_what_finishes_work(loop: VirtualLoop) -> None:
    scene = Scene(loop)
    scene.begin(put())
    scene.log.space = Space.LOW
    with pytest.raises(NoSpace):
        scene.admit("a")
    scene.propose(r.Cancel(("t",), ("a",)))
    scene.settle()
    assert scene.asked[-1].answers


def test_full_disk_where_nobody_leads_is_said_at_once(loop: VirtualLoop) -> None:
    scene = Scene(loop)
    scene.log.space = Space.RESERVE
    asked = loop.create_task(scene.leader.ready())
    scene.turn()
    assert isinstance(asked.exception(), NoSpace)
    scene.log.leader = NodeId("n2")  # it has room, or it would not lead
    asked = loop.create_task(scene.leader.ready())
    scene.turn()
    assert isinstance(asked.exception(), NotLeader)


def test_those_who_wait_for_a_leader_hear_of_a_disk_that_has_become_full(
    loop: VirtualLoop,
) -> None:
    scene = Scene(loop)
    scene.log.leader = scene.log.identity.node_id
    asked = loop.create_task(scene.leader.ready())
    scene.turn()
    assert not asked.done()
    scene.log.space, scene.log.leader = Space.RESERVE, None
    scene.log.tell()
    scene.turn()
    assert isinstance(asked.exception(), NoSpace)


def test_one_too_many_who_wait_for_a_leader_hears_when_to_come_again(loop: VirtualLoop) -> None:
    scene = Scene(loop, config=LeaderConfig(pending_items_max=1))
    scene.log.leader = scene.log.identity.node_id
    first, second = [loop.create_task(scene.leader.ready()) for _ in range(2)]
    scene.turn()
    error = second.exception()
    assert isinstance(error, NoLeader)
    assert error.retry_after_ms == LeaderConfig().retry_ms
    assert not first.done()
    first.cancel()


@pytest.mark.parametrize("error", [NoSpace("full"), Overloaded("much"), Draining("moving")])
def test_entry_that_the_log_refuses_for_now_is_offered_again(
    loop: VirtualLoop, error: RaftbatchError
) -> None:
    scene = Scene(loop)
    scene.begin(put(max_batch_size=1), join())
    flying = scene.admit("a")
    scene.turn()
    scene.log.refusal = error
    held = [scene.admit("b"), scene.admit("b"), scene.propose(join("gpu-2"))]
    scene.turn()
    entries = len(scene.log.entries)
    with pytest.raises(type(error)) as raised:
        scene.admit("c")
    assert raised.value is not error
    with pytest.raises(type(error)):
        scene.propose(join("gpu-3"))
    scene.apply()  # what was in flight lands meanwhile
    assert flying.landed.verdict is Verdict.OK
    scene.loop.run_for(1.0)
    assert (len(scene.log.entries), scene.leader.counts.held_total) == (entries, 1)
    scene.log.refusal = None
    scene.loop.run_for(0.05)
    assert scene.records(entries + 1) == ["Admit", "Join", "Seal"]
    scene.settle()
    assert [each.landed.verdict for each in held] == [Verdict.OK, Verdict.KNOWN, Verdict.OK]
    assert [each.executor for each in scene.replica.state.batches.values()] == ["gpu-1", "gpu-2"]
    scene.check()


def test_entry_that_is_held_when_the_node_leads_no_more_was_never_there(
    loop: VirtualLoop,
) -> None:
    scene = Scene(loop)
    scene.begin(put())
    scene.log.refusal = NoSpace("full")
    held = [scene.admit("a"), scene.admit("a")]
    scene.turn()
    scene.depose()
    assert all(isinstance(each.error, NotLeader) for each in held)
    scene.loop.run_for(1.0)
    assert scene.leader.counts.held_total == 1


def test_entry_that_no_log_takes_is_given_up_and_the_leader_goes_on(loop: VirtualLoop) -> None:
    scene = Scene(loop)
    scene.begin(put(max_batch_size=1), join())
    flying = scene.admit("flies")
    scene.turn()
    scene.log.refusal = PayloadTooLarge("too large")
    large, same, record = scene.admit("a"), scene.admit("a"), scene.propose(join("gpu-2"))
    scene.turn()
    scene.log.refusal = None
    assert isinstance(large.error, PayloadTooLarge)
    assert isinstance(record.error, PayloadTooLarge)
    # The second one of that id is told that this leader is not ready: it may be asked again.
    assert isinstance(same.error, NoLeader)
    assert not scene.is_ready()
    scene.apply()
    assert flying.landed.verdict is Verdict.OK
    assert scene.is_ready()
    later = scene.admit("b")
    scene.settle()
    assert later.landed.verdict is Verdict.OK
    assert scene.leader.counts.rejected_total == 1
    scene.check()


def test_all_are_told_once_when_the_node_closes(loop: VirtualLoop) -> None:
    scene = Scene(loop, config=LeaderConfig(entries_inflight_max=1))
    scene.begin(put())
    flying = scene.admit("a")
    scene.turn()
    twin = scene.admit("a")
    waits = [scene.admit("b"), scene.propose(join())]
    scene.process.call(scene.leader.close)
    assert isinstance(flying.error, OutcomeUnknown)
    assert isinstance(twin.error, OutcomeUnknown)
    assert all(isinstance(each.error, NoLeader) for each in waits)
    scene.process.call(scene.leader.close)
    scene.apply()
    scene.depose()
    scene.elect()
    scene.settle(5000)
    assert not scene.is_ready()
    with pytest.raises(NoLeader):
        scene.admit("c")
    scene.check()


def test_callers_may_ask_and_close_while_they_are_told(loop: VirtualLoop) -> None:
    scene = Scene(loop)
    scene.begin(put())
    asked = Asked()

    def again(answer: Answer) -> None:
        scene.leader.admit(admission("a"), asked)  # of the same id: it is no duplicate in flight

    scene.process.call(scene.leader.admit, admission("a"), again)
    scene.turn()
    scene.settle()
    assert asked.landed.verdict is Verdict.KNOWN
    others = [Asked() for _ in range(3)]
    scene.process.call(scene.leader.admit, admission("b"), lambda answer: scene.leader.close())
    scene.process.call(scene.leader.admit, admission("c"), others[0])
    scene.turn()
    scene.process.call(scene.leader.admit, admission("c"), others[1])
    scene.process.call(scene.leader.admit, admission("d"), others[2])
    scene.apply()
    assert others[0].landed.verdict is Verdict.OK
    assert others[1].landed.verdict is Verdict.KNOWN
    assert isinstance(others[2].error, NoLeader)
