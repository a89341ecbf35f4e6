"""Crash points have names, nodes die exactly there, and a run says which were never reached."""

from __future__ import annotations

import typing
from collections import Counter
from random import Random

import pytest

from chaos.faults import Site
from chaos.point_faults import PointNemesis, crash_at_point
from chaos.worlds.loop import VirtualLoop
from chaos.worlds.points import POINTS, disk_point, missed, send_point, told, without_points
from coordinator.raft.messages import Message, TimeoutNow
from tests.unit.sim_example import IDS, Cluster


def _site(cluster: Cluster) -> Site:
    return Site(cluster, Random(5), cluster.leader, power=0.0)


@pytest.mark.parametrize(
    ("operation", "path", "name"),
    [
        ("datasync", "/data/journal/segment-00000000000000000001", "segment.datasync before"),
        ("rename", "/data/journal/segment-00000000000000000002.tmp", "segment.rename before"),
        ("write", "/data/journal/mark", "mark.write before"),
        ("write", "/data/snapshots/snapshot-9-2.tmp", "snapshot.write before"),
        ("sync_directory", "/data/snapshots", "snapshots.sync_directory before"),
        ("sync_directory", "/data/journal", "journal.sync_directory before"),
        ("lock", "/data/lock", "data.lock before"),
    ],
)
def test_point_of_a_disk_is_named_by_file_operation_and_moment(
    operation: str, path: str, name: str
) -> None:
    assert disk_point(operation, path, "before") == name


def test_every_kind_of_message_has_its_two_points() -> None:
    assert send_point(TimeoutNow(3), "after") == "send.TimeoutNow after"
    kinds = {kind.__name__ for kind in typing.get_args(Message)}
    named = {point.partition(".")[2].split()[0] for point in POINTS if point.startswith("send.")}
    assert named == kinds
    assert len(set(POINTS)) == len(POINTS)


@pytest.mark.parametrize(
    "point",
    ["segment.write within", "segment.datasync before", "mark.write after", "send.str after"],
)
def test_node_dies_at_the_point_and_nowhere_else(point: str) -> None:
    with VirtualLoop() as loop:
        cluster = Cluster(loop, 1)
        cluster.start_all()
        loop.run_for(1.0)
        crash_at_point(_site(cluster), point)
        loop.run_for(2.0)
        died = [line.partition("died: ")[2] for line in cluster.happened if "died: " in line]
        assert [why.partition(",")[0] for why in died] == [point]
        assert sum((cluster.machines[node].points for node in IDS), Counter()) == {point: 1}


@pytest.mark.parametrize("point", ["segment.datasync after", "send.str before"])
def test_nobody_dies_at_a_point_that_was_healed(point: str) -> None:
    with VirtualLoop() as loop:
        cluster = Cluster(loop, 1)
        cluster.start_all()
        loop.run_for(1.0)
        crash_at_point(_site(cluster), point)()
        loop.run_for(2.0)
        assert not any("died" in line for line in cluster.happened)


def test_two_points_of_one_nodes_sends_are_both_reached() -> None:
    with VirtualLoop() as loop:
        cluster = Cluster(loop, 1)
        cluster.start_all()
        loop.run_for(1.0)
        for point in ("send.str before", "send.str after"):
            crash_at_point(_site(cluster), point)
        loop.run_for(2.0)
        assert sum("died: send.str" in line for line in cluster.happened) == 2


def test_nemesis_of_points_strikes_until_it_is_told_to_end() -> None:
    with VirtualLoop() as loop:
        cluster = Cluster(loop, 1)
        cluster.deaths.append(lambda node, _why: loop.after(0.1, cluster.start, node))
        cluster.start_all()
        nemesis = PointNemesis(_site(cluster))
        nemesis.begin()
        loop.run_for(30.0)
        nemesis.end()
        loop.run_for(1.0)
        deaths = str(cluster.happened).count("died")
        assert deaths > 3
        loop.run_for(10.0)
        assert str(cluster.happened).count("died") == deaths


def test_what_was_never_reached_is_told() -> None:
    counts = {
        "seeds": 2,
        **told([Counter({POINTS[0]: 2}), Counter({POINTS[0]: 1, "data.lock": 1})]),
    }
    assert counts[f"at {POINTS[0]}"] == 3
    assert missed(counts) == list(POINTS[1:])
    assert without_points(counts) == {"seeds": 2, "points": 1}
    assert without_points({"seeds": 2}) == {"seeds": 2}, "a suite without points"
