"""What operators and executors bring into the state: within its bounds, whichever way it comes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace

import pytest

from chaos.worlds.loop import VirtualLoop
from coordinator.bounds import most
from coordinator.core.snapshot import Capture
from coordinator.core.texts import size_of
from coordinator.core.values import Held
from coordinator.stated import (
    EXECUTOR_BYTES_MAX,
    MESSAGES_BYTES_MAX,
    SETTINGS_BYTES_MAX,
    bounded,
    settings_bytes,
)
from raftbatch import records as r
from raftbatch.errors import InvalidRequest, Overloaded
from raftbatch.kinds import LapseReason, Ran
from raftbatch.settings import Model, Policy, TenantLimits
from tests.unit.core.tables import Core
from tests.unit.leader_scene import Scene, put

CLEF = "\U0001d11e"
LAPSE = r.Lapse(1, 1, 1, LapseReason.FAILED, Ran.YES, True, "broke", "it")


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    with VirtualLoop() as loop:
        yield loop


def _settings() -> Iterator[tuple[str, r.Record]]:
    """Yield settings with one number beyond its bound, and what they are called."""
    for kind, table in (
        (Policy, "policy"),
        (TenantLimits, "policy.tenants.t"),
        (Model, "models.m"),
    ):
        for each in fields(kind):
            if each.type != "int":
                continue
            value: dict[str, int] = {each.name: most(table, each.name) + 1}
            said = f"{table}.{each.name}"
            try:
                if kind is Policy:
                    yield said, r.PutPolicy(replace(Policy(), **value))  # type: ignore[arg-type]
                elif kind is Model:
                    yield said, r.PutModel(replace(Model("m", "1"), **value))  # type: ignore[arg-type]
                else:
                    own = replace(TenantLimits("t", 1, 1, 1, 128), **value)  # type: ignore[arg-type]
                    yield said, r.PutPolicy(Policy(tenants=(own,)))
            except ValueError:
                continue  # narrower already, wherever it comes from


def test_numbers_that_come_while_it_runs_have_the_bounds_of_the_file(loop: VirtualLoop) -> None:
    scene = Scene(loop)
    scene.begin(put())
    entries, tried = len(scene.log.entries), 0
    for said, record in _settings():
        with pytest.raises(InvalidRequest) as refused:
            scene.propose(record)
        bound = most(*said.rsplit(".", 1))
        assert refused.value.message == f"{said} is {bound + 1}, which is more than {bound}"
        tried += 1
    assert tried > 35
    scene.settle()
    assert len(scene.log.entries) == entries, "nothing was proposed"
    scene.propose(r.PutPolicy(Policy()))
    scene.propose(put(max_batch_size=8))
    scene.settle()


def test_settings_are_bounded_in_all(loop: VirtualLoop) -> None:
    scene = Scene(loop)
    scene.begin(put())
    for version in "234567890":
        model = Model("m", version, config=bytes(1 << 20))
        if version == "9":
            with pytest.raises(Overloaded, match=f"at most {SETTINGS_BYTES_MAX}") as refused:
                scene.propose(r.PutModel(model))
            assert refused.value.definite
            break
        scene.propose(r.PutModel(model))
        scene.settle()
    scene.propose(r.PutModel(Model("m", "2", config=bytes(1 << 20))))
    tenants = tuple([TenantLimits(f"{n:0254}", 1, 1, 1) for n in range(10_000)])
    with pytest.raises(Overloaded):
        scene.propose(r.PutPolicy(Policy(tenants=tenants)))
    scene.propose(r.DeleteModel("m", "3"))
    scene.settle()
    assert ("m", "3") not in scene.replica.state.models
    scene.propose(r.PutModel(Model("m", "9", config=bytes(1 << 20))))


def test_settings_take_no_more_of_a_snapshot_than_is_said() -> None:
    core = Core()
    empty = sum(map(len, Capture(core.state).chunks())) - settings_bytes(Policy(), ())
    tenants = tuple([TenantLimits(CLEF * 4 + f"{n:03}", *[1 << 62] * 4) for n in range(100)])
    core.one(r.PutPolicy(Policy(tenants=tenants)))
    for n in range(20):
        core.put(Model(CLEF * 256, f"{n}", content=bytes(500), config=bytes(500)))
    core.admit("a", key=(CLEF * 256, "1", ""))
    core.do(*[r.DeleteModel(CLEF * 256, f"{n}") for n in range(20)])
    state = core.state
    said = settings_bytes(state.policy, state.models.values())
    assert sum(map(len, Capture(state).chunks())) - empty <= said + 10_000


def test_executor_says_no_more_of_itself_than_may_be(loop: VirtualLoop) -> None:
    scene = Scene(loop)
    scene.begin(put())
    many = tuple([(f"{n:0250}", "1") for n in range(200)])
    for join in (
        r.Join("gpu-1", 0, 1, (), bytes(50_000)),
        r.Join("gpu-1", 0, 1, many[:170], b""),
        r.Join(CLEF * 256, 0, 1, (), bytes(40_200)),
    ):
        with pytest.raises(InvalidRequest, match="says of itself takes"):
            scene.propose(join)
    scene.propose(r.Join("gpu-1", 0, 1024, many[:80], bytes(19_000)))
    scene.settle()
    live = scene.replica.state.executors["gpu-1"]
    ready = r.Ready("gpu-1", live.incarnation, many[:120])
    with pytest.raises(InvalidRequest, match="gpu-1 says of itself"):
        scene.propose(ready)
    scene.propose(replace(ready, models=many[:10]))
    state = scene.replica.state
    held = tuple([Held((1 << 60) + n, 1 << 60, False) for n in range(1024)])
    state.executors["gpu-1"] = replace(live, attributes=bytes(19_000), models=many[:80], held=held)
    taken = sum(map(len, Capture(state).chunks()))
    del state.executors["gpu-1"]
    assert taken - sum(map(len, Capture(state).chunks())) <= EXECUTOR_BYTES_MAX


def test_what_is_said_of_failed_batches_is_cut_the_shorter_the_more_there_are() -> None:
    core = Core()
    state = core.state
    assert bounded(state, LAPSE) is LAPSE
    long = replace(LAPSE, code=CLEF * 256, message="x" + CLEF * 4095)
    total = 0
    for batches in (0, 63, 64, 1000, 100_000, 2_000_000):
        state.batches = dict.fromkeys(range(batches))  # type: ignore[assignment]
        cut = bounded(state, long)
        assert isinstance(cut, r.Lapse)
        assert (cut.batch, size_of(cut.code)) == (1, 40)
        assert long.message.startswith(cut.message)
        room = (1 << 20) // max(1, batches)
        assert room - 4 < size_of(cut.message) <= room or cut.message == long.message
    state.batches = {}
    total = sum([min(4 * 4096, (1 << 20) // max(1, n)) for n in range(1_000_000)])
    assert total < MESSAGES_BYTES_MAX
