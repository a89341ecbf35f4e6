"""What holds a batch back though a slot is free: kept outcomes, and what other models need."""

from dataclasses import replace

import pytest

from coordinator.core.state import State
from coordinator.run_times import RunTimes
from raftbatch import records as r
from raftbatch.settings import Model, Policy
from tests.unit.core.leading import Leading, started

KIB = 1024


def _model(name: str) -> r.PutModel:
    return r.PutModel(Model(name, "1", max_batch_size=1, max_queue_delay_microseconds=0))


def _held(state: State) -> list[str]:
    """Return the models of the batches that hold slots."""
    [executor] = state.executors.values()
    return [state.batches[each.batch].key[0] for each in executor.held]


def _held_batches(state: State) -> list[int]:
    [executor] = state.executors.values()
    return [each.batch for each in executor.held]


def _ask(leading: Leading, name: str, count: int, first: int = 0) -> None:
    key = (name, "1", "")
    leading.propose(leading.admit(*[f"{name}{n}" for n in range(first, first + count)], key=key))
    leading.apply()


@pytest.mark.parametrize(("slots", "most"), [(4, 3), (3, 2), (2, 1), (1, 1)])
def test_model_leaves_a_slot_to_each_other_that_has_none(slots: int, most: int) -> None:
    leading = started(_model("slow"), _model("quick"), slots=slots)
    _ask(leading, "slow", 6)
    assert _held(leading.state) == ["slow"] * most
    _ask(leading, "quick", 6)
    assert _held(leading.state) == ["slow"] * most + ["quick"] * (slots - most)


def test_slot_that_is_free_again_is_kept_for_a_model_that_has_none() -> None:
    leading = started(_model("slow"), _model("quick"), slots=4)
    _ask(leading, "slow", 6)
    _ask(leading, "quick", 1)
    assert _held(leading.state) == ["slow"] * 3 + ["quick"]
    leading.propose(leading.complete(_held_batches(leading.state)[-1]))
    leading.apply()
    assert _held(leading.state) == ["slow"] * 3
    _ask(leading, "quick", 1, first=1)
    assert _held(leading.state) == ["slow"] * 3 + ["quick"]


def _report(leading: Leading, batch: int, size: int) -> r.Complete:
    """Return a report with results of so many bytes, as the leader takes it in."""
    report = leading.complete(batch)
    report = replace(report, result=(bytes(size),) * len(report.numbers))
    assert leading.outlook is not None
    assert leading.decider is not None
    _TIMES.reported(report, leading.outlook, leading.decider)
    return report


_TIMES = RunTimes()


def test_kept_outcomes_hold_back_what_would_leave_more_until_some_are_forgotten() -> None:
    """G8: what is admitted already keeps to the bound of outcomes as well."""
    policy = Policy(outcome_bytes_max=20 * KIB, outcome_retention_ms=10_000)
    leading = started(_model("slow"), slots=8)
    leading.propose(r.PutPolicy(policy))
    leading.apply()
    _ask(leading, "slow", 40)
    most = 0
    while held := _held_batches(leading.state):
        leading.propose(_report(leading, held[0], 4 * KIB))
        leading.apply()
        most = max(most, leading.state.outcome_bytes)
    assert most > 16 * KIB
    # Nothing was known of the first eight, which had begun by then.
    assert most < policy.outcome_bytes_max + 8 * 5 * KIB
    ended = leading.state.counters.succeeded
    assert ended < 12

    leading.at_ms += 11_000  # retention is over
    leading.propose(r.Advance())
    leading.apply()
    leading.propose()
    leading.apply()
    while held := _held_batches(leading.state):
        leading.propose(_report(leading, held[0], 4 * KIB))
        leading.apply()
        assert leading.state.outcome_bytes < policy.outcome_bytes_max + 5 * KIB
    assert leading.state.counters.succeeded > ended


def test_one_batch_runs_though_it_may_leave_more_than_there_is_room_for() -> None:
    leading = started(_model("slow"), slots=8)
    leading.propose(r.PutPolicy(Policy(outcome_bytes_max=20 * KIB)))
    leading.apply()
    assert leading.decider is not None
    leading.decider.row_bytes = 1 << 30
    _ask(leading, "slow", 3)
    assert len(_held_batches(leading.state)) == 1
    leading.propose(leading.complete(_held_batches(leading.state)[0]))
    leading.apply()
    assert len(_held_batches(leading.state)) == 1
