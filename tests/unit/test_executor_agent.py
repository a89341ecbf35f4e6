"""How the executor's shell minds the time for its machine."""

from __future__ import annotations

import pytest

from executor import agent as shell
from executor.agent import Agent
from executor.config import ExecutorConfig, ModelConfig
from executor.core.values import Failure
from executor.link import Link
from raftbatch.realworld import RealClock
from tests.unit.machine_scene import changes, given
from tests.unit.test_executor_child import LOAD, run
from tests.unit.test_executor_crew import FakeChildren, FakeEntropy

DIED = Failure("child_died", "")


def test_what_waits_goes_back_once_a_replacement_takes_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that is back before is not waited for any more."""

    async def test() -> None:
        entropy = FakeEntropy()
        config = ExecutorConfig("x", (ModelConfig(LOAD, 1, 1, 0.0),), {"n1": "127.0.0.1:1"})
        link = Link(config.addresses, entropy)
        agent = Agent(config, link, FakeChildren(), RealClock(), entropy)
        machine, model = agent.machine, LOAD.name
        agent.up(0)
        machine.begin(7, machine.ready)
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
        await link.close()

    run(test())
