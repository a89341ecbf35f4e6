"""`raftbatch up`, and the local cluster behind it: begun in an empty folder, killed, stopped."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from raftbatch.client import Client
from raftbatch.errors import CannotStart, InvalidRequest
from raftbatch.local import LocalCluster
from tests.e2e.local_scene import Up, descendants, environment, until_gone
from tests.e2e.processes import LIMIT_S, RAFTBATCH

CONFIG = "raftbatch-data/cluster.toml"


def command(folder: Path, *words: str) -> tuple[int, str]:
    """Run a command there; return its exit status, and all that it printed."""
    done = subprocess.run(
        [*RAFTBATCH, *words],
        cwd=folder,
        env=environment(),
        timeout=LIMIT_S,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def infer(folder: Path, text: str) -> None:
    """Have a text echoed."""
    assert command(folder, "infer", "echo", text, "--config", CONFIG) == (0, f"text: {text}\n")


@pytest.mark.slow
def test_up_in_an_empty_folder_outlives_its_leader_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    with Up(tmp_path, "--nodes", "3") as up:
        ready = up.wait("cluster.ready")
        assert [each["node"] for each in ready["nodes"]] == ["n1", "n2", "n3"]
        assert [each["executor"] for each in ready["executors"]] == ["x1", "x2"]
        infer(tmp_path, "hello")
        [leader] = [each for each in ready["nodes"] if each["node"] == ready["leader"]]
        os.kill(leader["pid"], signal.SIGKILL)
        infer(tmp_path, "again")
        died = up.wait("process.died")
        assert (died["name"], died["pause_s"]) == (leader["node"], 1.0)
        assert "SIGKILL" in died["why"]
        restarted = up.wait("process.restarted")
        assert restarted["name"] == leader["node"]
        assert restarted["pid"] != leader["pid"]
        begun = descendants(up.pid)
        assert len(begun) == 7, "three nodes, two executors, and a model of each"
        up.send(signal.SIGINT)
        assert up.ended() == (0, "")
        assert [each["event"] for each in up.events[-2:]] == ["stop.begun", "cluster.stopped"]
        until_gone([leader["pid"], *begun])
    assert sorted(each.name for each in tmp_path.iterdir()) == ["raftbatch-data"]


@pytest.mark.slow
def test_up_goes_on_with_its_data(tmp_path: Path) -> None:
    arguments = ("--nodes", "1", "--executors", "0")
    with Up(tmp_path, *arguments) as up:
        [node] = up.wait("cluster.ready")["nodes"]
        status, ticket = command(tmp_path, "submit", "echo", "later", "--config", CONFIG)
        assert status == 0
        status, said = command(tmp_path, "up")
        assert status == 1
        assert f"in use, held by the process with pid {up.pid}" in said
        up.send(signal.SIGTERM)
        assert up.ended() == (0, "")
    with Up(tmp_path) as up:  # without arguments: as it was, and with executors
        ready = up.wait("cluster.ready")
        assert [each["address"] for each in ready["nodes"]] == [node["address"]]
        assert len(ready["executors"]) == 2
        result = command(tmp_path, "result", *ticket.split(), "--config", CONFIG)
        assert result == (0, "text: later\n")
        up.send(signal.SIGINT)
        assert up.ended() == (0, "")
    status, said = command(tmp_path, "up", "--nodes", "3")
    assert status == 2
    assert "holds a cluster of 1, not of 3" in said


def test_up_that_is_killed_leaves_nothing(tmp_path: Path) -> None:
    with Up(tmp_path, "--nodes", "1", "--executors", "1") as up:
        up.wait("cluster.ready")
        begun = descendants(up.pid)
        assert len(begun) == 3
        up.send(signal.SIGKILL)
        until_gone([up.pid, *begun])


def test_up_says_why_a_process_died_at_its_start(tmp_path: Path) -> None:
    models = '[models.mine.executor]\nfile = "mine.py"\nclass = "Mine"\n'
    (tmp_path / "mine.toml").write_text(models, "utf-8")
    with Up(tmp_path, "mine.toml", "--nodes", "1", "--temporary") as up:
        status, said = up.ended()
    assert status == 1
    assert said.startswith("Error: x")
    assert f"does not run: it exited with status 1: mine: there is no {tmp_path}/mine.py" in said
    assert not (tmp_path / "raftbatch-data").exists()


def test_up_refuses_models_that_the_cluster_was_not_founded_with(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, nodes=1, executors=0) as cluster:
        cluster.start()
        cluster.wait_ready()
    text = cluster.config.read_text("utf-8")
    cluster.config.write_text(text.replace("executor.examples.echo", "my.echo"), "utf-8")
    LocalCluster(tmp_path).close()  # what executors read may change
    config = tmp_path / "mine.toml"
    config.write_text("[models.mine]\n[models.echo]\n", "utf-8")
    refused = r"mine\.toml: models\.echo, models\.mine: not as when .* was founded"
    with pytest.raises(InvalidRequest, match=refused):
        LocalCluster(tmp_path, config=config, nodes=1)
    cluster.config.write_text(text.replace("= 32", "= 16"), "utf-8")
    with pytest.raises(InvalidRequest, match=r"cluster\.toml: models\.echo: not as when"):
        LocalCluster(tmp_path)
    shutil.rmtree(cluster.data_dir("n1"))
    LocalCluster(tmp_path).close()


@pytest.mark.parametrize(
    "text",
    [
        "[models.",
        "[model.mine]",
        "[nodes]",
        "[nodes.n1]\npeer = 1",
        "[timing]\nheartbeet_ms = 5",
        "[models.mine.executor]\nfile = 'a.py'",
    ],
)
def test_up_says_what_is_wrong_with_a_configuration(tmp_path: Path, text: str) -> None:
    (tmp_path / "mine.toml").write_text(text, "utf-8")
    status, said = command(tmp_path, "up", "mine.toml")
    assert status == 2
    assert said.startswith("Error: mine.toml: ")
    assert not (tmp_path / "raftbatch-data").exists()


@pytest.mark.slow
def test_processes_of_a_local_cluster_are_ended_and_begun_by_name(tmp_path: Path) -> None:
    with LocalCluster(tmp_path / "local", executors=1) as cluster:
        cluster.start()
        cluster.wait_ready()
        with Client(cluster.addresses) as client:
            assert client.infer("echo", "one")["text"] == "one"
            leader = cluster.leader()
            cluster.kill(leader)
            assert not cluster.is_alive(leader)
            assert "SIGKILL" in cluster.ending(leader)
            assert client.infer("echo", "two")["text"] == "two"
            cluster.restart(leader)
            with pytest.raises(CannotStart, match="runs"):
                cluster.restart(leader)
            assert cluster.terminate("x1") == 0
            assert "executor.stopped" in cluster.log_file("x1").read_text("utf-8")
            cluster.restart("x1")
            cluster.wait_ready()
            assert client.infer("echo", "three")["text"] == "three"
        assert cluster.data_dir("n1").is_dir()
        pids = [cluster.pid(each) for each in (*cluster.nodes, *cluster.executors)]
    until_gone(pids)


def test_local_cluster_is_stopped_when_an_error_comes_up(tmp_path: Path) -> None:
    pids = []

    def interrupted() -> None:
        with LocalCluster(tmp_path, nodes=1, executors=0) as cluster:
            cluster.start()
            pids.append(cluster.pid("n1"))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    until_gone(pids)


def test_local_cluster_begins_nothing_once_it_is_closed(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path / "here", nodes=1, executors=0)
    cluster.close()
    with pytest.raises(CannotStart, match="is closed"):
        cluster.start()
    shutil.rmtree(tmp_path / "here")
    with pytest.raises(CannotStart, match="is closed"):
        cluster.restart("n1")
    assert list(tmp_path.iterdir()) == []


def test_local_cluster_refuses_addresses_that_are_in_use(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, nodes=1, executors=0) as cluster:
        host, _, port = cluster.addresses[0].rpartition(":")
        listening = socket.create_server((host, int(port)))
        refused = pytest.raises(CannotStart, match="somebody listens there already")
        with listening, refused:
            cluster.start()
        with pytest.raises(CannotStart, match="was not begun"):
            cluster.wait_ready()


def test_local_cluster_uses_a_configuration_of_ones_own(tmp_path: Path) -> None:
    config = tmp_path / "mine.toml"
    config.write_text('[nodes.a]\npeer = "127.0.0.1:8003"\nclient = "127.0.0.1:8001"\n', "utf-8")
    with LocalCluster(tmp_path / "local", config=config) as cluster:
        assert (cluster.nodes, cluster.executors) == (("a",), ())
        [address] = cluster.addresses
        assert not address.endswith(":8001")
    with LocalCluster(tmp_path / "local", config=config, executors=1) as again:
        assert (again.addresses, again.executors) == ((address,), ("x1",))
    with pytest.raises(InvalidRequest, match="leave their number out"):
        LocalCluster(tmp_path / "local", config=config, nodes=3)
    with pytest.raises(InvalidRequest, match="is what this directory uses: leave it out"):
        LocalCluster(tmp_path / "local", config=tmp_path / "local" / "cluster.toml")
    config.write_text("[models]\n", "utf-8")
    with pytest.raises(InvalidRequest, match="holds a cluster of the nodes a, not of n1"):
        LocalCluster(tmp_path / "local", config=config)
