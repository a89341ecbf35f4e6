"""A suspended executor: of which models it probes, and what ends it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from executor.core.instances import At
from executor.core.machine import Machine
from executor.core.values import (
    Failure,
    Kill,
    Run,
    Verdict,
    WarmUp,
)
from raftbatch.v1 import dispatch_pb2 as pb
from tests.unit.machine_scene import (
    both,
    changes,
    failed,
    given,
    joined,
    one,
    ran,
)


def test_suspended_executor_probes_with_its_warm_up() -> None:
    machine = joined()
    assert machine.probe() == []
    machine.take(changes(suspended=True), 0)
    [warm] = machine.probe()
    assert isinstance(warm, WarmUp)
    assert machine.probe() == [], "one at a time"
    [kill] = machine.ended(0, warm.run, Failure("model_failed", "cuda is gone"), 0)
    assert isinstance(kill, Kill)
    machine.down(0, Failure("child_died", ""), 0)
    assert machine.instances[0].at is At.DOWN
    assert machine.up(0, 0) == []
    said = machine.wish()
    assert said == pb.Probe(executor="x", incarnation=7, succeeded=True), "it came up, warmed up"
    machine.said(said)
    [warm] = machine.probe()
    assert isinstance(warm, WarmUp)
    assert machine.ended(0, warm.run, None, 0) == []
    assert machine.wish() == said
    machine.take(changes(suspended=False), 0)
    assert machine.wish() is None


def test_probe_that_hangs_is_killed() -> None:
    machine = joined()
    machine.take(changes(suspended=True), 0)
    [warm] = machine.probe()
    assert isinstance(warm, WarmUp)
    [kill] = machine.overdue(0, warm.run)
    assert isinstance(kill, Kill)
    assert "its warm-up ran for too long" in kill.why
    assert machine.overdue(0, warm.run) == []
    machine.down(0, Failure("child_died", ""), 0)
    machine.up(0, 0)
    assert machine.wish() == pb.Probe(executor="x", incarnation=7, succeeded=True)


def test_probe_is_of_the_model_that_failed() -> None:
    machine = both()
    failed(machine, "m")
    machine.take(changes(suspended=True), 0)
    [warm] = machine.probe()
    assert isinstance(warm, WarmUp)
    assert warm.instance == 1
    machine.down(0, Failure("child_died", ""), 0)
    machine.said(pb.ReadyRequest(incarnation=7, models=[pb.ModelVersion(name="m", version="1")]))
    machine.up(0, 0)
    machine.said(
        pb.ReadyRequest(incarnation=7, models=[pb.ModelVersion(name=n, version="1") for n in "am"])
    )
    assert machine.wish() is None, "the other one has proved nothing"


def by_itself(machine: Machine, run: Run) -> None:
    """Find by its own clock that a run takes too long; its replacement is up soon."""
    machine.overdue(1, run.run)
    machine.down(1, Failure("child_died", ""), 0)
    machine.up(1, 0)


def by_the_leader(machine: Machine, run: Run) -> None:
    """Hear from the leader that it takes too long."""
    machine.take(changes(stop=[pb.Stop(batch=1, fence=101)]), 0)
    machine.down(1, Failure("child_died", ""), 0)
    machine.up(1, 0)


def by_both(machine: Machine, run: Run) -> None:
    """Hear it from the leader while the process is killed for it."""
    machine.overdue(1, run.run)
    by_the_leader(machine, run)


def in_each_row(machine: Machine, run: Run) -> None:
    """Let each request fail by itself."""
    ran(machine, run, "bad")


def as_told(machine: Machine, run: Run) -> None:
    """Let a report be refused, so that the batch fails."""
    ran(machine, run, "")
    machine.answered(machine.due()[-1], Verdict.REJECTED, "no")


@pytest.mark.parametrize("fails", [by_itself, by_the_leader, by_both, in_each_row, as_told])
def test_probe_is_of_the_model_that_failed_however_it_did(
    fails: Callable[[Machine, Run], None],
) -> None:
    machine = both()
    fails(machine, one(machine.take(changes(given(1)), 0)))
    machine.take(changes(suspended=True), 0)
    [warm] = machine.probe()
    assert warm.instance == 1


def test_each_model_whose_last_batch_failed_is_probed() -> None:
    machine = both()
    failed(machine, "m", "a")
    machine.take(changes(suspended=True), 0)
    for instance in range(2):
        assert machine.wish() is None
        [warm] = machine.probe()
        assert isinstance(warm, WarmUp)
        assert warm.instance == instance
        machine.ended(instance, warm.run, None, 0)
    assert machine.wish() == pb.Probe(executor="x", incarnation=7, succeeded=True)


def test_model_whose_batches_go_well_again_is_not_probed() -> None:
    machine = both()
    failed(machine, "a", "m")
    ran(machine, one(machine.take(changes(given(1, 5, 6, model="a")), 0)), "", "bad")
    machine.take(changes(suspended=True), 0)
    [warm] = machine.probe()
    assert warm.instance == 1


def test_model_that_does_not_come_up_holds_up_no_other() -> None:
    machine = both()
    failed(machine, "a", "m")
    for _ in range(2):
        machine.down(0, Failure("child_not_up", ""), 0)
    machine.take(changes(suspended=True), 0)
    machine.said(pb.ReadyRequest(incarnation=7, models=[pb.ModelVersion(name="m", version="1")]))
    [warm] = machine.probe()
    assert isinstance(warm, WarmUp)
    machine.ended(1, warm.run, None, 0)
    assert machine.wish() == pb.Probe(executor="x", incarnation=7, succeeded=True)
