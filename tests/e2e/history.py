"""What clients saw, what the nodes' files hold, and whether the one fits the other.

What lives here: the history of a run, the logs read offline, the judgement. What
must never live here: a process. Called by: end-to-end and chaos tests.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from coordinator.raft.dump import dump
from coordinator.raft.dump_items import Record, Selection
from raftbatch.realworld import RealWorld

Outcome = Literal["ok", "fail", "info"]
"""Acknowledged; refused for good; nobody knows."""


@dataclass(slots=True)
class Write:
    """An entry that a client asked for.

    Attributes:
        data: its content, of which there is no second.
        outcome: what became of it; `info` until more is known.
        index: where it was acknowledged to stand.
    """

    data: bytes
    outcome: Outcome = "info"
    index: int = 0


class History:
    """All writes of all clients; safe to be told by several threads."""

    def __init__(self) -> None:
        self.writes: list[Write] = []
        self._lock = threading.Lock()

    def invoke(self, data: bytes) -> Write:
        """Note that a write is asked for."""
        write = Write(data)
        with self._lock:
            self.writes.append(write)
        return write

    def count(self, outcome: Outcome) -> int:
        """Return how many had that outcome."""
        with self._lock:
            return sum(write.outcome == outcome for write in self.writes)


def log_of(directory: Path) -> dict[int, tuple[int, bytes]]:
    """Return term and content of each entry in a stopped node's data directory, by index."""
    found: dict[int, tuple[int, bytes]] = {}
    for item in dump(RealWorld(), str(directory), Selection()):
        if not isinstance(item, Record) or not item.in_order or item.index is None:
            continue
        if item.kind in ("entry", "config"):
            assert item.term is not None
            found[item.index] = (item.term, item.data if item.kind == "entry" else b"")
        elif item.kind == "keep":
            found = {index: each for index, each in found.items() if index <= item.index}
        elif item.kind == "reset":
            found = {}
    return found


def judge(
    history: History, logs: Mapping[str, dict[int, tuple[int, bytes]]], committed: int
) -> Iterator[str]:
    """Yield each promise that was broken.

    Args:
        history: what clients saw.
        logs: `log_of` each node.
        committed: up to here all nodes have applied.
    """
    first, log = next(iter(logs.items()))
    for node, other in logs.items():
        for index in range(1, committed + 1):
            if index not in other:
                yield f"{node} lacks entry {index}"
            elif other[index] != log.get(index):
                yield f"{node} and {first} differ at {index}: {other[index]} and {log.get(index)}"
    where: dict[bytes, int] = {}
    for index in range(1, committed + 1):
        _, data = log.get(index, (0, b""))
        if data:
            if data in where:
                yield f"{data[:20]!r} stands at {where[data]} and at {index}"
            where[data] = index
    for write in history.writes:
        index = where.pop(write.data, 0)
        if write.outcome == "ok" and index != write.index:
            yield f"{write.data[:20]!r} was acknowledged at {write.index}, but stands at {index}"
        if write.outcome == "fail" and index:
            yield f"{write.data[:20]!r} was refused for good, but stands at {index}"
    for data, index in where.items():
        yield f"{data[:20]!r} at {index} was never asked for"
