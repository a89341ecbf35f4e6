"""Nodes as Prometheus and a load balancer see them: real processes, asked over HTTP."""

from __future__ import annotations

import asyncio
import json
import socket
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families as families

from coordinator.config import load_node
from coordinator.server import Server
from coordinator.starting import Mode
from raftbatch.realworld import RealFiles, RealWorld
from tests.e2e.cluster import ServedCluster
from tests.e2e.executor_scene import Scene, run
from tests.e2e.processes import LIMIT_S, RAFTBATCH, Process
from tests.e2e.processes import run as command

pytestmark = pytest.mark.slow


def get(address: str, target: str) -> tuple[int, bytes]:
    """Return status and body."""
    connection = HTTPConnection(address, timeout=LIMIT_S)
    try:
        connection.request("GET", target)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def ready(address: str, model: str = "") -> bool:
    """Return whether a node says that it is ready."""
    status, body = get(address, f"/readyz?model={model}" if model else "/readyz")
    said = json.loads(body)
    assert (status == 200) == said["ready"] == (not said["reasons"]), said
    return status == 200


def value(address: str, name: str, **labels: str) -> float | None:
    """Return a sample of a node's; None: there is none."""
    status, body = get(address, "/metrics")
    assert status == 200
    for family in families(body.decode()):
        for sample in family.samples:
            if sample.name == name and sample.labels == labels:
                return sample.value
    return None


def test_node_is_ready_with_a_quorum_and_not_without(tmp_path: Path) -> None:
    with ServedCluster(tmp_path, serves_http=True, replica="scheduler") as cluster:
        at = cluster.https
        cluster.start("n1", "--bootstrap")
        cluster.until(lambda: _answers(at["n1"]), "port")
        status, body = get(at["n1"], "/readyz")
        assert status == 503
        assert "n2" in " ".join(json.loads(body)["reasons"]), "it waits for the others"
        assert get(at["n1"], "/livez")[0] == 200
        for node in ("n2", "n3"):
            cluster.start(node, "--bootstrap")
        for node in at:
            cluster.ready(node)
        cluster.until(lambda: all(ready(each) for each in at.values()), "readiness")
        cluster.until(lambda: value(at["n1"], "raftbatch_peers_connected") == 2, "both peers")
        cluster.until(
            lambda: len({value(each, "raftbatch_term") for each in at.values()}) == 1, "one term"
        )
        for node in ("n2", "n3"):
            cluster.processes[node].kill()
        cluster.until(lambda: not ready(at["n1"]), "end of readiness")
        assert get(at["n1"], "/livez")[0] == 200
        cluster.until(lambda: value(at["n1"], "raftbatch_is_leader") == 0, "end of leading")
        cluster.start("n2")
        cluster.ready("n2")
        cluster.until(lambda: ready(at["n1"]) and ready(at["n2"]), "readiness again")


def _answers(address: str) -> bool:
    try:
        return get(address, "/livez")[0] == 200
    except ConnectionRefusedError:
        return False


def test_model_is_ready_while_an_executor_has_it_and_its_load_is_shown(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        served = scene.served
        [address] = served.https.values()

        async def until(holds: Any, what: str) -> None:
            await asyncio.to_thread(served.until, holds, what)

        await until(partial(ready, address), "readiness")
        assert not ready(address, "shout")
        index = await scene.ask("a", "slow")
        shown = command("status", "--config", served.file).stdout
        assert "1 requests for shout/1 wait: no executor has it ready" in shown
        executor = await scene.start("gpu-1", "--model", "shout")
        await until(partial(ready, address, "shout"), "readiness for the model")
        assert not ready(address, "echo")
        await scene.running()
        sample = partial(value, address, executor="gpu-1")
        await until(lambda: sample("raftbatch_executor_batches_running") == 1, "load")
        await until(lambda: (sample("raftbatch_executor_memory_bytes") or 0) > 1 << 20, "memory")
        labels = {"model": "shout", "version": "1"}
        await until(
            lambda: sample("raftbatch_executor_instances_busy", **labels) == 1, "busy instance"
        )
        told = json.loads(command("status", "--json", "--config", served.file).stdout)
        [load] = [each["load"] for each in told["nodes"][0]["scheduler"]["executors"]]
        assert (load["running"], load["models"][0]["busy"]) == (1, 1)
        scene.go()
        assert await scene.loud("a", index) == ["SLOW!"]
        assert value(address, "raftbatch_cluster_outcomes_total", kind="ok") == 1
        assert value(address, "raftbatch_cluster_batch_rows_count") == 1
        assert (value(address, "raftbatch_commit_seconds_count") or 0) > 1
        assert (value(address, "raftbatch_journal_sync_seconds_count") or 0) > 1
        assert await asyncio.to_thread(executor.terminate) == 0
        await until(lambda: not ready(address, "shout"), "end of readiness for the model")
        assert ready(address)

    run(tmp_path, test, serves_http=True)


def test_what_nobody_runs_is_said_while_infer_waits(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        config = ("--config", scene.served.file)
        told = json.loads(command("status", "--json", *config).stdout)
        assert told["notes"] == []
        arguments = ("infer", "shout", "--input", "text=x", *config)
        with Process([*RAFTBATCH, *arguments]) as waiting:
            line = "no executor has model shout ready (there is no executor at all)"
            await asyncio.to_thread(waiting.until, lambda: line in waiting.said, "line")
            told = json.loads(command("status", "--json", *config).stdout)
            assert told["notes"] == ["1 requests for shout/1 wait: no executor has it ready"]
            assert told["nodes"][0]["scheduler"]["models"][1]["executors"] == 0
            assert "1 requests for shout/1 wait" in command("status", *config).stdout
            assert waiting.is_up
            await scene.start("gpu-1")
            assert await asyncio.to_thread(waiting.ended) == 0

    run(tmp_path, test)


def test_totals_do_not_begin_anew_with_the_process(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        served = scene.served
        [address] = served.https.values()
        await scene.ask("a", "x", model="echo")
        served.processes["n1"].kill()
        process = await asyncio.to_thread(served.start, "n1")
        await asyncio.to_thread(process.wait_for, "node.started")
        seen: list[float | None] = []

        def counted() -> bool:
            seen.append(value(address, "raftbatch_cluster_requests_admitted_total"))
            return seen[-1] is not None

        await asyncio.to_thread(served.until, counted, "totals")
        assert set(seen) <= {None, 1.0}, "never less than there were"

    run(tmp_path, test, serves_http=True)


def test_abuse_of_the_port_keeps_nobody_out(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        [address] = scene.served.https.values()
        host, _, port = address.rpartition(":")
        writers = []
        try:
            for number in range(200):
                _, writer = await asyncio.open_connection(host, int(port))
                writer.write((b"GET /metrics HTTP/1.1\r\nX: ", b"\0" * 9000, b"")[number % 3])
                writers.append(writer)
            assert (await asyncio.to_thread(get, address, "/livez"))[0] == 200
            await scene.start("gpu-1", "--model", "echo")
            await scene.ask("a", "x", model="echo")
            assert (await scene.told("a")).kind == 0
            assert (await asyncio.to_thread(get, address, "/readyz?model=echo"))[0] == 200
        finally:
            for writer in writers:
                writer.close()
        cut = await asyncio.to_thread(
            value, address, "raftbatch_http_connections_cut_total", reason="full"
        )
        assert cut, "there were more than may be"
        assert scene.served.processes["n1"].is_up
        assert "Traceback" not in scene.served.processes["n1"].said

    run(tmp_path, test, serves_http=True)


def test_node_of_opaque_entries_has_metrics_of_its_log(tmp_path: Path) -> None:
    with ServedCluster(tmp_path, ["n1"], serves_http=True) as cluster:
        address = cluster.https["n1"]
        cluster.start_all("--bootstrap")
        cluster.until(lambda: ready(address), "readiness")
        assert value(address, "raftbatch_is_leader") == 1
        assert value(address, "raftbatch_cluster_requests_waiting") is None
        assert not ready(address, "m")


def test_port_in_use_is_found_before_anything_is_touched(tmp_path: Path) -> None:
    with ServedCluster(tmp_path, ["n1"], serves_http=True) as cluster, socket.socket() as holder:
        host, _, port = cluster.https["n1"].rpartition(":")
        holder.bind((host, int(port)))
        holder.listen()
        process = cluster.start("n1", "--bootstrap")
        assert process.ended() == 1
        last = process.said.splitlines()[-1]
        assert last.startswith(f"Error: cannot listen for HTTP at {cluster.https['n1']}: ")
        assert "Traceback" not in process.said
        assert not cluster.data("n1").exists()


def test_node_without_the_key_serves_no_http(tmp_path: Path) -> None:
    with ServedCluster(tmp_path, ["n1"]) as cluster:
        process = cluster.start("n1", "--bootstrap")
        assert process.wait_for("node.started")["http"] == ""


class _Process:
    """A process that is told to stop when a test says so."""

    def __init__(self) -> None:
        self.told: Any = None

    def on_stop(self, told: Any, within_ms: int) -> None:
        """Note whom to tell."""
        self.told = told

    def end_within(self, duration_ms: int, why: str) -> None:
        """Let the test's own limit do that."""


def test_node_that_stops_is_not_ready_before_it_drains(tmp_path: Path) -> None:
    seen: list[tuple[int, Any]] = []

    async def main(cluster: ServedCluster) -> None:
        process = _Process()
        config = load_node(RealFiles(), cluster.file, "n1")
        server = Server(RealWorld(), process, config, Mode.BOOTSTRAP, None, None)
        close = server._port.close

        async def closed(grace_s: float) -> None:
            """Look in the midst of the stop: before the client port drains."""
            status, body = await asyncio.to_thread(get, cluster.https["n1"], "/readyz")
            seen.append((status, json.loads(body)["reasons"]))
            await close(grace_s)

        server._port.close = closed  # type: ignore[method-assign]
        running = asyncio.ensure_future(server.run())
        until = partial(cluster.until, lambda: _is_ready(cluster.https["n1"]), "readiness")
        await asyncio.to_thread(until)
        process.told("SIGTERM")
        await running

    with ServedCluster(tmp_path, ["n1"], serves_http=True, replica="scheduler") as cluster:
        asyncio.run(main(cluster))
        assert seen == [(503, ["this node stops"])]
        assert not _answers(cluster.https["n1"])


def _is_ready(address: str) -> bool:
    return _answers(address) and ready(address)
