"""The leader's shell: terms, entries, and who is told what."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chaos.worlds.loop import VirtualLoop
from tests.unit.leader_scene import Scene, join, put


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    with VirtualLoop() as loop:
        yield loop


def test_request_goes_its_way(loop: VirtualLoop) -> None:
    scene = Scene(loop)
    scene.begin(put(max_batch_size=1), join())
    asked = scene.admit("a")
    scene.turn()
    index = len(scene.log.entries)
    assert scene.records(index) == ["Admit", "Seal", "Assign"]
    assert not asked.answers
    scene.apply()
    assert (asked.landed.index, asked.landed.value) == (index, index)
    scene.check()
