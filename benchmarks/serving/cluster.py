"""A cluster of processes to measure, and what the system says of them.

    with running(directory, executors=2) as cluster:
        cluster.kill(cluster.leader())

It is that of `cluster_configs/local-3.toml`, with another model beside its own. What lives
here: that, processor time, memory, disk, descriptors. What must never live here: a measure, a
client. Called by: `endurance`, `failover`, `speed`.
"""

from __future__ import annotations

import os
import time
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from raftbatch.local import LocalCluster
from raftbatch.local.toml import document

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


Tables = Mapping[str, Mapping[str, int]]
"""Settings in place of the template's, by table and key."""


@contextmanager
def running(
    directory: Path, executors: int = 1, settings: Tables | None = None
) -> Iterator[LocalCluster]:
    """Give a cluster that serves, below an empty directory; kill it at the end."""
    config = directory / "local-3.toml"
    values = tomllib.loads(_TEMPLATE.read_text(encoding="utf-8") + _MODELS)
    for name, table in (settings or {}).items():
        values.setdefault(name, {}).update(table)
    config.write_text(document(values), encoding="utf-8")
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


def part_of(name: str, leader: str) -> str:
    """Return what a process is in the cluster; both followers are one."""
    if name == leader:
        return "leader"
    if name.startswith("n"):
        return "followers"
    return "child" if name.endswith("child") else "executor"


def memory_bytes(cluster: LocalCluster) -> dict[str, int]:
    """Return the resident memory of each process."""
    return {name: resident_bytes(pid) for name, pid in _processes(cluster).items()}


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process."""
    return int(_read(f"/proc/{pid}/statm").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def files_open(cluster: LocalCluster) -> dict[str, int]:
    """Return how many descriptors each process has open."""
    return {name: len(os.listdir(f"/proc/{pid}/fd")) for name, pid in _processes(cluster).items()}


def disk_bytes(cluster: LocalCluster) -> dict[str, int]:
    """Return what each node has on the disk: its data directory, and what it has said."""
    return {
        node: _taken(cluster.data_dir(node)) + cluster.log_file(node).stat().st_size
        for node in cluster.nodes
    }


def _taken(directory: Path) -> int:
    """Return the blocks of all files, in bytes: a journal's are larger than their content."""
    found = 0
    for place, _, names in os.walk(directory):
        for name in names:
            with suppress(FileNotFoundError):  # dropped meanwhile
                found += os.stat(os.path.join(place, name)).st_blocks * 512
    return found


def _processes(cluster: LocalCluster) -> dict[str, int]:
    """Return the numbers of all that run; `x1 child`: of x1's first."""
    found: dict[str, int] = {}
    for name in (*cluster.nodes, *cluster.executors):
        if cluster.is_alive(name):
            found[name] = pid = cluster.pid(name)
            if name in cluster.executors:
                found.update({f"{name} child": child for child in _children(pid)[:1]})
    return found


def _cpu_s(pid: int) -> float:
    """Return user and system time of a process, with that of its ended threads."""
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _children(pid: int) -> list[int]:
    return [int(each) for each in _read(f"/proc/{pid}/task/{pid}/children").split()]


def _read(path: str) -> str:
    return Path(path).read_text(encoding="ascii")
