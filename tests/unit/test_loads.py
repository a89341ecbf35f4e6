"""Loads of executors: the newest of each life that is live, for a while; and what may be one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chaos.worlds.loop import VirtualLoop
from coordinator.core.values import Executor
from coordinator.loads import DeviceLoad, Load, Loads, ModelLoad
from coordinator.overview import overview
from coordinator.rpc.loads import load_message, load_of
from raftbatch.settings import LOAD_ITEMS_MAX
from raftbatch.v1 import load_pb2 as pb
from tests.unit.core.tables import Core

LOAD = Load(
    1, 2, 300, 4 << 20, 5 << 20, (ModelLoad(("m", "1"), 2, 1),), (DeviceLoad("cuda:0", 6, 7),)
)


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    """Yield a loop on virtual time."""
    with VirtualLoop() as loop:
        yield loop


def live(incarnation: int, name: str = "gpu-1") -> dict[str, Executor]:
    """Return an executor that is live."""
    return {name: Executor(name, incarnation, 1, (), b"")}


def test_load_is_that_of_the_life_that_is_live(loop: VirtualLoop) -> None:
    async def main() -> None:
        loads = Loads()
        loads.take("gpu-1", 7, LOAD)
        assert loads.of(live(7)) == {"gpu-1": LOAD}
        assert loads.of(live(8)) == {}
        assert loads.of({}) == {}
        newer = Load(0, 0, 0, 0, 0)
        loads.take("gpu-1", 7, newer)
        assert loads.of(live(7)) == {"gpu-1": newer}

    loop.run_until_complete(main())


def test_old_load_says_nothing_any_more_and_is_let_go(loop: VirtualLoop) -> None:
    async def take(name: str) -> dict[str, Load]:
        loads.take(name, 7, LOAD)
        return loads.of(live(7) | live(7, "gpu-2"))

    async def known() -> dict[str, Load]:
        return loads.of(live(7))

    loads = Loads()
    assert loop.run_until_complete(take("gpu-1")) == {"gpu-1": LOAD}
    loop.run_for(1.5 * loads.fresh_s)
    assert loop.run_until_complete(known()) == {}
    assert loop.run_until_complete(take("gpu-2")) == {"gpu-2": LOAD}
    assert list(loads._loads) == ["gpu-2"]


def test_load_travels_whole() -> None:
    assert load_of(load_message(LOAD)) == LOAD
    empty = Load(0, 0, 0, 0, 0)
    assert load_of(pb.ExecutorLoad()) == empty


@pytest.mark.parametrize(
    "message",
    [
        pb.ExecutorLoad(cpu_permille=1001),
        pb.ExecutorLoad(running=1 << 20),
        pb.ExecutorLoad(memory_bytes=1 << 60),
        pb.ExecutorLoad(models=[pb.ModelLoad(name="m", version="1", instances=1, busy=2)]),
        pb.ExecutorLoad(models=[pb.ModelLoad(name="", version="1")]),
        pb.ExecutorLoad(models=[pb.ModelLoad(name="m", version="1\0")]),
        pb.ExecutorLoad(models=[pb.ModelLoad(name="m", version="1")] * (LOAD_ITEMS_MAX + 1)),
        pb.ExecutorLoad(devices=[pb.DeviceLoad(device="x" * 300)]),
        pb.ExecutorLoad(devices=[pb.DeviceLoad(device="cuda", memory_limit_bytes=1 << 60)]),
    ],
)
def test_load_that_makes_no_sense_is_none(message: pb.ExecutorLoad) -> None:
    assert load_of(message) is None


def test_overview_shows_the_load_of_those_that_have_one() -> None:
    core = Core(executors=("gpu-1", "gpu-2"))
    found = overview(core.state, {"gpu-2": LOAD})
    assert [each.load for each in found.executors] == [None, LOAD]
