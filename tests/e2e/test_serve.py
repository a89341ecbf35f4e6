"""Three real nodes on loopback: they begin, agree, lose one another, and stop."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.e2e import processes
from tests.e2e.cluster import ServedCluster
from tests.e2e.processes import run


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ServedCluster]:
    with ServedCluster(tmp_path) as cluster:
        yield cluster


@pytest.mark.slow
def test_nodes_replicate_and_a_leader_hands_over_before_it_stops(cluster: ServedCluster) -> None:
    cluster.start_all("--bootstrap")
    leader = cluster.leader()
    indices = cluster.acknowledged(leader, [b"entry %d" % number for number in range(500)])
    assert indices == list(range(indices[0], indices[0] + 500))
    digest = cluster.agree()

    follower = next(node for node in cluster.processes if node != leader)
    [refusal] = cluster.append(follower, [b"x"])
    assert refusal.error.slug == "not_leader"
    assert refusal.error.definite
    assert refusal.error.leader == cluster.clients[leader]

    before = cluster.heard(leader)
    process = cluster.processes[leader]
    assert process.terminate() == 0
    [moved] = process.logged("leadership.moved")
    heir = moved["to"]
    after = cluster.heard(heir)
    assert (after.role, after.term) == ("leader", before.term + 1)  # at once, and without another
    cluster.acknowledged(heir, [b"after"])

    cluster.start(leader)
    cluster.ready(leader)
    assert cluster.agree() != digest
    for each in cluster.processes.values():
        each.send(signal.SIGTERM)
    assert [each.ended() for each in cluster.processes.values()] == [0, 0, 0]

    for node in cluster.processes:
        cluster.start(node)
    cluster.leader()
    cluster.agree()


@pytest.mark.slow
def test_node_joins_is_removed_and_joins_again(cluster: ServedCluster) -> None:
    cluster.start_all("--bootstrap")
    leader = cluster.leader()
    cluster.acknowledged(leader, [b"before"])
    file = cluster.add("n4")
    joined = cluster.start("n4", "--join", file=file)
    cluster.ready("n4")
    cluster.until(lambda: _rank(cluster, "n4") == "voter", "promotion of n4")
    cluster.agree()

    done = run("members", "remove", "n4", "--address", cluster.clients["n1"])
    assert (done.returncode, done.stdout) == (0, "n4 is removed\n"), done.stderr
    assert joined.ended() == 1
    assert "n4 was removed from the cluster, as incarnation 1" in joined.said
    again = cluster.start("n4", "--join", file=file)
    assert again.ended() == 1  # its directory is that of a node that is no member
    assert "empty its directory and start it with --join" in again.said

    shutil.rmtree(cluster.data("n4"))
    cluster.start("n4", "--join", file=file)
    cluster.ready("n4")
    cluster.until(lambda: _rank(cluster, "n4") == "voter", "promotion of n4")
    assert cluster.heard("n4").incarnation == 2
    cluster.agree()


@pytest.mark.slow
def test_node_that_lost_its_disk_takes_no_part_until_it_joins(cluster: ServedCluster) -> None:
    cluster.start_all("--bootstrap")
    leader = cluster.leader()
    wiped = next(node for node in cluster.processes if node != leader)
    cluster.acknowledged(leader, [b"before"])
    cluster.processes[wiped].kill()
    shutil.rmtree(cluster.data(wiped))

    process = cluster.start(wiped)
    assert process.ended() == 1
    assert "is empty. If the cluster is new" in process.said
    process = cluster.start(wiped, "--bootstrap")
    assert process.ended() == 1
    assert f"runs already: {'n2' if wiped == 'n1' else 'n1'}" in process.said
    assert f"raftbatch serve --node {wiped} --config FILE --join" in process.said

    cluster.acknowledged(leader, [b"meanwhile"])
    cluster.start(wiped, "--join")
    cluster.ready(wiped)
    cluster.until(lambda: _rank(cluster, wiped) == "voter", f"promotion of {wiped}")
    cluster.agree()
    assert cluster.heard(wiped).incarnation == 2


@pytest.mark.slow
def test_nodes_wait_for_one_that_is_missing_and_say_so(cluster: ServedCluster) -> None:
    cluster.start("n1", "--bootstrap")
    cluster.start("n2", "--bootstrap")

    def waits() -> bool:
        status = cluster.status("n1")
        return status is not None and [each.node_id for each in status.waiting] == ["n3"]

    cluster.until(waits, "waiting for n3")
    shown = run("status", "--config", cluster.file)
    assert shown.returncode == 1  # one did not answer
    assert "n1 waits for n3: it does not answer" in shown.stdout
    [result] = cluster.append("n1", [b"x"])
    assert result.error.slug == "no_leader"
    assert "n1 is starting and waits for n3" in result.error.message
    assert cluster.processes["n1"].terminate() == 0  # told to stop while it waits
    cluster.start("n1")  # what is noted needs no flag
    cluster.start("n3", "--bootstrap")
    cluster.leader()


def test_node_says_that_its_disk_is_full_when_it_starts(tmp_path: Path) -> None:
    with ServedCluster(tmp_path, ["n1"]) as cluster:
        file = Path(cluster.file)
        text = file.read_text("utf-8")
        low = f"disk_low_bytes = {1 << 50}"
        file.write_text(text.replace("disk_low_bytes = 33_554_432", low), encoding="utf-8")
        said = cluster.start("n1", "--bootstrap").wait_for("disk.filled")
        assert (said["level"], said["space"]) == ("warning", "low")
        assert said["directory"] == str(cluster.data("n1"))
        assert said["free_bytes"] < said["disk_low_bytes"] == 1 << 50
        assert cluster.processes["n1"].terminate() == 0


@pytest.mark.slow
def test_commands_find_the_leader_and_say_what_they_did(cluster: ServedCluster) -> None:
    run = partial(processes.run, anew=True)
    cluster.starts_anew = True
    cluster.start_all("--bootstrap")
    leader = cluster.leader()
    heir, other = [node for node in cluster.processes if node != leader]
    done = run("transfer", heir, "--address", cluster.clients[other], "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"leader": heir, "led_already": False}
    assert cluster.leader() == heir
    done = run("members", "list", "--config", cluster.file, "--json")
    listed = json.loads(done.stdout)
    assert listed["asked"] == heir
    assert {each["node"]: each["rank"] for each in listed["members"]} == dict.fromkeys(
        ("n1", "n2", "n3"), "voter"
    )
    cluster.agree()  # the first entry of the new leader too
    done = run("status", "--config", cluster.file, "--json")
    nodes = json.loads(done.stdout)["nodes"]
    assert done.returncode == 0
    assert {each["leader"] for each in nodes} == {heir}
    assert len({each["digest"] for each in nodes}) == 1
    done = run("members", "promote", "n9", "--config", cluster.file)
    assert done.returncode == 1
    assert "n9 is no member: there are n1, n2, n3" in done.stderr
    done = run("members", "add", "n4", "127.0.0.1:1", "--learner", "--config", cluster.file)
    assert (done.returncode, done.stdout) == (0, "n4 is a member, incarnation 1\n")
    done = run("members", "move", "n4", "127.0.0.1:2", "--config", cluster.file)
    assert (done.returncode, done.stdout) == (0, "n4 is at 127.0.0.1:2\n")
    done = run("members", "list", "--config", cluster.file)
    assert "learner  127.0.0.1:2" in done.stdout
    done = run("members", "remove", "n4", "--config", cluster.file)
    assert done.returncode == 0
    cluster.processes[other].kill()
    cluster.until(lambda: other not in _connected(cluster, heir), f"notice that {other} is gone")
    done = run("members", "remove", leader, "--config", cluster.file)
    assert done.returncode == 1
    assert f"without {leader} the voters are " in done.stderr
    assert f"and {other} cannot be reached: nothing could be committed any more" in done.stderr
    done = run("members", "remove", other, "--config", cluster.file)
    assert (done.returncode, done.stdout) == (0, f"{other} is removed\n"), done.stderr


def _connected(cluster: ServedCluster, leader: str) -> list[str]:
    """Return who is connected to the leader."""
    members = cluster.heard(leader).members
    return [each.node_id for each in members if each.progress.connected]


def _rank(cluster: ServedCluster, node: str) -> str:
    """Return a node's rank, by the leader's membership; empty where it is no member."""
    for status in cluster.statuses().values():
        if status.role == "leader":
            return next((each.rank for each in status.members if each.node_id == node), "")
    return ""
