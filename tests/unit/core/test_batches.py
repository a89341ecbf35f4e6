"""Batches: sealed, assigned, taken back, halved, set aside."""

from __future__ import annotations

import pytest

from coordinator.core.effects import BatchWaits, Placed, Revoked
from raftbatch import records as r
from raftbatch.kinds import Key, LapseReason, Ran, Release
from raftbatch.settings import Model, Policy
from tests.unit.core.tables import KEY, Core

NO, YES, UNKNOWN = Ran
LOST, TIMED_OUT, DRAINED, REFUSED, FAILED = LapseReason


def test_seal_makes_a_batch_in_the_order_it_names() -> None:
    core = Core()
    core.admit("a", "b", "c", rows=2)
    assert core.seal("c", "a") == "OK"
    batch = core.state.batches[1]
    assert batch.members == (3, 1)
    assert (batch.rows, batch.size, batch.open_requests) == (4, 20, 2)
    assert core.effects == (BatchWaits(1),)
    assert core.state.windows[KEY].requests == 1


def test_seal_holds_no_more_than_a_batch_may() -> None:
    core = Core(Model("m", "1", max_batch_size=4, max_batch_bytes=30))
    core.admit("a", "b", "c", rows=2, size=1)
    core.admit("d", "e", rows=1, size=16)
    assert core.seal("a", "b", "c") == "VOID"
    assert core.seal("d", "e") == "VOID"
    assert core.seal("a", "b") == "OK"


def test_seal_never_mixes_keys() -> None:
    core = Core()
    other: Key = ("m", "1", "b")
    core.admit("a")
    core.admit("b", key=other)
    assert core.seal("a", "b") == "OK"
    assert core.state.batches[1].members == (1,)
    assert core.seal("b", key=KEY) == "EMPTY"
    assert core.seal("b", key=other) == "OK"


def test_model_without_a_batch_axis_takes_each_request_alone() -> None:
    core = Core(Model("m", "1", max_batch_size=0))
    core.admit("a", "b")
    assert core.seal("a", "b") == "VOID"
    assert core.seal("a") == "OK"


def test_seal_takes_no_request_twice() -> None:
    core = Core()
    core.admit("a", "b")
    core.seal("a")
    assert core.one(r.Seal(2, KEY, Release.AGE, (1, 2, 77))) == "OK"
    assert core.state.batches[2].members == (2,)
    assert core.one(r.Seal(3, KEY, Release.AGE, (1, 2, 77))) == "EMPTY"


def test_numbers_of_batches_only_rise() -> None:
    core = Core()
    core.admit("a", "b")
    assert core.seal("a", batch=5) == "OK"
    assert core.seal("b", batch=5) == "VOID"
    assert core.seal("b", batch=1 << 60) == "VOID"
    assert core.seal("b", batch=6) == "OK"


def test_seal_and_assign_drop_requests_that_are_past_their_deadline() -> None:
    """Though nothing that is due was ended yet: so many end with each entry."""
    core = Core(policy=Policy(expire_per_entry_max=1))
    core.admit("x", "y", timeout_ms=5)
    core.admit("a", "b", timeout_ms=5)
    core.admit("c", timeout_ms=500)
    core.at_ms += 10
    assert core.seal("a", "c") == "OK"
    assert (core.outcome("a"), core.outcome("c")) == ("expired", "open")
    assert core.state.batches[1].members == (5,)

    core = Core(policy=Policy(expire_per_entry_max=1))
    core.admit("x", "y", "z", timeout_ms=5)
    core.admit("a", timeout_ms=5)
    core.admit("b", timeout_ms=500)
    core.seal("a", "b")
    core.at_ms += 10
    assert core.assign() == "OK"
    assert (core.outcome("a"), core.outcome("b")) == ("expired", "open")
    assert core.told()[-1] == "Placed"


def test_batch_all_of_whose_requests_are_late_is_never_assigned() -> None:
    core = Core(policy=Policy(expire_per_entry_max=1))
    core.admit("x", "y", timeout_ms=5)
    core.admit("a", timeout_ms=5)
    core.seal("a")
    core.at_ms += 10
    assert core.assign() == "EMPTY"
    assert core.outcome("a") == "expired"
    assert core.assign() == "EMPTY"


def test_fence_is_the_index_of_the_assignment() -> None:
    core = Core()
    core.admit("a")
    core.seal("a")
    core.assign()
    batch = core.state.batches[1]
    assert batch.fence == core.state.index
    assert core.effects == (Placed("gpu-1", batch.incarnation, 1, 1, batch.fence),)


def test_assign_is_refused_where_anything_has_changed() -> None:
    core = Core(executors=("gpu-1", "gpu-2"))
    core.admit("a", "b")
    live = core.state.executors["gpu-1"].incarnation
    assert core.one(r.Assign(1, 1, "gpu-1", live)) == "VOID"  # no such batch yet
    core.seal("a")
    core.seal("b")
    assert core.one(r.Assign(1, 2, "gpu-1", live)) == "VOID"  # not the next attempt
    assert core.one(r.Assign(1, 1, "gpu-1", live + 5)) == "STALE_INCARNATION"
    assert core.one(r.Assign(1, 1, "gpu-7", 1)) == "STALE_INCARNATION"
    assert core.assign(1) == "OK"
    assert core.assign(1, "gpu-2") == "VOID"  # it is assigned
    assert core.assign(2, "gpu-1") == "VOID"  # no slot
    core.one(r.Drain("gpu-2", core.state.executors["gpu-2"].incarnation, True))
    assert core.assign(2, "gpu-2") == "VOID"
    core.one(r.Drain("gpu-2", core.state.executors["gpu-2"].incarnation, False))
    core.one(r.Ready("gpu-2", core.state.executors["gpu-2"].incarnation, (("m", "2"),)))
    assert core.assign(2, "gpu-2") == "VOID"  # not ready there


@pytest.mark.parametrize(
    ("reason", "ran", "failed", "excluded", "delay_ms"),
    [
        (FAILED, YES, 1, ("gpu-1",), 50),
        (FAILED, NO, 0, (), 0),
        (TIMED_OUT, YES, 1, ("gpu-1",), 50),
        (LOST, YES, 1, ("gpu-1",), 50),
        (LOST, NO, 0, (), 0),
        (LOST, UNKNOWN, 0, (), 0),
        (DRAINED, YES, 0, (), 0),
        (DRAINED, NO, 0, (), 0),
        (REFUSED, NO, 0, (), 50),
        (REFUSED, YES, 0, (), 50),
    ],
)
def test_lapse_counts_by_its_reason_and_whether_it_ran(
    reason: LapseReason, ran: Ran, failed: int, excluded: tuple[str, ...], delay_ms: int
) -> None:
    core = Core()
    core.start("a")
    fence = core.state.batches[1].fence
    incarnation = core.state.batches[1].incarnation
    assert core.lapse(1, reason, ran) == "OK"
    batch = core.state.batches[1]
    assert (batch.assigned, batch.failed, batch.excluded) == (1, failed, excluded)
    assert batch.not_before_ms == (core.at_ms + delay_ms if delay_ms else 0)
    assert core.effects[0] == Revoked("gpu-1", incarnation, 1, fence, reason)
    assert core.lapse(1, reason, ran) == "STALE_FENCE"


def test_backoff_grows_to_its_most_and_holds_no_slot() -> None:
    core = Core(Model("m", "1", attempts_max=9, backoff_initial_ms=100, backoff_max_ms=350))
    core.admit("a")
    core.seal("a")
    delays = []
    for _ in range(4):
        assert core.assign() == "OK"
        core.lapse()
        delays.append(core.state.batches[1].not_before_ms - core.at_ms)
        core.one(r.Probe("gpu-1", core.state.executors["gpu-1"].incarnation, True))
        assert core.state.executors["gpu-1"].free_slots == 1
        core.at_ms = core.state.batches[1].not_before_ms - 1
        assert core.assign() == "VOID"
        core.at_ms += 1
    assert delays == [100, 200, 350, 350]


def test_slot_of_a_lapse_returns_when_the_executor_says_that_it_stopped() -> None:
    core = Core()
    core.start("a")
    fence = core.state.batches[1].fence
    core.lapse(1, TIMED_OUT, stopped=False)
    live = core.state.executors["gpu-1"]
    assert live.free_slots == 0
    assert core.one(r.Free("gpu-1", live.incarnation, (1,), (fence + 9,))) == "OK"
    assert core.state.executors["gpu-1"].free_slots == 0
    assert core.one(r.Free("gpu-1", live.incarnation, (1,), (fence,))) == "OK"
    assert core.state.executors["gpu-1"].free_slots == 1
    assert core.one(r.Free("gpu-1", live.incarnation + 1, (1,), (fence,))) == "STALE_INCARNATION"


def test_free_never_returns_the_slot_of_what_is_assigned() -> None:
    core = Core()
    core.start("a")
    batch = core.state.batches[1]
    core.one(r.Free("gpu-1", batch.incarnation, (1,), (batch.fence,)))
    assert core.state.executors["gpu-1"].free_slots == 0


@pytest.mark.parametrize(
    ("model", "lapses", "exhausted"),
    [
        (Model("m", "1", attempts_max=3), [(FAILED, YES)] * 2, False),
        (Model("m", "1", attempts_max=3), [(FAILED, YES)] * 3, True),
        (Model("m", "1", assigned_max=3), [(DRAINED, NO)] * 2, False),
        (Model("m", "1", assigned_max=3), [(DRAINED, NO)] * 3, True),
    ],
)
def test_batch_is_exhausted_by_failures_or_by_attempts(
    model: Model, lapses: list[tuple[LapseReason, Ran]], exhausted: bool
) -> None:
    core = Core(model, Policy(executor_failures_max=99))
    core.admit("a")
    core.seal("a")
    for reason, ran in lapses:
        core.at_ms += 10_000
        assert core.assign() == "OK"
        core.lapse(1, reason, ran)
    core.at_ms += 10_000
    assert core.state.batches[1].is_exhausted == exhausted
    assert core.one(r.Quarantine(1)) == ("OK" if exhausted else "VOID")


def _exhausted(*ids: str) -> Core:
    core = Core(Model("m", "1", attempts_max=1), Policy(executor_failures_max=99))
    core.admit(*ids)
    core.seal(*reversed(ids))
    core.fails(1)
    return core


def test_bisect_halves_in_log_order() -> None:
    core = _exhausted("a", "b", "c")
    assert core.assign(1) == "VOID"
    assert core.one(r.Quarantine(1)) == "VOID"
    assert core.one(r.Bisect(1, 2, 3)) == "OK"
    assert core.effects[1:] == (BatchWaits(2), BatchWaits(3))
    halves = [core.state.batches[n] for n in (2, 3)]
    assert [half.members for half in halves] == [(1, 2), (3,)]
    assert [(half.failed, half.assigned, half.excluded) for half in halves] == [(0, 0, ())] * 2
    assert [half.root for half in halves] == [1, 1]
    assert core.one(r.Bisect(1, 4, 5)) == "EMPTY"


def test_half_of_several_splits_at_its_first_failure_and_one_alone_has_all_attempts() -> None:
    core = Core(policy=Policy(executor_failures_max=99))
    core.admit("a", "b", "c")
    core.seal("a", "b", "c")
    for _ in range(3):
        core.fails(1)
    core.one(r.Bisect(1, 2, 3))
    assert [core.state.batches[n].attempts_max for n in (2, 3)] == [1, 3]
    core.fails(2)
    assert core.one(r.Bisect(2, 4, 5)) == "OK"
    assert [core.state.batches[n].attempts_max for n in (4, 5)] == [3, 3]


def test_bisect_of_what_is_not_exhausted_or_misnumbered_is_void() -> None:
    core = Core()
    core.admit("a", "b")
    core.seal("a", "b")
    assert core.one(r.Bisect(1, 2, 3)) == "VOID"
    assert core.one(r.Bisect(7, 8, 9)) == "VOID"
    core = _exhausted("a", "b")
    assert core.one(r.Bisect(1, 1, 2)) == "VOID"
    assert core.one(r.Bisect(1, 3, 3)) == "VOID"
    assert core.one(r.Bisect(1, 2, 1 << 60)) == "VOID"
    core = _exhausted("a")
    assert core.one(r.Bisect(1, 2, 3)) == "VOID"


def test_bisect_with_one_request_left_makes_one_batch() -> None:
    core = _exhausted("a", "b")
    core.one(r.Cancel(("t",), ("a",)))
    assert core.one(r.Bisect(1, 2, 3)) == "OK"
    assert list(core.state.batches) == [2]


def test_quarantine_gives_the_outcome_and_keeps_the_request() -> None:
    core = _exhausted("a")
    assert core.one(r.Quarantine(1)) == "OK"
    assert core.outcome("a") == "failed broke"
    kept = core.state.quarantine[1]
    assert (kept.request.payload, kept.batch, kept.code) == (bytes(10), 1, "broke")
    assert core.one(r.Quarantine(1)) == "EMPTY"
    assert core.one(r.ReleaseQuarantined((1, 5))) == "OK"
    assert not core.state.quarantine
    assert core.outcome("a") == "failed broke"


@pytest.mark.parametrize(
    "policy",
    [Policy(quarantine_requests_max=2), Policy(quarantine_bytes_max=29)],
)
def test_quarantine_is_bounded_and_the_oldest_goes(policy: Policy) -> None:
    core = Core(Model("m", "1", attempts_max=1))
    core.do(r.PutPolicy(policy))
    for batch, request_id in enumerate("abc", 1):
        core.admit(request_id)
        core.seal(request_id)
        core.fails(batch)
        core.one(r.Probe("gpu-1", core.state.executors["gpu-1"].incarnation, True))
        core.one(r.Quarantine(batch))
    assert list(core.state.quarantine) == [2, 3]
    assert core.state.counters.quarantine_dropped == 1


def test_batch_is_not_assigned_twice_under_one_fence() -> None:
    core = Core(slots=2)
    core.start("a")
    batch = core.state.batches[1]
    live = batch.incarnation
    again = r.Assign(1, 2, "gpu-1", live)
    third = r.Assign(1, 3, "gpu-1", live)
    fence = core.state.index + 1
    back = r.Lapse(1, 1, batch.fence, DRAINED, NO, True, "", "")
    back_again = r.Lapse(1, 2, fence, DRAINED, NO, False, "", "")
    replies = core.do(back, again, back_again, third).replies
    assert [reply.verdict.name for reply in replies] == ["OK", "OK", "OK", "VOID"]
