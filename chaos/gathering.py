"""What is seen of a cluster of real processes, while it runs and once it is over.

What lives here: looks at nodes and files, and the evidence made of them. What must never live
here: a judgement. Called by: `chaos.running`. Blocking.
"""

from __future__ import annotations

import json
import os
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from chaos.checkers.process_ends import BUGS
from chaos.checkers.process_logs import read_log
from chaos.checkers.process_values import End, Evidence, NodeLog, Ran
from chaos.history import Event, History
from chaos.worlds.processes import ProcessWorld
from raftbatch.realworld import RealWorld

if TYPE_CHECKING:
    from raftbatch.v1.admin_pb2 import StatusReply

_SIZES_EVERY = 4  # looks
_PAUSE_S = 0.2
_MIB = 1 << 20
_TROUBLE = ("Traceback (most recent call last)", "Task exception was never retrieved")
_TOLD_LINES = 30
_SEGMENTS = 4  # beside what is kept: the newest, the next, and what a snapshot is about to free
_SNAPSHOTS = 4  # three are kept, and one is written
_LOG_BYTES_MAX = 16 * _MIB


class Watch:
    """Looks again and again: who leads, how far each is, how large its files are.

    Args:
        world: the cluster.
        history: told.

    Attributes:
        leader: who led at the last look; None: nobody.
        died: processes that ended though nobody ended them.
        is_over: whether to look no more.
    """

    def __init__(self, world: ProcessWorld, history: History) -> None:
        self.leader: str | None = None
        self.died: dict[str, str] = {}
        self.is_over = False
        self._world = world
        self._history = history
        self._looks = 0

    def look(self) -> None:
        """Look once."""
        if self.is_over:
            return
        found = self._world.statuses(1.0)
        leading = [node for node, each in found.items() if each.role == "leader"]
        newest = max(leading, key=lambda node: found[node].term, default=None)
        self.leader = newest
        self._history.note("look", leader=newest, nodes={k: _seen(v) for k, v in found.items()})
        self._look_for_dead()
        if self._looks % _SIZES_EVERY == 0:
            self._history.note("sizes", **self._sizes())
        self._looks += 1

    def _look_for_dead(self) -> None:
        """Note who has ended by itself: whoever is killed or told to stop has no such status."""
        for name in self._world.everyone:
            how = self._world.ending(name)
            if how.startswith("exit status ") and not how.startswith("exit status 0"):
                self.died.setdefault(name, how)

    def _sizes(self) -> dict[str, dict[str, int]]:
        world = self._world
        found = {node: {"data": size_of(world.data_dir(node))} for node in world.nodes}
        for name in (*world.nodes, *world.executors):
            found.setdefault(name, {})["log"] = size_of(world.log_file(name))
        return found


def _seen(status: StatusReply) -> dict[str, object]:
    return {
        "role": status.role,
        "term": status.term,
        "applied": status.applied,
        "commit": status.commit,
        "digest": status.digest.hex(),
        "bugs": {each: count for each in BUGS if (count := status.counters.get(each, 0))},
    }


def size_of(path: Path) -> int:
    """Return the bytes of a file, or of all files in a folder; what vanishes meanwhile is none."""
    total = 0
    try:
        if not path.is_dir():
            return path.stat().st_size
        for folder, _, names in os.walk(path):
            for name in names:
                try:
                    total += (Path(folder) / name).stat().st_size
                except OSError:
                    continue
    except OSError:
        return total
    return total


def ends_of(world: ProcessWorld) -> dict[str, End]:
    """Return what all nodes that answer say of themselves."""
    return {node: _end(status) for node, status in world.statuses(5.0).items()}


def _end(status: StatusReply) -> End:
    scheduler = status.scheduler
    return End(
        status.applied,
        status.commit,
        status.term,
        status.digest,
        scheduler.requests,
        scheduler.batches,
        {each.executor: each.held for each in scheduler.executors},
        dict(status.counters),
    )


def idle(world: ProcessWorld, timeout_s: float) -> bool:
    """Wait until all nodes have applied the same and nothing waits or runs; return whether so."""
    end = time.monotonic() + timeout_s
    while True:
        found = ends_of(world)
        ends = list(found.values())
        if (
            len(ends) == len(world.nodes)
            and len({each.applied for each in ends}) == 1
            and not any(each.requests or each.batches or any(each.held.values()) for each in ends)
        ):
            return True
        if time.monotonic() > end:
            return False
        time.sleep(_PAUSE_S)


def evidence_of(
    world: ProcessWorld,
    history: History,
    ends: Mapping[str, End],
    runs: Path | None,
    *,
    is_healed: bool,
    harms_executors: bool,
    died: Mapping[str, str],
) -> Evidence:
    """Return all that is known of a run whose processes have ended."""
    real = RealWorld()
    logs = {node: read_log(real, str(world.data_dir(node))) for node in world.nodes}
    logs |= former_logs(real, world, history.events)
    # An executor tells of what its model raises.
    said = {name: list(_trouble(world.log_file(name))) for name in world.node_places}
    return Evidence(
        tuple(history.events),
        logs,
        ends,
        list(_runs(runs)) if runs is not None else None,
        is_healed,
        harms_executors,
        {"log": _LOG_BYTES_MAX, "data": _data_bound(world.config)},
        said,
        died,
    )


def former_logs(
    real: RealWorld, world: ProcessWorld, events: Sequence[Event]
) -> dict[str, NodeLog]:
    """Return what emptied directories held, as far as their nodes said that it is committed.

    The rest may have been replaced since, and nobody told them.
    """
    commits: dict[str, int] = {}
    known: dict[str, int] = {}
    for event in events:
        if event.op == "look":
            for node, each in event.value["nodes"].items():
                commits[node] = max(commits.get(node, 0), int(each["commit"]))
        elif event.op == "operator" and "kept" in event.value:
            known[event.value["kept"]] = commits.pop(event.value["name"], 0)
    found = {}
    for former in world.former:
        log = read_log(real, str(former.kept))
        commit = known.get(former.kept.name, 0)
        log.entries = {at: each for at, each in log.entries.items() if at <= commit}
        found[former.kept.name] = log
    return found


def _data_bound(config: Path) -> int:
    """Return what a node's data directory may take: the past that is kept, and what is written."""
    storage = tomllib.loads(config.read_text("utf-8")).get("storage", {})
    segment = int(storage.get("segment_bytes", 64 * _MIB))
    snapshot = int(storage.get("snapshot_bytes_max", 768 * _MIB))
    kept = int(storage.get("log_retention_bytes", 1024 * _MIB))
    return kept + _SEGMENTS * segment + _SNAPSHOTS * snapshot


def _runs(folder: Path) -> Iterator[Ran]:
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text("utf-8").splitlines():
            try:
                row = json.loads(line)
            except ValueError:
                continue  # its process was killed within it
            yield Ran(int(row["ns"]), tuple(row["ids"]))


def _trouble(path: Path) -> Iterator[str]:
    """Yield lines of a log that tell of a bug."""
    try:
        lines = path.read_text("utf-8", "replace").splitlines()
    except OSError:
        return
    for number, line in enumerate(lines):
        if any(each in line for each in _TROUBLE):
            yield from lines[number : number + _TOLD_LINES]
            return
