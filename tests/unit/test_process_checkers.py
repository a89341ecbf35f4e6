"""Each checker of real runs, shown to fire at a history and a log that are wrong in one thing."""

from __future__ import annotations

import pytest

from chaos.checkers.process_values import End, LogEntry, Ran
from chaos.checkers.processes import judge
from chaos.models import answer
from raftbatch import records as r
from raftbatch.kinds import OutcomeKind
from tests.unit.process_scene import NODES, Scene

RIGHT = answer("r1|ok|")


def test_good_run_has_no_findings() -> None:
    scene = Scene()
    for number in range(1, 4):
        scene.well(f"r{number}")
    assert judge(scene.evidence(runs=[Ran(0, ("r1", "r2")), Ran(0, ("r3",))])) == []


def test_ticket_whose_admission_is_in_no_log_is_lost() -> None:
    scene = Scene()
    scene.well()
    asked = scene.asks("r2")
    scene.history.end(asked, "ok", index=scene.index + 1)
    [found] = judge(scene.evidence())
    assert (found.rule, found.name) == ("lost-ticket", ("default", "r2"))
    assert any("c1 submit #3 ok: index" in line for line in found.story)
    assert any("in the log of n1, n2, n3:" in line for line in found.story)
    assert any("nothing of it" in line for line in found.story)


def test_ticket_of_other_content_is_found() -> None:
    scene = Scene()
    asked, other = scene.asks(), scene.asks(text="r1|other|")
    scene.run(scene.take_in())
    scene.history.end(asked, "ok", index=3)
    scene.history.end(other, "ok", index=3)
    assert scene.rules() == {"foreign-ticket"}


@pytest.mark.parametrize("ended", [0, 1])
def test_outcome_that_is_not_the_logs_is_found(ended: int) -> None:
    scene = Scene()
    asked = scene.asks()
    number = scene.take_in()
    ticket = scene.index
    scene.history.end(asked, "ok", index=ticket)
    at = scene.run(number, RIGHT)
    read = scene.asks("r1", "result")
    scene.told(read, ticket, at - ended, "did:something else" if not ended else RIGHT)
    assert scene.rules() == {"false-outcome"}


def test_outcome_that_nothing_gave_is_found() -> None:
    scene = Scene()
    asked = scene.asks()
    scene.take_in()
    scene.history.end(asked, "ok", index=scene.index)
    scene.told(scene.asks("r1", "result"), scene.index, scene.index, RIGHT)
    assert scene.rules(is_healed=False) == {"false-outcome"}


def test_outcome_that_changes_is_found() -> None:
    scene = Scene()
    scene.well()
    ended = scene.index
    again = scene.asks("r1", "result")
    scene.told(again, ended - 3, ended, "did:r1|otherwise|")
    assert scene.rules() == {"changed-outcome"}, "rather than that the second one is false"


def test_outcome_that_changes_is_found_where_no_log_tells_it() -> None:
    scene = Scene()
    scene.well()
    ended = scene.index
    # Neither is judged by the log, which does not begin with it.
    for entry in scene.logs.values():
        for index in list(entry):
            if index < ended:
                del entry[index]
    read = scene.asks("r1", "result")
    scene.told(read, ended - 3, ended, "did:r1|otherwise|")
    assert scene.rules() == {"changed-outcome"}


def test_result_that_is_not_the_models_is_found() -> None:
    scene = Scene()
    asked = scene.asks()
    number = scene.take_in()
    ticket = scene.index
    scene.history.end(asked, "ok", index=ticket)
    ended = scene.run(number, answer("r9|ok|"))
    scene.told(scene.asks("r1", "result"), ticket, ended, answer("r9|ok|"))
    assert scene.rules() == {"wrong-result"}


def test_definite_failure_that_took_effect_is_found() -> None:
    scene = Scene()
    asked = scene.asks()
    scene.history.end(asked, "fail", slug="overloaded")
    scene.run(scene.take_in())
    assert scene.rules() == {"failed-took-effect"}


def test_failure_of_which_nobody_knows_may_take_effect() -> None:
    scene = Scene()
    asked, again = scene.asks(), scene.asks()
    scene.history.end(asked, "fail", slug="no_leader")
    scene.history.end(again, "info", slug="outcome_unknown")
    scene.run(scene.take_in())
    assert scene.rules() == set()


def test_admission_that_nobody_asked_for_is_found() -> None:
    scene = Scene()
    scene.run(scene.take_in())
    assert scene.rules() == {"unasked"}


def test_cancel_that_was_refused_and_cancelled_is_found() -> None:
    scene = Scene()
    scene.history.end(scene.asks(), "ok", index=scene.index + 1)
    scene.take_in()
    scene.do(r.Cancel(("default",), ("r1",)))
    assert scene.rules() == {"failed-took-effect"}
    scene.history.end(scene.asks("r1", "cancel"), "fail", slug="no_leader")
    assert scene.rules() == {"failed-took-effect"}
    scene.history.end(scene.asks("r1", "cancel"), "ok", cancelled=True)
    assert scene.rules() == set()


@pytest.mark.parametrize("op", ["submit", "infer"])
def test_call_that_was_broken_off_may_cancel(op: str) -> None:
    """The client does it for whoever waits no longer: so end all calls of what never heals."""
    scene = Scene()
    asked = scene.asks(op=op)
    scene.take_in()
    ticket = scene.index
    scene.do(r.Cancel(("default",), ("r1",)))
    assert scene.rules(is_healed=False) == set()
    scene.history.end(asked, "ok", index=ticket)
    assert scene.rules(is_healed=False) == {"failed-took-effect"}


def test_cancel_that_was_told_and_not_done_is_found() -> None:
    scene = Scene()
    scene.well()
    scene.history.end(scene.asks("r1", "cancel"), "ok", cancelled=False)
    assert scene.rules() == set()
    scene.history.end(scene.asks("r1", "cancel"), "ok", cancelled=True)
    assert scene.rules() == {"false-outcome"}


def test_id_that_was_cancelled_before_it_came_is_no_loss() -> None:
    scene = Scene()
    scene.do(r.Cancel(("default",), ("r1",)))
    scene.history.end(scene.asks("r1", "cancel"), "ok", cancelled=True)
    scene.history.end(scene.asks(), "ok", index=0)
    scene.history.end(scene.asks("r1", "result"), "ok", outcome="cancelled")
    assert scene.rules() == set()


def test_outcome_that_is_forgotten_before_its_time_is_found() -> None:
    scene = Scene()
    scene.well()
    read = scene.history.invoke("result", "c1", "r1", index=scene.index - 3)
    scene.history.end(read, "fail", slug="unknown_request")
    assert scene.rules() == {"lost-ticket"}


def test_request_without_an_outcome_is_stuck_once_all_is_healed() -> None:
    scene = Scene()
    asked = scene.asks()
    scene.take_in()
    scene.history.end(asked, "ok", index=scene.index)
    assert scene.rules(is_healed=False) == set()
    assert scene.rules() == {"stuck-request"}


def test_call_without_an_answer_is_stuck() -> None:
    scene = Scene()
    scene.well()
    scene.asks("r1", "result")
    assert scene.rules(is_healed=False) == set()
    assert scene.rules() == {"stuck-call"}


def test_second_outcome_is_found() -> None:
    """The id is taken in twice by somebody's books, and an executor is given both."""
    scene = Scene()
    scene.well()
    again = scene.take_in()
    scene.history.end(scene.asks("r2"), "ok", index=scene.index + 1)
    other = scene.take_in("r2")
    batch = scene.seal(again, other)
    scene.complete(batch, scene.assign(batch), (again, other))
    assert scene.rules(is_healed=False) == {"doubled-outcome"}


def test_what_ran_and_was_not_assigned_is_found() -> None:
    scene = Scene()
    scene.well()
    assert scene.rules(runs=[Ran(0, ("r1",)), Ran(1, ("r1",))]) == {"ran-too-often"}
    assert scene.rules(runs=[Ran(0, ("r2",))]) == {"ran-unassigned"}


def test_request_that_is_well_and_failed_is_not_isolated() -> None:
    scene = Scene()
    asked = scene.asks()
    number = scene.take_in()
    scene.history.end(asked, "ok", index=scene.index)
    scene.run(number, kind=int(OutcomeKind.FAILED))
    assert scene.rules(harms_executors=True) == set()
    assert scene.rules() == {"not-isolated"}


def test_logs_that_differ_are_found() -> None:
    scene = Scene()
    scene.well()
    last = scene.logs["n2"][scene.index]
    scene.logs["n2"][scene.index] = LogEntry(last.term, last.data + b"x")
    assert "two-leaders" in scene.rules()
    scene.logs["n2"][scene.index] = LogEntry(last.term + 1, last.data)
    assert "diverged-log" in scene.rules()


def test_committed_entry_that_is_nowhere_is_found() -> None:
    scene = Scene()
    scene.well()
    for log in scene.logs.values():
        del log[scene.index]
    assert "lost-entry" in scene.rules()


def test_digests_that_differ_are_found() -> None:
    scene = Scene()
    scene.well()
    ends = {node: End(scene.index, scene.index, 1, node.encode()) for node in NODES}
    assert scene.rules(ends=ends) == {"diverged-digest"}
    seen = {"role": "follower", "term": 1, "applied": 3, "digest": "aa"}
    scene.history.note("look", nodes={"n1": seen, "n2": {**seen, "digest": "bb"}})
    assert scene.rules() == {"diverged-digest"}


def test_two_leaders_of_a_term_are_found() -> None:
    scene = Scene()
    scene.well()
    seen = {"role": "leader", "term": 4, "applied": 0, "digest": ""}
    scene.history.note("look", nodes={"n1": seen})
    assert scene.rules() == set()
    scene.history.note("look", nodes={"n3": seen})
    assert scene.rules() == {"two-leaders"}


def test_slot_that_is_held_by_nothing_is_leaked() -> None:
    scene = Scene()
    scene.well()
    ends = {node: End(scene.index, held={"x": 1}) for node in NODES}
    assert scene.rules(ends=ends) == {"leaked-slot"}
    assert scene.rules(ends=ends, is_healed=False) == set()


def test_node_that_counts_otherwise_is_found() -> None:
    scene = Scene()
    scene.well()
    ends = {"n1": End(scene.index, requests=1)}
    assert scene.rules(ends=ends) == {"stuck-request", "miscounted"}


def test_file_that_grows_beyond_its_bound_is_found() -> None:
    scene = Scene()
    scene.well()
    scene.history.note("sizes", n1={"data": 100, "log": 5})
    assert scene.rules(bounds={"data": 100, "log": 5}) == set()
    scene.history.note("sizes", n1={"data": 101})
    assert scene.rules(bounds={"data": 100, "log": 5}) == {"unbounded-file"}


def test_process_that_died_or_told_of_a_bug_is_found() -> None:
    scene = Scene()
    scene.well()
    assert scene.rules(died={"n1": "exit status 1"}) == {"died"}
    assert scene.rules(said={"n1": ["Traceback"]}) == {"traceback"}
    ends = {"n1": End(scene.index, counters={"leader_voids_total": 1})}
    assert scene.rules(ends=ends) == {"leader-bug"}


def test_of_one_rule_few_are_told() -> None:
    scene = Scene()
    for number in range(1, 10):
        scene.history.end(scene.asks(f"r{number}"), "ok", index=100 + number)
    found = judge(scene.evidence())
    assert [each.rule for each in found] == ["lost-ticket"] * 5
    assert all(each.what.endswith("(one of 9 such)") for each in found)


def test_second_ticket_is_found() -> None:
    scene = Scene()
    scene.well()
    scene.history.end(scene.asks(), "ok", index=scene.index)
    assert scene.rules() == {"doubled-admission"}
