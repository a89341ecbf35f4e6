"""Outcomes and what ends them: waits on any node, cancels, acknowledgements."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from chaos.worlds.loop import VirtualLoop
from coordinator.answers import Ticket, Waiting
from coordinator.api import ApiConfig
from coordinator.core.effects import Verdict
from coordinator.core.values import Outcome
from raftbatch import records as r
from raftbatch.errors import (
    Draining,
    InvalidRequest,
    NoLeader,
    NotLeader,
    OutcomeForgotten,
    OutcomeUnknown,
    Overloaded,
    QuotaExceeded,
    RaftbatchError,
    UnknownRequest,
)
from raftbatch.kinds import OutcomeKind
from raftbatch.settings import Policy
from tests.unit.api_scene import Asked, submission


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    with VirtualLoop() as loop:
        yield loop


def _kind(outcome: Outcome | Waiting) -> OutcomeKind:
    assert isinstance(outcome, Outcome)
    return outcome.kind


def test_wait_is_answered_by_the_entry_that_ends_the_request(loop: VirtualLoop) -> None:
    node = Asked(loop)
    batch = node.start("a", "b")
    node.leader.depose()  # any node answers waits
    tasks = [node.asks(node.api.outcome("t", each, timeout_ms=60_000)) for each in ("a", "a", "b")]
    loop.run_for(30)
    assert node.api.standing().waits == 3
    node.one(node.report(batch, numbers=(1,), last=False))
    loop.run_for(0)
    assert [task.done() for task in tasks] == [True, True, False]
    outcome = tasks[0].result()
    assert isinstance(outcome, Outcome)
    assert (outcome.result, outcome.name) == (b"result", "t\0a")
    node.one(node.report(batch, kind=1))
    assert _kind(loop.run_until_complete(tasks[2])) is OutcomeKind.FAILED
    assert node.api.standing().waits == 0
    # Once there, it is answered at once, as often as it is asked for.
    assert loop.run_until_complete(node.api.outcome("t", "a", timeout_ms=0)) is outcome


def test_wait_that_runs_out_says_so_and_cancels_nothing(loop: VirtualLoop) -> None:
    node = Asked(loop)
    (ticket,) = node.submits(submission("a"))
    assert isinstance(ticket, Ticket)
    begun = loop.time()
    found = loop.run_until_complete(node.api.outcome("t", "a", timeout_ms=250))
    assert (found, loop.time() - begun) == (Waiting(ticket), 0.25)
    assert loop.run_until_complete(node.api.outcome("t", "a", timeout_ms=0)) == Waiting(ticket)
    assert (node.api.standing().waits, node.outcome("a")) == (0, "open")


def test_caller_that_goes_away_leaves_no_wait(loop: VirtualLoop) -> None:
    node = Asked(loop)
    node.admit("a")
    task = node.asks(node.api.outcome("t", "a", timeout_ms=1000))
    task.cancel()
    loop.run_for(0)
    assert (task.cancelled(), node.api.standing().waits) == (True, 0)
    node.one(r.Cancel(("t",), ("a",)))
    loop.run_for(2)


def test_expired_request_is_an_outcome(loop: VirtualLoop) -> None:
    node = Asked(loop)
    node.admit("a", timeout_ms=100)
    task = node.asks(node.api.outcome("t", "a", timeout_ms=1000))
    node.wait(100)
    assert _kind(loop.run_until_complete(task)) is OutcomeKind.EXPIRED


def test_outcome_that_was_acknowledged_is_forgotten(loop: VirtualLoop) -> None:
    node = Asked(loop)
    node.admit("a")
    node.one(r.Cancel(("t",), ("a",)))
    node.one(r.Acknowledge(("t",), ("a",)))
    with pytest.raises(OutcomeForgotten):
        node.gets(node.api.outcome("t", "a", timeout_ms=0))


def test_unknown_is_said_only_after_a_barrier_on_the_leader(loop: VirtualLoop) -> None:
    node = Asked(loop)
    task = node.asks(node.api.outcome("t", "a", timeout_ms=5000))
    loop.run_for(1)
    assert not task.done()
    assert node.log.pass_barriers() == 1
    with pytest.raises(UnknownRequest):
        loop.run_until_complete(task)


def test_what_comes_with_the_barrier_is_waited_for(loop: VirtualLoop) -> None:
    node = Asked(loop)
    task = node.asks(node.api.outcome("t", "a", timeout_ms=1000))
    node.admit("a")
    node.log.pass_barriers()
    loop.run_for(0.5)
    node.one(r.Cancel(("t",), ("a",)))
    assert _kind(loop.run_until_complete(task)) is OutcomeKind.CANCELLED


def test_follower_that_does_not_know_an_id_names_the_leader(loop: VirtualLoop) -> None:
    node = Asked(loop)
    node.log.error = NotLeader("n2 leads", leader="n2")
    with pytest.raises(NotLeader) as error:
        node.gets(node.api.outcome("t", "a", timeout_ms=1000))
    assert error.value.leader == "n2"


def test_leader_that_cannot_confirm_it_does_not_say_unknown(loop: VirtualLoop) -> None:
    node = Asked(loop)
    begun = loop.time()
    with pytest.raises(NoLeader, match="does not know 'a'"):
        loop.run_until_complete(node.api.outcome("t", "a", timeout_ms=5000))
    assert loop.time() - begun == pytest.approx(2)
    assert node.log.pass_barriers() == 1  # which was given up, and harms nobody


def test_ticket_of_a_later_index_is_waited_for_on_a_follower(loop: VirtualLoop) -> None:
    node = Asked(loop)
    node.log.error = NotLeader("n2 leads", leader="n2")
    index = node.state.index + 2
    task = node.asks(node.api.outcome("t", "a", index=index, timeout_ms=1000))
    node.admit("b")
    loop.run_for(0.1)
    assert not task.done()
    node.admit("a")
    loop.run_for(0.1)
    node.one(r.Cancel(("t",), ("a",)))
    assert _kind(loop.run_until_complete(task)) is OutcomeKind.CANCELLED


def test_ticket_whose_index_is_applied_and_id_unknown(loop: VirtualLoop) -> None:
    node = Asked(loop)
    node.log.error = NotLeader("n2 leads", leader="n2")
    with pytest.raises(UnknownRequest):
        node.gets(node.api.outcome("t", "a", index=node.state.index, timeout_ms=1000))
    later = node.asks(node.api.outcome("t", "a", index=node.state.index + 1, timeout_ms=1000))
    node.admit("b")
    with pytest.raises(UnknownRequest):
        loop.run_until_complete(later)


def test_node_that_is_behind_the_ticket_says_so(loop: VirtualLoop) -> None:
    node = Asked(loop)
    with pytest.raises(NoLeader, match=r"n1 has applied 3 and does not know 'a': ask another"):
        loop.run_until_complete(node.api.outcome("t", "a", index=50, timeout_ms=60_000))
    assert loop.time() == pytest.approx(2)


@pytest.mark.parametrize("index", [0, 50])
def test_call_that_does_not_wait_is_answered_at_once(loop: VirtualLoop, index: int) -> None:
    """Neither for the ticket's index nor for the leader's word that there is no such request."""
    node = Asked(loop)
    with pytest.raises(NoLeader, match=r"does not know 'a'.*with time to find out"):
        loop.run_until_complete(node.api.outcome("t", "a", index=index, timeout_ms=0))
    assert loop.time() == 0
    with pytest.raises(NoLeader):
        loop.run_until_complete(node.api.outcome("t", "a", index=index, timeout_ms=300))
    assert loop.time() == pytest.approx(0.3)
    with pytest.raises(NoLeader):
        loop.run_until_complete(node.api.find("t", "a", index))
    assert loop.time() == pytest.approx(2.3)


def test_time_to_find_a_request_is_part_of_the_wait(loop: VirtualLoop) -> None:
    node = Asked(loop)
    task = node.asks(node.api.outcome("t", "a", index=node.state.index + 1, timeout_ms=1000))
    loop.run_for(0.6)
    node.admit("a")
    loop.run_for(0.3)
    assert not task.done()
    assert isinstance(loop.run_until_complete(task), Waiting)
    assert loop.time() == pytest.approx(1.0)


def test_after_a_snapshot_waits_are_looked_up_again(loop: VirtualLoop) -> None:
    node = Asked(loop)
    node.admit("a", "b")
    tasks = [node.asks(node.api.outcome("t", each, timeout_ms=9000)) for each in ("a", "b")]
    behind = node.asks(node.api.outcome("t", "c", index=30, timeout_ms=9000))
    node.replica.listeners.remove(node.api)
    node.one(r.Cancel(("t", "t"), ("a", "c")))
    node.replica.listeners.append(node.api)
    loop.run_for(0.1)
    assert not tasks[0].done()
    node.install(30)
    loop.run_for(0.1)
    assert [task.done() for task in (*tasks, behind)] == [True, False, True]
    assert _kind(tasks[0].result()) is _kind(behind.result()) is OutcomeKind.CANCELLED
    node.one(r.Cancel(("t",), ("b",)))
    assert _kind(loop.run_until_complete(tasks[1])) is OutcomeKind.CANCELLED


def test_bounds_of_waits(loop: VirtualLoop) -> None:
    node = Asked(loop, ApiConfig(waits_max=1, index_waits_max=1, timeout_ms_max=1000))
    node.admit("a")
    first = node.asks(node.api.outcome("t", "a", timeout_ms=1000))
    second = node.asks(node.api.outcome("t", "z", index=99, timeout_ms=1000))
    for call in (
        node.api.outcome("t", "a", timeout_ms=1000),
        node.api.outcome("t", "z", index=99, timeout_ms=1000),
    ):
        with pytest.raises(Overloaded):
            loop.run_until_complete(call)
    for timeout_ms in (-1, 1001):
        with pytest.raises(InvalidRequest, match="timeout_ms"):
            loop.run_until_complete(node.api.outcome("t", "a", timeout_ms=timeout_ms))
    for tenant, request_id in (("", "a"), ("t", "a\0b")):
        with pytest.raises(InvalidRequest):
            loop.run_until_complete(node.api.outcome(tenant, request_id, timeout_ms=0))
    node.one(r.Cancel(("t",), ("a",)))
    assert _kind(loop.run_until_complete(first)) is OutcomeKind.CANCELLED
    with pytest.raises(NoLeader):
        loop.run_until_complete(second)


def test_node_that_stops_tells_all_who_wait(loop: VirtualLoop) -> None:
    node = Asked(loop)
    node.admit("a")
    tasks = [
        node.asks(node.api.outcome("t", "a", timeout_ms=9000)),
        node.asks(node.api.outcome("t", "z", index=99, timeout_ms=9000)),
    ]
    node.api.close()
    for call in (
        *tasks,
        node.api.outcome("t", "a", timeout_ms=9000),
        node.api.cancel([("t", "a")]),
    ):
        with pytest.raises(Draining):
            loop.run_until_complete(call)
    with pytest.raises(Draining):
        node.api.watch("t", "a", lambda _: None)


def test_many_are_watched_without_a_task_for_each(loop: VirtualLoop) -> None:
    node = Asked(loop)
    node.admit("a", "b", "c")
    node.one(r.Cancel(("t",), ("c",)))
    told: list[str] = []

    def tells(result: Outcome | RaftbatchError) -> None:
        told.append(result.slug if isinstance(result, RaftbatchError) else result.name[2:])

    async def watch() -> None:
        a = node.api.watch("t", "a", tells)
        b = node.api.watch("t", "b", tells)
        assert node.api.watch("t", "c", tells) is None
        assert a is not None
        assert b is not None
        node.api.unwatch(b)
        with pytest.raises(NoLeader, match="does not know"):
            node.api.watch("t", "z", tells)

    loop.run_until_complete(watch())
    assert told == ["c"]
    node.one(r.Cancel(("t", "t"), ("a", "b")))
    assert told == ["c", "a"]


def test_ids_of_a_large_cancel_are_several_records(loop: VirtualLoop) -> None:
    """And each id has its own answer, whatever becomes of the others."""
    node = Asked(loop)
    node.admit("a", "b")
    ids = [*[f"x{number}" for number in range(2047)], "a", "b", "a"]
    names = [("t", each) for each in ids]
    task = node.asks(node.api.cancel(names))
    assert node.leader.proposed == 3
    for _ in range(3):  # none as long as an entry may be
        assert not task.done()
        node.leader.land()
        loop.run_for(0)
    found = loop.run_until_complete(task)
    assert len(found) == len(names)
    assert found[-3:] == [Verdict.OK, Verdict.OK, Verdict.ENDED]

    task = node.asks(node.api.cancel(names))
    node.leader.land()
    node.leader.depose(OutcomeUnknown("who knows"))
    found = loop.run_until_complete(task)
    assert set(found[:1000]) == {Verdict.ENDED}
    assert {type(each) for each in found[1024:]} == {OutcomeUnknown}
    with pytest.raises(NotLeader):
        loop.run_until_complete(node.api.forget(names))


def test_each_id_of_a_cancel_has_its_own_answer(loop: VirtualLoop) -> None:
    node = Asked(loop, policy=Policy(cancels_remembered_max=1))
    node.admit("open", "done", "old")
    node.one(r.Cancel(("t", "t"), ("done", "old")))
    node.one(r.Forget(("t",), ("old",)))
    ids = ["open", "done", "old", "never", "too many"]
    before = node.state.index
    answers = node.gets(node.api.cancel([("t", each) for each in ids]))
    assert answers[:2] == [Verdict.OK, Verdict.ENDED]
    assert answers[3] is Verdict.UNKNOWN_REQUEST
    slugs = [each.slug for each in answers if isinstance(each, RaftbatchError)]
    assert slugs == ["outcome_forgotten", "quota_exceeded"]
    assert isinstance(answers[4], QuotaExceeded)
    assert answers[4].retry_after_ms == 1000  # nothing drains, by which it could be foreseen
    assert node.state.index == before + 1  # one record for all
    assert node.outcome("open") == "cancelled"
    # The remembered cancel is met by the request that comes later.
    assert node.submits(submission("never")) == [Ticket("never", 0)]


def test_bounds_of_ids(loop: VirtualLoop) -> None:
    node = Asked(loop, ApiConfig(names_max=2))
    with pytest.raises(InvalidRequest, match="3 ids at once, at most 2"):
        node.gets(node.api.cancel([("t", "a")] * 3))
    for name in (("", "a"), ("t", ""), ("t", "x" * 257)):
        with pytest.raises(InvalidRequest):
            node.gets(node.api.cancel([name]))
    assert node.gets(node.api.cancel([])) == []
    assert node.leader.proposed == 0


def test_what_is_not_known_of_a_cancel_is_told(loop: VirtualLoop) -> None:
    node = Asked(loop)
    task = node.asks(node.api.cancel([("t", "a")]))
    node.leader.depose(OutcomeUnknown("nobody knows"))
    with pytest.raises(OutcomeUnknown):
        loop.run_until_complete(task)
    with pytest.raises(NotLeader):
        node.gets(node.api.cancel([("t", "a")]))


def test_cancel_of_a_caller_that_went_away_is_made(loop: VirtualLoop) -> None:
    node = Asked(loop)
    node.admit("a")
    task = node.asks(node.api.cancel([("t", "a")]))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(task)
    node.leader.land()
    assert node.outcome("a") == "cancelled"


def test_wait_that_would_begin_after_the_end_is_refused(loop: VirtualLoop) -> None:
    node = Asked(loop)
    task = node.asks(node.api.outcome("t", "a", timeout_ms=60_000))
    node.admit("a")
    node.api.close()
    assert node.log.pass_barriers() == 1
    loop.run_for(0)
    with pytest.raises(Draining):
        task.result()
    assert node.api.standing().waits == 0
