"""A leader that takes nothing more says what is full; and so does a node where nobody leads."""

from __future__ import annotations

import pytest

from coordinator.core.effects import Verdict
from coordinator.raft.segments.limits import Space
from coordinator.raft.standing import Role
from coordinator.refusing import refused_for_load, told_leader, why_full
from raftbatch.errors import DiskFailed, there_are
from raftbatch.ids import NodeId
from raftbatch.settings import Policy
from tests.unit.core.tables import Core
from tests.unit.leader_scene import MemoryLog, admission


@pytest.mark.parametrize(
    ("policy", "full"),
    [
        (Policy(outcome_bytes_max=1000, outcome_reserve_bytes=128), "outcome_bytes_max = 1000"),
        (Policy(dedupe_entries_max=1), "dedupe_entries_max = 1"),
        (Policy(), "as much is waiting as may"),
    ],
)
def test_overload_names_what_is_full(policy: Policy, full: str) -> None:
    core = Core(policy=policy)
    core.one(core.report(core.start("a"), result=bytes(800)))
    error = refused_for_load(core.state, Verdict.OVERLOADED, admission("b"), 7)
    assert full in str(error)
    assert (error.slug, error.retry_after_ms) == ("overloaded", 7)


def test_ids_in_flight_are_what_is_full_too() -> None:
    core = Core(policy=Policy(dedupe_entries_max=3))
    core.one(core.report(core.start("a")))
    state = core.state
    for coming, full in ((1, "as much is waiting as may"), (2, "dedupe_entries_max = 3")):
        error = refused_for_load(state, Verdict.OVERLOADED, admission("b"), 7, coming)
        assert full in str(error)


def test_outcomes_are_what_is_full_too_with_what_those_in_flight_will_leave() -> None:
    core = Core(policy=Policy(outcome_bytes_max=2000, outcome_reserve_bytes=128))
    core.one(core.report(core.start("a"), result=bytes(1500)))
    for coming, full in ((1, "as much is waiting as may"), (2, "outcome_bytes_max = 2000")):
        error = refused_for_load(core.state, Verdict.OVERLOADED, admission("b"), 7, coming)
        assert full in str(error)


def test_quota_names_what_is_full() -> None:
    core = Core(policy=Policy(tenant_outcome_bytes_max=1000))
    core.one(core.report(core.start("a"), result=bytes(800)))
    error = refused_for_load(core.state, Verdict.QUOTA_EXCEEDED, admission("b"), 7)
    assert "tenant_outcome_bytes_max = 1000" in str(error)
    assert (error.slug, error.retry_after_ms) == ("quota_exceeded", 7)
    error = refused_for_load(core.state, Verdict.QUOTA_EXCEEDED, admission("b", tenant="u"), 7)
    assert str(error) == "u has as much waiting as it may"


def test_unknown_model_is_refused_with_those_there_are() -> None:
    core = Core()
    error = refused_for_load(core.state, Verdict.UNKNOWN_MODEL, admission("b"), 7)
    assert str(error).endswith(": there are m")
    assert there_are(f"m{number:02}" for number in range(12)) == (
        "there are m00, m01, m02, m03, m04, m05, m06, m07, m08, m09 and 2 more"
    )
    assert there_are([]) == "there is none"


@pytest.mark.parametrize("space", list(Space))
def test_full_disk_is_why_nobody_leads_where_nothing_is_appended(space: Space) -> None:
    log = MemoryLog()
    log.space = space
    assert (why_full(log) is not None) == (space is Space.RESERVE)
    log.leader = NodeId("n2")
    assert why_full(log) is None
    log.leader, log.failure = None, DiskFailed("it broke")
    assert why_full(log) is None
    assert why_full(None) is None


def test_follower_whose_disk_is_full_calls_nobody_its_leader() -> None:
    log = MemoryLog()
    assert told_leader(None) == told_leader(log) == ""
    log.leader = NodeId("n2")
    assert told_leader(log) == "n2"
    log.space = Space.LOW
    assert told_leader(log) == "n2"
    log.space = Space.RESERVE
    assert told_leader(log) == ""
    log.role, log.leader = Role.LEADER, log.identity.node_id
    assert told_leader(log) == log.identity.node_id
