"""What the executor's machine asks for, one event at a time."""

from __future__ import annotations

from executor.core.reports import completes, cut
from executor.core.values import (
    Answer,
    Failure,
    Held,
    Kill,
    Outcome,
    Run,
    Verdict,
)
from raftbatch.v1 import dispatch_pb2 as pb
from tests.unit.machine_scene import (
    MODEL,
    changes,
    given,
    joined,
    one,
    ran,
    reported,
)


def test_batch_runs_is_reported_and_held_until_the_feed_says_finished() -> None:
    machine = joined()
    run = one(machine.take(changes(given(1, 5, 6)), 4))
    assert (run.given.batch, run.places) == (1, (0, 1))
    assert machine.heartbeat().holdings[0].running
    assert ran(machine, run, "", "bad") == []
    due, report = reported(machine)
    complete = report.complete
    assert (complete.executor, complete.incarnation, complete.last) == ("x", 7, True)
    assert (complete.batch, complete.attempt, complete.fence) == (1, 1, 101)
    assert list(complete.numbers) == [5, 6]
    assert list(complete.results) == [b"out", b""]
    assert [(each.number, each.code) for each in complete.failures] == [(6, "bad")]
    assert machine.due() == []
    machine.answered(due, Verdict.TAKEN)
    assert machine.due() == []
    assert [each.batch for each in machine.tail().held] == [1], "its feed has not said so yet"
    assert not machine.heartbeat().holdings[0].running
    machine.take(changes(index=9, finished=[pb.Slot(batch=1, fence=101)]), 10)
    assert machine.is_empty
    assert machine.tail().seen_index == machine.heartbeat().tailed_index == 9


def test_instance_runs_one_batch_at_a_time_in_the_order_in_which_they_came() -> None:
    machine = joined()
    first = one(machine.take(changes(given(1), given(2), given(3)), 0))
    assert first.given.batch == 1
    second = one(ran(machine, first, ""))
    assert second.given.batch == 2
    assert one(ran(machine, second, "")).given.batch == 3


def test_large_results_are_reported_in_parts_one_after_the_other() -> None:
    held = Held(given(1, 1, 2, 3, 4), 0)
    held.shed[2] = None
    answers = tuple([Answer(bytes(size)) for size in (3, 9, 4, 5)])
    told = completes(held, "x", 7, [1, 2, 3, 4], Outcome(answers), part_bytes=8)
    assert [list(each.complete.numbers) for each in told] == [[1, 3], [4]]
    assert [each.complete.last for each in told] == [False, True]
    assert len(completes(held, "x", 7, [], Outcome(()))) == 1


def test_rows_that_are_shed_are_not_run_and_not_reported() -> None:
    machine = joined()
    run = one(machine.take(changes(given(1), given(2, 5, 6, 7)), 0))
    machine.take(changes(shed=[pb.Shed(batch=2, fence=102, numbers=[5])]), 0)
    second = one(ran(machine, run, ""))
    assert second.places == (1, 2)
    machine.take(changes(shed=[pb.Shed(batch=2, fence=102, numbers=[7])]), 0)
    assert ran(machine, second, "", "") == []
    [_, due] = machine.due()
    assert list(due.report.complete.numbers) == [6]


def test_batch_of_which_nothing_is_left_is_reported_without_a_run() -> None:
    machine = joined()
    run = one(machine.take(changes(given(1), given(2, 5)), 0))
    machine.take(changes(shed=[pb.Shed(batch=2, fence=102, numbers=[5])]), 0)
    assert ran(machine, run, "") == []
    [_, due] = machine.due()
    assert (list(due.report.complete.numbers), due.report.complete.last) == ([], True)


def test_what_lapsed_is_killed_and_confirmed_once_it_is_dead() -> None:
    machine = joined()
    machine.take(changes(given(1), given(2)), 0)
    stop = [pb.Stop(batch=batch, fence=100 + batch) for batch in (1, 2, 3)]
    [kill] = machine.take(changes(stop=stop), 0)
    assert isinstance(kill, Kill)
    _, report = reported(machine)
    slots = [(each.batch, each.fence) for each in report.free.slots]
    assert slots == [(2, 102), (3, 103)], "what never ran, and what it never heard of"
    assert machine.heartbeat().holdings[0].running, "it is not dead yet"
    assert machine.down(0, Failure("child_died", "x"), 0) == []
    due, report = reported(machine)
    assert [each.batch for each in report.free.slots] == [1]
    machine.answered(due, Verdict.TAKEN)
    assert machine.tail().held == []
    assert machine.wish() == pb.ReadyRequest(executor="x", incarnation=7), "nothing is ready now"
    assert machine.up(0, 0) == []


def test_child_that_dies_fails_its_batch_and_the_next_waits_for_its_replacement() -> None:
    machine = joined()
    machine.take(changes(given(1), given(2)), 0)
    assert machine.down(0, Failure("child_died", "it was ended by SIGSEGV"), 0) == []
    _, report = reported(machine)
    lapse = report.lapse
    assert (lapse.batch, lapse.code, lapse.stopped) == (1, "child_died", True)
    assert (lapse.reason, lapse.ran) == (pb.LAPSE_REASON_FAILED, pb.RAN_YES)
    assert one(machine.up(0, 0)).given.batch == 2


def test_batches_go_back_where_no_replacement_comes_up() -> None:
    machine = joined()
    machine.take(changes(given(1), given(2)), 0)
    machine.down(0, Failure("child_died", ""), 0)
    machine.due()
    assert machine.down(0, Failure("child_not_up", "no memory"), 0) == []
    _, report = reported(machine)
    assert (report.lapse.batch, report.lapse.reason) == (2, pb.LAPSE_REASON_REFUSED)
    assert (report.lapse.ran, report.lapse.message) == (pb.RAN_NO, "no memory")


def test_batches_go_back_where_the_replacement_takes_its_time() -> None:
    machine = joined()
    run = one(machine.take(changes(given(1), given(2)), 0))
    machine.overdue(0, run.run)
    assert machine.slow(0, 0) == [], "it does not die"
    _, report = reported(machine)
    assert (report.lapse.batch, report.lapse.reason) == (2, pb.LAPSE_REASON_REFUSED)
    assert (report.lapse.ran, report.lapse.message) == (
        pb.RAN_NO,
        "its process is being replaced, which takes a while",
    )
    machine.down(0, Failure("child_died", ""), 0)
    assert reported(machine)[1].lapse.batch == 1
    assert machine.take(changes(given(3)), 0) == []
    assert reported(machine)[1].lapse.batch == 3, "what comes meanwhile does not wait either"
    machine.up(0, 0)
    assert one(machine.take(changes(given(4)), 0)).given.batch == 4


def test_batches_stay_where_another_instance_may_run_them() -> None:
    machine = joined(2)
    first, second = machine.take(changes(given(1), given(2), given(3)), 0)
    assert isinstance(first, Run)
    assert isinstance(second, Run)
    machine.down(0, Failure("child_died", ""), 0)
    machine.slow(0, 0)
    assert reported(machine)[1].lapse.batch == 1
    assert one(ran(machine, second, "")).given.batch == 3


def test_replacement_that_is_back_is_slow_no_more() -> None:
    machine = joined()
    machine.take(changes(given(1), given(2)), 0)
    machine.down(0, Failure("child_died", ""), 0)
    assert one(machine.up(0, 0)).given.batch == 2
    assert machine.slow(0, 0) == []
    assert reported(machine)[1].lapse.batch == 1


def test_batch_of_a_model_that_is_not_here_goes_back() -> None:
    machine = joined()
    assert machine.take(changes(given(1, model="other"), given(2, model="other")), 0) == []
    reports = [due.report.lapse for due in machine.due()]
    assert [(each.batch, each.reason) for each in reports] == [
        (1, pb.LAPSE_REASON_REFUSED),
        (2, pb.LAPSE_REASON_REFUSED),
    ]


def test_run_that_takes_too_long_is_killed_and_given_up_once_it_is_dead() -> None:
    machine = joined()
    run = one(machine.take(changes(given(1)), 0))
    assert machine.overdue(0, run.run - 1) == []
    [kill] = machine.overdue(0, run.run)
    assert isinstance(kill, Kill)
    assert machine.overdue(0, run.run) == []
    assert ran(machine, run, "") == [], "it comes too late"
    assert machine.due() == []
    machine.down(0, Failure("child_died", ""), 0)
    _, report = reported(machine)
    assert (report.lapse.reason, report.lapse.stopped) == (pb.LAPSE_REASON_TIMED_OUT, True)
    assert report.lapse.code == "timed_out"
    assert "longer than execution_timeout_microseconds" in report.lapse.message


def test_overdue_run_that_lapsed_meanwhile_is_confirmed_instead() -> None:
    machine = joined()
    run = one(machine.take(changes(given(1)), 0))
    machine.overdue(0, run.run)
    assert machine.take(changes(stop=[pb.Stop(batch=1, fence=101)]), 0) == []
    machine.down(0, Failure("child_died", ""), 0)
    _, report = reported(machine)
    assert report.WhichOneof("report") == "free"


def test_report_that_cannot_be_taken_becomes_a_failure_of_the_batch() -> None:
    machine = joined()
    run = one(machine.take(changes(given(1)), 0))
    ran(machine, run, "")
    due, _ = reported(machine)
    machine.answered(due, Verdict.REJECTED, "too large")
    due, report = reported(machine)
    assert (report.lapse.code, report.lapse.message) == ("report_rejected", "too large")
    machine.answered(due, Verdict.REJECTED, "no")
    assert machine.heartbeat().holdings == [], "it lapses, since it is not listed"


def test_result_that_is_too_large_to_travel_fails_its_request_alone() -> None:
    machine = joined()
    run = one(machine.take(changes(given(1, 5, 6, 7)), 0))
    answers = (Answer(b"a"), Answer(b"", "odd", "no"), Answer(b"large"))
    machine.ended(run.instance, run.run, Outcome(answers, 1, 2, 3, (3,), b"f"), 9)
    told: list[pb.Complete] = []
    while due := machine.due():
        report = due[0].report.complete
        if any(len(each) > 1 for each in report.results) or len(report.numbers) > 2:
            machine.answered(due[0], Verdict.TOO_LARGE, "9 bytes are more than 8")
            continue
        told.append(report)
        machine.answered(due[0], Verdict.TAKEN)
    assert [list(each.numbers) for each in told] == [[5], [6], [7]]
    assert [each.last for each in told] == [False, False, True]
    assert [list(each.results) for each in told] == [[b"a"], [b""], [b""]]
    assert [each.code for report in told for each in report.failures] == ["odd", "result_too_large"]
    assert "5 bytes, more than may travel: 9 bytes" in told[2].failures[0].message
    assert (told[2].fingerprint, list(told[2].padded), told[2].infer_ns) == (b"f", [3], 2)


def test_process_that_can_be_trusted_no_more_is_killed_before_the_next_batch() -> None:
    machine = joined()
    run = one(machine.take(changes(given(1), given(2)), 0))
    gone = Failure("model_failed", "CUDA error: device-side assert", is_lasting=True)
    [kill] = machine.ended(0, run.run, gone, 0)
    assert isinstance(kill, Kill)
    assert "its batch broke it: CUDA error" in kill.why
    _, report = reported(machine)
    assert (report.lapse.batch, report.lapse.code) == (1, "model_failed")
    assert machine.down(0, Failure("child_died", ""), 0) == []
    assert one(machine.up(0, 0)).given.batch == 2


def test_answers_of_an_earlier_life_change_nothing() -> None:
    machine = joined()
    run = one(machine.take(changes(given(1)), 0))
    ran(machine, run, "")
    due, _ = reported(machine)
    assert machine.end() == []
    machine.begin(20, [MODEL])
    run = one(machine.take(changes(given(1, fence=200)), 0))
    assert not machine.is_open(due)
    machine.answered(due, Verdict.TAKEN)
    ran(machine, run, "")
    assert reported(machine)[1].complete.incarnation == 20


def test_life_that_is_over_kills_what_runs() -> None:
    machine = joined(2)
    run = one(machine.take(changes(given(1)), 0))
    [kill] = machine.end()
    assert isinstance(kill, Kill)
    assert kill.instance == run.instance
    assert machine.is_empty
    assert machine.ready == (MODEL,), "the other one"
    machine.begin(20, machine.ready)
    assert machine.down(run.instance, Failure("child_died", ""), 0) == []
    assert machine.due() == []


def test_draining_gives_back_what_waits_ends_what_runs_and_leaves() -> None:
    machine = joined()
    run = one(machine.take(changes(given(1), given(2)), 0))
    assert machine.leave() == []
    drained, report = reported(machine)
    assert (report.lapse.batch, report.lapse.reason) == (2, pb.LAPSE_REASON_DRAINED)
    machine.answered(drained, Verdict.TAKEN)
    assert machine.wish() == pb.DrainRequest(executor="x", incarnation=7, on=True)
    machine.said(pb.DrainRequest(executor="x", incarnation=7, on=True))
    stop = [pb.Stop(batch=2, fence=102)]
    assert machine.take(changes(stop=stop, draining=True), 0) == []
    assert machine.wish() is None
    assert list(machine.farewell().running) == [1]
    assert ran(machine, run, "") == []
    for due in machine.due():
        machine.answered(due, Verdict.TAKEN)
    assert machine.wish() is None, "the feed has not said that it is finished"
    finished = [pb.Slot(batch=1, fence=101)]
    machine.take(changes(finished=finished, draining=True), 0)
    assert machine.wish() == pb.LeaveRequest(executor="x", incarnation=7)


def test_what_is_said_of_a_failure_fits_into_a_record() -> None:
    assert cut("a\0b") == "ab"
    assert cut("half \ud800 a character") == "half ? a character"
    assert len(cut("x" * 5000)) == 1000
