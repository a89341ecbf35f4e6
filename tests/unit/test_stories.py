"""What the fold makes of a log: what counts, what does not, and that each count can fail."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest

from raftbatch import records as r
from raftbatch.errors import Invariant
from raftbatch.kinds import LapseReason, OutcomeKind, Ran, Release
from raftbatch.settings import Policy
from raftbatch.stories import Stories
from tests.unit.record_examples import EXAMPLES
from tests.unit.stories_scene import KEY, MODEL, Log, report


def test_request_is_told_from_its_admission_to_its_outcome() -> None:
    log = Log()
    [number], batch, fence = log.start("a")
    log.at_ms += 40
    ended = log.complete(batch, fence, [number])
    story = log.stories.requests[number]
    assert (story.request_id, story.tenant, story.key) == ("a", "t", KEY)
    assert (story.admitted_index, story.at_ms, story.rows, story.size) == (3, 1000, 1, 7)
    assert [(event.index, event.at_ms, event.kind) for event in story.events] == [
        (3, 1000, "admitted"),
        (4, 1000, "sealed"),
        (5, 1000, "assigned"),
        (ended, 1040, "ended"),
    ]
    assert story.events[1].note == "size"
    assert story.events[2][3:6] == (batch, 1, "x")
    outcome = story.outcome
    assert outcome is not None
    assert (outcome.kind, outcome.index, outcome.at_ms) == (OutcomeKind.OK, ended, 1040)
    assert (outcome.result_bytes, outcome.run) == (6, (batch, 1, fence))
    counts = log.stories.counts
    assert (counts.requests, counts.outcomes, counts.lost, counts.doubled) == (1, {"ok": 1}, 0, 0)
    assert (counts.batches, counts.rows, counts.reasons) == (1, 1, {"size": 1})
    assert (counts.reruns, counts.dismissed) == (0, 0)


def test_batch_is_told_with_its_attempts() -> None:
    log = Log(model=replace(MODEL, attempts_max=3))
    numbers, batch, fence = log.start("a", "b")
    log.lapse(batch, fence, reason=LapseReason.TIMED_OUT)
    again = log.assign(batch, attempt=2)
    log.complete(batch, again, numbers, attempt=2, kinds=(0, 1))
    told = log.stories.batches[batch]
    assert (told.members, told.reason, told.end) == ((1, 2), Release.SIZE, "completed")
    assert told.window == (1000, 3)
    first, second = told.attempts
    assert (first.how, first.why, first.ran, first.fence) == (
        "lapsed",
        "timed_out: broke",
        Ran.YES,
        fence,
    )
    assert (second.how, second.infer_ns, second.padded) == ("completed", 3_000_000, (2,))
    assert [log.outcome(number) for number in numbers] == ["ok", "failed bad"]
    assert log.stories.counts.reruns == 2
    assert log.stories.counts.lapses == 1


def test_request_without_an_outcome_is_lost() -> None:
    """The count can fail, at each place where a request can be."""
    log = Log()
    log.admit("waits")
    log.seal(log.admit("sealed"))
    log.start("assigned")
    assert log.stories.counts.lost == 3
    numbers, batch, fence = log.start("done")
    log.complete(batch, fence, numbers)
    assert log.stories.counts.lost == 3


def test_report_that_is_not_of_the_live_assignment_gives_no_outcome() -> None:
    log = Log(model=replace(MODEL, attempts_max=3))
    [number], batch, fence = log.start("a")
    log.complete(batch, fence, [number], attempt=2)
    log.complete(batch, fence + 1, [number])
    log.complete(batch, fence, [number], executor="y")
    log.complete(batch, fence, [number], incarnation=3)
    log.complete(batch + 1, fence, [number])
    log.lapse(batch, fence)
    log.complete(batch, fence, [number])  # the Lapse came first
    again = log.assign(batch, attempt=2)
    log.complete(batch, fence, [number])  # late, of the attempt before
    assert log.outcome(number) == "-"
    assert (log.stories.counts.dismissed, log.stories.counts.lost) == (7, 1)
    log.complete(batch, again, [number], attempt=2)
    assert log.outcome(number) == "ok"
    log.complete(batch, again, [number], attempt=2)  # doubled: it changes nothing
    counts = log.stories.counts
    assert (counts.dismissed, counts.lost, counts.doubled) == (8, 0, 0)
    assert counts.outcomes == {"ok": 1}


def test_second_outcome_by_another_run_is_doubled() -> None:
    """The log says so where executors were given a request that had its outcome."""
    log = Log(model=replace(MODEL, attempts_max=3))
    numbers, batch, fence = log.start("a", "b")
    log.complete(batch, fence, numbers[:1], last=False)
    log.complete(batch, fence, numbers[:1], last=False)  # the same run, told twice: one outcome
    assert log.stories.counts.doubled == 0
    log.lapse(batch, fence)
    again = log.assign(batch, attempt=2)
    log.complete(batch, again, numbers, attempt=2, kinds=(1, 0))
    story = log.stories.requests[numbers[0]]
    assert log.outcome(numbers[0]) == "ok", "the first counts"
    assert [other.kind for other in story.others] == [OutcomeKind.FAILED]
    assert story.events[-1].note == "a second time: failed"
    assert log.stories.counts.doubled == 1


def test_known_id_that_was_scheduled_again_is_doubled() -> None:
    log = Log()
    [number], batch, fence = log.start("a")
    log.complete(batch, fence, [number])
    again = log.admit("a")
    assert (log.stories.counts.repeated, log.stories.counts.doubled) == (1, 0)
    other = log.admit("b")
    batch = log.seal(again, other)
    fence = log.assign(batch)
    log.complete(batch, fence, [again, other])
    assert log.stories.counts.doubled == 1
    assert log.stories.counts.lost == 1, "and the books of the cluster are not the log's"


def test_cancelled_request_keeps_its_outcome_when_its_batch_completes() -> None:
    log = Log()
    numbers, batch, fence = log.start("a", "b")
    log.do(r.Cancel(("t",), ("a",)))
    log.complete(batch, fence, numbers)
    assert [log.outcome(number) for number in numbers] == ["cancelled", "ok"]
    assert log.stories.counts.doubled == 0, "its result is discarded"


def test_id_that_is_cancelled_before_it_comes_has_a_story() -> None:
    log = Log()
    log.do(r.Cancel(("t",), ("a",)))
    log.admit("a")
    [story] = log.stories.find("a")
    assert (story.number, story.outcome and story.outcome.kind) == (0, OutcomeKind.CANCELLED)
    assert log.stories.counts.requests == 0


def test_deadline_ends_requests_by_log_time() -> None:
    log = Log()
    waits = log.admit("waits", timeout_ms=100)
    numbers, batch, fence = log.start("runs", timeout_ms=100)
    log.at_ms += 99
    log.do(r.Advance())
    assert log.outcome(waits) == "-"
    log.at_ms += 1
    log.do(r.Advance())
    assert [log.outcome(number) for number in (waits, *numbers)] == ["expired"] * 2
    log.complete(batch, fence, numbers)
    assert log.outcome(numbers[0]) == "expired"
    late = log.admit("late", timeout_ms=100)
    log.at_ms += 100
    log.seal(late)
    assert log.outcome(late) == "expired", "it is never assigned"


def test_expiry_is_bounded_in_each_entry() -> None:
    log = Log(policy=Policy(expire_per_entry_max=2))
    log.admit("a", "b", "c", timeout_ms=10)
    log.at_ms += 100
    log.do(r.Advance())
    assert log.stories.counts.outcomes == {"expired": 2}
    log.do(r.Advance())
    assert log.stories.counts.outcomes == {"expired": 3}


def test_broken_batch_is_halved_and_its_culprit_set_aside() -> None:
    log = Log()
    numbers, batch, fence = log.start("a", "b", "c")
    log.lapse(batch, fence)
    log.do(r.Bisect(batch, 2, 3))
    told = log.stories.batches
    assert (told[batch].end, told[batch].halves) == ("bisected", (2, 3))
    assert (told[2].members, told[3].members, told[3].root) == ((1, 2), (3,), batch)
    fence = log.assign(2)
    log.complete(2, fence, [1, 2])
    fence = log.assign(3)
    log.lapse(3, fence)
    log.do(r.Quarantine(3))
    log.do(r.ReleaseQuarantined((3,)))
    assert [log.outcome(number) for number in numbers] == ["ok", "ok", "failed broke"]
    assert log.kinds(3)[-3:] == ["quarantined", "ended", "released"]
    counts = log.stories.counts
    assert (counts.bisected, counts.quarantined, counts.batches) == (1, 1, 1)
    assert counts.reruns == 3


def test_batch_that_may_run_again_is_neither_halved_nor_set_aside() -> None:
    log = Log(model=replace(MODEL, attempts_max=2))
    _, batch, fence = log.start("a")
    log.do(r.Quarantine(batch))
    log.lapse(batch, fence)
    log.do(r.Quarantine(batch))
    assert log.stories.counts.quarantined == 0


def test_executor_that_is_lost_gives_back_what_it_held() -> None:
    log = Log(model=replace(MODEL, attempts_max=3))
    [number], batch, fence = log.start("a")
    log.do(r.Leave("x", 2, True, (batch,)))
    log.complete(batch, fence, [number])
    assert log.outcome(number) == "-"
    log.assign(batch, attempt=2)  # nobody of that incarnation lives
    assert log.stories.batches[batch].live is None
    incarnation = log.join("x")
    fence = log.assign(batch, attempt=2, incarnation=incarnation)
    log.complete(batch, fence, [number], attempt=2, incarnation=incarnation)
    assert log.outcome(number) == "ok"
    assert log.stories.requests[number].runs == 2


def test_assignment_that_had_not_run_is_no_run() -> None:
    log = Log(model=replace(MODEL, attempts_max=3))
    [number], batch, fence = log.start("a")
    log.lapse(batch, fence, reason=LapseReason.REFUSED, ran=Ran.NO)
    fence = log.assign(batch, attempt=2)
    log.complete(batch, fence, [number], attempt=2)
    story = log.stories.requests[number]
    assert (story.assigned, story.runs) == (2, 1)
    assert log.stories.counts.reruns == 0


def test_whole_report_leaves_no_request_out() -> None:
    log = Log()
    numbers, batch, fence = log.start("a", "b")
    log.complete(batch, fence, numbers[:1])
    assert log.outcome(numbers[1]) == "failed no_outcome"


def test_report_about_strangers_changes_nothing() -> None:
    log = Log()
    numbers, batch, fence = log.start("a")
    other = log.admit("b")
    log.complete(batch, fence, [*numbers, other])
    assert [log.outcome(number) for number in (*numbers, other)] == ["-", "-"]


def test_entry_of_another_term_does_nothing() -> None:
    log = Log()
    number = log.admit("a")
    log.do(r.Cancel(("t",), ("a",)), raft_term=2)  # its proposer led 1
    log.do(r.Cancel(("t",), ("a",)), term=2, raft_term=2)  # nobody began 2
    assert log.outcome(number) == "-"
    log.term = 2
    log.do(r.Lead("n2", 0, 1), r.Cancel(("t",), ("a",)))
    assert log.outcome(number) == "cancelled"


def test_id_is_a_new_request_once_its_retention_is_over() -> None:
    policy = Policy(outcome_retention_ms=100, dedupe_retention_ms=200)
    log = Log(policy=policy)
    numbers, batch, fence = log.start("a")
    log.complete(batch, fence, numbers)
    log.do(r.Acknowledge(("t",), ("a",)))
    log.at_ms += 199
    log.admit("a")
    assert log.stories.counts.repeated == 1
    log.at_ms += 1
    second = log.admit("a")
    assert [story.number for story in log.stories.find("a", "t")] == [numbers[0], second]
    assert log.kinds(numbers[0])[-2:] == ["acknowledged", "repeated"]


def test_refused_requests_are_counted_and_have_no_story() -> None:
    log = Log(policy=Policy(requests_waiting_max=1))
    log.admit("a", "b")
    admission = log.admission("c")
    log.do(replace(admission, keys=(("other", "1", "a"),)))
    assert log.stories.find("b") == log.stories.find("c") == []
    assert (log.stories.counts.requests, log.stories.counts.refused) == (1, 2)


def test_deleted_model_fails_what_waits() -> None:
    log = Log()
    waits = log.admit("waits")
    numbers, batch, fence = log.start("runs")
    log.do(r.DeleteModel("m", "1"))
    log.do(r.Advance())
    log.complete(batch, fence, numbers)
    assert [log.outcome(number) for number in (waits, *numbers)] == ["failed unknown_model", "ok"]


def test_beginning_that_is_not_there_is_said_and_what_was_not_seen_whole_is_not_counted() -> None:
    log = Log(50, begins=False)
    log.next_request = log.next_batch = 9
    known = log.do(report(3, 40, [5, 6]))  # of a batch from before
    log.do(r.Seal(9, KEY, Release.AGE, (7, 8)))
    fence = log.assign(9, incarnation=12)
    log.complete(9, fence, [7, 8], incarnation=12)
    assert (log.stories.is_whole, log.stories.since, known) == (False, 50, 50)
    assert not log.stories.requests[7].is_whole
    counts = log.stories.counts
    assert (counts.requests, counts.outcomes, counts.lost) == (0, {}, 0)
    assert counts.dismissed == 0, "it may have been the live one"
    log.next_batch = 10
    first = log.admit("a", "b")
    batch = log.seal(first)
    fence = log.assign(batch, incarnation=12)
    log.complete(batch, fence, [first], incarnation=12)
    counts = log.stories.counts
    assert (counts.requests, counts.outcomes) == (2, {"ok": 1})
    assert (counts.lost, counts.unsure) == (0, 1), "the id may have been known before"


def test_every_record_is_read() -> None:
    assert {type(each) for each in EXAMPLES.values()} == set(get_args(r.Record))
    for record in EXAMPLES.values():
        Log(begins=False).do(record)
        Log().do(record)
        Log(50, begins=False).do(record)


def test_record_that_is_not_known_is_an_error() -> None:
    unknown: Any = MODEL
    with pytest.raises(Invariant, match="entry 7 holds a Model, of which this fold knows nothing"):
        Stories().feed(7, 1, r.Entry(1, 1, (r.Lead("n1", 0, 1), unknown)))


def test_entries_come_in_order() -> None:
    log = Log()
    with pytest.raises(Invariant, match="entry 2 is fed to stories that are at 2"):
        log.stories.feed(2, 1, r.Entry(1, 1, ()))
