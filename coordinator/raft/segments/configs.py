"""The entries of the log that hold a membership, kept in memory.

There are few, and whoever asks for the one in force cannot wait for a disk. What
lives here: `Configs`. What must never live here: what a membership means. Called
by: the journal, replay. Total. Deterministic.
"""

from __future__ import annotations

from bisect import bisect_right

from coordinator.raft.segments.layout import Entry


class Configs:
    """Config entries, oldest first: those of the log, and the last one that is gone from it."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []

    def at(self, index: int) -> Entry | None:
        """Return the newest at or below an index; None where a snapshot's is in force."""
        at = bisect_right(self._entries, index, key=_index_of)
        return self._entries[at - 1] if at else None

    def append(self, entry: Entry) -> None:
        """Take in one that was appended."""
        self._entries.append(entry)

    def keep(self, index: int) -> None:
        """Forget those above an index: they were taken back."""
        del self._entries[bisect_right(self._entries, index, key=_index_of) :]

    def forget_below(self, index: int) -> None:
        """Forget those before the one in force at an index."""
        del self._entries[: max(bisect_right(self._entries, index, key=_index_of) - 1, 0)]


def _index_of(entry: Entry) -> int:
    return entry.index
