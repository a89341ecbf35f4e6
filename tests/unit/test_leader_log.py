"""The leader over the real log of one node, on a simulated machine with a disk."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from typing import TypeVar

import pytest

from chaos.worlds.loop import VirtualLoop
from chaos.worlds.sim import Machine, SimNode
from coordinator.answers import Ticket
from coordinator.api import Api
from coordinator.core.invariants import check
from coordinator.feed import Feed
from coordinator.leader import Leader
from coordinator.leader_parts import LeaderConfig
from coordinator.log_clock import LogClock
from coordinator.raft.datadir import DataDirectory
from coordinator.raft.log import LogConfig, ReplicatedLog
from coordinator.raft.replication import Window
from coordinator.replica import Replica
from coordinator.submission import Submission
from raftbatch import records as r
from raftbatch.errors import Fatal, OutcomeUnknown
from raftbatch.ids import ClusterId, Identity
from raftbatch.kinds import OutcomeKind
from raftbatch.settings import Policy
from tests.scenarios.fakes import N1, members
from tests.scenarios.node import DIRECTORY, STORAGE
from tests.unit.leader_scene import Asked, admission, join, put, report
from tests.unit.test_core_log import NoPeers

T = TypeVar("T")

CONFIG = LeaderConfig(entry_bytes_max=4096, record_bytes_max=8192)


class Bench:
    """A machine, and the node on it."""

    def __init__(self, loop: VirtualLoop, founding: tuple[r.Record, ...]) -> None:
        self.loop = loop
        self.founding = founding
        self.machine = Machine(loop, 1, "n1", lambda node, why, power: None)
        self.failures: list[Fatal] = []
        self.start()

    def start(self) -> None:
        """Begin a process."""
        self.world: SimNode = self.machine.boot()
        self.world.call(self._boot)
        self.loop.run_for(2.0)

    def _boot(self) -> None:
        if not DataDirectory.is_initialised(self.world, DIRECTORY):
            identity = Identity(ClusterId("0" * 32), N1, 1)
            DataDirectory.create(self.world, DIRECTORY, identity, STORAGE, members(N1))
        self.replica = Replica()
        self.log = ReplicatedLog(
            self.world,
            DIRECTORY,
            STORAGE,
            NoPeers(),
            self.replica,
            LogConfig(window=Window(message_bytes_max=4000, in_flight_bytes_max=4000)),
            self.failures.append,
        )
        clock = LogClock(self.world.clock, self.replica)
        self.leader = Leader(self.world.clock, self.log, self.replica, clock, CONFIG, self.founding)
        self.feed = Feed(self.replica, "n1")
        self.api = Api(self.replica, self.leader, self.log, self.feed, "n1")
        self.replica.listeners += [clock, self.leader, self.feed, self.api]

    def run(self, work: Coroutine[object, object, T]) -> T:
        """Run something of the process to its end."""
        task: asyncio.Task[T] = self.world.process.call(self.loop.create_task, work)
        return self.loop.run_until_complete(task)

    def admit(self, request_id: str) -> Asked:
        """Ask for a request to be admitted."""
        asked = Asked()
        self.world.call(self.leader.admit, admission(request_id), asked)
        return asked


@pytest.fixture
def bench() -> Iterator[Bench]:
    with VirtualLoop() as loop:
        yield Bench(loop, (r.PutPolicy(Policy(tick_ms=20)), put(max_batch_size=2)))


def test_cluster_is_founded_once_whoever_begins_anew(bench: Bench) -> None:
    state = bench.replica.state
    assert bench.leader.is_ready
    assert (state.policy.tick_ms, list(state.models)) == (20, [("m", "1")])
    first_term = state.term
    changed = Asked()
    bench.world.call(bench.leader.propose, r.PutPolicy(Policy(tick_ms=30)), changed)
    bench.loop.run_for(1.0)
    assert changed.landed.verdict == 0
    bench.machine.kill(power=True)
    bench.start()
    assert bench.leader.is_ready
    assert bench.replica.state.term > first_term
    assert bench.replica.state.policy.tick_ms == 30


def test_requests_are_sealed_when_they_are_old_and_go_to_an_executor(bench: Bench) -> None:
    joined = Asked()
    bench.world.call(bench.leader.propose, join(), joined)
    bench.loop.run_for(1.0)
    assert joined.landed.value
    asked = bench.admit("a")
    bench.loop.run_for(1.0)
    assert asked.landed.verdict == 0
    state = bench.replica.state
    check(state)
    assert [each.executor for each in state.batches.values()] == ["gpu-1"]
    bench.loop.run_for(5.0)  # it is not heard of any more
    assert not state.executors


def test_requests_in_flight_are_unknown_when_the_node_stops(bench: Bench) -> None:
    asked = bench.admit("a")
    bench.loop.run_for(0)
    bench.world.call(bench.log.close)
    bench.loop.run_for(0)
    assert isinstance(asked.error, OutcomeUnknown)
    assert not bench.leader.is_ready


def test_request_goes_through_the_whole_shell(bench: Bench) -> None:
    api = bench.api

    async def execute() -> None:
        incarnation = await api.join(r.Join("gpu-1", 0, 1, (("m", "1"),), b""))
        tail = await api.tail("gpu-1", incarnation, [], incarnation)
        done = 0
        while done < 2:
            for each in (await tail.next()).start:
                batch = bench.replica.state.batches[each.batch]
                await api.report(report(batch))
                done += len(batch.members)
        tail.close()

    async def ask() -> list[object]:
        submissions = [
            Submission("t", name, "m", "", "x:FP32[4]", 1, b"payload") for name in ("a", "b", "a")
        ]
        tickets = await api.submit(submissions)
        assert all(isinstance(each, Ticket) for each in tickets)
        found = [await api.outcome("t", name, timeout_ms=1000) for name in ("a", "b")]
        return [getattr(each, "kind", each) for each in found]

    executing = bench.world.process.call(bench.loop.create_task, execute())
    assert bench.run(ask()) == [OutcomeKind.OK, OutcomeKind.OK]
    bench.loop.run_until_complete(executing)
    check(bench.replica.state)
    assert bench.replica.state.executors["gpu-1"].free_slots == 1
    assert bench.leader.counts.stale_total == 0
