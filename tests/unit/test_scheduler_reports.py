"""The checker's model of reports, lapses and effects, shown to fire."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from coordinator.core import effects as e
from coordinator.core.effects import Reply, Verdict
from coordinator.core.values import Run
from raftbatch import records as r
from raftbatch.kinds import LapseReason, OutcomeKind, Ran
from tests.unit.scheduler_scene import OK, TAKEN, Scene
from tests.unit.test_scheduler_model import scene

# Reports.


def completes(
    found: Scene, report: r.Complete, kind: OutcomeKind = OutcomeKind.OK, **given: object
) -> str:
    """Let a report of request `a` be taken; return what is wrong."""
    run = Run(report.batch, report.attempt, report.fence, report.executor, report.incarnation,
              *(1, 2, 3, 4), (1,), b"f")  # fmt: skip
    values = {"run": run, "result": b"result", **given}
    ended, outcomes = found.ends("a", kind, **values)  # type: ignore[arg-type]
    finished = e.Finished(report.executor, report.incarnation, report.batch, report.fence)
    return found.said_to(report, Reply(Verdict.OK, "", 1), ended, finished, outcomes=outcomes)


def test_sound_report_is_sound() -> None:
    found = scene()
    batch = found.start("a")
    found.ran(batch)
    assert not completes(found, found.report(batch))


@pytest.mark.parametrize(
    "other",
    [{"fence": 2}, {"attempt": 2}, {"executor": "gpu-2"}, {"incarnation": 4}, {"batch": 9}],
)
def test_report_under_another_fence_is_found(other: dict[str, object]) -> None:
    found = scene()
    batch = found.start("a")
    found.ran(batch)
    report = replace(found.report(batch), **other)  # type: ignore[arg-type]
    assert "under another fence" in completes(found, report)


def test_current_report_that_is_refused_is_found() -> None:
    found = scene()
    batch = found.start("a")
    stale = Reply(Verdict.STALE_FENCE)
    assert "under the current fence" in found.said_to(found.report(batch), stale)


def test_report_that_is_refused_for_itself_is_found() -> None:
    found = scene()
    batch = found.start("a")
    assert "is answered" in found.said_to(found.report(batch), Reply(Verdict.INVALID_REQUEST))


def test_report_that_no_run_gave_is_found() -> None:
    found = scene()
    assert "of which None gave None" in completes(found, found.report(found.start("a")))


def test_report_of_other_than_the_run_gave_is_found() -> None:
    found = scene()
    batch = found.start("a")
    found.ran(batch, OutcomeKind.FAILED)
    assert "FAILED" in completes(found, found.report(batch))


def test_wrong_result_is_found() -> None:
    found = scene()
    batch = found.start("a")
    found.ran(batch)
    assert "has the result" in completes(found, found.report(batch), result=b"other")


@pytest.mark.parametrize("given", [{"kind": OutcomeKind.FAILED}, {"run": None}])
def test_outcome_that_is_not_what_was_reported_is_found(given: dict[str, object]) -> None:
    found = scene()
    batch = found.start("a")
    found.ran(batch)
    assert "is reported OK" in completes(found, found.report(batch), **given)  # type: ignore[arg-type]


def test_outcome_of_another_run_is_found() -> None:
    found = scene()
    batch = found.start("a")
    found.ran(batch)
    run = Run(batch, 9, 9, "gpu-1", 3, 1, 2, 3, 4, (1,), b"f")
    assert "is reported by" in completes(found, found.report(batch), run=run)


def test_request_that_a_report_ends_without_an_outcome_is_found() -> None:
    found = scene()
    batch = found.start("a")
    said = found.said_to(found.report(batch), Reply(Verdict.OK, "", 1))
    assert "is reported, and has no outcome" in said


def test_request_that_a_whole_report_leaves_open_is_found() -> None:
    found = scene()
    batch = found.start("a")
    report = found.report(batch, numbers=())
    assert "by nobody, and has None" in found.said_to(report, OK)


def test_count_of_ended_requests_is_held_against_the_report() -> None:
    found = scene()
    batch = found.start("a", "b")
    found.ran(batch)
    said = found.said_to(found.report(batch, numbers=(), last=False), Reply(Verdict.OK, "", 1))
    assert "1 requests are ended" in said


def test_cancel_by_a_run_is_found() -> None:
    found = scene()
    found.admit("a")
    run = Run(1, 1, 1, "gpu-1", 3, 1, 2, 3, 4, (1,), b"f")
    ended, outcomes = found.ends("a", OutcomeKind.CANCELLED, run=run)
    said = found.said_to(r.Cancel(("t",), ("a",)), TAKEN, ended, outcomes=outcomes)
    assert "is CANCELLED by a run" in said


Case = Callable[[Scene], str]


def missing_effect(found: Scene) -> str:
    """Let an assignment not be told."""
    found.admit("a")
    found.seal("a")
    assign = r.Assign(1, 1, "gpu-1", found.state.executors["gpu-1"].incarnation)
    return found.said_to(assign, Reply(Verdict.OK, "", found.state.index + 1))


def other_effect(found: Scene) -> str:
    """Let a slot be told to be free that is not."""
    batch = found.start("a")
    fence = found.state.batches[batch].fence
    return found.said_to(r.Advance(), OK, e.Finished("gpu-1", 3, batch, fence))


def missing_shed(found: Scene) -> str:
    """Let an executor not be told of a row that is cancelled."""
    found.start("a")
    ended, outcomes = found.ends("a", OutcomeKind.CANCELLED)
    return found.said_to(r.Cancel(("t",), ("a",)), TAKEN, ended, outcomes=outcomes)


@pytest.mark.parametrize(
    ("case", "said"),
    [
        (missing_effect, "lacks [('placed', 'gpu-1', 3"),
        (other_effect, "which it must not"),
        (missing_shed, "sheds {}, not {(1, "),
    ],
)
def test_effects_that_are_not_the_entrys_are_found(case: Case, said: str) -> None:
    assert said in case(scene())


def test_lapse_of_another_attempt_is_found() -> None:
    found = scene()
    batch = found.start("a")
    lapse = r.Lapse(batch, 1, 2, LapseReason.TIMED_OUT, Ran.YES, True, "", "")
    assert "is done: True" in found.said_to(lapse, OK)


def test_lapse_of_the_current_attempt_that_is_refused_is_found() -> None:
    found = scene()
    batch = found.start("a")
    fence = found.state.batches[batch].fence
    lapse = r.Lapse(batch, 1, fence, LapseReason.TIMED_OUT, Ran.YES, True, "", "")
    assert "is done: False" in found.said_to(lapse, Reply(Verdict.STALE_FENCE))
