"""An executor's machine with instances that are up, what it is given, and what it asks for."""

from __future__ import annotations

from executor.core.machine import Machine
from executor.core.values import (
    Action,
    Answer,
    Due,
    Failure,
    Outcome,
    Run,
)
from raftbatch.v1 import dispatch_pb2 as pb

MODEL = ("m", "1")
OTHER = ("a", "1")


def given(batch: int, *numbers: int, fence: int = 0, model: str = "m") -> pb.Assignment:
    """Return an assignment of these requests."""
    numbers = numbers or (batch * 10,)
    return pb.Assignment(
        batch=batch,
        attempt=1,
        fence=fence or batch + 100,
        model=model,
        version="1",
        numbers=numbers,
        rows=[1] * len(numbers),
        payloads=[b"x"] * len(numbers),
    )


def changes(*start: pb.Assignment, index: int = 1, **more: object) -> pb.FeedMessage:
    """Return a message of changes."""
    return pb.FeedMessage(changes=pb.Changes(index=index, start=start, **more))  # type: ignore[arg-type]


def joined(instances: int = 1) -> Machine:
    """Return a machine that lives, its instances up."""
    machine = Machine("x", [MODEL] * instances)
    for number in range(instances):
        assert machine.up(number, 0) == []
    machine.begin(7, machine.ready)
    assert machine.wish() is None
    return machine


def one(actions: list[Action]) -> Run:
    """Return the one run that is asked for."""
    [action] = actions
    assert isinstance(action, Run)
    return action


def ran(machine: Machine, run: Run, *codes: str) -> list[Action]:
    """Let a run end, each request as its code says."""
    answers = tuple([Answer(b"" if code else b"out", code) for code in codes])
    return machine.ended(run.instance, run.run, Outcome(answers, 1, 2, 3, (len(codes),), b"f"), 9)


def reported(machine: Machine) -> tuple[Due, pb.Report]:
    """Return the one report that is due."""
    [due] = machine.due()
    return due, due.report


def both() -> Machine:
    """Return a machine that lives and runs two models, the one that is looked at second."""
    machine = Machine("x", [OTHER, MODEL])
    for number in range(2):
        machine.up(number, 0)
    machine.begin(7, machine.ready)
    return machine


def failed(machine: Machine, *others: str) -> None:
    """Let a batch of each of these models fail as a whole."""
    for batch, model in enumerate(others, 50):
        run = one(machine.take(changes(given(batch, model=model)), 0))
        machine.ended(run.instance, run.run, Failure("model_failed", ""), 0)
