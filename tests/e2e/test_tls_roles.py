"""Roles over real certificates: who may do what, joining, executors and the SDK among them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from raftbatch.client import AsyncClient, ClientOptions
from raftbatch.client.options import TLS
from raftbatch.errors import NoLeader, PermissionDenied, RaftbatchError
from raftbatch.v1 import admin_pb2, dispatch_pb2, gateway_pb2
from raftbatch.v1.admin_pb2_grpc import AdminStub
from raftbatch.v1.dispatch_pb2_grpc import DispatchStub
from raftbatch.v1.gateway_pb2_grpc import GatewayStub
from tests.e2e.cluster import ServedCluster
from tests.e2e.processes import LIMIT_S, RAFTBATCH, Process, run
from tests.network.certificates import Authority

pytestmark = pytest.mark.slow

NODES = ("n1", "n2", "n3")
SETTINGS = """
[models.echo]
inputs = [{ name = "text", datatype = "BYTES", dims = [1] }]
outputs = [{ name = "text", datatype = "BYTES", dims = [1] }]
[models.echo.executor]
module = "executor.examples.echo"
class = "Echo"
[tls]
ca = "ca.pem"
cert = "{node}.pem"
key = "{node}.key"
operator_cert = "operator.pem"
operator_key = "operator.key"
executor_cert = "{executor}.pem"
executor_key = "{executor}.key"
[tls.roles]
client = ["listed"]
"""


class Secure:
    """A cluster with certificates, and those who call it."""

    def __init__(self, folder: Path, served: ServedCluster, authority: Authority) -> None:
        self.folder = folder
        self.served = served
        self.authority = authority

    def tls(self, name: str, folder: Path | None = None, ca: Path | None = None) -> TLS:
        """Return what a client shows."""
        certificate, key = ((folder or self.folder) / f"{name}.{end}" for end in ("pem", "key"))
        authority = ca or self.folder / "ca.pem"
        names = {address: node for node, address in self.served.clients.items()}
        parts = (authority.read_bytes(), certificate.read_bytes(), key.read_bytes())
        return TLS(*parts, names)

    def said(self, name: str, node: str, call: Callable[[grpc.Channel], object]) -> str:
        """Return what a node says to a call under a certificate: nothing where it is served."""
        tls = self.tls(name)
        credentials = grpc.ssl_channel_credentials(tls.ca, tls.key, tls.certificate)
        options = [("grpc.ssl_target_name_override", node)]
        address = self.served.clients[node]
        with grpc.secure_channel(address, credentials, options) as channel:
            try:
                call(channel)
            except grpc.RpcError as error:
                return f"{error.code().name}: {error.details()}"
        return ""

    def start(self, name: str) -> Process:
        """Start an executor."""
        command = [*RAFTBATCH, "executor", "--id", name, "--config", self.served.file]
        return Process([*command, "--join", "10"])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    folder = tmp_path_factory.mktemp("roles")
    authority = Authority(folder)
    for node in NODES:
        authority.issue(node)
    for name, role in (
        ("operator", "operator"),
        ("web", "client"),
        ("gpu-1", "executor"),
        ("gpu-2", "executor"),
        ("n4", "peer"),
    ):
        authority.issue(name, role)
    for name in ("nobody", "listed", "n5"):
        authority.issue(name)
    tls = [(folder / each).read_bytes() for each in ("ca.pem", "operator.key", "operator.pem")]
    credentials = grpc.ssl_channel_credentials(*tls)
    with ServedCluster(
        folder, NODES, SETTINGS, credentials=credentials, replica="scheduler"
    ) as served:
        served.start_all("--bootstrap")
        served.leader()
        yield Secure(folder, served, authority)


def _submit(channel: grpc.Channel) -> object:
    submission = gateway_pb2.Submission(request_id="r", model="none", rows=1)
    request = gateway_pb2.SubmitRequest(submissions=[submission])
    return GatewayStub(channel).Submit(request, timeout=LIMIT_S)


def _nodes(channel: grpc.Channel) -> object:
    return GatewayStub(channel).Nodes(gateway_pb2.NodesRequest(), timeout=LIMIT_S)


def _status(channel: grpc.Channel) -> object:
    return AdminStub(channel).Status(admin_pb2.StatusRequest(), timeout=LIMIT_S)


def _beat(channel: grpc.Channel) -> object:
    request = dispatch_pb2.HeartbeatRequest(executor="gpu-1", incarnation=1)
    return DispatchStub(channel).Heartbeat(request, timeout=LIMIT_S)


@pytest.mark.parametrize(
    ("name", "may"),
    [
        ("operator", {_submit, _status}),
        ("web", {_submit}),
        ("listed", {_submit}),
        ("n2", {_submit}),
        ("n4", {_submit}),
        ("gpu-1", {_beat}),
        ("gpu-2", set[Any]()),
        ("nobody", set[Any]()),
    ],
)
def test_certificate_may_do_what_its_role_allows(cluster: Secure, name: str, may: set[Any]) -> None:
    for call in (_submit, _status, _beat):
        said = cluster.said(name, "n1", call)
        assert said.startswith("PERMISSION_DENIED") == (call not in may), (call.__name__, said)
        if call not in may:
            assert f"the certificate of {name} has" in said or f"names {name}, and" in said
    assert cluster.said(name, "n1", _nodes) == "", "whoever has a certificate may find the nodes"


def test_commands_of_whoever_is_no_operator_are_refused_and_say_why(cluster: Secure) -> None:
    path = cluster.folder / "web.toml"
    text = Path(cluster.served.file).read_text(encoding="utf-8")
    path.write_text(text.replace("operator.", "web."), encoding="utf-8")
    done = run("transfer", "--config", str(path))
    assert done.returncode == 1, done.stderr
    assert "the certificate of web has the role client, and Admin/Transfer needs operator" in (
        done.stderr
    )
    assert "raftbatch://role/operator" in done.stderr
    assert "Traceback" not in done.stderr
    done = run("infer", "echo", "x", "--wait", "0.5", "--config", str(path))
    assert "permission" not in done.stderr + done.stdout


def test_commands_say_why_the_nodes_do_not_let_them_in(cluster: Secure, tmp_path: Path) -> None:
    text = Path(cluster.served.file).read_text(encoding="utf-8")
    past = ("20200101000000Z", "20200102000000Z")
    cluster.authority.issue("late", "operator", start=past[0], end=past[1])
    for name, status, said in (
        ("late", 2, "late.pem is valid from Jan  1 "),
        ("gone", 2, "gone.pem cannot be read: No such file"),
    ):
        path = cluster.folder / f"{name}.toml"
        path.write_text(text.replace("operator.", f"{name}."), encoding="utf-8")
        done = run("status", "--config", str(path))
        assert (done.returncode, said in done.stderr) == (status, True), done.stderr
        assert "Traceback" not in done.stderr
    other = Authority(tmp_path, "ca")
    other.issue("operator", "operator")
    path = tmp_path / "cluster.toml"
    path.write_text(text, encoding="utf-8")
    done = run("transfer", "--config", str(path), "--timeout", "1")
    assert done.returncode == 1, done.stderr
    assert "does not answer: its certificate is not of our authority" in done.stderr


def test_executor_and_sdk_over_tls(cluster: Secure) -> None:
    async def main() -> None:
        with cluster.start("gpu-1") as executor:
            await asyncio.to_thread(executor.wait_for, "executor.joined")
            options = ClientOptions(tls=cluster.tls("web"))
            for address in cluster.served.clients.values():
                async with AsyncClient(address, options) as client:
                    assert (await client.infer("echo", "hello")).value == "hello"
            leader = await asyncio.to_thread(cluster.served.leader)
            cluster.served.processes[leader].kill()
            async with AsyncClient(list(cluster.served.clients.values()), options) as client:
                assert (await client.infer("echo", "on it goes")).value == "on it goes"
            cluster.served.start(leader)
            await asyncio.to_thread(cluster.served.ready, leader)
            assert await asyncio.to_thread(executor.terminate) == 0
            assert len(executor.logged("executor.joined")) == 1
            assert "Traceback" not in executor.said

    asyncio.run(asyncio.wait_for(main(), 4 * LIMIT_S))


def test_node_joins_with_the_role_peer_alone_and_clients_find_it(cluster: Secure) -> None:
    """Its own file alone names it; whoever asks the others is sent to it all the same."""
    served = cluster.served
    file = served.add("n5")
    process = served.start("n5", "--join", file=file)
    assert process.ended() == 1
    assert "n5 cannot join: the certificate of n5 has no role, and the peer port needs peer" in (
        process.said
    )
    del served.processes["n5"], served.peers["n5"], served.clients["n5"]

    process = served.start("n4", "--join", file=served.add("n4"))
    served.ready("n4")
    served.until(lambda: _rank(served, "n4") == "voter", "vote of n4")
    done = run("transfer", "n4", "--config", served.file)
    assert done.returncode == 0, done.stderr
    served.until(lambda: served.leader() == "n4", "n4 as leader")

    # The file that the others have does not name it; they know it by what it says itself.
    done = run("status", "--json", "--config", served.file)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f'"client_address": "{served.clients["n4"]}"' in done.stdout
    assert done.stdout.count('"node": "n4", "phase"') == 1
    done = run("members", "promote", "n1", "--config", served.file)
    assert "n1 votes already" in done.stderr, "the leader's own answer"

    async def main() -> None:
        with cluster.start("gpu-2") as executor:
            await asyncio.to_thread(executor.wait_for, "executor.joined")
            tls = cluster.tls("web")
            names = {address: node for address, node in tls.names.items() if node != "n4"}
            options = ClientOptions(tls=TLS(tls.ca, tls.certificate, tls.key, names))
            async with AsyncClient(served.clients["n1"], options) as client:
                assert (await client.infer("echo", "through n1")).value == "through n1"
                assert client.leader == served.clients["n4"]
            assert await asyncio.to_thread(executor.terminate) == 0

    asyncio.run(asyncio.wait_for(main(), 2 * LIMIT_S))
    done = run("members", "remove", "n4", "--config", served.file)
    assert done.returncode == 0, done.stderr
    assert process.ended() == 1
    assert "removed from the cluster" in process.said
    del served.processes["n4"], served.peers["n4"], served.clients["n4"]


def _rank(served: ServedCluster, node: str) -> str:
    for status in served.statuses().values():
        for member in status.members:
            if member.node_id == node and status.role == "leader":
                return str(member.rank)
    return ""


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("gpu-1", "", "the certificate of gpu-1 has the role executor, and Gateway/Session needs"),
        ("web", "foreign ca", "its certificate is not of our authority"),
        ("old", "", "it closed the connection before a word"),
        ("foreign", "foreign", "it closed the connection before a word"),
        ("web", "other name", "its certificate bears another name than that of the node"),
    ],
)
def test_sdk_says_why_it_is_not_let_in(
    cluster: Secure, tmp_path: Path, name: str, kind: str, said: str
) -> None:
    past = ("20200101000000Z", "20200102000000Z")
    cluster.authority.issue("old", "client", start=past[0], end=past[1])
    other = Authority(tmp_path, "other")
    other.issue("foreign", "client")
    address = cluster.served.clients["n1"]
    tls = cluster.tls(name, tmp_path if kind == "foreign" else None)
    if kind == "foreign ca":
        tls = cluster.tls(name, ca=tmp_path / "other.pem")
    if kind == "other name":
        tls = TLS(tls.ca, tls.certificate, tls.key, {address: "n2"})

    async def main() -> RaftbatchError:
        options = ClientOptions(tls=tls, connect_timeout_s=2.0)
        async with AsyncClient(address, options) as client:
            with pytest.raises(RaftbatchError) as caught:
                await client.infer("echo", "x")
            return caught.value

    error = asyncio.run(asyncio.wait_for(main(), LIMIT_S))
    assert said in error.message
    assert error.definite
    assert isinstance(error, PermissionDenied if name == "gpu-1" else NoLeader)


@pytest.mark.parametrize(
    ("executor", "said"),
    [
        ("web", "web cannot join: the certificate of web has the role client, and Dispatch/Join"),
        ("old", "old.pem is valid from Jan  1 "),
        ("foreign", "foreign.pem is not accepted by the authority in"),
        ("missing", "missing.pem cannot be read: No such file"),
        ("borrowed", "the certificate names gpu-2, and Dispatch/Join is about the executor 'borro"),
    ],
)
def test_executor_that_is_not_let_in_says_why_in_a_line(
    cluster: Secure, tmp_path: Path, executor: str, said: str
) -> None:
    past = ("20200101000000Z", "20200102000000Z")
    cluster.authority.issue("old", "executor", start=past[0], end=past[1])
    cluster.authority.issue("gpu-2", "executor", file="borrowed")
    other = Authority(tmp_path, "other")
    for path in other.issue("foreign", "executor")[1:]:
        (cluster.folder / Path(path).name).write_bytes(Path(path).read_bytes())
    with cluster.start(executor) as process:
        assert process.ended() == 1
        line = process.said.splitlines()[-1]
        assert line.startswith("Error: ")
        assert said in line
        assert "Traceback" not in process.said


def test_executor_of_a_cluster_with_another_authority_says_so(
    cluster: Secure, tmp_path: Path
) -> None:
    other = Authority(tmp_path, "ca")
    other.issue("gpu-1", "executor")
    text = Path(cluster.served.file).read_text(encoding="utf-8")
    file = tmp_path / "cluster.toml"
    file.write_text(text, encoding="utf-8")
    command = [*RAFTBATCH, "executor", "--id", "gpu-1", "--config", str(file), "--join", "2"]
    with Process(command) as process:
        assert process.ended() == 1
        line = process.said.splitlines()[-1]
        assert line.startswith("Error: no coordinator lets gpu-1 join within 2 s")
        assert "its certificate is not of our authority" in line
        assert "Traceback" not in process.said
