"""A leader that takes nothing more says what is full."""

from __future__ import annotations

import pytest

from coordinator.core.effects import Verdict
from coordinator.refusing import refused_for_load
from raftbatch.settings import Policy
from tests.unit.core.tables import Core
from tests.unit.leader_scene import admission


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
