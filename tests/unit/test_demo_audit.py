"""The demo counts what the log holds; and a request that is lost, doubled or wrong fails it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from demo.audit import Answer, Seen, audit
from raftbatch import records as r
from raftbatch.kinds import OutcomeKind
from tests.unit.demo_scene import (
    ALIKE,
    LEAD_AT,
    MODEL,
    NAMES,
    admit,
    complete,
    log,
    seen,
    told,
    verdict,
    without,
)


def test_verdict_is_what_the_log_holds() -> None:
    found = verdict()
    assert found.problems == ()
    assert (found.lost, found.doubled, found.different) == (0, 0, 0)
    assert (found.counts.requests, found.counts.outcomes) == (4, {"ok": 4})
    assert (found.batches, found.rows, found.reasons) == (2, 4, {"size": 1, "age": 1})
    assert found.counts.reruns == 2
    assert found.lead is not None
    assert (found.lead.at, found.lead.node) == (LEAD_AT, "n2")
    assert found.similarities == (min(ALIKE), 2)


def test_failover_ends_with_what_the_next_leader_committed() -> None:
    assert verdict().failover_ms == 250
    # What n1 had committed and the client heard late is no sign of n2.
    late = replace(seen(), tickets=[(10.05, 7), (10.25, 9)])
    assert verdict(by_client=late).failover_ms == 250
    nothing = replace(seen(), tickets=[], answers={NAMES[0]: Answer(9.0, 7, "x2")})
    found = verdict(by_client=nothing)
    assert found.failover_ms is None
    assert "nothing was committed after the leader was killed" in found.problems


def test_story_is_of_a_request_on_both_sides_of_the_kill() -> None:
    shown = verdict().shown
    assert shown is not None
    assert shown.request_id == NAMES[2]
    assert verdict(by_client=replace(seen(), in_flight=frozenset(NAMES[:1]))).shown is None


def test_request_without_an_outcome_is_lost() -> None:
    found = verdict(without(log(), 11))
    assert found.lost == 2
    assert found.problems[0] == "2 requests have no outcome"


def test_request_that_the_log_does_not_know_is_lost() -> None:
    asked = replace(seen(), asked={*NAMES, "sentence-00004"})
    found = verdict(by_client=asked)
    assert (found.lost, found.problems) == (1, ("1 requests have no outcome",))


def test_request_that_was_taken_in_twice_is_doubled() -> None:
    # The same id and the same content: a cluster that forgot it runs it once more.
    entries = log() | {12: (2, (r.Forget(("default",), (NAMES[0],)), admit(5, NAMES[0])))}
    assert verdict(entries).doubled == 0  # the fold knows better: it was not taken
    found = told(log())
    twice = found.stories.requests[1]
    found.stories.requests[5] = twice
    doubled = audit(found, seen(), ALIKE, MODEL)
    assert doubled.doubled == 1
    assert "1 requests have two outcomes, or ran as two" in doubled.problems


def test_request_with_two_outcomes_is_doubled() -> None:
    found = told(log())
    story = found.stories.requests[3]
    assert story.outcome is not None
    story.others.append(story.outcome._replace(index=12))
    doubled = audit(found, seen(), ALIKE, MODEL)
    assert doubled.doubled == 1
    assert doubled.problems


def test_report_that_is_fenced_off_doubles_nothing() -> None:
    # x1 was not dead after all, and reports what x2 has run meanwhile.
    found = verdict(log() | {12: (2, (complete(2, 1, 6, "x1", 2, 3, 4),))})
    assert (found.doubled, found.counts.dismissed, found.problems) == (0, 1, ())


def test_answer_that_the_log_contradicts_is_different() -> None:
    answers = seen().answers | {NAMES[3]: Answer(11.0, 10, "x2")}
    found = verdict(by_client=replace(seen(), answers=answers))
    assert found.different == 1
    assert found.problems == (
        f"of 1 requests the client was told of another entry than the log has: {NAMES[3]}",
    )


@pytest.mark.parametrize("cosine", [0.99998, float("nan"), -1.0])
def test_vector_that_is_not_the_models_is_different(cosine: float) -> None:
    found = audit(told(log()), seen(), [1.0, cosine], MODEL)
    assert found.different == 1
    assert found.problems[0].startswith("1 vectors are not the model's")


def test_sample_of_nothing_proves_nothing() -> None:
    assert "no vector was compared" in audit(told(log()), seen(), [], MODEL).problems


def test_log_without_its_beginning_cannot_be_counted() -> None:
    entries = {index: each for index, each in log().items() if index >= 5}
    found = audit(told(entries, first_index=5), seen(), ALIKE, MODEL)
    assert found.problems[0] == "the log begins with entry 5: not all can be counted"


def test_sentence_that_was_refused_fails_the_demo() -> None:
    errors = replace(seen(), errors={NAMES[3]: "outcome_unknown: nobody answers"})
    assert verdict(by_client=errors).problems == (
        f"1 sentences were refused or failed: {NAMES[3]}: outcome_unknown: nobody answers",
    )


def test_outcome_other_than_ok_fails_the_demo() -> None:
    failed = complete(2, 2, 10, "x2", 3, 3, 4)
    failed = replace(failed, kind=(OutcomeKind.OK, OutcomeKind.FAILED), code=("", "model_failed"))
    found = verdict(log() | {11: (2, (failed,))})
    assert found.problems == ("1 requests have an outcome other than ok",)


def test_rates_are_of_answers_between_the_moments() -> None:
    def answers(begin_s: float, count: int, a_second: float, executor: str) -> dict[str, Answer]:
        return {
            f"{begin_s}-{number}": Answer(begin_s + number / a_second, 7, executor)
            for number in range(count)
        }

    by_client = Seen(
        answers=answers(1, 101, 100, "x1") | answers(3, 51, 50, "x2") | answers(6, 201, 200, "x1"),
        executor="x1",
        begun_s=0.5,
        leader_killed_s=2.5,
        executor_killed_s=2.6,
        restarted_s=5.0,
        ended_s=7.0,
    )
    before, between, after = audit(told(log()), by_client, ALIKE, MODEL).rates
    assert before == pytest.approx(100)
    assert between is not None
    assert between < 20  # it includes the wait for the executor that came back
    assert after == pytest.approx(200)
    assert verdict().rates == (None, None, None)
