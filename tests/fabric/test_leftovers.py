"""Whatever a fabric makes is gone with it, or is found and removed if its harness was killed."""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from chaos.worlds.fabric import Fabric
from chaos.worlds.namespaces import clean, leftovers, ours, remove_namespace, run_ip
from chaos.worlds.owners import Unable
from tests.fabric.agent import LIMIT_S
from tests.fabric.nodes import needs_namespaces, running
from tests.tidy.tree import ROOT

pytestmark = needs_namespaces

_SHELL = "sleep 3600 & echo $!; wait"


def _mine() -> list[str]:
    return [name for name in ours() if name.startswith(f"rbchaos-{os.getpid()}-")]


def _addresses() -> list[str]:
    """Return the addresses of this machine, where the harness has its own."""
    links = json.loads(run_ip("-json", "address", "show"))
    return [info["local"] for link in links for info in link["addr_info"]]


class Watched:
    """A process that somebody else started, of which we see the end."""

    def __init__(self, pid: int) -> None:
        self._descriptor = os.pidfd_open(pid)

    def ends(self, limit_s: float = LIMIT_S) -> bool:
        """Return whether it ends in time."""
        return bool(select.select([self._descriptor], [], [], limit_s)[0])

    def close(self) -> None:
        """Look away."""
        os.close(self._descriptor)


@contextmanager
def _foreign_namespace(name: str) -> Iterator[None]:
    run_ip("netns", "add", name)
    try:
        yield
    finally:
        run_ip("netns", "delete", name)


@contextmanager
def _harness() -> Iterator[subprocess.Popen[bytes]]:
    """Start a harness, which is killed in the end, and cleaned up after, whatever happens."""
    command = [sys.executable, "-m", "tests.fabric.harness"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as harness:
        try:
            yield harness
        finally:
            harness.kill()
    clean()


def _clean() -> str:
    command = [sys.executable, "-m", "chaos", "clean"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=LIMIT_S
    )
    return done.stdout


def test_clean_removes_what_a_killed_harness_left_and_nothing_else() -> None:
    with (
        _foreign_namespace("rbchaos-other"),
        running("n1", "n2") as alive,
        _harness() as harness,
    ):
        assert harness.stdout is not None
        made = json.loads(harness.stdout.readline())
        assert len(made["namespaces"]) == 2
        switch, *processes = [Watched(pid) for pid in (made["switch"], *made["processes"])]
        assert made["address"] in _addresses()
        said = _clean()
        assert all(f"left {name}: who made it is alive" in said for name in made["namespaces"])

        harness.kill()
        harness.wait(LIMIT_S)
        assert switch.ends()
        assert made["address"] not in _addresses()
        assert set(made["namespaces"]) <= set(leftovers())
        assert not any(process.ends(0) for process in processes)

        said = _clean()
        assert all(f"removed {name}," in said for name in made["namespaces"])
        assert all(process.ends() for process in processes)
        assert not set(made["namespaces"]) & set(ours())
        assert alive.passing() == {("n1", "n2"), ("n2", "n1")}
        assert "rbchaos-other" in run_ip("netns", "list")
        for watched in (switch, *processes):
            watched.close()


def test_clean_tells_a_process_from_an_earlier_one_of_the_same_pid() -> None:
    name = f"rbchaos-{os.getpid()}-1-0-n1"
    run_ip("netns", "add", name)
    assert name in leftovers()
    assert f"removed {name}," in _clean()
    assert name not in ours()


def test_close_ends_all_that_runs_at_a_node_whatever_its_state() -> None:
    with Fabric(["n1"]) as fabric:
        process = fabric.run("n1", ["sh", "-c", _SHELL], stdout=subprocess.PIPE)
        assert process.stdout is not None
        child = Watched(int(process.stdout.readline()))
        process.stdout.close()
        process.send_signal(signal.SIGSTOP)
        switch = Watched(fabric.switch.pid)
        address = fabric.harness
        assert len(_mine()) == 1
        assert address in _addresses()
    assert process.returncode == -signal.SIGKILL
    assert child.ends()
    assert switch.ends(0)
    assert _mine() == []
    assert address not in _addresses()
    child.close()
    switch.close()
    fabric.close()  # again: there is nothing left to do


@pytest.mark.parametrize(("nodes", "mtu_bytes"), [(["n1", "n/2"], 1500), (["n1", "n2"], 1)])
def test_fabric_that_cannot_be_made_leaves_nothing(nodes: list[str], mtu_bytes: int) -> None:
    before = _addresses()
    with pytest.raises((ValueError, Unable)):
        Fabric(nodes, mtu_bytes=mtu_bytes)
    assert _mine() == []
    assert _addresses() == before


def test_fabrics_do_not_meet() -> None:
    with Fabric(["n1"]) as one, Fabric(["n1"]) as other:
        assert one.harness != other.harness
        assert len(_mine()) == 2


def test_remove_refuses_what_is_not_ours() -> None:
    with (
        _foreign_namespace("rbchaos-other"),
        pytest.raises(ValueError, match="not ours"),
    ):
        remove_namespace("rbchaos-other")
