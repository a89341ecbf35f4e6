"""Acknowledgements, and operators' purges: what has nothing to drop makes no entry."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chaos.worlds.loop import VirtualLoop
from coordinator.core.effects import Verdict
from coordinator.core.values import Outcome
from raftbatch import records as r
from raftbatch.errors import InvalidRequest, NotLeader, OutcomeForgotten, UnknownRequest
from tests.unit.api_scene import Asked


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    with VirtualLoop() as loop:
        yield loop


@pytest.mark.parametrize("what", ["acknowledge", "forget"])
def test_each_id_of_an_acknowledgement_has_its_own_answer(loop: VirtualLoop, what: str) -> None:
    node = Asked(loop)
    node.admit("open", "done")
    node.one(r.Cancel(("t",), ("done",)))
    call = node.api.acknowledge if what == "acknowledge" else node.api.forget
    task = node.asks(call([("t", "done"), ("t", "open"), ("t", "none")]))
    assert node.log.pass_barriers() == 1
    loop.run_for(0)
    node.leader.land()
    answers = loop.run_until_complete(task)
    assert answers[0] is Verdict.OK
    assert [type(each) for each in answers[1:]] == [InvalidRequest, UnknownRequest]
    assert isinstance(node.state.request("t", "done"), Outcome)
    with pytest.raises(OutcomeForgotten):
        node.gets(node.api.outcome("t", "done", timeout_ms=0))


@pytest.mark.parametrize("what", ["acknowledge", "forget"])
def test_what_has_nothing_to_drop_makes_no_entry(loop: VirtualLoop, what: str) -> None:
    node = Asked(loop)
    node.admit("open", "read")
    node.one(r.Cancel(("t",), ("read",)))
    node.one(r.Acknowledge(("t",), ("read",)))
    before = node.state.index
    call = node.api.acknowledge if what == "acknowledge" else node.api.forget
    task = node.asks(call([("t", "read"), ("t", "open"), ("t", "none")]))
    assert not task.done()
    assert node.log.pass_barriers() == 1
    answers = loop.run_until_complete(task)
    assert answers[0] is Verdict.OK
    assert [type(each) for each in answers[1:]] == [InvalidRequest, UnknownRequest]
    assert (node.state.index, node.leader.proposed) == (before, 0)


@pytest.mark.parametrize("name", ["read", "open", "none"])
def test_one_that_has_nothing_to_drop_keeps_the_others_waiting(
    loop: VirtualLoop, name: str
) -> None:
    node = Asked(loop)
    node.admit("open", "read", "done")
    node.one(r.Cancel(("t", "t"), ("read", "done")))
    node.one(r.Acknowledge(("t",), ("read",)))
    for names in ([name], ["done", name]):
        task = node.asks(node.api.acknowledge([("t", each) for each in names]))
        assert (task.done(), node.leader.proposed) == (False, 0)
        assert node.log.pass_barriers() == 1
        loop.run_for(0)
    assert node.leader.proposed == 1


@pytest.mark.parametrize("wrong", ["", "a\0b", "x" * 257, "\udc80", 7])
def test_names_that_are_none_are_refused_among_others(loop: VirtualLoop, wrong: str) -> None:
    node = Asked(loop)
    for names in ([("t", wrong)], [("t", "a"), ("t", wrong)], [("t", "a"), (wrong, "a")]):
        with pytest.raises(InvalidRequest):
            node.gets(node.api.acknowledge(names))
    for name in ("ä", "x" * 256):  # these are names
        task = node.asks(node.api.acknowledge([("t", name)]))
        assert node.log.pass_barriers() == 1
        [answer] = loop.run_until_complete(task)
        assert isinstance(answer, UnknownRequest)


def test_what_comes_with_the_barrier_is_dropped(loop: VirtualLoop) -> None:
    node = Asked(loop)
    task = node.asks(node.api.acknowledge([("t", "a")]))
    node.admit("a")
    node.one(r.Cancel(("t",), ("a",)))
    node.log.pass_barriers()
    loop.run_for(0)
    node.leader.land()
    assert loop.run_until_complete(task) == [Verdict.OK]
    with pytest.raises(OutcomeForgotten):
        node.gets(node.api.outcome("t", "a", timeout_ms=0))


def test_follower_that_has_nothing_to_drop_names_the_leader(loop: VirtualLoop) -> None:
    node = Asked(loop)
    node.log.error = NotLeader("n2 leads", leader="n2")
    with pytest.raises(NotLeader) as error:
        node.gets(node.api.acknowledge([("t", "a")]))
    assert error.value.leader == "n2"
