"""The checker's model of batches and executors, shown to fire: what no sound core would do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coordinator.core import effects as e
from coordinator.core.effects import Reply, Verdict
from raftbatch import records as r
from raftbatch.kinds import LapseReason, Ran, Release
from raftbatch.settings import Model
from tests.unit.core.tables import KEY
from tests.unit.scheduler_scene import OK, Scene
from tests.unit.test_scheduler_model import FEW, SMALL, scene

# Batches.

Sealing = tuple[list[dict[str, object]], tuple[int, ...], str]

SEALS: dict[str, Sealing] = {
    "too many rows": ([{"rows": 3}, {"rows": 3}], (1, 2), "6 rows and 20 bytes"),
    "too many bytes": ([{"size": 51}, {"size": 50}], (1, 2), "2 rows and 101 bytes"),
    "two keys": ([{}, {"key": ("m", "1", "b")}], (1, 2), "mixes"),
    "of its own": ([{}, {}], (2, 1), "is out of order"),
    "priority": ([{"priority": 2}, {"priority": 1}], (1, 2), "is out of order"),
    "overtaken": ([{}, {}], (2,), "though (1, 1) waits"),
    "overtaken by a lane": ([{"priority": 0}, {"priority": 2}], (2,), "though (0, 1) waits"),
    "late": ([{"timeout_ms": 10}], (1,), "past their deadline"),
    "nobody": ([{}], (9,), "has 1 requests, of []"),
}


@pytest.mark.parametrize("what", SEALS)
def test_batch_as_it_must_not_be_is_found(what: str) -> None:
    requests, numbers, said = SEALS[what]
    found = scene()
    for place, alike in enumerate(requests):
        assert found.admit(f"r{place}", **alike) == "OK"
    found.at_ms += 10
    seal = r.Seal(1, KEY, Release.SIZE, numbers)
    waits = e.BatchWaits(1)
    assert said in found.said_to(seal, Reply(Verdict.OK, "", len(numbers)), waits)


def test_request_that_was_older_by_an_aging_goes_first() -> None:
    found = scene()
    found.admit("old", priority=2)
    found.at_ms += 2000
    found.admit("new", priority=0)
    assert "though (0, 1) waits" in found.said_to(
        r.Seal(1, KEY, Release.SIZE, (2,)), Reply(Verdict.OK, "", 1), e.BatchWaits(1)
    )


def test_request_sealed_twice_is_found() -> None:
    found = scene()
    found.admit("a")
    found.seal("a")
    seal = r.Seal(2, KEY, Release.SIZE, (1,))
    assert "has 1 requests, of []" in found.said_to(seal, Reply(Verdict.OK, "", 1), e.BatchWaits(2))


def test_batch_number_that_does_not_rise_is_found() -> None:
    found = scene()
    found.admit("a", "b")
    found.seal("a")
    seal = r.Seal(1, KEY, Release.SIZE, (2,))
    assert "comes after" in found.said_to(seal, Reply(Verdict.OK, "", 1), e.BatchWaits(1))


def assigns(found: Scene, executor: str = "gpu-1", **other: int | str) -> str:
    """Let batch 1 be assigned as it is said; return what is wrong."""
    live = found.state.executors.get(executor)
    incarnation = live.incarnation if live is not None else 1
    assign = replace(r.Assign(1, 1, executor, incarnation), **other)  # type: ignore[arg-type]
    fence = found.state.index + 1
    placed = e.Placed(assign.executor, assign.incarnation, assign.batch, assign.attempt, fence)
    return found.said_to(assign, Reply(Verdict.OK, "", fence), placed)


def sealed(**alike: object) -> Scene:
    """Return a scene with a batch that waits."""
    found = scene()
    found.admit("a", **alike)
    found.seal("a")
    return found


def test_sound_assignment_is_sound() -> None:
    assert not assigns(sealed())


@pytest.mark.parametrize(
    "other", [{"batch": 2}, {"executor": "gpu-7"}, {"incarnation": 1}], ids=str
)
def test_assignment_to_nobody_is_found(other: dict[str, object]) -> None:
    assert "assigns batch" in assigns(sealed(), **other)  # type: ignore[arg-type]


def test_attempt_that_does_not_rise_is_found() -> None:
    assert "has another attempt next" in assigns(sealed(), attempt=2)


def test_second_assignment_is_found() -> None:
    found = sealed()
    found.assign()
    assert "is assigned already" in assigns(found, "gpu-2", attempt=2)


def test_assignment_of_an_exhausted_batch_is_found() -> None:
    found = sealed()
    found.fails(1)
    found.at_ms += 100
    assert "is exhausted" in assigns(found, attempt=2)


def test_assignment_in_backoff_is_found() -> None:
    found = sealed()
    found.assign()
    assert found.lapse(1, LapseReason.REFUSED, Ran.NO) == "OK"
    found.at_ms += SMALL.backoff_initial_ms - 1
    assert "is in backoff" in assigns(found, attempt=2)
    found = sealed()
    found.assign()
    found.lapse(1, LapseReason.REFUSED, Ran.NO)
    found.at_ms += SMALL.backoff_initial_ms
    assert not assigns(found, attempt=2)


def test_assignment_without_a_slot_is_found() -> None:
    found = Scene(SMALL, FEW, slots=1)
    found.start("a")
    found.admit("b")
    found.seal("b")
    assert "is for no slot" in assigns(found, batch=2)


def test_slot_that_lapsed_and_is_not_freed_is_taken() -> None:
    found = Scene(SMALL, FEW, slots=1)
    found.start("a")
    assert found.lapse(1, LapseReason.TIMED_OUT, stopped=False) == "OK"
    found.admit("b")
    found.seal("b")
    assert "is for no slot" in assigns(found, batch=2)


def test_assignment_to_an_executor_that_drains_is_found() -> None:
    found = sealed()
    found.one(r.Drain("gpu-1", found.state.executors["gpu-1"].incarnation, True))
    assert "gets nothing" in assigns(found)


def test_assignment_to_an_executor_without_the_model_is_found() -> None:
    found = sealed()
    found.one(r.Ready("gpu-1", found.state.executors["gpu-1"].incarnation, ()))
    assert "not ready there" in assigns(found)


def test_assignment_past_a_deadline_is_found() -> None:
    found = sealed(timeout_ms=50)
    found.at_ms += 50
    assert "past its deadline" in assigns(found)


def test_assignment_for_a_deleted_model_is_found() -> None:
    found = sealed()
    found.checker.model.deleting["m", "1"] = None
    assert "of a deleted model" in assigns(found)


def test_fence_that_is_not_the_entry_is_found() -> None:
    found = sealed()
    assign = r.Assign(1, 1, "gpu-1", found.state.executors["gpu-1"].incarnation)
    assert "has a fence" in found.said_to(assign, Reply(Verdict.OK, "", 3))


def test_batch_that_is_halved_too_early_is_found() -> None:
    found = scene()
    found.admit("a", "b")
    found.seal("a", "b")
    assert "is halved" in found.said_to(r.Bisect(1, 2, 3), OK)


def test_halves_that_are_not_halves_are_found() -> None:
    found = Scene(replace(SMALL, assigned_max=9), FEW)
    found.admit("a", "b", "c")
    found.seal("a", "b", "c")
    found.fails(1)
    assert found.one(r.Bisect(1, 2, 3)) == "OK"
    batch = found.state.batches[2]
    found.state.batches[2] = replace(batch, members=(1,))
    found.checker.look(*found.here())
    assert found.violation


@pytest.mark.parametrize("requests", [("a",), ("a", "b")])
def test_request_that_is_set_aside_too_early_is_found(requests: tuple[str, ...]) -> None:
    found = scene()
    found.admit(*requests)
    found.seal(*requests)
    if len(requests) > 1:
        found.fails(1)
    assert "is set aside" in found.said_to(r.Quarantine(1), OK)


def test_request_that_is_set_aside_without_an_outcome_is_found() -> None:
    found = sealed()
    found.fails(1)
    assert "is set aside, and has None" in found.said_to(r.Quarantine(1), OK)


# Executors.


def test_second_life_beside_the_first_is_found() -> None:
    found = scene()
    join = r.Join("gpu-1", 0, 1, (), b"")
    assert "is live" in found.said_to(join, Reply(Verdict.OK, "", found.state.index + 1))


def test_incarnation_that_is_not_the_entry_is_found() -> None:
    join = r.Join("gpu-3", 0, 1, (), b"")
    assert "joins as 1" in scene().said_to(join, Reply(Verdict.OK, "", 1))


@pytest.mark.parametrize(
    "record",
    [
        r.Ready("gpu-1", 1, ()),
        r.Drain("gpu-1", 1, True),
        r.Leave("gpu-1", 1, True, ()),
        r.Free("gpu-1", 1, (1,), (2,)),
        r.Probe("gpu-9", 1, True),
    ],
)
def test_what_an_incarnation_that_is_over_says_is_not_heard(record: r.Record) -> None:
    assert "of no live incarnation" in scene().said_to(record, OK)


def test_slots_that_are_freed_while_in_use_are_found() -> None:
    found = scene()
    batch = found.start("a")
    fence = found.state.batches[batch].fence
    free = r.Free("gpu-1", found.state.executors["gpu-1"].incarnation, (batch,), (fence,))
    assert "1 slots are freed" in found.said_to(free, Reply(Verdict.OK, "", 1))


def test_suspension_is_counted() -> None:
    """The third batch in a row that fails suspends: here the second."""
    found = Scene(Model("m", "1", attempts_max=1), replace(FEW, executor_failures_max=2), slots=3)
    found.start("a")
    found.start("b")
    found.lapse(1)
    fence = found.state.batches[2].fence
    lapse = r.Lapse(2, 1, fence, LapseReason.FAILED, Ran.YES, True, "", "")
    incarnation = found.state.executors["gpu-1"].incarnation
    revoked = e.Revoked("gpu-1", incarnation, 2, fence, LapseReason.FAILED)
    said = found.said_to(lapse, OK, revoked)
    assert "lacks [('executor', 'gpu-1', 3, <Change.SUSPENDED: 5>)]" in said
