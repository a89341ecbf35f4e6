"""First start: founding, joining, and what an empty directory may not do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chaos.suites.founding_world import DIRECTORY
from chaos.worlds.hooks import Crash
from coordinator.founding import DOUBTS_MAX
from coordinator.note import Note, Notes
from coordinator.raft.membership import founders
from coordinator.starting import PAUSE_S, Mode
from raftbatch.ids import NodeId
from tests.unit.founding_scene import (
    MEMBERS,
    N1,
    N2,
    N3,
    N4,
    Scene,
    begin,
    die_at,
    die_with_plan,
)


@pytest.fixture
def scene() -> Iterator[Scene]:
    with begin() as scene:
        yield scene


def test_cluster_is_founded_by_all_at_once(scene: Scene) -> None:
    scene.start(N1, N2, N3)
    scene.run(2)
    assert scene.serving() == [N1, N2, N3]
    for node in (N1, N2, N3):
        disk = scene.world.seats[node].machine.disk
        assert sorted(disk.list(DIRECTORY)) == ["journal", "lock"]


def test_founding_waits_for_ever_and_says_for_whom(scene: Scene) -> None:
    scene.start(N1, N2)
    scene.run()
    assert scene.serving() == []
    assert "n3: it does not answer: n3:1: connection refused" in scene.says(N1)
    assert "it waits for others" in scene.says(N2)
    scene.start(N3)
    scene.run(2)
    assert scene.serving() == [N1, N2, N3]


@pytest.mark.parametrize("wiped", [N1, N2, N3])
def test_wiped_voter_beside_two_unreachable_ones_does_not_start(
    scene: Scene, wiped: NodeId
) -> None:
    scene.start(N1, N2, N3)
    scene.run(2)
    for node in (N1, N2, N3):
        scene.world.kill(node, power=False)
    scene.world.wipe(wiped)
    scene.start(wiped)
    scene.run()
    assert scene.identity(wiped) is None
    assert "does not answer" in scene.says(wiped)


def _points() -> list[tuple[NodeId, int]]:
    """Return each operation that a disk does in a founding without faults, and who does it."""
    with begin() as scene:
        scene.start(N1, N2, N3)
        scene.run(2)
        seats = scene.world.seats
        disks = {node: seat.machine.disk.operations for node, seat in seats.items()}
    return [(node, at) for node, count in disks.items() for at in range(1, count + 1)]


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("power", [False, True])
def test_founding_goes_on_after_a_crash_at_any_point(after: bool, power: bool) -> None:
    for node, at in _points():
        with begin() as scene:
            die_at(scene, node, at, after=after, power=power)
            scene.start(N1, N2, N3)
            scene.run(3)
            assert not scene.world.is_up(node), (node, at)
            scene.start(node)
            scene.run(10)
            assert scene.serving() == [N1, N2, N3], (node, at, scene.says(node))


@pytest.mark.slow
def test_founding_survives_the_loss_of_a_disk_at_any_point() -> None:
    """Or nobody has a majority, and each says what it waits for, or what to do."""
    stuck = 0
    for node, at in _points():
        with begin() as scene:
            die_at(scene, node, at, after=True, power=True)
            scene.start(N1, N2, N3)
            scene.run(3)
            scene.world.wipe(node)
            scene.heal()
            if scene.serving() != [N1, N2, N3]:
                stuck += 1
                assert node == N1, (node, at)  # its plan is lost, and some had adopted it
                assert len(scene.serving()) == 1
                assert scene.says(N1), scene.says(N2)
    assert stuck <= 4


def test_node_that_lost_its_disk_is_told_to_join_and_does(scene: Scene) -> None:
    scene.start(N1, N2, N3)
    scene.run(2)
    scene.world.kill(N3, power=False)
    scene.world.wipe(N3)
    scene.start(N3)
    scene.run(5)
    assert "this cluster runs already: n1 belongs to cluster" in scene.says(N3)
    assert "raftbatch serve --node n3 --config FILE --join" in scene.says(N3)
    scene.start(N3, mode=Mode.JOIN)
    scene.run(5)
    assert str(scene.identity(N3)).startswith("n3 (incarnation 2)")
    assert scene.serving() == [N1, N2, N3]


def test_node_that_lost_its_disk_between_empty_and_adopt_is_not_adopted(scene: Scene) -> None:
    die_with_plan(scene)
    scene.start(N1, N2, N3)
    scene.run(2)
    assert Notes(scene.world.seats[N1].machine.disk, DIRECTORY).read().plan  # type: ignore[union-attr]
    scene.world.kill(N3, power=False)
    scene.world.wipe(N3)
    scene.start(N3, N1)
    scene.run(5)
    assert scene.serving() == [N1, N2]
    assert "was founded with what n3 had on its disk before, which is lost" in scene.says(N3)
    scene.start(N3, mode=Mode.JOIN)
    scene.run(5)
    assert scene.serving() == [N1, N2, N3]


def test_founder_gives_up_where_too_few_kept_their_disks(scene: Scene) -> None:
    die_with_plan(scene)
    scene.start(N1, N2, N3)
    scene.run(2)
    for node in (N2, N3):
        scene.world.kill(node, power=False)
        scene.world.wipe(node)
    scene.start(N1, N2, N3)
    scene.run(5)
    assert "n2, n3 lost their disks while n1 was founding cluster" in scene.says(N1)
    assert "empty the data directories of all nodes" in scene.says(N1)


def test_founder_that_lost_its_disk_is_told_to_join(scene: Scene) -> None:
    scene.start(N1, N2, N3)
    scene.run(2)
    scene.world.kill(N1, power=False)
    scene.world.wipe(N1)
    scene.start(N1)
    scene.run(5)
    assert "this cluster runs already" in scene.says(N1)
    assert "raftbatch serve --node n1 --config FILE --join" in scene.says(N1)


def test_node_gives_up_after_a_while_where_others_run_and_the_founder_is_silent(
    scene: Scene,
) -> None:
    scene.start(N1, N2, N3)
    scene.run(2)
    for node in (N1, N3):
        scene.world.kill(node, power=False)
    scene.world.wipe(N3)
    scene.start(N3)
    scene.run(DOUBTS_MAX * PAUSE_S / 2)
    assert scene.world.is_up(N3)
    scene.run(DOUBTS_MAX * PAUSE_S)
    assert not scene.world.is_up(N3)
    assert "n2 says that cluster" in scene.says(N3)
    assert "start n1 again; if n3 or n1 has lost its disk, stop this node" in scene.says(N3)


def test_founding_names_a_configuration_that_differs(scene: Scene) -> None:
    other = founders({N1: "n1:1", N2: "n2:2", N4: "n4:1"})
    scene.world.seats[N2].founders = other
    scene.start(N1, N2, N3)
    scene.run(5)
    assert scene.serving() == []
    assert "n2 has another configuration file than n1: n2 at n2:2 against n2:1; " in scene.says(N1)
    assert "n3 at no address against n3:1; n4 at n4:1 against no address" in scene.says(N1)
    assert "n1 has another configuration file than n2" in scene.says(N2)
    scene.world.kill(N2, power=False)
    scene.world.seats[N2].founders = MEMBERS  # mended
    scene.start(N2)
    scene.run(5)
    assert scene.serving() == [N1, N2, N3]


def test_plan_is_carried_out_with_the_members_it_was_made_for_alone(scene: Scene) -> None:
    die_with_plan(scene)
    scene.start(N1, N2, N3)
    scene.run(2)
    scene.world.seats[N1].founders = founders({N1: "n1:1", N2: "n2:1", N3: "n3:9"})
    scene.world.start(N1)
    scene.loop.run_for(2)
    assert "has begun to found cluster" in scene.says(N1)
    assert "n3 at n3:1 against n3:9. Put the file back" in scene.says(N1)


def test_nodes_of_two_clusters_do_not_found_a_third(scene: Scene) -> None:
    """A node of another cluster stands at an address by mistake: it is named."""
    scene.start(N1, N2, N3)
    scene.run(2)
    for node in (N1, N2, N3):
        scene.world.kill(node, power=False)
    scene.world.wipe(N1)
    scene.world.wipe(N2)
    scene.start(N1, N2, N3)
    scene.run(5)
    assert scene.serving() == [N3]
    assert "n3 belongs to cluster" in scene.says(N1)


def test_join_waits_where_there_is_no_leader(scene: Scene) -> None:
    scene.start(N1, N2)
    scene.start(N3, mode=Mode.JOIN)
    scene.run()
    assert scene.serving() == []
    assert "cannot join yet: n2 waits for the cluster's first start" in scene.says(N3)
    assert "n3 was started with --join" in scene.says(N1)
    assert "to found one start every node with --bootstrap" in scene.says(N1)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("power", [False, True])
def test_join_goes_on_after_a_crash_at_any_point(after: bool, power: bool) -> None:
    at = 0
    while True:
        at += 1
        with begin() as scene:
            scene.start(N1, N2, N3)
            scene.run(2)
            scene.world.kill(N3, power=False)
            scene.world.wipe(N3)
            die_at(scene, N3, at, after=after, power=power)
            scene.start(N3, mode=Mode.JOIN)
            scene.run(5)
            if scene.world.is_up(N3):
                assert at > 20
                return
            scene.start(N3, mode=Mode.JOIN)
            scene.run(5)
            assert scene.serving() == [N1, N2, N3], at


def test_empty_directory_starts_with_neither_flag_and_says_which(scene: Scene) -> None:
    scene.start(N3, mode=Mode.NEITHER)
    scene.loop.run_for(1)
    assert "/data is empty. If the cluster is new, start every node with --bootstrap" in scene.says(
        N3
    )
    assert "start it with --join" in scene.says(N3)


def test_founding_goes_on_without_the_flag(scene: Scene) -> None:
    """What is noted is not lost with the operator's attention."""
    scene.start(N1, N2)
    scene.run(2)
    scene.world.kill(N2, power=True)
    scene.start(N2, mode=Mode.NEITHER)
    scene.start(N3)
    scene.run(2)
    assert scene.serving() == [N1, N2, N3]


@pytest.mark.parametrize("mode", list(Mode))
def test_directory_that_is_not_empty_needs_no_flag_and_ignores_any(
    scene: Scene, mode: Mode
) -> None:
    scene.start(N1, N2, N3)
    scene.run(2)
    before = scene.identity(N2)
    scene.world.kill(N2, power=True)
    scene.start(N2, mode=mode)
    scene.run(2)
    assert scene.serving() == [N1, N2, N3]
    assert scene.identity(N2) == before


def test_directory_with_other_files_is_not_empty(scene: Scene) -> None:
    disk = scene.world.seats[N1].machine.disk
    disk.make_directory(f"{DIRECTORY}/photographs")
    scene.start(N1)
    scene.loop.run_for(1)
    assert "/data holds /data/photographs and no journal" in scene.says(N1)


def test_note_of_another_node_is_refused(scene: Scene) -> None:
    disk = scene.world.seats[N1].machine.disk
    disk.make_directory(DIRECTORY)
    Notes(disk, DIRECTORY).write(Note(N2, MEMBERS, bytes(16)))
    scene.start(N1)
    scene.loop.run_for(1)
    assert "was begun by n2, but this node is n1" in scene.says(N1)


def test_directory_in_use_names_the_pid(scene: Scene) -> None:
    disk = scene.world.seats[N1].machine.disk
    disk.make_directory(DIRECTORY)
    disk.lock(f"{DIRECTORY}/lock")
    scene.start(N1)
    scene.loop.run_for(1)
    assert "in use: held by the process with pid 1" in scene.says(N1)


# What the drawn schedules reach too seldom: see chaos/mutants_founding.py.


def test_late_question_of_a_lost_founder_does_not_undo_a_plan(scene: Scene) -> None:
    """Two nodes are asked by a founder that dies at once; its question to one comes very late."""
    scene.start(N2, N3)
    scene.run(1)
    scene.world.delay_s = (3.0, 3.0)
    scene.start(N1)
    scene.run(0.001)
    scene.world.kill(N1, power=False)
    scene.world.wipe(N1)
    scene.world.delay_s = (0.001, 0.001)
    die_with_plan(scene)
    scene.start(N1)
    scene.run(5)
    scene.start(N1)
    scene.run(5)
    assert scene.serving() == [N1, N2, N3]


def test_lost_plan_adopts_nobody(scene: Scene) -> None:
    """The founder dies with its Adopts on their way, and begins anew on another disk."""
    scene.start(N1, N2, N3)
    carried = []
    deliver = scene.world._deliver

    def late(*args: object) -> None:
        if type(args[2]).__name__ == "Adopt":
            carried.append(args)
        else:
            deliver(*args)  # type: ignore[arg-type]

    scene.world._deliver = late  # type: ignore[method-assign, assignment]
    scene.run(1)
    assert len(carried) == 2
    scene.world._deliver = deliver  # type: ignore[method-assign]
    scene.world.kill(N1, power=False)
    scene.world.wipe(N1)
    scene.world.cut = {frozenset((N1, N3))}
    scene.start(N1)
    scene.run(2)
    for each in carried:
        deliver(*each)  # type: ignore[arg-type]
    scene.run(1)
    assert scene.identity(N2) is None  # it knows of the new founder
    scene.world.cut.clear()
    scene.heal()
    assert scene.serving() == [N3]  # it could not know: what runs already is not founded again


def test_note_stays_until_the_journal_is_durable(scene: Scene) -> None:
    """Killed when the journal was there, but its name not durable; then the power goes."""
    machine = scene.world.seats[N2].machine

    def die(operation: str, path: str) -> None:
        if operation == "rename" and "/journal/segment" in path:
            raise Crash(f"{operation} {path}")

    disarm = machine.arm(die, after=True)
    scene.start(N1, N2, N3)
    scene.run(2)
    disarm()
    scene.start(N2)
    scene.loop.run_for(0)  # it has found the journal, and removed the note
    assert not machine.disk.exists(f"{DIRECTORY}/founding")
    scene.world.kill(N2, power=False)
    machine.disk.crash(power=True, mode="none")
    scene.start(N2)
    scene.run(5)
    assert scene.serving() == [N1, N2, N3]
