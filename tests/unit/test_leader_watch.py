"""What heartbeats and silence make the leader propose."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chaos.worlds.loop import VirtualLoop
from coordinator.core.watch import Holding
from coordinator.leader_parts import LeaderConfig
from raftbatch import records as r
from raftbatch.errors import PayloadTooLarge
from raftbatch.kinds import LapseReason
from tests.unit.leader_scene import Scene, join, put, report

LEASE_MS = 800


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    with VirtualLoop() as loop:
        yield loop


def _scene(loop: VirtualLoop, *executors: str, **settings: object) -> Scene:
    scene = Scene(loop, config=LeaderConfig(lease_ms=LEASE_MS))
    fast = {"max_batch_size": 1, "backoff_initial_ms": 0, **settings}
    scene.begin(put(**fast), *[join(each) for each in executors or ("gpu-1",)])
    return scene


def _held(scene: Scene, batch: int, *, runs: bool = True) -> Holding:
    return Holding(batch, scene.replica.state.batches[batch].fence, runs)


def _last(scene: Scene) -> list[r.Record]:
    return list(scene.entry(len(scene.log.entries)).records)


def test_assignment_that_an_executor_does_not_hold_is_lapsed_once(loop: VirtualLoop) -> None:
    scene = _scene(loop)
    scene.admit("a")
    scene.settle()
    fence = scene.replica.state.batches[1].fence
    scene.beat(tailed_index=fence - 1)  # it has not heard of it yet
    scene.settle()
    assert scene.replica.state.batches[1].fence == fence
    scene.beat(tailed_index=fence)
    scene.beat(tailed_index=fence)
    scene.turn()
    scene.beat(tailed_index=fence)
    scene.turn()
    lapses = [each for each in _last(scene) if isinstance(each, r.Lapse)]
    assert [(each.fence, each.reason) for each in lapses] == [(fence, LapseReason.REFUSED)]
    scene.settle(1)
    assert scene.replica.state.batches[1].assigned == 2
    assert scene.replica.state.counters.lapsed == 1
    scene.check()


def test_executor_that_begins_nothing_gets_nothing_either_once_the_outlook_is_another(
    loop: VirtualLoop,
) -> None:
    scene = Scene(loop, config=LeaderConfig(lease_ms=LEASE_MS, unbegun_ms=2000))
    model = put(max_batch_size=1, execution_timeout_microseconds=1_000_000)
    scene.begin(model, join("gpu-1"), join("gpu-2"))
    scene.admit("a")
    scene.settle()
    hog = scene.replica.state.batches[1].executor
    [other] = {"gpu-1", "gpu-2"} - {hog}
    for _ in range(2 * 3000 // LEASE_MS + 2):
        scene.beat(executor=other)
        scene.beat(_held(scene, 1, runs=False), executor=hog)
        scene.settle()
        if scene.replica.state.batches[1].executor == other:
            break
        scene.settle(LEASE_MS // 2)
    assert scene.replica.state.batches[1].executor == other
    assert scene.replica.state.batches[1].code == "not_begun"


def test_heartbeats_that_come_while_no_entry_may_be_made_are_looked_at_later(
    loop: VirtualLoop,
) -> None:
    scene = _scene(loop)
    scene.admit("a")
    scene.settle()
    fence = scene.replica.state.batches[1].fence
    for name in "bc":
        scene.admit(name)
        scene.turn()
    entries = len(scene.log.entries)
    scene.beat(tailed_index=fence)
    scene.turn()
    assert len(scene.log.entries) == entries
    scene.apply(1)
    assert [type(each) for each in _last(scene)] == [r.Lapse]
    scene.settle()
    scene.check()


def test_batch_that_runs_for_too_long_is_taken_back(loop: VirtualLoop) -> None:
    scene = _scene(loop, execution_timeout_microseconds=300_000)
    scene.admit("a")
    scene.settle()
    held = _held(scene, 1)
    scene.beat(held, tailed_index=held.fence)
    scene.settle(200)
    scene.beat(held, tailed_index=held.fence)
    scene.settle(99)
    assert scene.replica.state.counters.lapsed == 0
    scene.settle(2)
    assert scene.replica.state.counters.lapsed == 1
    assert [each.is_lapsed for each in scene.replica.state.executors["gpu-1"].held] == [True]
    scene.beat(tailed_index=held.fence)  # it has stopped: the slot returns
    scene.settle(2)
    assert scene.replica.state.batches[1].assigned == 2
    scene.check()


def test_executor_that_is_silent_is_lost_and_its_work_goes_to_another(loop: VirtualLoop) -> None:
    scene = _scene(loop, "gpu-1", "gpu-2")
    scene.admit("a")
    scene.settle()
    first = scene.replica.state.batches[1].executor
    other = {"gpu-1": "gpu-2", "gpu-2": "gpu-1"}[first]
    for _ in range(7):
        scene.settle(100)
        scene.beat(executor=other)
    assert sorted(scene.replica.state.executors) == ["gpu-1", "gpu-2"]
    for _ in range(2):
        scene.settle(100)
        scene.beat(executor=other)
    scene.settle(100)
    assert list(scene.replica.state.executors) == [other]
    assert scene.replica.state.batches[1].executor == other
    scene.check()


def test_new_leader_gives_every_executor_a_whole_lease(loop: VirtualLoop) -> None:
    scene = _scene(loop)
    scene.settle(700)
    scene.depose()
    scene.loop.run_for(5.0)
    scene.elect()
    scene.settle()
    scene.settle(700)
    assert list(scene.replica.state.executors) == ["gpu-1"]
    scene.settle(300)
    assert not scene.replica.state.executors
    scene.check()


def test_nobody_is_judged_by_a_leader_that_stood_still(loop: VirtualLoop) -> None:
    scene = _scene(loop)
    scene.settle(200)
    scene.process.pause()
    scene.loop.run_for(5.0)
    scene.process.resume()
    scene.settle(700)
    assert list(scene.replica.state.executors) == ["gpu-1"]
    assert scene.leader.counts.stalls_total == 1
    scene.settle(300)
    assert not scene.replica.state.executors
    scene.check()


def test_executor_that_joins_has_a_lease_and_one_that_leaves_has_none(loop: VirtualLoop) -> None:
    scene = _scene(loop)
    scene.settle(500)
    scene.propose(join("gpu-2"))
    life = scene.replica.state.executors["gpu-1"].incarnation
    scene.propose(r.Leave("gpu-1", life, False, ()))
    scene.settle()
    scene.settle(500)
    assert list(scene.replica.state.executors) == ["gpu-2"]
    scene.settle(500)
    assert not scene.replica.state.executors
    lost = [
        each
        for index in range(1, len(scene.log.entries) + 1)
        for each in scene.entry(index).records
        if isinstance(each, r.Leave) and each.lost
    ]
    assert [each.executor for each in lost] == ["gpu-2"]
    scene.check()


def test_leader_learns_how_long_batches_run(loop: VirtualLoop) -> None:
    scene = _scene(loop, max_batch_size=4, max_queue_delay_microseconds=1_000_000)
    for name in "abcd":
        scene.admit(name)
    scene.settle()
    scene.propose(report(scene.replica.state.batches[1], infer_ms=400))
    scene.settle()
    # Sealed so long before its deadline that it can still be kept.
    scene.admit("e", timeout_ms=700)
    scene.settle(290)
    assert not scene.replica.state.batches
    scene.beat()
    scene.settle(10)
    assert list(scene.replica.state.batches) == [2]
    scene.check()
    # A model that is gone is forgotten.
    scene.propose(r.DeleteModel("m", "1"))
    scene.propose(report(scene.replica.state.batches[2]))
    scene.settle(100)
    current = scene.leader._current
    assert current is not None
    assert current._decider is not None
    assert current._decider.run_ms == {}


def test_executor_found_lost_in_an_entry_that_no_log_takes_is_found_lost_again(
    loop: VirtualLoop,
) -> None:
    scene = _scene(loop)
    scene.log.refusal = PayloadTooLarge("too large for this log")
    loop.run_for(1.2 * LEASE_MS / 1000)
    assert scene.leader.counts.rejected_total == 1
    scene.log.refusal = None
    for _ in range(12):
        scene.settle(LEASE_MS // 8)
    assert not scene.replica.state.executors


def test_heartbeats_that_ask_for_much_are_taken_over_several_entries(
    loop: VirtualLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coordinator.leadership._HEARD_MAX", 2)
    executors = [f"gpu-{number}" for number in range(5)]
    scene = _scene(loop, *executors)
    for number in range(5):
        scene.admit(f"{number}")
    scene.settle()
    before, fences = len(scene.log.entries), len(scene.log.entries)
    assert all(each.held for each in scene.replica.state.executors.values())
    for executor in executors:
        scene.beat(executor=executor, tailed_index=fences)
    scene.settle()
    lapses = [
        sum(isinstance(each, r.Lapse) for each in scene.entry(index + 1).records)
        for index in range(before, len(scene.log.entries))
    ]
    assert [each for each in lapses if each] == [2, 2, 1]
