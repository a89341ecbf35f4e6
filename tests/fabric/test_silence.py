"""A leader that falls silent without a word: what it costs those who call through the SDK.

The caller and the executor are on the network too, so that the leader's silence is theirs as well.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import IO

import pytest

from chaos.worlds.fabric import Fabric
from tests.e2e.cluster import AS_SHIPPED
from tests.e2e.processes import RAFTBATCH, Process
from tests.fabric.cluster import NODES, FabricCluster
from tests.fabric.nodes import needs_namespaces
from tests.tidy.tree import ROOT

pytestmark = [*needs_namespaces, pytest.mark.slow]

_ROUNDS = 3
_ROUNDS_MAX = 12
_COST_S = 2.0
_MODEL = """
[models.echo]
max_batch_size = 32
inputs = [{ name = "text", datatype = "BYTES", dims = [1] }]
[models.echo.executor]
module = "executor.examples.echo"
class = "Echo"
"""


class Caller:
    """The process of tests/fabric/caller.py, on the network."""

    def __init__(self, cluster: FabricCluster) -> None:
        command = [sys.executable, "-m", "tests.fabric.caller", *cluster.clients.values()]
        pipe = subprocess.PIPE
        self._process = cluster.fabric.run("c1", command, cwd=ROOT, stdin=pipe, stdout=pipe)

    def look(self) -> dict[str, dict[str, float]]:
        """Return how many answers there were since the last look, and the longest wait for one."""
        _pipe(self._process.stdin).write(b"look\n")
        _pipe(self._process.stdin).flush()
        line = _pipe(self._process.stdout).readline()
        assert line, "the caller has ended: see what it wrote"
        found: dict[str, dict[str, float]] = json.loads(line)
        return found

    def close(self) -> None:
        """End it."""
        _pipe(self._process.stdin).close()
        self._process.wait(30)
        _pipe(self._process.stdout).close()


def _pipe(found: IO[bytes] | None) -> IO[bytes]:
    assert found is not None
    return found


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[FabricCluster, Caller]]:
    folder = tmp_path_factory.mktemp("cluster")
    with (
        Fabric([*NODES, "x1", "c1"]) as fabric,
        FabricCluster(folder, fabric, _MODEL + AS_SHIPPED, NODES, "scheduler") as cluster,
    ):
        cluster.start_all("--bootstrap")
        cluster.leader()
        command = [*RAFTBATCH, "executor", "--id", "x1", "--config", cluster.file]
        with Process(fabric.enter("x1", command)) as executor:
            executor.wait_for("executor.joined")
            caller = Caller(cluster)
            try:
                yield cluster, caller
            finally:
                caller.close()


def _from_all(cluster: FabricCluster, leader: str) -> None:
    cluster.fabric.isolate(leader)


def _from_nodes(cluster: FabricCluster, leader: str) -> None:
    for other in cluster.others(leader):
        cluster.fabric.cut(leader, other)


@pytest.mark.parametrize("silence", [_from_all, _from_nodes])
def test_leader_that_falls_silent_costs_callers_less_than_two_seconds(
    stage: tuple[FabricCluster, Caller], silence: Callable[[FabricCluster, str], None]
) -> None:
    cluster, caller = stage
    costs: list[float] = []
    # Callers have a fair clock. Still a machine with other things to do may take longer at times,
    # but not as a rule; and one good round among bad ones shows nothing.
    while len(costs) < _ROUNDS or sorted(costs)[len(costs) // 2] >= _COST_S:
        assert len(costs) < _ROUNDS_MAX, costs
        _answered(cluster, caller)
        old = cluster.leader()
        silence(cluster, old)
        costs.append(_answered(cluster, caller))
        assert cluster.leader_among(cluster.others(old)) != old
        cluster.fabric.heal()
        _caught_up(cluster, old)


def _caught_up(cluster: FabricCluster, node: str) -> None:
    """Wait until a node has applied what the others had by now."""
    index = max(each.applied for each in cluster.statuses().values())
    cluster.until(lambda: cluster.seen(node).applied >= index, f"index {index} at {node}")


def _answered(cluster: FabricCluster, caller: Caller) -> float:
    """Wait until callers of both kinds have answers again; return how long the longest waited."""
    caller.look()
    came = {"one": 0.0, "many": 0.0}
    longest_s = 0.0

    def both() -> bool:
        nonlocal longest_s
        for name, found in caller.look().items():
            came[name] += found["answers"]
            longest_s = max(longest_s, found["longest_s"])
        return came["one"] > 20 and came["many"] > 640

    cluster.until(both, "answers")
    return longest_s
