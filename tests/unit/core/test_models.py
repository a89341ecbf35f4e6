"""Model versions, the policy, and whose entries count."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coordinator.core.apply import apply
from raftbatch import records as r
from raftbatch.errors import Invariant
from raftbatch.kinds import LapseReason, Ran
from raftbatch.settings import Model, Policy
from tests.unit.core.tables import Core


def test_deleting_ends_what_waits_and_lets_what_runs_finish() -> None:
    core = Core(slots=2)
    core.start("running")
    core.admit("sealed", "waiting", "late")
    core.seal("sealed")
    assert core.one(r.DeleteModel("m", "1")) == "OK"
    assert core.admit("more") == "UNKNOWN_MODEL"
    assert core.one(r.DeleteModel("m", "1")) == "UNKNOWN_MODEL"
    core.wait(0)
    for request_id in ("sealed", "waiting", "late"):
        assert core.outcome(request_id) == "failed unknown_model"
    assert core.put(Model("m", "1")) == "DRAINING"
    assert core.one(core.report(1)) == "OK"
    assert core.outcome("running") == "ok"
    assert not core.state.models
    assert core.put(Model("m", "1")) == "OK"


def test_deleted_version_is_not_run_again() -> None:
    core = Core()
    core.start("a")
    core.one(r.DeleteModel("m", "1"))
    core.lapse(1, LapseReason.DRAINED, Ran.NO)
    assert core.assign(1) == "EMPTY"
    assert core.outcome("a") == "failed unknown_model"


def test_deleting_ends_so_many_with_each_entry() -> None:
    core = Core(policy=Policy(expire_per_entry_max=2))
    core.admit("a", "b", priority=0)
    core.admit("c", key=("m", "1", "b"))
    core.admit("d", "e")
    core.seal("d", "e")
    core.one(r.DeleteModel("m", "1"))
    left = []
    while core.state.requests:
        core.wait(0)
        left.append(len(core.state.requests))
    assert left == [3, 0]  # a batch ends as a whole
    assert not core.state.models


def test_deleting_what_nothing_waits_for_is_done_at_once() -> None:
    core = Core()
    core.one(r.DeleteModel("m", "1"))
    assert not core.state.models
    assert core.one(r.DeleteModel("m", "1")) == "UNKNOWN_MODEL"


@pytest.mark.parametrize(
    ("settings", "verdict"),
    [
        ({"max_batch_size": 16}, "INVALID_REQUEST"),
        ({"max_batch_size": 0}, "INVALID_REQUEST"),
        ({"max_batch_bytes": 1000}, "INVALID_REQUEST"),
        ({"priority_levels": 2}, "INVALID_REQUEST"),
        ({"max_batch_size": 64}, "OK"),
        ({"max_queue_delay_microseconds": 1}, "OK"),
    ],
)
def test_what_a_batch_may_hold_never_shrinks_under_what_waits(
    settings: dict[str, int], verdict: str
) -> None:
    core = Core()
    core.admit("a")
    assert core.put(replace(Model("m", "1"), **settings)) == verdict  # type: ignore[arg-type]
    core.one(r.Cancel(("t",), ("a",)))
    assert core.put(replace(Model("m", "1"), **settings)) == "OK"  # type: ignore[arg-type]


def test_models_are_bounded() -> None:
    core = Core(policy=Policy(models_max=1))
    assert core.put(Model("m", "2")) == "OVERLOADED"
    assert core.put(Model("m", "1", priority_levels=4)) == "OK"


def test_new_policy_holds_from_then_on() -> None:
    core = Core()
    core.admit("a", "b")
    core.one(r.PutPolicy(Policy(requests_waiting_max=2, tenant_rows_waiting_max=3)))
    assert core.admit("c") == "OVERLOADED"
    assert (core.state.all_use.requests_max, core.state.tenant_use["t"].rows_max) == (2, 3)


def test_what_a_deposed_leader_proposes_is_refused() -> None:
    core = Core()
    core.do(r.Lead("n2", 0, 0), term=2)
    assert core.state.leader == "n2"
    for term, raft_term in ((1, 1), (1, 2), (2, 3), (3, 3)):
        applied = core.do(core.admission("a"), term=term, raft_term=raft_term)
        assert [reply.verdict.name for reply in applied.replies] == ["NOT_LEADER"]
    assert core.outcome("a") == "unknown"
    applied = core.do(core.admission("a"), term=2)
    assert core.outcome("a") == "open"


def test_term_begins_once_with_the_first_record_of_an_entry() -> None:
    core = Core()
    replies = core.do(r.Lead("n2", 0, 1), term=1).replies
    assert replies[0].verdict.name == "VOID"
    replies = core.do(r.Advance(), r.Lead("n2", 0, 1), term=2).replies
    assert [reply.verdict.name for reply in replies] == ["NOT_LEADER"] * 2
    assert core.state.term == 1
    core.do(r.Lead("n2", 0, 0), term=2)
    assert (core.state.term, core.state.feature_level) == (2, 1)


def test_index_that_was_applied_already_is_a_bug() -> None:
    core = Core()
    with pytest.raises(Invariant, match="has applied"):
        apply(core.state, core.state.index, 1, r.Entry(1, 0, ()))


def test_digest_rolls_over_everything_that_was_done() -> None:
    core, other = Core(), Core()
    assert core.state.digest == other.state.digest
    core.admit("a")
    other.admit("b")
    assert core.state.digest != other.state.digest
