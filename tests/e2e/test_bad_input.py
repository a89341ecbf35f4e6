"""Bad input at every door of a real node: it is told what is wrong, and harms nothing else."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import grpc
import pytest

from raftbatch import tensors
from raftbatch.client import Client
from raftbatch.errors import InvalidRequest, PayloadTooLarge, UnknownModel
from raftbatch.trailers import said_by
from raftbatch.v1 import admin_pb2_grpc, dispatch_pb2_grpc, gateway_pb2, gateway_pb2_grpc
from tests.e2e.cluster import ServedCluster
from tests.e2e.processes import LIMIT_S, RAFTBATCH, Process, run

pytestmark = pytest.mark.slow

MODEL = """
class Add:
    def load(self, context): ...
    def predict(self, batch):
        return {"sum": batch.inputs["x"].sum(axis=1, keepdims=True)}
"""
MISSING = "ModuleNotFoundError(\"No module named 'torch'\", name='torch')"
SETTINGS = """
[policy]
request_bytes_max = 100_000
[models.add]
inputs = [{ name = "x", datatype = "FP32", dims = [2] }]
outputs = [{ name = "sum", datatype = "FP32", dims = [1] }]
[models.add.executor]
file = "add.py"
class = "Add"
[models.echo]
inputs = [{ name = "text", datatype = "BYTES", dims = [1] }]
outputs = [{ name = "text", datatype = "BYTES", dims = [1] }]
[models.echo.executor]
module = "executor.examples.echo"
class = "Echo"
"""


class Scene:
    """A node, an executor and a client, which nothing here may harm."""

    def __init__(self, served: ServedCluster, executor: Process, client: Client) -> None:
        self.served = served
        self.executor = executor
        self.client = client
        self.node = served.processes["n1"]

    def unharmed(self) -> None:
        """Look whether all goes on as before, and nobody has said anything about it."""
        assert list(self.client.infer("add", [1.0, 2.0])["sum"]) == [3.0]
        for process in (self.node, self.executor):
            assert process.is_up
            assert "Traceback" not in process.said
            assert [each for each in process.events if each["level"] in ("ERROR", "CRITICAL")] == []
        status = self.served.heard("n1")
        assert (status.role, status.term) == ("leader", self.term), "nobody else had to lead"

    term = 1


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("bad")
    (folder / "add.py").write_text(MODEL, encoding="utf-8")
    served = ServedCluster(folder, ("n1",), SETTINGS, replica="scheduler", serves_http=True)
    with served:
        served.start_all("--bootstrap")
        served.leader()
        command = [*RAFTBATCH, "executor", "--id", "gpu-1", "--config", served.file]
        with Process(command) as executor, Client(served.clients["n1"]) as client:
            executor.wait_for("executor.joined")
            found = Scene(served, executor, client)
            found.term = served.heard("n1").term
            yield found


def submitted(scene: Scene, request_id: str, payload: bytes, **more: Any) -> gateway_pb2.AwaitReply:
    """Send a request as whoever has no SDK may send it; return what came of it."""
    submission = gateway_pb2.Submission(request_id=request_id, payload=payload, **more)
    with scene.served.channel("n1") as channel:
        request = gateway_pb2.InferRequest(submission=submission)
        reply: gateway_pb2.AwaitReply = gateway_pb2_grpc.GatewayStub(channel).Infer(
            request, timeout=LIMIT_S
        )
        return reply


@pytest.mark.parametrize(
    ("call", "kind", "said"),
    [
        (lambda client: client.infer("sub", [1.0, 2.0]), UnknownModel, "there is no model sub"),
        (
            lambda client: client.infer("add", [1.0, 2.0], version="7"),
            UnknownModel,
            "there is no model add of version 7",
        ),
        (lambda client: client.infer("add", ["a", "b"]), InvalidRequest, "x"),
        (lambda client: client.infer("add", [1.0, 2.0, 3.0]), InvalidRequest, "x"),
        (lambda client: client.infer("add", {"y": [1.0, 2.0]}), InvalidRequest, "'x' is missing"),
        (lambda client: client.infer("echo", "x" * 200_000), PayloadTooLarge, "100000"),
    ],
)
def test_sdk_is_told_what_is_wrong_with_a_request(
    scene: Scene, call: Callable[[Client], object], kind: type[Exception], said: str
) -> None:
    with pytest.raises(kind, match=said):
        call(scene.client)
    scene.unharmed()


def test_command_is_told_what_is_wrong_with_a_request(scene: Scene) -> None:
    for words, said in (
        (("sub", "x"), "there is no model sub: there are add, "),
        (("add", "--input", "x=[1, 2, 3]"), "x"),
        (("add", "--input", 'x="a"'), "x"),
        (("echo", "x" * 110_000), "100000"),
    ):
        done = run("infer", *words, "--config", scene.served.file)
        assert done.returncode == 1, done.stderr
        assert done.stderr.startswith("Error: "), done.stderr
        assert said in done.stderr
        assert "Traceback" not in done.stderr
    scene.unharmed()


def test_tensors_that_are_not_as_declared_fail_their_request_alone(scene: Scene) -> None:
    """Coordinators look into no payload: who sends it past the SDK hears it from the executor."""
    four, eight = bytes(4), bytes(8)
    for number, (payload, said) in enumerate(
        [
            (tensors.encode([tensors.Tensor("x", "INT64", (1, 2), bytes(16))]), "INT64"),
            (tensors.encode([tensors.Tensor("x", "FP32", (1, 1), four)]), "x"),
            (tensors.encode([tensors.Tensor("y", "FP32", (1, 2), eight)]), "'y' is none"),
            (tensors.encode([tensors.Tensor("x", "FP32", (2, 2), bytes(16))]), "x"),
            (b"\xff" * 40, ""),
            (b"", ""),
        ]
    ):
        reply = submitted(scene, f"bad-{number}", payload, model="add", rows=1)
        assert reply.outcome.kind == gateway_pb2.OUTCOME_KIND_FAILED, reply
        assert reply.outcome.code == "invalid_input", reply
        assert said in reply.outcome.message
        assert "Traceback" not in reply.outcome.message
    scene.unharmed()


def test_fields_that_no_record_can_carry_are_refused_by_name(scene: Scene) -> None:
    for fields, said in (
        ({"model": "add", "rows": 0}, "rows"),
        ({"model": "", "rows": 1}, "model"),
        ({"model": "add", "rows": 1, "request_id": "x" * 300}, "request id"),
        ({"model": "add", "rows": 1, "priority": 99}, "priority"),
        ({"model": "add", "rows": 1, "timeout_ms": 1 << 50}, "timeout_ms"),
        ({"model": "add", "rows": 99}, "rows"),
    ):
        request_id = str(fields.pop("request_id", "refused"))
        with pytest.raises(grpc.RpcError) as caught:
            submitted(scene, request_id, b"x", **fields)
        found = said_by(caught.value.trailing_metadata())
        assert found is not None
        assert (found.slug, found.definite) == ("invalid_request", True), found
        assert said in found.message
    scene.unharmed()


def test_bytes_that_are_no_message_are_refused_by_every_call(scene: Scene) -> None:
    methods = [
        f"/raftbatch.v1.{service}/{method}"
        for service, stub in (
            ("Gateway", gateway_pb2_grpc.GatewayStub),
            ("Dispatch", dispatch_pb2_grpc.DispatchStub),
            ("Admin", admin_pb2_grpc.AdminStub),
        )
        for method in vars(_Recorder(stub).stub)
    ]
    assert len(methods) > 15
    with scene.served.channel("n1") as channel:
        for method in methods:
            call: Any = channel.stream_stream(method, request_serializer=None)
            with pytest.raises(grpc.RpcError) as caught:
                list(call(iter([b"\xff" * 50]), timeout=LIMIT_S))
            error: Any = caught.value
            assert error.code() is grpc.StatusCode.INVALID_ARGUMENT, (method, error)
            assert "the message cannot be read" in error.details(), method
        nothing: Any = channel.stream_stream(
            "/raftbatch.v1.Gateway/Nonsense", request_serializer=None
        )
        with pytest.raises(grpc.RpcError) as caught:
            list(nothing(iter([b""]), timeout=LIMIT_S))
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
    scene.unharmed()


class _Recorder:
    """Makes a stub whose calls are known by their names."""

    def __init__(self, stub: Any) -> None:
        self.stub = stub(self)

    def __getattr__(self, _kind: str) -> Callable[..., None]:
        return lambda *_arguments, **_more: None


def test_malformed_bytes_at_every_port_harm_nobody(scene: Scene) -> None:
    rng = Random(7)
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    garbage = [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + rng.randbytes(500),  # TLS, half of it
        b"\0" * 70_000,
        b"\xff" * 70_000,
        preface + rng.randbytes(5_000),
        preface + b"\0\0\0\x04\0\0\0\0\0" + b"\xff\xff\xff" + rng.randbytes(200),
        preface[:11],
        *[rng.randbytes(rng.randint(1, 3_000)) for _ in range(20)],
    ]
    for addresses in (scene.served.clients, scene.served.peers, scene.served.https):
        host, _, port = addresses["n1"].rpartition(":")
        for data in garbage:
            with socket.create_connection((host, int(port)), LIMIT_S) as thrown:
                try:
                    thrown.sendall(data)
                    thrown.shutdown(socket.SHUT_WR)
                    while thrown.recv(1 << 16):
                        pass
                except OSError:
                    pass  # it was closed with our bytes unread
        scene.unharmed()


def test_file_of_another_cluster_is_refused_by_name(scene: Scene, tmp_path: Path) -> None:
    """Its addresses are this cluster's: what is shown, or changed, would not be the file's."""
    text = Path(scene.served.file).read_text(encoding="utf-8")
    file = tmp_path / "other.toml"
    file.write_text(text.replace('name = "test"', 'name = "other"'), encoding="utf-8")
    (tmp_path / "add.py").write_text(MODEL, encoding="utf-8")
    said = "n1 is a node of the cluster 'test', and this is meant for 'other'"
    for words in (
        ("status",),
        ("infer", "echo", "x"),
        ("submit", "echo", "x", "--forward"),
        ("transfer",),
        ("members", "list"),
        ("members", "remove", "n1"),
        ("log", "tail"),
        ("request", "show", "x"),
        ("executor", "--id", "gpu-9", "--join", "5"),
    ):
        done = run(*words, "--config", str(file))
        assert done.returncode == 1, (words, done.stdout, done.stderr)
        assert said in done.stdout + done.stderr, words
        assert "Traceback" not in done.stderr
    scene.unharmed()


def test_transfer_to_who_leads_already_is_no_failure(scene: Scene) -> None:
    done = run("transfer", "n1", "--config", scene.served.file)
    assert (done.returncode, done.stdout) == (0, "n1 leads already\n"), done.stderr
    done = run("transfer", "n1", "--json", "--config", scene.served.file)
    assert done.stdout == '{"leader": "n1", "led_already": true}\n'
    done = run("transfer", "--config", scene.served.file)
    assert done.returncode == 1
    assert "there is no other voter" in done.stderr
    scene.unharmed()


@pytest.mark.parametrize(
    ("model", "missing", "said"),
    [
        ("import torch", MISSING, "add: {file} needs torch, which is not installed: pip install"),
        (
            'class Add:\n    backend = "torch"\n    def predict(self, batch): ...',
            MISSING,
            "add needs torch, which is not installed: pip install 'raftbatch[executor]'",
        ),
        (
            'class Add:\n    backend = "torch"\n    def predict(self, batch): ...',
            "OSError('libcudart.so.12: cannot open shared object file')",
            "add needs torch, which does not import: OSError: libcudart.so.12: cannot open",
        ),
        ("import nothing_such", "", "add: {file} does not import: No module named 'nothing_such'"),
        ("class Add:", "", "add: {file} does not import: IndentationError"),
        (
            "import os\nclass Add:\n    def load(self, context): os.environ['WEIGHTS']",
            "",
            "add does not load: KeyError: 'WEIGHTS'",
        ),
    ],
)
def test_executor_that_cannot_run_a_model_says_which_and_the_others_go_on(
    scene: Scene, tmp_path: Path, model: str, missing: str, said: str
) -> None:
    """The same cluster, another machine: what the model needs is not there."""
    text = Path(scene.served.file).read_text(encoding="utf-8")
    file, own = tmp_path / "cluster.toml", tmp_path / "add.py"
    file.write_text(text, encoding="utf-8")
    own.write_text(model, encoding="utf-8")
    if missing:
        (tmp_path / "instead").mkdir()
        (tmp_path / "instead" / "torch.py").write_text(f"raise {missing}\n", encoding="utf-8")
    command = [*RAFTBATCH, "executor", "--id", "gpu-2", "--config", str(file), "--join", "5"]
    with Process(command, {"PYTHONPATH": str(tmp_path / "instead")}) as process:
        assert process.ended() == 1
    last = process.said.splitlines()[-1]
    assert last.startswith("Error: "), process.said
    assert said.format(file=own) in last
    assert not process.logged("executor.joined")
    scene.unharmed()
