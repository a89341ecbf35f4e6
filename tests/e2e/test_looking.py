"""`log tail`, `log show`, `request show` and `batch show` on clusters, and what these leave."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import grpc
import pytest

from raftbatch.v1 import admin_pb2
from raftbatch.v1 import gateway_pb2 as pb
from raftbatch.v1.admin_pb2_grpc import AdminStub
from raftbatch.v1.gateway_pb2_grpc import GatewayStub
from tests.e2e import executor_scene
from tests.e2e.cluster import ServedCluster
from tests.e2e.executor_scene import Scene
from tests.e2e.processes import LIMIT_S, RAFTBATCH
from tests.e2e.test_request_commands import MODELS, command, executor
from tests.tidy.tree import ROOT

# Keys of [storage], which stands before: what a snapshot stands for is let go at once.
_FORGETFUL = """
log_retention_bytes = 0
log_retention_ms = 0
trailing_entries = 0
[log]
snapshot_bytes_min = 1_500_000
stagger_bytes = 1_024
"""


class Tailed:
    """A `log tail --follow --json`, and the objects that it has printed."""

    def __init__(self, *words: str) -> None:
        self._changed = threading.Condition()
        self._found: list[dict[str, Any]] = []
        self._process = subprocess.Popen(
            [*RAFTBATCH, "log", "tail", "--follow", "--json", *words],
            cwd=ROOT,
            env=os.environ | {"TERM": "dumb"},
            stdout=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Kill it, and wait for it."""
        self._process.kill()
        self._process.wait(LIMIT_S)
        self._reader.join(LIMIT_S)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def until(self, holds: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
        """Return all that was printed, once something holds of it."""
        with self._changed:
            assert self._changed.wait_for(lambda: holds(self._found), LIMIT_S), self._found
            return list(self._found)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._changed:
                self._found.append(json.loads(line))
                self._changed.notify_all()


def has_run(request_id: str) -> Callable[[list[dict[str, Any]]], bool]:
    """Return what holds once a request was admitted, and a batch with it reported."""

    def holds(found: list[dict[str, Any]]) -> bool:
        admitted = [each for each in found if request_id in each.get("request_id", ())]
        if not admitted:
            return False
        number = admitted[0]["first"] + admitted[0]["request_id"].index(request_id)
        return any(
            number in each.get("numbers", ()) for each in found if each["record"] == "complete"
        )

    return holds


@pytest.mark.slow
def test_tail_follows_what_an_infer_does_whichever_node_dies(tmp_path: Path) -> None:
    with ServedCluster(tmp_path, settings=MODELS, replica="scheduler") as served:
        served.start_all("--bootstrap")
        leader = served.leader()
        where = ("--config", served.file)
        with executor(served), Tailed(*where, "-n", "1") as tailed:
            tailed.until(bool)
            command("infer", "echo", "one", "--request-id", "a", *where)
            found = tailed.until(has_run("a"))
            work = ("admit", "seal", "assign", "complete")
            assert [each["record"] for each in found if each["record"] in work] == list(work)
            for follower in [node for node in served.clients if node != leader]:
                served.processes[follower].kill()
                command("infer", "echo", "two", "--request-id", follower, *where)
                found = tailed.until(has_run(follower))
                served.start(follower)
                served.ready(follower)
            places = [each["index"] for each in found]
            assert places == sorted(places)
            assert set(range(places[0], places[-1])) <= set(places), "each once, and none left out"
        told = command("request", "show", "a", *where, anew=True)
        assert "ok" in told
        assert "sealed into batch" in told


@pytest.mark.slow
def test_story_of_a_request_whose_executor_and_leader_die(tmp_path: Path) -> None:
    told: dict[str, Any] = {}

    async def test(scene: Scene) -> None:
        first = await scene.start("gpu-1")
        await scene.ask("a", "hang once")
        await scene.running()
        leader = await asyncio.to_thread(scene.served.leader)
        scene.served.processes[leader].kill()
        await scene.start("gpu-2")
        first.kill()
        assert await scene.loud("a") == ["HANG ONCE!"]
        where = ("--config", scene.served.file)
        shown = await asyncio.to_thread(command, "request", "show", "a", *where)
        assert "admitted" in shown
        assert "assigned to gpu-1: batch 1, attempt 1" in shown
        assert "lapsed, attempt 1 on gpu-1: executor_lost" in shown
        assert "assigned to gpu-2: batch 1, attempt 2" in shown
        assert "ok by gpu-2, attempt 2 of batch 1" in shown
        shown = await asyncio.to_thread(command, "batch", "show", "1", *where)
        assert "completed at" in shown
        words = ("request", "show", "a", "--json", *where)
        told.update(json.loads(await asyncio.to_thread(command, *words)))
        assert told["state"]["outcome"]["kind"] == "ok"
        assert told["state"]["outcome"]["executor"] == "gpu-2"
        for node, process in scene.served.processes.items():
            if node != leader:
                assert await asyncio.to_thread(process.terminate) == 0

    executor_scene.run(tmp_path, test, ("n1", "n2", "n3"), lease_ms=executor_scene.LOSS_MS)
    survivor = told["log"]["node"]
    words = ("request", "show", "a", "--json", "--directory", str(tmp_path / "data" / survivor))
    offline = json.loads(command(*words))
    assert offline["events"] == told["events"]
    assert offline["outcome"] == told["outcome"]
    assert offline["state"] is None


def test_what_the_log_tells_no_more_is_said_and_taken_from_the_state(tmp_path: Path) -> None:
    settings = _FORGETFUL + MODELS
    with ServedCluster(tmp_path, ("n1",), settings, replica="scheduler") as served:
        served.start_all("--bootstrap")
        served.leader()
        where = ("--address", served.clients["n1"])
        with executor(served), served.channel("n1") as channel:
            _run(channel, "first", 10)
            for number in range(8):
                _run(channel, f"r{number}", 200_000)
            served.until(lambda: _first(served) > 10, "beginning that is gone")
            _run(channel, "last", 10)
        first = _first(served)
        gone = command("log", "tail", "--from", "1", *where, status=1)
        assert f"the log begins with {first}" in gone
        shown = command("request", "show", "first", *where)
        assert "by the state of n1" in shown
        assert "outcome    ok" in shown
        assert f"begins with entry {first} and does not hold its admission" in shown
        last = command("request", "show", "last", *where)
        assert "assigned to x1" in last
        never = command("request", "show", "never", *where, status=1)
        assert f"of which entries {first} to" in never
        batch = command("batch", "show", "1", *where, status=1, anew=True)
        assert "nothing is known of batch 1" in batch


def _run(channel: grpc.Channel, request_id: str, size: int) -> None:
    """Take a request in, and wait for its outcome."""
    submission = pb.Submission(request_id=request_id, model="echo", rows=1, payload=bytes(size))
    reply = GatewayStub(channel).Infer(pb.InferRequest(submission=submission), timeout=LIMIT_S)
    assert reply.outcome.kind == pb.OUTCOME_KIND_OK, reply


def _first(served: ServedCluster) -> int:
    """Return where the log of the node begins."""
    with served.channel("n1") as channel:
        [reply, *_] = AdminStub(channel).Entries(
            admin_pb2.EntriesRequest(newest=1), timeout=LIMIT_S
        )
    return int(reply.span.first)
