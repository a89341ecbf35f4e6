"""When a node takes a snapshot of its own: after so many bytes, or so many small entries."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from coordinator.raft.applying import Applying
from coordinator.raft.journal import Journal
from coordinator.raft.segments.layout import Entry
from coordinator.raft.snapshots import SnapshotMeta
from coordinator.raft.snapshotting import Snapshotting
from raftbatch.world import Buffer


class Replica:
    """One that does nothing."""

    def apply(self, entry: Entry) -> None:
        """Pass it over."""

    async def install(self, snapshot: SnapshotMeta, chunks: AsyncIterator[bytes]) -> None:
        """Nothing is installed."""

    def capture(self) -> Iterable[Buffer]:
        """Return nothing."""
        return ()


class Captures:
    """A `Snapshotting` that says when it was asked: at which indexes."""

    def __init__(self) -> None:
        self.newest: Any = None
        self.is_capturing = False
        self.at: list[int] = []

    def capture(
        self,
        index: int,
        term: int,
        config: bytes,
        chunks: Iterable[Buffer],
        done: Callable[[], None],
    ) -> None:
        """Note it."""
        self.at.append(index)


def captured(size: int, count: int, content_bytes: int = 0) -> list[int]:
    """Return at which indexes snapshots are taken, with a mebibyte between two."""
    entries = [Entry(index, 1, bytes(size)) for index in range(1, count + 1)]
    journal = SimpleNamespace(
        tail=lambda first, _bytes_max: tuple(entries[first - 1 : first + 9]), term=lambda _index: 1
    )
    captures = Captures()
    if content_bytes:
        captures.newest = SimpleNamespace(content_bytes=content_bytes)
    applying = Applying(
        cast("Journal", journal),
        cast("Snapshotting", captures),
        Replica(),
        lambda: 1 << 20,
        lambda: None,
        lambda _entry: None,
        lambda _index, _term: None,
        lambda: None,
        lambda error: pytest.fail(str(error)),
    )
    for commit in range(1, count + 1):
        while applying.advance(commit):
            pass
    return captures.at


def test_snapshot_is_taken_after_so_many_bytes() -> None:
    assert captured(20_000, 160) == [53, 106, 159]


def test_snapshot_is_taken_after_so_many_small_entries() -> None:
    assert captured(10, 2_500) == [1024, 2048]


def test_large_snapshots_are_taken_less_often() -> None:
    assert captured(10, 4_500, content_bytes=1 << 20) == [2048, 4096]
