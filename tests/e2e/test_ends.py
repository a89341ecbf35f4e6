"""Every end comes in bounded time, whatever hangs."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest

from tests.e2e.cluster import ServedCluster
from tests.e2e.processes import Process, run

# Runs `raftbatch serve` with a disk that stands still for ever once a file is there.
_HANGING = """
import os, sys, threading
real, trigger = os.fdatasync, sys.argv.pop(1)
def hanging(descriptor):
    if os.path.exists(trigger):
        os.write(2, b'{"event": "disk.hung"}\\n')
        threading.Event().wait()
    real(descriptor)
os.fdatasync = hanging
from raftbatch.cli.main import main
main()
"""
# The same with a disk that stands still for as long as a file is there.
_SLOW = _HANGING.replace(
    "threading.Event().wait()",
    "while os.path.exists(trigger): threading.Event().wait(0.01)",
)
_QUICK = "[server]\nstop_ms_max = 1500\ntransfer_ms_max = 300\ndrain_ms_max = 300\n"


@pytest.fixture
def one(tmp_path: Path) -> Iterator[ServedCluster]:
    """Yield a cluster of one node."""
    with ServedCluster(tmp_path, ["n1"], _QUICK) as cluster:
        yield cluster


@contextmanager
def _serving(one: ServedCluster, program: str, trigger: Path) -> Iterator[Process]:
    """Run a node by another program; its disk fails from now on. Yield it once it leads."""
    command = [sys.executable, "-c", program, str(trigger)]
    with Process([*command, "serve", "--node", "n1", "--config", one.file, "--bootstrap"]) as node:
        node.wait_for("node.started")
        one.processes["n1"] = node
        one.leader()
        trigger.touch()
        yield node


@pytest.mark.slow
def test_stop_ends_where_the_disk_hangs(one: ServedCluster, tmp_path: Path) -> None:
    with _serving(one, _HANGING, tmp_path / "hang") as process:
        with one.appending("n1", [b"x"]):
            process.wait_for("disk.hung")
            process.send(signal.SIGTERM)
            assert process.ended() == 1
        assert "Error: ended at once: stopping took more than 1500 ms" in process.said


def test_second_signal_ends_at_once(one: ServedCluster, tmp_path: Path) -> None:
    one.settings = _QUICK.replace("1500", "600000")
    one.write(one.file, ["n1"])
    with _serving(one, _HANGING, tmp_path / "hang") as process:
        with one.appending("n1", [b"x"]):
            process.wait_for("disk.hung")
            process.send(signal.SIGTERM)
            process.wait_for("stop.begun")
            process.send(signal.SIGINT)
            assert process.ended() == 1
        assert "ended at once: a second signal" in process.said


@pytest.mark.slow
def test_stop_ends_where_opening_the_log_hangs(one: ServedCluster, tmp_path: Path) -> None:
    """The loop does not turn then, and answers no signal."""
    one.start("n1", "--bootstrap")
    one.ready("n1")
    assert one.processes["n1"].terminate() == 0
    trigger = tmp_path / "hang"
    trigger.touch()
    command = [sys.executable, "-c", _HANGING, str(trigger)]
    with Process([*command, "serve", "--node", "n1", "--config", one.file]) as process:
        process.wait_for("disk.hung")
        process.send(signal.SIGTERM)
        assert process.ended() == 1
        assert "Error: ended at once: stopping took more than 1500 ms" in process.said


@pytest.mark.slow
def test_stop_waits_for_the_disk_to_take_what_was_applied(tmp_path: Path) -> None:
    """A follower has applied what the others have made durable; its own disk is behind."""
    trigger = tmp_path / "slow"
    with ServedCluster(tmp_path / "three") as cluster:
        cluster.start_all("--bootstrap")
        slow = next(node for node in cluster.processes if node != cluster.leader())
        assert cluster.processes[slow].terminate() == 0
        command = [sys.executable, "-c", _SLOW, str(trigger), "serve", "--node", slow]
        with Process([*command, "--config", cluster.file]) as process:
            process.wait_for("node.started")
            cluster.processes[slow] = process
            cluster.agree()
            leader = cluster.leader()
            trigger.touch()
            for number in range(5):
                cluster.acknowledged(leader, [b"%d" % number])
            cluster.agree()
            status = cluster.heard(slow)
            process.send(signal.SIGTERM)
            process.wait_for("stop.begun")
            trigger.unlink()
            assert process.ended() == 0
        done = run("log", "dump", str(cluster.data(slow)), "--json")
        journal = json.loads(done.stdout.splitlines()[0])
        assert journal["last_index"] >= status.applied


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_interrupt_stops_as_well(one: ServedCluster, loop: str) -> None:
    without = "import sys; sys.modules['uvloop'] = None; " if loop == "asyncio" else ""
    code = f"{without}from raftbatch.cli.main import main; main()"
    command = [sys.executable, "-c", code, "serve", "--node", "n1", "--config", one.file]
    with Process([*command, "--bootstrap"]) as process:
        process.wait_for("node.started")
        process.send(signal.SIGINT)
        assert process.ended() == 0
        assert process.logged("node.stopped")


def _hangup(one: ServedCluster, disposition: str) -> list[str]:
    """Return the command of a node that is started so: whoever runs the tests may ignore it too."""
    set_so = f"import signal; signal.signal(signal.SIGHUP, signal.{disposition}); "
    code = f"{set_so}from raftbatch.cli.main import main; main()"
    serve = ["serve", "--node", "n1", "--config", one.file, "--bootstrap"]
    return [sys.executable, "-c", code, *serve]


def test_hangup_stops_as_well(one: ServedCluster) -> None:
    with Process(_hangup(one, "SIG_DFL")) as process:
        process.wait_for("node.started")
        process.send(signal.SIGHUP)
        assert process.ended() == 0
        assert [each["signal"] for each in process.logged("stop.begun")] == ["SIGHUP"]
        assert process.logged("node.stopped")


def test_hangup_that_was_ignored_stays_ignored(one: ServedCluster) -> None:
    with Process(_hangup(one, "SIG_IGN")) as process:
        process.wait_for("node.started")
        process.send(signal.SIGHUP)
        one.processes["n1"] = process
        one.leader()
        process.send(signal.SIGTERM)
        assert process.ended() == 0
        assert [each["signal"] for each in process.logged("stop.begun")] == ["SIGTERM"]


def test_failure_of_the_disk_ends_the_node_and_says_so(one: ServedCluster, tmp_path: Path) -> None:
    code = _HANGING.replace("threading.Event().wait()", "raise OSError(5, 'Input/output error')")
    with _serving(one, code, tmp_path / "fail") as process:
        try:
            results = one.append("n1", [b"x"])
        except grpc.RpcError:
            results = []  # it had something to sync before that, and takes nothing new
        # Definite only where it was refused: what was taken may be on the disk.
        assert all(each.error.slug == "draining" or not each.error.definite for each in results)
        assert process.ended() == 1
        assert "Input/output error" in process.said.splitlines()[-1]
        assert "Traceback" not in process.said
