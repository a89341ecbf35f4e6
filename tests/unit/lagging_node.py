"""A node whose feed is tailed, and which lags behind the leader as a test says."""

from __future__ import annotations

from coordinator.feed import Feed
from coordinator.raft.segments.layout import Entry
from coordinator.replica import Replica


class Node:
    """A node that is tailed: it applies the leader's entries when it is time to.

    Args:
        name: its own.
        entries: all that the leader has applied, by index from 1.
    """

    def __init__(self, name: str, entries: list[tuple[int, bytes]]) -> None:
        self.replica = Replica()
        self.feed = Feed(self.replica, name)
        self.replica.listeners.append(self.feed)
        self._entries = entries

    def apply(self, index: int) -> None:
        """Apply what comes up to an index."""
        while self.replica.index < min(index, len(self._entries)):
            term, data = self._entries[self.replica.index]
            self.replica.apply(Entry(self.replica.index + 1, term, data))
