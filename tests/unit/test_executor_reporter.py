"""When reports leave: at once, or with the next one where that is a moment away."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

import pytest

from chaos.worlds.loop import VirtualLoop
from executor.core.machine import Machine
from executor.core.values import Answer, Failure, Outcome, Run
from executor.link import Link, Pauses, Trouble
from executor.reporter import Reporter
from raftbatch.v1 import dispatch_pb2 as pb
from tests.unit.machine_scene import both, changes, given, joined, one, ran
from tests.unit.test_executor_crew import FakeEntropy

_DIED = Failure("child_died", "")


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    with VirtualLoop() as loop:
        yield loop


class FakeLink:
    """Takes every report at once.

    Attributes:
        calls: when each came, and the batches that it was about.
    """

    def __init__(self, loop: VirtualLoop) -> None:
        self.calls: list[tuple[float, list[int]]] = []
        self._loop = loop

    def pauses(self) -> Pauses:
        """Return pauses, which nothing asks for."""
        return Pauses(FakeEntropy())

    async def report(self, reports: Sequence[pb.Report]) -> list[Trouble | None]:
        """Take a call."""
        batches = [each.complete.batch for each in reports]
        self.calls.append((self._loop.time(), batches))
        return [None] * len(reports)


class Scene:
    """A machine, and the reporter that sends what it has to say.

    Args:
        loop: on which.
        machine: that lives.
    """

    def __init__(self, loop: VirtualLoop, machine: Machine) -> None:
        self.loop = loop
        self.machine = machine
        self.link = FakeLink(loop)
        link = cast("Link", self.link)
        self.reporter = Reporter(machine, link, lambda: None, self.wake)
        self.task = loop.create_task(self.reporter.run())
        self.turn()

    def wake(self) -> None:
        """Let reports be looked for, as the agent does whatever happens."""
        self.reporter.wake()

    def turn(self, duration_s: float = 0.0) -> list[tuple[float, list[int]]]:
        """Let so much time pass; return the calls since the last turn."""
        self.wake()
        self.loop.run_for(duration_s)
        calls, self.link.calls = self.link.calls, []
        return calls

    def close(self) -> None:
        """End it."""
        self.task.cancel()
        self.loop.run_for(0.0)


def test_report_waits_for_the_next_where_that_is_a_moment_away(loop: VirtualLoop) -> None:
    scene = Scene(loop, joined())
    first = one(scene.machine.take(changes(given(1), given(2), given(3), given(4)), 0))
    second = one(ran(scene.machine, first, ""))
    assert scene.turn(0.001) == []
    third = one(ran(scene.machine, second, ""))
    assert [batches for _, batches in scene.turn()] == [[1, 2]]
    last = one(ran(scene.machine, third, ""))
    before = loop.time()
    [(at, batches)] = scene.turn(1.0)  # the last one takes its time: no longer than that
    assert (round(at - before, 6), batches) == (0.002, [3])
    ran(scene.machine, last, "")
    before = loop.time()
    assert scene.turn() == [(before, [4])]  # nothing runs: it goes at once
    scene.close()


def _long(machine: Machine, run: Run) -> None:
    machine.ended(run.instance, run.run, Outcome((Answer(b"out"),), 0, 3_000_000, 0), 9)


@pytest.mark.parametrize("why", ["it ran for long", "another model runs", "it never ran"])
def test_report_goes_at_once_where_no_other_is_to_be_expected(loop: VirtualLoop, why: str) -> None:
    scene = Scene(loop, both())
    model = "a" if why == "another model runs" else "m"
    message = changes(given(1), given(2, model=model), index=1)
    run = next(iter(scene.machine.take(message, 0)))
    assert isinstance(run, Run)
    if why == "it ran for long":
        _long(scene.machine, run)
    elif why == "it never ran":
        scene.machine.down(run.instance, _DIED, 9)
        scene.machine.up(run.instance, 9)
    else:
        ran(scene.machine, run, "")
    calls = scene.turn()
    assert [at for at, _ in calls] == [loop.time()]
    scene.close()
