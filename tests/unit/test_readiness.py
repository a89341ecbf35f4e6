"""Whether a node is ready, and for a model; each reason is a sentence that says what is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from coordinator.node import Phase
from coordinator.pulse import Pulse
from coordinator.readiness import why_no_model, why_not_ready
from raftbatch import records as r
from raftbatch.errors import DiskFailed, Draining
from raftbatch.settings import Model
from tests.unit.http_scene import N2, HttpScene


class _Pulse:
    committed = 9


@pytest.fixture
def scene(tmp_path: Path) -> HttpScene:
    """Return a node that is ready."""
    return HttpScene(tmp_path)


def why(scene: HttpScene, committed: int = 9) -> str:
    """Return why it is not ready."""
    pulse = _Pulse()
    pulse.committed = committed
    return "; ".join(why_not_ready(scene.node, cast("Pulse", pulse)))


def test_node_that_serves_is_ready(scene: HttpScene) -> None:
    assert why(scene) == ""


def test_node_that_starts_says_for_whom_it_waits(scene: HttpScene) -> None:
    scene.node.log = None
    scene.node.phase = Phase.STARTING
    assert why_not_ready(scene.node, None) == ["this node starts"]
    scene.node.waiting = lambda: {N2: "it does not answer"}
    assert why_not_ready(scene.node, None) == ["this node waits for n2: it does not answer"]


def test_node_without_a_leader_or_behind_is_not_ready(scene: HttpScene) -> None:
    log = scene.log
    log.leader = None
    assert "no leader is known" in why(scene)
    log.leader = N2
    assert why(scene) == ""
    log.term = 2
    assert "of term 2, is not applied yet" in why(scene)
    log.term = 1
    assert why(scene, committed=10) == "9 is applied, but 10 was committed seconds ago"


def test_node_that_stops_or_has_failed_is_not_ready(scene: HttpScene) -> None:
    scene.log.failure = DiskFailed("the disk is gone")
    assert why(scene) == "this node has failed: the disk is gone"
    scene.node.stop_taking()
    assert why(scene) == "this node stops"


def test_node_that_has_erred_is_not_ready_and_tells_nothing_of_its_state(scene: HttpScene) -> None:
    assert scene.node.state_to_read() is scene.replica.state
    assert scene.node.scheduler is not None
    cast("Any", scene.node.scheduler).has_erred = True
    assert why(scene) == "this node stops: its state is not what a majority has"
    with pytest.raises(Draining, match="not to be trusted"):
        scene.node.state_to_read()
    with pytest.raises(Draining, match="not to be trusted"):
        scene.node.models("")


def test_model_is_ready_where_an_executor_has_it_and_takes_batches(scene: HttpScene) -> None:
    node = scene.node
    assert why_no_model(node, "m", "") == ["no executor has m/1 ready"]
    assert why_no_model(node, "x", "") == ["there is no model x"]
    assert why_no_model(node, "m", "7") == ["there is no model m, version 7"]
    scene.join("gpu-1")
    assert why_no_model(node, "m", "") == why_no_model(node, "m", "1") == []
    live = scene.state.executors["gpu-1"]
    scene.one(r.Drain("gpu-1", live.incarnation, True))
    assert why_no_model(node, "m", "1") == [
        "no executor has m/1 ready: gpu-1 drain, or are suspended"
    ]


def test_model_without_a_version_is_its_newest(scene: HttpScene) -> None:
    scene.join("gpu-1")
    scene.put(Model("m", "2"))
    api = scene.node.api
    api._newest = None  # as its own listening does
    assert why_no_model(scene.node, "m", "") == ["no executor has m/2 ready"]
    assert why_no_model(scene.node, "m", "1") == []
    scene.one(r.DeleteModel("m", "2"))
    api._newest = None
    assert why_no_model(scene.node, "m", "") == []
