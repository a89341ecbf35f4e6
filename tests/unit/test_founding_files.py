"""First start: nodes whose files differ in what must be equal found nothing together."""

from __future__ import annotations

from coordinator.raft.about import About
from coordinator.raft.membership import founders
from tests.unit.founding_scene import MEMBERS, N1, N2, N3, begin, die_with_plan


def _about(heartbeat_ms: int) -> About:
    return About("", "", (("cluster.name", "a"), ("timing.heartbeat_ms", heartbeat_ms)))


def test_nodes_whose_files_differ_found_nothing_until_they_agree() -> None:
    with begin() as scene:
        for node in (N1, N2, N3):
            scene.world.seats[node].about = _about(100 if node == N2 else 50)
        scene.start(N1, N2, N3)
        scene.run()
        assert [scene.identity(node) for node in (N1, N2, N3)] == [None] * 3
        said = "timing.heartbeat_ms is 50 in the file of n1, and 100 in n2's"
        other = "timing.heartbeat_ms is 100 in the file of n2, and 50 in n1's"
        for node in (N1, N2):
            assert said in scene.says(node) or other in scene.says(node)
        assert "waits for others" in scene.says(N3), "its file is like the founder's"
        scene.world.kill(N2, power=False)
        scene.world.seats[N2].about = _about(50)
        scene.start(N2)
        scene.run(5)
        assert scene.serving() == [N1, N2, N3]


def test_members_that_differ_are_said_before_all_else() -> None:
    with begin() as scene:
        seat = scene.world.seats[N2]
        seat.about, seat.founders = _about(9), founders({N1: "n1:1", N2: "n2:2", N3: "n3:1"})
        scene.start(N1, N2, N3)
        scene.run()
        assert scene.serving() == []
        assert "n2 at n2:" in scene.says(N1)
        assert seat.founders != MEMBERS


def test_file_that_is_changed_after_the_plan_is_refused_until_it_is_put_back() -> None:
    """Whoever said Empty with another file than it has now is not adopted unawares."""
    with begin() as scene:
        for node in (N1, N2, N3):
            scene.world.seats[node].about = _about(50)
        die_with_plan(scene)
        scene.start(N1, N2, N3)
        scene.run(5)
        assert not scene.world.is_up(N1)
        scene.world.kill(N3, power=False)
        scene.world.seats[N3].about = _about(60)
        scene.start(N1, N3)
        scene.run(5)
        assert scene.identity(N3) is None
        assert "timing.heartbeat_ms is 60 in the file of n3, and 50 in n1's" in scene.says(N1)
        scene.world.kill(N3, power=False)
        scene.world.seats[N3].about = _about(50)
        scene.start(N3)
        scene.run(5)
        assert scene.serving() == [N1, N2, N3]
