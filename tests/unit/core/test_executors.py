"""Executors: incarnations, draining, suspension."""

from __future__ import annotations

from raftbatch import records as r
from raftbatch.kinds import LapseReason
from raftbatch.settings import Model, Policy
from tests.unit.core.tables import M1, Core


def _incarnation(core: Core, name: str = "gpu-1") -> int:
    return core.state.executors[name].incarnation


def test_incarnation_is_the_index_of_the_join() -> None:
    core = Core(executors=())
    assert core.join("gpu-1") == "OK"
    assert _incarnation(core) == core.state.index
    assert core.join("gpu-1") == "EXECUTOR_ID_IN_USE"
    assert core.join("gpu-1", replaces=77) == "EXECUTOR_ID_IN_USE"


def test_restarted_executor_has_its_assignments_lapsed_at_once() -> None:
    core = Core()
    core.start("a")
    old = _incarnation(core)
    report = core.report()
    assert core.join("gpu-1", replaces=old) == "OK"
    assert _incarnation(core) == core.state.index
    assert core.told() == ["Revoked", "ExecutorChanged", "ExecutorChanged"]
    assert core.state.batches[1].executor == ""
    assert core.state.executors["gpu-1"].free_slots == 1
    assert core.one(report) == "STALE_FENCE"
    for record in (
        r.Ready("gpu-1", old, (M1,)),
        r.Drain("gpu-1", old, True),
        r.Leave("gpu-1", old, True, ()),
        r.Free("gpu-1", old, (1,), (1,)),
        r.Probe("gpu-1", old, True),
    ):
        assert core.one(record) == "STALE_INCARNATION"


def test_death_is_a_failure_of_what_was_running_alone() -> None:
    core = Core(slots=3)
    core.start("a")
    core.start("b")
    core.one(r.Leave("gpu-1", _incarnation(core), True, (2,)))
    assert [core.state.batches[n].failed for n in (1, 2)] == [0, 1]
    assert [core.state.batches[n].assigned for n in (1, 2)] == [1, 1]
    assert "gpu-1" not in core.state.executors


def test_gone_executor_gives_back_what_it_held() -> None:
    core = Core()
    core.start("a")
    core.one(r.Leave("gpu-1", _incarnation(core), False, (1,)))
    batch = core.state.batches[1]
    assert (batch.failed, batch.assigned, batch.executor) == (0, 1, "")


def test_lapsed_slot_ends_with_the_incarnation() -> None:
    core = Core()
    core.start("a")
    core.lapse(1, LapseReason.TIMED_OUT, stopped=False)
    core.one(r.Leave("gpu-1", _incarnation(core), True, ()))
    assert core.told() == ["ExecutorChanged"]
    assert core.join("gpu-1") == "OK"
    assert core.state.executors["gpu-1"].free_slots == 1


def test_life_that_began_with_an_entry_does_not_end_with_it() -> None:
    core = Core(executors=())
    index = core.state.index + 1
    join = r.Join("gpu-1", 0, 1, (M1,), b"")
    replies = core.do(join, r.Leave("gpu-1", index, True, ()), join).replies
    assert [reply.verdict.name for reply in replies] == ["OK", "VOID", "EXECUTOR_ID_IN_USE"]
    again = r.Join("gpu-1", index + 1, 1, (M1,), b"")
    replies = core.do(r.Join("gpu-1", index, 1, (M1,), b""), again).replies
    assert [reply.verdict.name for reply in replies] == ["OK", "EXECUTOR_ID_IN_USE"]


def test_drained_executor_finishes_what_it_runs_and_gets_nothing_new() -> None:
    core = Core(slots=2)
    core.start("a")
    core.admit("b")
    core.seal("b")
    core.one(r.Drain("gpu-1", _incarnation(core), True))
    assert core.assign(2) == "VOID"
    assert core.one(core.report(1)) == "OK"
    core.one(r.Drain("gpu-1", _incarnation(core), False))
    assert core.assign(2) == "OK"


def test_executors_are_bounded() -> None:
    core = Core(policy=Policy(executors_max=1))
    assert core.join("gpu-2") == "OVERLOADED"
    assert core.join("gpu-1", replaces=_incarnation(core)) == "OK"


def _fail(core: Core, request_id: str) -> None:
    batch = core.start(request_id)
    core.lapse(batch)


def test_failures_of_distinct_batches_in_a_row_suspend_until_a_probe_succeeds() -> None:
    core = Core(policy=Policy(executor_failures_max=2))
    _fail(core, "a")
    core.one(core.report(core.start("b")))  # a success between them
    _fail(core, "c")
    assert core.state.executors["gpu-1"].failures
    _fail(core, "d")
    assert core.state.executors["gpu-1"].is_suspended
    assert core.told() == ["ExecutorChanged", "Revoked"]
    core.admit("e")
    core.seal("e")
    batch = core.state.next_batch - 1
    assert core.assign(batch) == "VOID"
    assert core.one(r.Probe("gpu-1", _incarnation(core), False)) == "OK"
    assert core.assign(batch) == "VOID"
    assert core.one(r.Probe("gpu-1", _incarnation(core), True)) == "OK"
    assert core.assign(batch) == "OK"
    assert core.one(r.Probe("gpu-1", _incarnation(core), True)) == "VOID"


def test_one_batch_that_fails_again_and_again_suspends_nobody() -> None:
    """Nor do its halves: one request that breaks them all says nothing about the device."""
    core = Core(Model("m", "1", attempts_max=2), Policy(executor_failures_max=2))
    core.admit("a", "b")
    core.seal("a", "b")
    core.fails(1)
    core.fails(1)
    core.one(r.Bisect(1, 2, 3))
    core.fails(2)
    core.fails(3)
    assert not core.state.executors["gpu-1"].is_suspended


def test_report_of_nothing_but_failures_counts_against_the_device() -> None:
    core = Core(policy=Policy(executor_failures_max=2), slots=2)
    core.one(core.report(core.start("a"), kind=1))
    batch = core.start("b", "c")
    core.one(core.report(batch, kind=0, numbers=(2,), last=False))
    core.one(core.report(batch, kind=1, numbers=(3,)))
    assert not core.state.executors["gpu-1"].failures
    core.one(core.report(core.start("d"), kind=1))
    core.one(core.report(core.start("e"), kind=1))
    assert core.state.executors["gpu-1"].is_suspended
