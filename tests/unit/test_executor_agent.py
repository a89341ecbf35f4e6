"""How the executor's shell minds the time for its machine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from executor import agent as shell
from executor.agent import Agent
from executor.config import ExecutorConfig, ModelConfig
from executor.core.instances import At
from executor.core.values import Answer, DeviceMemory, Failure, Outcome
from executor.frames import Broken, Failed, Ran, Up, Warmed
from executor.link import Link
from raftbatch.realworld import RealClock
from tests.unit.machine_scene import changes, given
from tests.unit.test_executor_child import LOAD, run
from tests.unit.test_executor_crew import FakeChildren, FakeEntropy

DIED = Failure("child_died", "")


def with_agent(test: Callable[[Agent], Awaitable[None]], timeout_s: float = 0.0) -> None:
    """Run a test with an agent whose one child is up, and which has joined."""

    async def main() -> None:
        entropy = FakeEntropy()
        config = ExecutorConfig("x", (ModelConfig(LOAD, 1, 1, timeout_s),), {"n1": "127.0.0.1:1"})
        link = Link(config.addresses, entropy)
        agent = Agent(config, link, FakeChildren(), RealClock(), entropy)
        agent.up(0)
        agent.machine.begin(7, agent.machine.ready)
        await test(agent)
        for timer in agent._timers.values():
            timer.cancel()
        await link.close()

    run(main())


def ran(number: int, *codes: str) -> Ran:
    """Return what a child says of a run of so many requests."""
    memory = DeviceMemory("cuda:0", 1, 2)
    return Ran(number, Outcome(tuple([Answer(b"", code) for code in codes]), memory=memory))


def test_answer_for_another_run_is_false_and_leaves_the_timer_alone() -> None:
    async def test(agent: Agent) -> None:
        machine = agent.machine
        agent._do(machine.take(changes(given(1, model=LOAD.name)), 0))
        [instance], timer = machine.instances, agent._timers[0]
        number = instance.run
        for frame in (
            ran(number + 1, ""),
            Failed(number - 1, "code", "message"),
            Warmed(number),
            Up("cpu", ""),
            Broken("no"),
        ):
            assert not agent.said(0, frame)
            assert (instance.at, agent._timers, agent._devices) == (At.RUNNING, {0: timer}, {})
            assert not timer.cancelled()
        assert agent.said(0, ran(number, ""))
        assert (instance.at, agent._timers) == (At.IDLE, {})
        assert list(agent._devices) == [0]
        assert not agent.said(0, ran(number, "")), "it says it twice"

    with_agent(test, 1000.0)


def test_what_a_killed_child_still_said_leaves_the_timer_of_its_return_alone() -> None:
    async def test(agent: Agent) -> None:
        machine = agent.machine
        agent._do(machine.take(changes(given(1, model=LOAD.name)), 0))
        number = machine.instances[0].run
        agent._disarm(0)
        agent._do(machine.overdue(0, number))
        timer = agent._timers[0]
        assert agent.said(0, ran(number, ""))
        assert (agent._timers, agent._devices) == ({0: timer}, {})
        assert not timer.cancelled()
        assert machine.instances[0].at is At.KILLED

    with_agent(test, 1000.0)


def test_what_waits_goes_back_once_a_replacement_takes_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that is back before is not waited for any more."""

    async def test(agent: Agent) -> None:
        machine, model = agent.machine, LOAD.name
        agent._do(machine.take(changes(*[given(each, model=model) for each in (1, 2, 3)]), 0))
        agent.down(0, DIED)
        agent.up(0)
        assert agent._timers == {}
        monkeypatch.setattr(shell, "_SLOW_S", 0.0)
        agent.down(0, DIED)
        assert [each.given.batch for each in machine.holdings.waiting()] == [3]
        agent._has_wishes.clear()
        await agent._has_wishes.wait()
        assert list(machine.holdings.waiting()) == []

    with_agent(test)
