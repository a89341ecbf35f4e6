"""What a node holds after many requests is what it held after some.

Counted, not weighed: everything that can be reached from a leader and its replica, as far as it
holds other things. A table, a queue or a note that keeps something of each request shows at once.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator
from types import FunctionType, ModuleType

import pytest

from chaos.worlds.loop import VirtualLoop
from raftbatch import records as r
from raftbatch.settings import Policy
from tests.unit.leader_scene import Scene, join, put, report

ROUNDS, REQUESTS = 12, 64
SLACK = 64
"""Things come and go that no request is behind: timers, a digest's pieces."""


def held(*roots: object, beside: tuple[object, ...] = ()) -> Counter[str]:
    """Return how many things of each kind can be reached, but through what is beside.

    Lists and dictionaries count as many as they hold, so that numbers and texts count too.
    """
    seen = {id(each) for each in beside}
    waiting, found = list(roots), Counter[str]()
    while waiting:
        each = waiting.pop()
        if id(each) in seen or isinstance(each, type | ModuleType | FunctionType):
            continue
        seen.add(id(each))
        size = len(each) if isinstance(each, list | dict | set | tuple) else 0
        found[type(each).__name__] += 1 + size
        waiting += gc.get_referents(each)
    return found


def served(scene: Scene, first: int) -> None:
    """Serve some requests: most run, one is cancelled; the half are acknowledged."""
    scene.asked.clear()
    names = [f"r{number}" for number in range(first, first + REQUESTS)]
    for number, name in enumerate(names):  # some with a deadline, which they keep
        scene.admit(name, timeout_ms=60_000 * (number % 3))
    scene.propose(r.Cancel(("t", "t"), (names[0], "stranger")))
    scene.settle(10)
    while batches := list(scene.replica.state.batches.values()):
        for batch in batches:
            if batch.executor:
                scene.propose(report(batch))
        scene.beat()
        scene.settle(10)
    half = names[::2]  # a client that reads; the other never does
    scene.propose(r.Acknowledge(("t",) * len(half), tuple(half)))
    scene.settle(10)
    scene.beat()


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    with VirtualLoop() as loop:
        yield loop


def test_leader_and_replica_hold_no_more_after_many_requests_than_after_some(
    loop: VirtualLoop,
) -> None:
    scene = Scene(
        loop,
        founding=[r.PutPolicy(Policy(outcome_retention_ms=100, dedupe_retention_ms=200))],
    )
    scene.begin(put(), join(slots=2))
    log = (scene.log, scene.log.entries, scene.loop, scene.log.proposals, scene)
    sizes: list[Counter[str]] = []
    for number in range(ROUNDS):
        served(scene, number * REQUESTS)
        assert not scene.replica.state.requests
        for _ in range(30):
            scene.beat()
            scene.settle(50)
        assert not scene.replica.state.ended
        assert not scene.replica.state.dedupe
        sizes.append(held(scene.leader, scene.replica, beside=log))
    scene.check()
    middle, last = sizes[ROUNDS // 3], sizes[-1]
    assert last.total() - middle.total() < SLACK, last - middle
