"""What a status says of the scheduler: windows by their id, executors, models, bounded."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import pytest

from coordinator.core.state import State
from coordinator.overview import SHOWN_MAX, ExecutorState, ModelState, overview
from raftbatch import records as r
from raftbatch.cli import waiting
from raftbatch.cli.calls import Cluster, Target
from raftbatch.cli.status import print_scheduler, scheduler_notes, window_id
from raftbatch.cli.waiting import why_nobody
from raftbatch.settings import Model
from raftbatch.v1 import admin_pb2, load_pb2
from tests.unit.core.tables import KEY, Core


def test_window_is_called_by_log_time_and_index() -> None:
    window = admin_pb2.WindowStatus(opened_ms=62_345, first_index=17)
    assert window_id(window) == "00:01:02.345/17", "log time, as `log tail` has it: no date"


def test_overview_of_nothing() -> None:
    found = overview(State())
    assert (found.windows, found.executors, found.models) == ((), (), ())


def test_overview_shows_what_waits_and_who_could_run_it() -> None:
    core = Core()
    core.join("gpu-2", slots=3)
    core.start("a")
    core.admit("b", "c", rows=2)
    opened = (core.at_ms, core.state.index)
    found = overview(core.state)
    [window] = found.windows
    assert (window.opened, window.model) == (opened, KEY[:2])
    assert (window.requests, window.rows) == (2, 4)
    assert [each.executor for each in found.executors] == ["gpu-1", "gpu-2"]
    assert found.executors[0] == ExecutorState(
        "gpu-1", core.state.executors["gpu-1"].incarnation, 1, 1, False, False
    )
    by_name = {each.model: each for each in found.models}
    assert by_name[KEY[:2]] == ModelState(KEY[:2], 3, 2, False)
    for name in ("gpu-1", "gpu-2"):
        core.one(r.Drain(name, core.state.executors[name].incarnation, True))
    found = overview(core.state)
    assert {each.executors for each in found.models} == {0}
    assert all(each.is_draining for each in found.executors)


def test_models_of_an_executor_are_looked_through_once() -> None:
    """A thousand executors with a thousand models each would stop a node for seconds."""

    class Looked(tuple[tuple[str, str], ...]):
        __slots__ = ()
        looks = 0

        def __contains__(self, model: object) -> bool:
            raise AssertionError("for each model anew")

        def __iter__(self) -> Iterator[tuple[str, str]]:
            Looked.looks += 1
            return super().__iter__()

    core = Core()
    for number in range(50):
        core.put(Model(f"m{number:02}", "1"))
    live = core.state.executors["gpu-1"]
    core.state.executors["gpu-1"] = replace(live, models=Looked(core.state.models))
    found = overview(core.state)
    assert {each.executors for each in found.models} == {1}
    assert Looked.looks == 1


def test_overview_is_bounded() -> None:
    core = Core()
    for number in range(SHOWN_MAX + 5):
        assert core.admit(f"r{number}", key=(*KEY[:2], f"s{number}")) == "OK"
    assert len(overview(core.state).windows) == SHOWN_MAX


def test_status_says_loudly_that_nobody_runs_a_model() -> None:
    lines: list[str] = []
    held = admin_pb2.SchedulerStatus(
        windows_total=101,
        windows=[
            admin_pb2.WindowStatus(opened_ms=5, first_index=7, model="m", version="1", requests=3)
        ]
        * 100,
        quarantined=2,
        executors_total=1,
        executors=[admin_pb2.ExecutorStatus(executor="gpu-1", slots=2, held=1, suspended=True)],
        models_total=1,
        models=[admin_pb2.ModelStatus(name="m", version="1", requests=3)],
    )
    print_scheduler(held, lambda line, _: lines.append(line))
    notes = scheduler_notes(held)
    text = "\n".join(lines)
    assert "00:00:00.005/7" in text
    assert "no executor" in text
    assert "suspended" in text
    assert notes == [
        ("3 requests for m/1 wait: no executor has it ready", "bold red"),
        ("1 more windows are not shown", "yellow"),
        ("2 requests are in quarantine", "yellow"),
    ]


def test_wait_for_nodes_that_start_is_told_and_then_what_they_know(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    starting: list[object] = ["a:1 does not answer: nothing listens there"] * 2
    held = admin_pb2.StatusReply(role="leader")
    held.scheduler.models.add(name="m", version="1", requests=1)

    async def statuses(cluster: Cluster, timeout_s: float) -> list[tuple[Target, object]]:
        return [(Target("a:1"), starting.pop() if starting else held)]

    monkeypatch.setattr(waiting, "statuses", statuses)
    told: list[str] = []
    asyncio.run(waiting.say_if_nobody_runs(Cluster(()), "m", "", 0.0, told.append))
    assert told[0].startswith("no node serves yet (a:1: does not answer: nothing listens there)")
    assert told[1].startswith("no executor has model m ready (there is no executor at all)")
    assert len(told) == 2, "each once"


def test_executors_that_start_a_model_again_are_not_said_to_be_missing() -> None:
    """As while each replaces a child that a request has killed."""
    load = load_pb2.ExecutorLoad(models=[load_pb2.ModelLoad(name="m", version="1", instances=1)])
    names = ("gpu-1", "gpu-2")
    held = admin_pb2.SchedulerStatus(
        executors_total=2,
        executors=[admin_pb2.ExecutorStatus(executor=each, load=load) for each in names],
        models_total=1,
        models=[admin_pb2.ModelStatus(name="m", version="1", requests=3)],
    )
    [(said, _)] = scheduler_notes(held)
    assert said == "3 requests for m/1 wait: 2 executors have it and are starting it again"
    told = why_nobody(held, "m", "")
    assert "2 executors have it and are starting it again" in told
    assert "Start one" not in told
