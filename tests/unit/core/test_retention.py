"""What time ends, and cancels, acknowledgements and purges beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from coordinator.core import ending, retention
from coordinator.core.effects import Effect
from coordinator.core.ending import end_early
from coordinator.core.retention import LOG_TIME_MS_MAX, next_due_ms
from coordinator.core.snapshot import Capture, restore
from coordinator.core.state import State
from coordinator.core.values import Request
from raftbatch import records as r
from raftbatch.kinds import LapseReason, OutcomeKind, Ran
from raftbatch.settings import Model, Policy
from tests.unit.core.tables import Core
from tests.unit.replica_scene import content_of

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


def _in_all_stages() -> Core:
    """Return a state with requests of two tenants and models in all stages of their lives."""
    core = Core(executors=("gpu-1", "gpu-2"), policy=Policy(cancels_remembered_max=3), slots=4)
    core.put(Model("m", "2"))
    core.start("r1", "r2")
    core.start("r3", timeout_ms=500)
    core.one(core.report(2))
    core.admit("s1", "s2", "s3", timeout_ms=900)
    core.seal("s1", "s2", "s3")
    core.admit("s4")
    core.seal("s4")
    core.admit("w1", "w2", "w3", "w4")
    core.admit("w5", "w6", key=("m", "2", "b"), priority=0, timeout_ms=300)
    core.admit("w1", "w7", tenant="u")
    return core


@pytest.mark.parametrize("seed", range(40))
def test_cancel_of_many_does_what_cancels_of_one_after_the_other_do(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the byte: what an older program wrote must mean the same."""
    draw = Random(seed)
    ids = [*[f"{kind}{n}" for kind in "rsw" for n in range(1, 8)], "new", "newer"]
    names = [(draw.choice("ttu"), draw.choice(ids)) for _ in range(draw.choice((1, 5, 40)))]
    record = r.Cancel(tuple(tenant for tenant, _ in names), tuple(each for _, each in names))

    def one_by_one(
        state: State, requests: Sequence[Request], kind: OutcomeKind, effects: list[Effect]
    ) -> None:
        for each in requests:
            end_early(state, [each], kind, effects)

    together = _in_all_stages()
    done = together.do(record)
    monkeypatch.setattr(retention, "end_each", one_by_one)
    apart = _in_all_stages()
    assert apart.do(record) == done
    assert apart.state.digest == together.state.digest
    assert content_of(apart.state) == content_of(together.state)


def test_cancel_of_thousands_ends_them_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """By themselves they took 14 us each, all in one turn of the loop."""
    core = Core()
    many = tuple(f"r{number}" for number in range(2000))
    core.admit(*many)
    calls, end_many = [], ending.end_many

    def counted(*columns: Any) -> None:
        calls.append(len(columns[1]))
        end_many(*columns)

    monkeypatch.setattr(ending, "end_many", counted)
    assert set(core.one(r.Cancel(("t",) * 2000, many)).split()) == {"OK"}
    assert calls == [2000]
    assert core.state.counters.cancelled == 2000


def test_requests_that_expire_together_do_so_in_log_order_wherever_they_came_from() -> None:
    """Their timeouts differ, and they share a bucket: a snapshot knows nothing of either."""
    core = Core(policy=Policy(expire_per_entry_max=2))
    core.do(replace(core.admission("a", "b", "c"), timeout_ms=(5000, 5001, 5000)))
    capture = Capture(core.state)
    restored = Core()
    restored.state = restore(capture.chunks())
    capture.release()
    restored.at_ms = core.at_ms
    for each in (core, restored):
        each.wait(9000)
        assert [each.outcome(name) for name in "abc"] == ["expired", "expired", "open"]
    assert restored.state.digest == core.state.digest


def test_no_more_is_forgotten_than_may_be_where_a_deleted_batch_has_overdrawn() -> None:
    core = Core(policy=Policy(outcome_retention_ms=100, expire_per_entry_max=3))
    ended = [f"e{number}" for number in range(20)]
    core.admit(*ended)
    core.one(r.Cancel(("t",) * 20, tuple(ended)))
    core.admit("a", "b", "c", "d", "e")
    core.seal("a", "b", "c", "d", "e")
    core.one(r.DeleteModel("m", "1"))
    core.at_ms += 1000
    core.do(r.Advance())  # the batch ends as a whole, five where three may
    assert core.outcome("e") == "failed unknown_model"
    assert core.state.oldest_kept <= 3
