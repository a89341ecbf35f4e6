"""`raftbatch infer`, `submit`, `result` and `cancel` against real nodes, also with certificates."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest

from tests.e2e.cluster import ServedCluster, free_ports
from tests.e2e.executors import Cluster, EchoExecutor
from tests.e2e.processes import LIMIT_S, run
from tests.network.certificates import Authority

MODELS = """
[leader]
lease_ms = 60_000
[models.echo]
max_batch_size = 8
inputs = [{ name = "text", datatype = "BYTES", dims = [1] }]
[models.both]
inputs = [
    { name = "text", datatype = "BYTES", dims = [1] },
    { name = "x", datatype = "FP32", dims = [2] },
]
"""


@contextmanager
def executor(served: ServedCluster) -> Iterator[None]:
    """Let an executor run beside commands, which are waited for."""
    over, began = Event(), Event()

    async def work() -> None:
        cluster = Cluster(served.clients)
        try:
            async with EchoExecutor(cluster, models=["echo", "both"]):
                began.set()
                while not over.is_set():
                    await cluster.pause(0.05)
        finally:
            await cluster.close()

    thread = Thread(target=lambda: asyncio.run(work()))
    thread.start()
    try:
        assert began.wait(LIMIT_S)
        yield
    finally:
        over.set()
        thread.join()


def command(*words: str, stdin: str | None = None, status: int = 0, anew: bool = False) -> str:
    """Run a command; return what it printed, or what it complained of."""
    done: subprocess.CompletedProcess[str] = run(*words, stdin=stdin, anew=anew)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout if status == 0 else done.stderr


@pytest.mark.slow
def test_requests_from_the_command_line(tmp_path: Path) -> None:
    with ServedCluster(tmp_path, ("n1",), MODELS, replica="scheduler") as served:
        served.start_all("--bootstrap")
        served.leader()
        at = ("--address", served.clients["n1"])
        line = command("submit", "echo", "later", "--config", served.file, anew=True)
        request_id, option, index = line.split()
        assert option == "--index"
        assert "cancelled" in command("cancel", "to come", *at, anew=True)
        assert "cancelled" in command(
            "infer", "echo", "a", "--request-id", "to come", *at, status=1
        )
        gone = command("infer", "echo", "b", "--timeout", "0.2", *at, status=1)
        assert "deadline" in gone
        late = command("result", request_id, "--index", index, "--wait", "2", *at, status=3)
        assert "It may have happened or not" in late
        unknown = command("infer", "nothing", "a", *at, status=1)
        assert "no model nothing: there are " in unknown
        assert "Models stand in" in unknown
        hurried = command("infer", "echo", "b", "--wait", "4", *at, status=3)
        assert "no executor has model echo ready (there is no executor at all)" in hurried
        line = command("submit", "echo", "theirs", "--request-id", "same", "--tenant", "b", *at)
        assert line.startswith("same --index")
        assert "cancelled" in command("cancel", "same", *at)
        with executor(served):
            theirs = ("result", "same", *line.split()[1:], *at)
            command(*theirs, status=1)  # that of the default tenant was cancelled
            assert command(*theirs, "--tenant", "b") == "text: theirs\n"
            command("cancel", "same", "--tenant", "b", *at, status=1)
            told = command("infer", "echo", "x", "--request-id", "same", "--tenant", "c", *at)
            assert told == "text: x\n"
            told = command("result", request_id, "--index", index, *at, anew=True)
            assert told == "text: later\n"
            gone = command("result", request_id, "--index", index, *at, status=1)
            assert "acknowledged" in gone
            assert command("infer", "echo", "hello", *at) == "text: hello\n"
            found = json.loads(command("infer", "echo", "hello", "--json", *at))
            assert found["outputs"] == {"text": "hello"}
            assert found["run"]["executor"] == "x1"
            named = ("--input", "text=a=b", "--input", "x=[1, 2.5]")
            assert command("infer", "both", *named, *at) == "text: a=b\nx: [1.0, 2.5]\n"
            both = json.dumps({"text": ["a", "b"], "x": [[1, 2], [3, 4]]})
            told = command("infer", "both", "-", "--json", *at, stdin=both)
            assert json.loads(told)["outputs"] == json.loads(both)
    nobody = f"127.0.0.1:{free_ports(1)[0]}"
    there = ("--address", nobody, "--wait", "1")
    assert "none of the nodes" in command("infer", "echo", "a", *there, status=1)
    for words in (["echo"], ["echo", "a", "--input", "b=c"], ["echo", "--input", "b"]):
        command("infer", *words, "--address", nobody, status=2)
    assert "no JSON" in command("infer", "echo", "-", "--address", nobody, stdin="{", status=2)


@pytest.mark.slow
def test_requests_with_certificates(tmp_path: Path) -> None:
    (tmp_path / "certs").mkdir()
    authority = Authority(tmp_path / "certs")
    nodes = ("n1", "n2", "n3")
    for name in nodes:
        authority.issue(name)
    authority.issue("operator", "client")  # who asks for requests needs no more
    settings = (
        '[tls]\nca = "certs/ca.pem"\ncert = "certs/{node}.pem"\nkey = "certs/{node}.key"\n'
        'operator_cert = "certs/operator.pem"\noperator_key = "certs/operator.key"\n'
    )
    with ServedCluster(tmp_path, nodes, settings + MODELS, replica="scheduler") as served:
        served.start_all("--bootstrap")
        for node in nodes:  # of which one leads, and two send there
            words = ("--config", served.file, "--address", served.clients[node])
            assert "--index" in command("submit", "echo", "a", *words)
