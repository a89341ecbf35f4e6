"""Whole states, shown to be held against the checker's model; and drawn runs, that are sound."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from chaos.checkers.scheduler import SchedulerChecker
from chaos.checkers.scheduler_states import differs
from coordinator.core.apply import apply
from coordinator.core.effects import Applied
from coordinator.core.state import State
from raftbatch import records as r
from raftbatch.kinds import OutcomeKind
from tests.unit.core import leading
from tests.unit.core.test_drawn_leading import Drawn
from tests.unit.scheduler_scene import N1, Replica, Scene


def _lose(state: State) -> None:
    del state.requests[3]


def _forget(state: State) -> None:
    del state.dedupe["t\0a"]


def _move(state: State) -> None:
    state.batch_of[3] = 2


def _count(state: State) -> None:
    state.all_use.rows += 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_lose, "the open requests are"),
        (_forget, "is not known any more"),
        (_move, "request 3 is in 2, not in 0"),
        (_count, "and (1, 1, 10) do"),
    ],
)
def test_state_that_differs_from_the_model_is_found(
    change: Callable[[State], None], said: str
) -> None:
    """Such as the state's own invariants find too: here they are not asked."""
    found = Scene()
    found.finish(found.start("a", "b"))
    found.admit("c")
    assert differs(found.checker.model, found.state) is None
    change(found.state)
    assert said in (differs(found.checker.model, found.state) or "")


@pytest.mark.parametrize("seed", range(6))
def test_drawn_runs_are_sound(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader whose clients and executors do as they like breaks no promise."""
    checker = SchedulerChecker(lambda payload: b"result", digest_every=16, check_every=8)
    replica = Replica(State())
    watch = checker.begin(N1, replica)

    def spy(state: State, index: int, term: int, entry: r.Entry) -> Applied:
        replica.state = state
        for record in entry.records:
            if isinstance(record, r.Complete):
                _run(checker, record)
        applied = apply(state, index, term, entry)
        watch.applied(index, term, entry, applied)
        assert checker.violation is None
        return applied

    monkeypatch.setattr(leading, "apply", spy)
    drawn = Drawn(seed)
    for _ in range(250):
        drawn.step()
    drawn.finish()
    assert checker.counts["entries"] > 50
    assert checker.counts["whole_states"] > 3


def _run(checker: SchedulerChecker, report: r.Complete) -> None:
    """Let what is reported have run, where it was assigned at all."""
    runs, at = checker.runs, (report.batch, report.fence)
    placed = runs.placed.get(at)
    if placed is None:
        return
    run = runs.runs.get(at)
    if run is None:
        run = runs.started(
            placed.executor, placed.incarnation, report.batch, placed.attempt, report.fence,
            sorted(placed.open),
        )  # fmt: skip
    given = dict(run.results or {})
    for number, kind, result in zip(report.numbers, report.kind, report.result, strict=True):
        given[number] = (OutcomeKind(kind), result)
    run.results = given
