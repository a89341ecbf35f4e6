"""Certificates of real nodes: who has the right one is in, and who has not is told why."""

from __future__ import annotations

import os
from pathlib import Path

import grpc
import pytest

from raftbatch.client import TLS, Client, ClientOptions
from raftbatch.errors import NoLeader
from tests.e2e.cluster import ServedCluster
from tests.e2e.processes import RAFTBATCH, Process, run
from tests.network.certificates import Authority

pytestmark = pytest.mark.slow

NODES = ("n1", "n2", "n3")


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """Return an authority that has issued a certificate to each node, and to an operator.

    The files are links, as they are where others put secrets into their place and renew them.
    """
    folder, named = tmp_path / "issued", tmp_path / "certs"
    folder.mkdir()
    named.mkdir()
    authority = Authority(folder)
    for name in NODES:
        authority.issue(name)
    authority.issue("operator", "operator")
    for file in folder.iterdir():
        (named / file.name).symlink_to(file)
    return authority


@pytest.fixture
def settings(tmp_path: Path, authority: Authority) -> str:
    return (
        '[tls]\nca = "certs/ca.pem"\ncert = "certs/{node}.pem"\nkey = "certs/{node}.key"\n'
        'operator_cert = "certs/operator.pem"\noperator_key = "certs/operator.key"\n'
    )


def credentials(folder: Path, name: str) -> grpc.ChannelCredentials:
    """Return a client's credentials."""
    files = [(folder / "certs" / each).read_bytes() for each in ("ca.pem", f"{name}.key")]
    return grpc.ssl_channel_credentials(
        files[0], files[1], (folder / "certs" / f"{name}.pem").read_bytes()
    )


def test_cluster_with_certificates(tmp_path: Path, settings: str) -> None:
    operator = credentials(tmp_path, "operator")
    with ServedCluster(tmp_path, NODES, settings, credentials=operator) as cluster:
        cluster.start_all("--bootstrap")
        leader = cluster.leader()
        cluster.acknowledged(leader, [b"secret"])
        cluster.agree()
        done = run("status", "--config", cluster.file)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "leader" in done.stdout
        done = run("transfer", "--config", cluster.file)
        assert done.returncode == 0, done.stderr
        with ServedCluster(tmp_path / "plain", NODES) as plain:
            plain.clients = cluster.clients
            assert plain.status(leader) is None  # nobody without TLS is answered
        nobody = grpc.ssl_channel_credentials((tmp_path / "certs" / "ca.pem").read_bytes())
        with ServedCluster(tmp_path / "nobody", NODES, credentials=nobody) as nameless:
            nameless.clients = cluster.clients
            assert nameless.status(leader) is None  # nor anybody without a certificate


def test_node_hands_on_under_its_own_certificate(tmp_path: Path, settings: str) -> None:
    model = '[models.idle]\ninputs = [{ name = "text", datatype = "BYTES", dims = [1] }]\n'
    certs = tmp_path / "certs"
    pems = [(certs / each).read_bytes() for each in ("ca.pem", "operator.pem", "operator.key")]
    with ServedCluster(
        tmp_path,
        NODES,
        settings + model,
        credentials=credentials(tmp_path, "operator"),
        replica="scheduler",
    ) as cluster:
        cluster.start_all("--bootstrap")
        leader = cluster.leader()
        follower = next(node for node in NODES if node != leader)
        names = {cluster.clients[follower]: follower}
        options = ClientOptions(forward=True, tls=TLS(pems[0], pems[1], pems[2], names))
        with Client(cluster.clients[follower], options) as client:
            ticket = client.submit("idle", "hello")
            assert ticket.index > 0
            assert ticket.cancel() is True
        done = run("infer", "idle", "x", "--forward", "--wait", "4", "--config", cluster.file)
        assert (done.returncode, "Traceback" in done.stderr) == (3, False), done.stderr


def test_node_with_the_certificate_of_another_does_not_start(
    tmp_path: Path, settings: str, authority: Authority
) -> None:
    authority.issue("n3", file="n2")  # what stands in n2's files names n3
    with ServedCluster(tmp_path, NODES, settings) as cluster:
        process = cluster.start("n2", "--bootstrap")
        assert process.ended() == 1
        assert "n2.pem names n3, but this node is n2: give it a certificate" in process.said


def test_node_of_another_authority_is_not_let_in(tmp_path: Path, settings: str) -> None:
    foreign = tmp_path / "foreign" / "certs"
    foreign.mkdir(parents=True)
    Authority(foreign).issue("n2")
    with ServedCluster(tmp_path, NODES, settings) as cluster:
        first = cluster.start("n1", "--bootstrap")
        cluster.start("n3", "--bootstrap")
        cluster.write(str(tmp_path / "foreign" / "cluster.toml"), NODES)
        cluster.start("n2", "--bootstrap", file=str(tmp_path / "foreign" / "cluster.toml"))
        first.until(
            lambda: '"for": "n2"' in first.unlocked() and "certificate" in first.unlocked(),
            "word of the wrong certificate",
        )
        assert not first.logged("node.born")


def test_key_that_cannot_be_read(tmp_path: Path, settings: str) -> None:
    os.unlink(tmp_path / "certs" / "n1.key")
    with ServedCluster(tmp_path, NODES, settings) as cluster:
        process = cluster.start("n1", "--bootstrap")
        assert process.ended() == 1
        assert f"Error: {tmp_path}/certs/n1.key" in process.said
        assert "Traceback" not in process.said


@pytest.mark.parametrize(
    ("start", "end", "said"),
    [
        ("20200101000000Z", "20200102000000Z", "expired"),
        ("20990101000000Z", "20990102000000Z", "not yet valid"),
    ],
)
def test_clock_and_certificate_that_do_not_agree(
    tmp_path: Path, settings: str, authority: Authority, start: str, end: str, said: str
) -> None:
    authority.issue("n1", start=start, end=end)
    with ServedCluster(tmp_path, NODES, settings) as cluster:
        process = cluster.start("n1", "--bootstrap")
        assert process.ended() == 1
        line = process.said.splitlines()[-1]
        assert line.startswith("Error: ")
        assert "n1.pem" in line
        assert said in line
        assert "clock" in line


def test_operator_without_a_certificate_is_told_what_is_missing(
    tmp_path: Path, settings: str
) -> None:
    bare = "\n".join(line for line in settings.splitlines() if "operator" not in line)
    with ServedCluster(tmp_path, NODES, bare) as cluster:
        done = run("status", "--config", cluster.file)
        assert done.returncode == 2
        assert "tls.operator_cert is missing" in done.stderr


def test_client_port_may_ask_for_no_certificates(tmp_path: Path, settings: str) -> None:
    """It is encrypted, and shows who the node is; whoever reaches it is what `*` may be."""
    model = """
[models.echo]
inputs = [{ name = "text", datatype = "BYTES", dims = [1] }]
outputs = [{ name = "text", datatype = "BYTES", dims = [1] }]
[models.echo.executor]
module = "executor.examples.echo"
class = "Echo"
"""
    bare = "".join(f"{line}\n" for line in settings.splitlines() if "operator" not in line)
    bare += 'asks_clients = false\n[tls.roles]\nclient = ["*"]\nexecutor = ["*"]\n'
    ca = (tmp_path / "certs" / "ca.pem").read_bytes()
    credentials = grpc.ssl_channel_credentials(ca)
    with ServedCluster(
        tmp_path, ("n1",), bare + model, credentials=credentials, replica="scheduler"
    ) as cluster:
        cluster.start("n1", "--bootstrap")
        cluster.ready("n1")
        command = [*RAFTBATCH, "executor", "--id", "gpu-1", "--config", cluster.file]
        with Process(command) as executor:
            executor.wait_for("executor.joined")
            names = {cluster.clients["n1"]: "n1"}
            with Client(cluster.clients["n1"], ClientOptions(tls=TLS(ca, names=names))) as client:
                assert client.infer("echo", "hello").value == "hello"
            done = run("infer", "echo", "by command", "--config", cluster.file)
            assert (done.returncode, done.stdout) == (0, "text: by command\n"), done.stderr
            done = run("status", "--config", cluster.file)
            assert done.returncode == 1
            assert "the certificate of nobody has the role client and executor" in done.stdout
            assert executor.terminate() == 0
        options = ClientOptions(connect_timeout_s=0.5)
        with Client(cluster.clients["n1"], options) as plain, pytest.raises(NoLeader):
            plain.infer("echo", "in the clear")
