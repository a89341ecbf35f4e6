"""`raftbatch result` and `infer`: an outcome is acknowledged once it is printed, and not before."""

from __future__ import annotations

import errno
import json
import sys
from io import StringIO
from typing import Any, Self

import pytest
import typer
from typer.testing import CliRunner

import raftbatch.client
from raftbatch.cli import failing, requests
from raftbatch.cli.main import app
from raftbatch.client import ClientOptions, Result
from raftbatch.client.values import to_tensor
from raftbatch.tensors import encode
from raftbatch.v1 import gateway_pb2 as pb

AT = ["127.0.0.1:1"]  # where nobody is asked
BINARY = b"\xff\x00"


def outputs(**values: Any) -> bytes:
    """Return an envelope of these."""
    return encode([to_tensor(name, value) for name, value in values.items()])


class FullDisk(StringIO):
    """Takes what is written, and says that it cannot keep it."""

    def flush(self) -> None:
        """Fail."""
        raise OSError(errno.ENOSPC, "the disk is full")


class Cluster:
    """Stands for both clients: it has one outcome, and notes what is acknowledged."""

    def __init__(self) -> None:
        self.payload = b""
        self.acknowledged: list[str] = []

    def client(self, addresses: list[str], options: ClientOptions) -> Cluster:
        """Be made, as a client."""
        assert not options.acknowledges
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ends: object) -> None:
        pass

    def ticket(self, request_id: str, index: int) -> Cluster:
        """Be a ticket too."""
        return self

    def result(self) -> Result:
        """Return the outcome."""
        return Result("r1", pb.Outcome(result=self.payload))

    def acknowledge(self, request_id: str) -> None:
        """Let it go."""
        self.acknowledged.append(request_id)


class AsyncCluster(Cluster):
    """The same, on asyncio."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *ends: object) -> None:
        pass

    async def infer(self, model: str, inputs: Any, **settings: Any) -> Result:
        """Return the outcome."""
        return self.result()

    async def acknowledge(self, request_id: str) -> None:  # type: ignore[override]
        """Let it go."""
        self.acknowledged.append(request_id)


@pytest.fixture(params=["result", "infer"])
def cluster(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Return a cluster that a command asks."""
    found = Cluster() if request.param == "result" else AsyncCluster()
    name = "Client" if request.param == "result" else "AsyncClient"
    monkeypatch.setattr(raftbatch.client, name, found.client)
    return found


def show(cluster: Cluster, as_json: bool = False) -> None:
    """Run the command."""
    if isinstance(cluster, AsyncCluster):
        requests.infer("echo", "a", address=AT, as_json=as_json)
    else:
        requests.result("r1", address=AT, as_json=as_json)


def test_what_was_printed_is_acknowledged(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.payload = outputs(text=["grün"], x=[[1.5, 2]])
    show(cluster)
    assert cluster.acknowledged == ["r1"]
    show(cluster, as_json=True)
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["request_id"] == "r1"
    assert cluster.acknowledged == ["r1"] * 2


def test_what_is_no_text_is_printed_as_base64(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.payload = outputs(a=["text", BINARY], b=[1])
    show(cluster, as_json=True)
    found = json.loads(capsys.readouterr().out)["outputs"]
    assert found == {"a": ["text", {"base64": "/wA="}], "b": found["b"]}
    show(cluster)
    assert '{"base64": "/wA="}' in capsys.readouterr().out
    assert cluster.acknowledged == ["r1"] * 2


def test_what_was_not_printed_whole_can_be_had_again(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.payload = outputs(text="a" * 401)
    show(cluster)
    assert "`raftbatch result r1 --json` shows all" in capsys.readouterr().out
    broken = outputs(text="a").replace(b"\1\0\0\0a", b"\xff\0\0\0a")
    for cluster.payload in (b"opaque", broken):
        with monkeypatch.context() as asked:
            asked.setattr(failing, "_AS_JSON", [True])
            with pytest.raises(typer.Exit) as ended:
                show(cluster, as_json=True)
        assert ended.value.exit_code == 1
        said = capsys.readouterr()
        assert "Error: the outputs cannot be shown, and are kept: the " in said.err
        assert json.loads(said.out)["error"]["code"] == "failed", "not that of a wrong request"
    cluster.payload = outputs(text="a")
    with monkeypatch.context() as closed:
        closed.setattr(sys, "stdout", None)
        show(cluster)
    with monkeypatch.context() as full:
        full.setattr(sys, "stdout", FullDisk())
        with pytest.raises(OSError, match="full"):
            show(cluster)
    assert cluster.acknowledged == []


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("[[1,2],3]", "'x' is a ragged list"),
        ("[" * 17 + "]" * 17, "'x' is nested deeper than 16 lists"),
        ("[" * 100_000 + "]" * 100_000, ""),
        ('{"a":1}', "'x' is a dict"),
        ("null", "'x' is a NoneType"),
    ],
)
@pytest.mark.parametrize("is_typed", [True, False])
def test_input_that_no_model_takes_is_wrong_usage(value: str, said: str, is_typed: bool) -> None:
    """Of a command line, and of standard input."""
    words = ["infer", "m", "--address", *AT]
    words += [f"--input=x={value}"] if is_typed else ["-"]
    result = CliRunner().invoke(app, words, input=f'{{"x": {value}}}', env={"COLUMNS": "200"})
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr
    assert "Traceback" not in result.stderr
    assert isinstance(result.exception, SystemExit)
