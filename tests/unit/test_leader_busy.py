"""Executors are all busy for a minute: whoever hurries is answered in time, and nothing of it runs.

Seen at triton#7512. A leader over a log in memory, in virtual time, so the bound is exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from chaos.worlds.loop import VirtualLoop
from coordinator.core.values import Outcome
from coordinator.core.watch import Holding
from raftbatch.kinds import OutcomeKind
from tests.unit.leader_scene import Scene, join, put, report

MINUTE_MS = 60_000
TIMEOUT_MS, ANSWERED_MS = 1_000, 1_100
EACH_MS = 20  # between two looks


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    with VirtualLoop() as loop:
        yield loop


def test_requests_in_a_hurry_are_answered_while_all_are_busy_for_a_minute(
    loop: VirtualLoop,
) -> None:
    scene, rng = Scene(loop), Random(7)
    scene.begin(put(max_batch_size=4, execution_timeout_microseconds=120_000_000), join())
    scene.admit("long")
    scene.settle(100)
    state = scene.replica.state
    [busy] = state.batches.values()
    held = Holding(busy.number, busy.fence, True)
    came_ms: dict[str, int] = {}
    answered_ms: dict[str, int] = {}
    for now_ms in range(0, MINUTE_MS, EACH_MS):
        for name in [name for name in came_ms if name not in answered_ms]:
            outcome = state.request("t", name)
            if isinstance(outcome, Outcome):
                assert outcome.kind is OutcomeKind.EXPIRED
                answered_ms[name] = now_ms - came_ms[name]
        if now_ms < MINUTE_MS - 2 * TIMEOUT_MS and rng.random() < 0.1:
            name = f"hurried{now_ms}"
            came_ms[name] = now_ms
            scene.admit(name, timeout_ms=TIMEOUT_MS)
        scene.beat(held)
        scene.settle(EACH_MS)
    assert len(answered_ms) == len(came_ms) > 100
    assert min(answered_ms.values()) >= TIMEOUT_MS
    assert max(answered_ms.values()) <= ANSWERED_MS
    scene.propose(report(busy))
    scene.settle(TIMEOUT_MS)
    assert state.counters.completed == 1
    assert not state.requests
    assert state.next_batch == busy.number + 1, "none of them was in a batch"
    scene.check()
