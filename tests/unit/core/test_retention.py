"""What time ends, and cancels, acknowledgements and purges beside it."""

from __future__ import annotations

import pytest

from coordinator.core.retention import LOG_TIME_MS_MAX, next_due_ms
from coordinator.core.snapshot import Capture, restore
from raftbatch import records as r
from raftbatch.kinds import LapseReason, Ran
from raftbatch.settings import Policy
from tests.unit.core.tables import Core

SHORT = Policy(outcome_retention_ms=1000, dedupe_retention_ms=5000)


def _ended(core: Core, request_id: str) -> None:
    core.one(core.report(core.start(request_id)))


def test_outcome_is_kept_for_its_retention_and_the_id_for_longer() -> None:
    core = Core(policy=SHORT)
    _ended(core, "a")
    core.wait(999)
    assert core.admit("a") == "ENDED"
    core.wait(1)
    assert core.admit("a") == "OUTCOME_FORGOTTEN"
    assert core.state.outcome_bytes == 0
    core.wait(3999)
    assert core.admit("a") == "OUTCOME_FORGOTTEN"
    core.wait(1)
    assert core.admit("a") == "OK"


def test_bytes_of_outcomes_are_bounded_without_cutting_retention() -> None:
    core = Core(policy=Policy(outcome_bytes_max=1000, outcome_reserve_bytes=128))
    core.one(core.report(core.start("a"), result=bytes(800)))
    assert core.admit("b") == "OVERLOADED"
    assert core.outcome("a") == "ok"
    assert core.one(r.Acknowledge(("t",), ("a",))) == "OK"
    assert core.admit("b") == "OK"


@pytest.mark.parametrize("kind", [r.Acknowledge, r.Forget])
def test_acknowledged_outcome_loses_its_bytes_and_keeps_its_id(
    kind: type[r.Acknowledge | r.Forget],
) -> None:
    core = Core()
    _ended(core, "a")
    core.admit("b")
    assert core.one(kind(("t", "t", "t"), ("a", "b", "c"))) == "OK VOID UNKNOWN_REQUEST"
    assert core.outcome("b") == "open"
    assert core.admit("a") == "OUTCOME_FORGOTTEN"
    assert core.one(kind(("t",), ("a",))) == "OK"
    assert core.state.outcome_bytes == 0
    assert core.one(r.Cancel(("t",), ("a",))) == "OUTCOME_FORGOTTEN"


STAGES = ("waiting", "sealed", "assigned", "assigned twice", "ended", "unknown")


def _reach(core: Core, stage: str, timeout_ms: int = 0) -> None:
    """Bring request `a`, with a neighbour `b`, to a stage of its life."""
    if stage == "unknown":
        return
    core.admit("a", timeout_ms=timeout_ms)
    core.admit("b")
    if stage == "waiting":
        return
    core.seal("a", "b")
    if stage == "sealed":
        return
    core.assign()
    if stage == "assigned twice":
        core.lapse(1, LapseReason.DRAINED, Ran.NO)
        core.assign(1)
    if stage == "ended":
        core.one(core.report())


@pytest.mark.parametrize(
    ("stage", "verdict", "outcome", "effects"),
    [
        ("waiting", "OK", "cancelled", ["Ended"]),
        ("sealed", "OK", "cancelled", ["Ended"]),
        ("assigned", "OK", "cancelled", ["Ended", "Shed"]),
        ("assigned twice", "OK", "cancelled", ["Ended", "Shed"]),
        ("ended", "ENDED", "ok", []),
        ("unknown", "UNKNOWN_REQUEST", "cancelled", []),
    ],
)
def test_cancel_in_each_stage(stage: str, verdict: str, outcome: str, effects: list[str]) -> None:
    core = Core()
    _reach(core, stage)
    assert core.one(r.Cancel(("t",), ("a",))) == verdict
    assert core.outcome("a") == outcome
    assert core.told() == effects
    assert core.one(r.Cancel(("t",), ("a",))) == "ENDED"
    if stage.startswith("assigned"):
        assert core.one(core.report()) == "OK"
        assert core.outcome("a") == "cancelled"
        assert core.outcome("b") == "ok"


@pytest.mark.parametrize(
    ("stage", "effects"),
    [
        ("waiting", ["Ended"]),
        ("sealed", ["Ended"]),
        ("assigned", ["Ended", "Shed"]),
        ("assigned twice", ["Ended", "Shed"]),
    ],
)
def test_deadline_in_each_stage(stage: str, effects: list[str]) -> None:
    core = Core()
    _reach(core, stage, timeout_ms=100)
    core.wait(99)
    assert core.outcome("a") == "open"
    core.wait(1)
    assert core.outcome("a") == "expired"
    assert core.told() == effects
    assert core.outcome("b") == "open"
    if stage.startswith("assigned"):
        assert core.one(core.report()) == "OK"
        assert core.outcome("a") == "expired"
        assert core.outcome("b") == "ok"


def test_last_request_of_a_sealed_batch_takes_the_batch_with_it() -> None:
    core = Core()
    core.admit("a")
    core.seal("a")
    core.one(r.Cancel(("t",), ("a",)))
    assert core.told() == ["Ended", "BatchGone"]
    assert not core.state.batches


def test_batch_whose_requests_have_all_ended_keeps_its_slot_until_the_executor_says_so() -> None:
    core = Core()
    core.start("a")
    core.one(r.Cancel(("t",), ("a",)))
    assert core.state.executors["gpu-1"].free_slots == 0
    assert core.one(core.report(numbers=())) == "OK"
    assert core.state.executors["gpu-1"].free_slots == 1
    assert not core.state.batches


def test_due_requests_end_in_the_order_of_their_deadlines_and_so_many_with_each_entry() -> None:
    core = Core(policy=Policy(expire_per_entry_max=2))
    core.admit("a", timeout_ms=30)
    core.admit("b", "c", timeout_ms=20)
    core.admit("d", timeout_ms=500)
    core.wait(40)
    assert [core.outcome(each) for each in "abcd"] == ["open", "expired", "expired", "open"]
    assert next_due_ms(core.state) == core.state.now_ms
    core.wait(0)
    assert [core.outcome(each) for each in "abcd"] == ["expired", "expired", "expired", "open"]
    assert next_due_ms(core.state) == 1500


def test_outcomes_go_some_with_each_entry() -> None:
    core = Core(policy=Policy(expire_per_entry_max=1, outcome_retention_ms=1000))
    for each in "abc":
        _ended(core, each)
    core.wait(1000)
    assert [core.one(r.Cancel(("t",), (each,))) for each in "ab"] == ["OUTCOME_FORGOTTEN"] * 2


def test_something_is_due_only_while_something_can_end() -> None:
    core = Core(policy=SHORT)
    assert next_due_ms(core.state) is None
    core.admit("a", timeout_ms=200)
    assert next_due_ms(core.state) == 1200
    core.seal("a")
    core.assign()
    core.one(core.report())
    assert next_due_ms(core.state) == 3000  # the outcome's retention, and a second
    core.wait(2000)
    assert next_due_ms(core.state) == 7000  # the id's


def test_log_time_never_goes_back_and_leaves_room_for_deadlines() -> None:
    core = Core()
    core.wait(-500)
    assert core.state.now_ms == 1000
    core.at_ms = (1 << 63) - 1
    core.admit("a", timeout_ms=1 << 40)
    assert core.state.now_ms == LOG_TIME_MS_MAX
    assert restore(Capture(core.state).chunks()).digest == core.state.digest


def test_deadline_far_away_is_seen_a_little_late_and_never_early() -> None:
    core = Core()
    core.admit("a", timeout_ms=100_001)
    core.wait(100_000)
    assert core.outcome("a") == "open"
    core.wait(1 + 100_001 // 256)
    assert core.outcome("a") == "expired"
