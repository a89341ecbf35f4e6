"""A cluster of processes to measure, and what the system says of them.

    with running(directory, executors=2) as cluster:
        cluster.kill(cluster.leader())

It is that of `cluster_configs/local-3.toml`, with another model beside its own. What lives
here: that, processor time, memory. What must never live here: a measure, a client. Called by:
`failover`, `speed`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from raftbatch.local import LocalCluster

_TEMPLATE = Path(__file__).parents[2] / "cluster_configs" / "local-3.toml"
_PATIENCE_S = 60.0
_LOOK_S = 0.02
_TICKS = os.sysconf("SC_CLK_TCK")

_MODELS = """
[models.quick] # the echo again, with windows that gather nothing
max_batch_size = 32
max_queue_delay_microseconds = 0
inputs = [{ name = "text", datatype = "BYTES", dims = [1] }]
outputs = [{ name = "text", datatype = "BYTES", dims = [1] }]
[models.quick.executor]
module = "executor.examples.echo"
class = "Echo"
"""


@contextmanager
def running(directory: Path, executors: int = 1) -> Iterator[LocalCluster]:
    """Give a cluster that serves, below an empty directory; kill it at the end."""
    config = directory / "local-3.toml"
    config.write_text(_TEMPLATE.read_text(encoding="utf-8") + _MODELS, encoding="utf-8")
    cluster = LocalCluster(directory / "cluster", config=config, executors=executors)
    try:
        cluster.start()
        cluster.wait_ready()
        yield cluster
    finally:
        cluster.close(0.0)


def until_caught_up(cluster: LocalCluster, node: str) -> None:
    """Wait until a node has applied what its leader had committed a moment ago.

    Raises:
        RuntimeError: it never does.
    """
    until = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until:
        wanted = cluster.statuses()[cluster.leader()].commit
        found = cluster.statuses().get(node)
        if found is not None and found.applied >= wanted:
            return
        time.sleep(_LOOK_S)
    raise RuntimeError(f"{node} has not caught up: {cluster.ending(node) or 'it lives'}")


def cpu_s(cluster: LocalCluster) -> dict[str, float]:
    """Return the processor time of each process until now; `x1 child`: of x1's, together."""
    found: dict[str, float] = {}
    for name in (*cluster.nodes, *cluster.executors):
        if not cluster.is_alive(name):
            continue
        pid = cluster.pid(name)
        found[name] = _cpu_s(pid)
        if name in cluster.executors:
            found[f"{name} child"] = sum(_cpu_s(child) for child in _children(pid))
    return found


def memory_bytes(cluster: LocalCluster) -> dict[str, int]:
    """Return the resident memory of each process."""
    page = os.sysconf("SC_PAGE_SIZE")
    alive = [name for name in (*cluster.nodes, *cluster.executors) if cluster.is_alive(name)]
    return {
        name: int(_read(f"/proc/{cluster.pid(name)}/statm").split()[1]) * page for name in alive
    }


def _cpu_s(pid: int) -> float:
    """Return user and system time of a process, with that of its ended threads."""
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _children(pid: int) -> list[int]:
    return [int(each) for each in _read(f"/proc/{pid}/task/{pid}/children").split()]


def _read(path: str) -> str:
    return Path(path).read_text(encoding="ascii")
