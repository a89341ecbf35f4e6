"""Complete: fenced, in parts, once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coordinator.core.values import Outcome
from raftbatch import records as r
from raftbatch.kinds import LapseReason, Ran
from raftbatch.settings import Policy
from tests.unit.core.tables import Core


def test_report_gives_each_request_its_outcome_and_frees_the_slot() -> None:
    core = Core()
    core.start("a", "b")
    report = replace(core.report(), kind=(0, 1), code=("", "bad_input"), result=(b"x", b""))
    assert core.one(report) == "OK"
    assert core.told() == ["Ended", "Finished"]
    assert (core.outcome("a"), core.outcome("b")) == ("ok", "failed bad_input")
    found = core.state.request("t", "a")
    assert isinstance(found, Outcome)
    assert found.result == b"x"
    assert found.run is not None
    assert (found.run.executor, found.run.infer_ns, found.run.fingerprint) == ("gpu-1", 3, b"f")
    assert core.state.executors["gpu-1"].free_slots == 1
    assert not core.state.batches


@pytest.mark.parametrize(
    "other",
    [{"fence": 1}, {"attempt": 2}, {"executor": "gpu-2"}, {"incarnation": 99}],
)
def test_report_that_is_not_of_the_current_attempt_changes_nothing(
    other: dict[str, object],
) -> None:
    core = Core(executors=("gpu-1", "gpu-2"))
    core.start("a")
    before = core.state.next_ended
    assert core.one(core.report(**other)) == "STALE_FENCE"  # type: ignore[arg-type]
    assert (core.outcome("a"), core.state.next_ended, core.effects) == ("open", before, ())


def test_doubled_report_changes_nothing() -> None:
    core = Core()
    core.start("a")
    report = core.report()
    assert core.one(report) == "OK"
    assert core.one(report) == "STALE_FENCE"
    assert core.state.counters.succeeded == 1


def test_report_and_lapse_race_and_the_first_in_the_log_wins() -> None:
    core = Core()
    core.start("a")
    batch, report = core.state.batches[1], core.report()
    lapse = r.Lapse(1, 1, batch.fence, LapseReason.TIMED_OUT, Ran.YES, False, "", "")
    replies = core.do(lapse, report).replies
    assert [reply.verdict.name for reply in replies] == ["OK", "STALE_FENCE"]
    assert core.outcome("a") == "open"

    core = Core()
    core.start("a")
    replies = core.do(report, lapse).replies
    assert [reply.verdict.name for reply in replies] == ["OK", "STALE_FENCE"]
    assert core.outcome("a") == "ok"


def test_late_report_of_an_earlier_attempt_changes_nothing() -> None:
    core = Core(executors=("gpu-1", "gpu-2"))
    core.start("a")
    late = core.report()
    core.lapse(1, LapseReason.EXECUTOR_LOST, Ran.UNKNOWN)
    assert core.one(late) == "STALE_FENCE"
    core.assign(1, "gpu-2")
    assert core.one(late) == "STALE_FENCE"
    assert core.one(core.report()) == "OK"


def test_report_in_parts_frees_the_slot_with_the_last() -> None:
    core = Core()
    core.start("a", "b", "c")
    assert core.one(core.report(numbers=(2,), last=False)) == "OK"
    assert core.told() == ["Ended"]
    assert [core.outcome(each) for each in "abc"] == ["open", "ok", "open"]
    assert core.state.batches[1].open_requests == 2
    assert core.state.executors["gpu-1"].free_slots == 0
    assert core.one(core.report(numbers=(2,), last=False, kind=1)) == "OK"
    assert core.outcome("b") == "ok"
    assert core.one(core.report(numbers=(1, 3))) == "OK"
    assert core.state.executors["gpu-1"].free_slots == 1


def test_next_attempt_holds_what_no_part_was_about() -> None:
    core = Core(executors=("gpu-1", "gpu-2"))
    core.start("a", "b", rows=2)
    core.one(core.report(numbers=(1,), last=False))
    core.lapse(1, LapseReason.EXECUTOR_LOST, Ran.NO)
    core.assign(1, "gpu-2")
    assert (core.state.batches[1].open_requests, core.state.batches[1].rows) == (1, 2)
    assert core.one(core.report()) == "OK"
    assert (core.outcome("a"), core.outcome("b")) == ("ok", "ok")
    assert core.state.counters.succeeded == 2


def test_whole_report_leaves_no_request_without_an_outcome() -> None:
    core = Core()
    core.start("a", "b")
    assert core.one(core.report(numbers=(1,))) == "OK"
    assert core.outcome("b") == "failed no_outcome"


def test_report_about_requests_of_another_batch_is_refused() -> None:
    core = Core(slots=2)
    core.start("a")
    core.start("b")
    assert core.one(core.report(1, numbers=(1, 2))) == "INVALID_REQUEST"
    assert (core.outcome("a"), core.outcome("b")) == ("open", "open")


def test_result_that_is_too_large_is_a_failure() -> None:
    core = Core(policy=Policy(result_bytes_max=5))
    core.start("a", "b")
    report = core.report(result=b"12345")
    assert core.one(replace(report, result=(b"12345", b"123456"))) == "OK"
    assert (core.outcome("a"), core.outcome("b")) == ("ok", "failed result_too_large")
    found = core.state.request("t", "b")
    assert isinstance(found, Outcome)
    assert found.result == b""
