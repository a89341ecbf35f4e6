"""A node that cannot start says why in one line, and ends with the status that says so."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster import ServedCluster
from tests.e2e.processes import LIMIT_S, RAFTBATCH, Process, run

pytestmark = pytest.mark.slow


@pytest.fixture
def one(tmp_path: Path) -> Iterator[ServedCluster]:
    """Yield a cluster of one node."""
    with ServedCluster(tmp_path, ["n1"], serves_http=True) as cluster:
        yield cluster


def refusal(process: Process, status: int = 1) -> str:
    """Return the one line with which a process ends; no traceback before it."""
    assert process.ended() == status, process.said
    lines = process.said.splitlines()
    assert lines[-1].startswith("Error: "), process.said
    assert "Traceback" not in process.said
    return lines[-1]


@pytest.mark.parametrize("kind", ["peer", "client", "http"])
def test_port_in_use(one: ServedCluster, kind: str) -> None:
    addresses = {"peer": one.peers, "client": one.clients, "http": one.https}[kind]
    host, _, port = addresses["n1"].rpartition(":")
    with socket.socket() as holder:
        holder.bind((host, int(port)))
        holder.listen()
        said = refusal(one.start("n1", "--bootstrap"))
    assert addresses["n1"] in said
    assert "in use" in said
    assert "perhaps" in said
    assert "this node, which runs already" in said
    assert not one.data("n1").exists()  # found before anything was touched


def test_directory_in_use_names_the_pid(one: ServedCluster, tmp_path: Path) -> None:
    holder = one.start("n1", "--bootstrap")
    one.ready("n1")
    with ServedCluster(tmp_path / "other", ["n1"]) as other:
        shutil.rmtree(other.folder / "data", ignore_errors=True)
        (other.folder / "data").mkdir()
        other.data("n1").symlink_to(one.data("n1"))
        said = refusal(other.start("n1", "--bootstrap"))
    assert f"in use: held by the process with pid {holder.pid}" in said


def test_directory_of_another_node(one: ServedCluster) -> None:
    one.start("n1", "--bootstrap")
    one.ready("n1")
    assert one.processes["n1"].terminate() == 0
    file = one.add("n2")
    shutil.move(one.data("n1"), one.data("n2"))
    said = refusal(one.start("n2", "--bootstrap", file=file))
    assert "is the data directory of n1 (incarnation 1) of cluster" in said
    assert "but this node is n2" in said


def test_empty_directory_without_a_flag(one: ServedCluster) -> None:
    assert "start every node with --bootstrap" in refusal(one.start("n1"))


def test_no_such_node(one: ServedCluster) -> None:
    command = [*RAFTBATCH, "serve", "--node", "n7", "--config", one.file]
    with Process(command, anew=True) as process:
        assert "there is no node 'n7', only n1" in refusal(process, 2)


def test_wrong_configuration(one: ServedCluster, tmp_path: Path) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text("[clutser]\n", encoding="utf-8")
    with Process([*RAFTBATCH, "serve", "--node", "n1", "--config", str(path)]) as process:
        assert "clutser is unknown: the nearest is cluster" in refusal(process, 2)


def test_both_flags_are_wrong_usage(one: ServedCluster) -> None:
    process = one.start("n1", "--bootstrap", "--join")
    assert process.ended() == 2
    assert "not both" in process.said


def test_port_that_other_machines_reach_is_opened_only_when_told_so(one: ServedCluster) -> None:
    text = Path(one.file).read_text(encoding="utf-8")
    port = one.clients["n1"].rpartition(":")[2]
    listening = f'client = "{one.clients["n1"]}"\nclient_listen = "0.0.0.0:{port}"'
    text = text.replace(f'client = "{one.clients["n1"]}"', listening)
    Path(one.file).write_text(text, encoding="utf-8")
    said = refusal(one.start("n1", "--bootstrap"), 2)
    assert f"nodes.n1.client_listen is 0.0.0.0:{port}, which other machines reach" in said
    assert "or start nodes with --insecure" in said
    assert not one.data("n1").exists()
    one.start("n1", "--bootstrap", "--insecure")
    one.ready("n1")
    assert run("status", "--config", one.file).returncode == 0  # whoever only calls needs no flag
    assert one.processes["n1"].terminate() == 0
    secure = text + '[tls]\nca = "ca.pem"\ncert = "n1.pem"\nkey = "n1.key"\n'
    Path(one.file).write_text(secure, encoding="utf-8")
    said = refusal(one.start("n1", "--insecure"), 2)
    assert "--insecure is given, but certificates are named under [tls]" in said


def test_damaged_directory(one: ServedCluster) -> None:
    one.start("n1", "--bootstrap")
    one.ready("n1")
    one.leader()
    one.acknowledged("n1", [b"x" * 100])
    one.processes["n1"].kill()
    [segment] = (one.data("n1") / "journal").glob("segment-*")
    data = bytearray(segment.read_bytes())
    data[600] ^= 1
    segment.write_bytes(data)
    assert f"{segment} at offset" in refusal(one.start("n1"))


def test_node_of_another_cluster_is_refused_by_name(tmp_path: Path) -> None:
    """Two clusters of one configuration: a node of the one is started in the other's place."""
    with (
        ServedCluster(tmp_path / "a", ["n1", "n2", "n3"]) as first,
        ServedCluster(tmp_path / "b", ["n1", "n2", "n3"]) as second,
    ):
        first.start_all("--bootstrap")
        second.start_all("--bootstrap")
        for cluster in (first, second):
            assert cluster.processes["n3"].terminate() == 0
        shutil.rmtree(first.data("n3"))
        shutil.move(second.data("n3"), first.data("n3"))
        process = first.start("n3")
        refused = process.wait_for("peer.refused")
        clusters = {first.statuses()["n1"].cluster_id, second.statuses()["n1"].cluster_id}
        assert len(clusters) == 2
        assert all(each in refused["text"] for each in clusters)
        first.until(
            lambda: any(
                "belongs to cluster" in each.refusal
                for status in first.statuses().values()
                for each in status.peers
            ),
            f"refusal in a status within {LIMIT_S} s",
        )
