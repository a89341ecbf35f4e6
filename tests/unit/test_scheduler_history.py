"""What clients and executors saw of the scheduler, shown to be judged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chaos.checkers.scheduler_history import Answer, Operation
from raftbatch import errors
from raftbatch import records as r
from raftbatch.kinds import OutcomeKind
from raftbatch.settings import Policy
from tests.unit.scheduler_scene import Scene

CONTENT = bytes(10)
RIGHT = Answer(0, OutcomeKind.OK, "", "", b"result")


def submits(found: Scene, request_id: str = "a", content: bytes = CONTENT) -> Operation:
    """Let a client submit a request, and the log admit it."""
    operation = found.checker.history.invoke("submit", "t", request_id, content)
    admission = found.admission(request_id)
    traceparent = found.checker.history.tries(operation)
    assert found.one(replace(admission, traceparent=(traceparent,))) == "OK"
    return operation


def ended(found: Scene, request_id: str = "a") -> int:
    """Let a client's request be answered `ok`; return its ticket."""
    operation = submits(found, request_id)
    ticket = found.state.index
    found.checker.history.ok(operation, ticket)
    found.seal(request_id)
    batch = found.state.next_batch - 1
    found.assign(batch)
    assert found.finish(batch) == "OK"
    assert not found.violation
    return ticket


def test_sound_history_is_sound() -> None:
    found = Scene()
    ticket = ended(found)
    history = found.checker.history
    history.ok(history.invoke("outcome", "t", "a"), replace(RIGHT, ticket=ticket))
    history.ok(history.invoke("submit", "t", "a", CONTENT), replace(RIGHT, ticket=ticket))
    history.ok(history.invoke("cancel", "t", "a"), False)
    history.ok(history.invoke("acknowledge", "t", "a"), True)
    history.info(submits(found, "b"))
    history.ok(history.invoke("cancel", "t", "c"), value=_cancels(found, "c"))
    history.info(history.invoke("cancel", "t", "b"))
    _cancels(found, "b")
    history.fail(history.invoke("submit", "t", "e", CONTENT), errors.Overloaded("full"))
    found.checker.judge()
    assert not found.violation
    assert found.checker.counts["submit_ok"] == 2


def _cancels(found: Scene, request_id: str) -> bool:
    found.one(r.Cancel(("t",), (request_id,)))
    return True


# Tickets.


def test_ticket_that_admitted_nothing_is_found() -> None:
    found = Scene()
    found.checker.history.ok(submits(found), found.state.index - 1)
    assert "admitted nothing of it" in found.violation


def test_ticket_of_other_content_is_found() -> None:
    found = Scene()
    found.checker.history.ok(submits(found, content=b"other"), found.state.index)
    assert "of other content" in found.violation


def test_ticket_of_an_id_that_was_cancelled_before_it_came_is_sound() -> None:
    found = Scene()
    found.one(r.Cancel(("t",), ("a",)))
    history = found.checker.history
    history.ok(history.invoke("submit", "t", "a", CONTENT), 0)
    assert not found.violation


# Outcomes.


@pytest.mark.parametrize(
    "other",
    [
        {"kind": OutcomeKind.FAILED},
        {"result": b"other"},
        {"code": "odd"},
        {"message": "odd"},
        {"ticket": 1},
    ],
    ids=str,
)
def test_outcome_that_is_not_the_logs_is_found(other: dict[str, object]) -> None:
    found = Scene()
    ticket = ended(found)
    history = found.checker.history
    told = replace(RIGHT, **{"ticket": ticket, **other})  # type: ignore[arg-type]
    history.ok(history.invoke("outcome", "t", "a"), told)
    assert "was told" in found.violation


def test_outcome_of_an_open_request_is_found() -> None:
    found = Scene()
    submits(found)
    history = found.checker.history
    history.ok(history.invoke("outcome", "t", "a"), replace(RIGHT, ticket=found.state.index))
    assert "which nothing gave" in found.violation


def test_outcome_that_changes_is_found() -> None:
    """Also where the model would have followed the change."""
    found = Scene()
    ticket = ended(found)
    history, story = found.checker.history, found.checker.model.names["t\0a"]
    history.ok(history.invoke("outcome", "t", "a"), replace(RIGHT, ticket=ticket))
    assert story.ended is not None
    story.ended = story.ended._replace(result=b"other")
    other = replace(RIGHT, ticket=ticket, result=b"other")
    history.ok(history.invoke("outcome", "t", "a"), other)
    assert "another Answer" in found.violation


def test_outcome_of_other_content_is_found() -> None:
    found = Scene()
    ticket = ended(found)
    history = found.checker.history
    told = replace(RIGHT, ticket=ticket)
    history.ok(history.invoke("submit", "t", "a", b"other"), told)
    assert "of other content" in found.violation


# Cancels and acknowledgements.


@pytest.mark.parametrize("kind", ["cancel", "acknowledge"])
def test_answer_where_there_is_no_outcome_is_found(kind: str) -> None:
    found = Scene()
    submits(found)
    history = found.checker.history
    history.ok(history.invoke(kind, "t", "a"), True)  # type: ignore[arg-type]
    assert "there is no outcome" in found.violation


def test_cancel_of_what_is_not_cancelled_is_found() -> None:
    found = Scene()
    ended(found)
    history = found.checker.history
    history.ok(history.invoke("cancel", "t", "a"), True)
    assert "cancelled it, and it has" in found.violation


def test_cancel_that_failed_and_took_effect_is_found() -> None:
    found = Scene()
    found.checker.history.ok(submits(found), found.state.index)
    history = found.checker.history
    history.fail(history.invoke("cancel", "t", "a"), errors.NoLeader("nobody"))
    _cancels(found, "a")
    found.checker.judge()
    assert "is cancelled, by" in found.violation


# Failures.


def fails(found: Scene, kind: str, error: errors.RaftbatchError, content: bytes = b"") -> str:
    """Let a call about request `a` fail; return what is wrong."""
    history = found.checker.history
    history.fail(history.invoke(kind, "t", "a", content), error)  # type: ignore[arg-type]
    return found.violation


def test_failure_that_is_not_definite_is_found() -> None:
    assert "not definitely" in fails(Scene(), "submit", errors.OutcomeUnknown("lost"))


def test_submit_that_failed_and_took_effect_is_found() -> None:
    found = Scene()
    history = found.checker.history
    history.fail(submits(found), errors.NotLeader("n2 leads"))
    _cancels(found, "a")
    history.info(history.invoke("cancel", "t", "a"))
    found.checker.judge()
    assert "failed definitely, and was admitted" in found.violation


def test_try_that_failed_and_took_effect_is_found() -> None:
    """Though the next one was answered well: it joined what the first had done."""
    found = Scene()
    history = found.checker.history
    operation = submits(found)
    history.refused(operation, errors.NotLeader("n2 leads"))
    history.tries(operation)
    history.ok(operation, found.state.index)
    _cancels(found, "a")
    history.info(history.invoke("cancel", "t", "a"))
    found.checker.judge()
    assert "a try of" in found.violation


def test_try_of_which_nothing_was_known_may_have_taken_effect() -> None:
    found = Scene()
    history = found.checker.history
    operation = submits(found)
    history.refused(operation, errors.OutcomeUnknown("perhaps"))
    history.tries(operation)
    history.ok(operation, found.state.index)
    _cancels(found, "a")
    history.info(history.invoke("cancel", "t", "a"))
    found.checker.judge()
    assert not found.violation


def test_known_request_that_is_not_known_is_found() -> None:
    found = Scene()
    submits(found)
    assert "is of no known request" in fails(found, "outcome", errors.UnknownRequest("a"))


def test_request_that_is_forgotten_in_time_is_found() -> None:
    found = Scene()
    ended(found)
    found.wait(Policy().dedupe_retention_ms - 1)
    assert "is of no known request" in fails(found, "outcome", errors.UnknownRequest("a"))


def test_request_is_not_known_after_its_retention() -> None:
    found = Scene()
    ended(found)
    found.wait(Policy().dedupe_retention_ms)
    assert not fails(found, "outcome", errors.UnknownRequest("a"))


@pytest.mark.parametrize("is_ended", [False, True])
def test_outcome_forgotten_too_early_is_found(*, is_ended: bool) -> None:
    found = Scene()
    if is_ended:
        ended(found)
    else:
        submits(found)
    assert "is of a forgotten outcome" in fails(found, "outcome", errors.OutcomeForgotten("a"))


def test_outcome_is_forgotten_once_it_is_acknowledged() -> None:
    found = Scene()
    ended(found)
    found.one(r.Acknowledge(("t",), ("a",)))
    assert not fails(found, "outcome", errors.OutcomeForgotten("a"))


def test_conflict_with_the_same_content_is_found() -> None:
    found = Scene()
    submits(found)
    said = fails(found, "submit", errors.RequestIdConflict("a"), CONTENT)
    assert "is in conflict with" in said


def test_conflict_with_other_content_is_sound() -> None:
    found = Scene()
    submits(found)
    assert not fails(found, "submit", errors.RequestIdConflict("a"), b"other")


def test_deadline_that_nothing_says_has_passed_is_found() -> None:
    found = Scene()
    ended(found)
    assert "is past its deadline" in fails(found, "outcome", errors.DeadlineExceeded("a"))


# In the end.


def test_request_that_nobody_asked_for_is_found() -> None:
    found = Scene()
    found.finish(found.start("a"))
    found.checker.judge()
    assert "was admitted, of None" in found.violation


def test_request_of_other_content_than_asked_for_is_found() -> None:
    found = Scene()
    submits(found, content=b"other")
    found.checker.judge()
    assert "was admitted, of Operation" in found.violation


def test_request_without_an_outcome_is_found() -> None:
    found = Scene()
    found.checker.history.ok(submits(found), found.state.index)
    found.checker.judge()
    assert "has no outcome" in found.violation


# Runs.


def starts(found: Scene, **other: object) -> str:
    """Let a run of a batch of `a` and `b` begin as it is said; return what is wrong."""
    batch = found.start("a", "b", "c")
    _cancels(found, "c")
    assert found.lapse(batch, stopped=True) == "OK"
    found.wait(60)
    found.assign(batch, "gpu-2")
    now = found.state.batches[batch]
    run = {
        "executor": "gpu-2",
        "incarnation": now.incarnation,
        "batch": batch,
        "attempt": 2,
        "fence": now.fence,
        "numbers": (1, 2),
        **other,
    }
    found.checker.runs.started(**run)  # type: ignore[arg-type]
    return found.violation


def test_run_where_it_was_assigned_is_sound() -> None:
    assert not starts(Scene())


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"fence": 7}, "was assigned as"),
        ({"batch": 7}, "was never assigned"),
        ({"executor": "gpu-1"}, "was assigned as"),
        ({"incarnation": 1}, "was assigned as"),
        ({"attempt": 1}, "was assigned as"),
        ({"numbers": (1, 3)}, "with others than [1, 2]"),
        ({"numbers": (1, 1)}, "with others than [1, 2]"),
    ],
    ids=str,
)
def test_run_of_what_was_not_assigned_there_is_found(other: dict[str, object], said: str) -> None:
    assert said in starts(Scene(), **other)


def test_second_run_of_an_assignment_is_found() -> None:
    found = Scene()
    batch = found.start("a")
    found.ran(batch)
    found.ran(batch)
    assert "begins a second time" in found.violation


def test_second_run_of_a_request_is_counted() -> None:
    found = Scene()
    found.start("a")
    found.ran(1)
    found.lapse(1)
    found.wait(60)
    found.assign(1, "gpu-2")
    found.ran(1)
    assert not found.violation
    assert (found.checker.counts["runs"], found.checker.counts["reruns"]) == (2, 1)


def test_result_of_what_did_not_run_is_found() -> None:
    found = Scene()
    found.start("a")
    batch = found.state.batches[1]
    runs = found.checker.runs
    run = runs.started("gpu-1", batch.incarnation, 1, 1, batch.fence, (1,))
    runs.ended(run, {2: (OutcomeKind.OK, b"result")})
    assert "ends with [2]" in found.violation
