"""What a leader has appended and no majority holds yet, kept within a bound.

The leader's own disk may be fine while its followers' are full: without a bound
it would append, and keep callers waiting, until its disk is full too. What lives
here: the counting. What must never live here: the log. Called by: `replication`,
`core`. Deterministic.
"""

from __future__ import annotations

from collections import deque

from coordinator.raft.segments.layout import record_bytes
from raftbatch.errors import Overloaded


class Uncommitted:
    """One leadership's entries, by size.

    Args:
        bytes_max: how much; a single entry is always accepted.
        retry_after_ms: what is said to callers who come too early.

    Attributes:
        bytes: appended in this leadership, and not committed.
    """

    def __init__(self, bytes_max: int, retry_after_ms: int) -> None:
        self.bytes = 0
        self._bytes_max = bytes_max
        self._retry_after_ms = retry_after_ms
        self._entries: deque[tuple[int, int]] = deque()  # index and bytes

    def check(self, data_bytes: int) -> None:
        """Refuse an entry for which there is no room.

        Raises:
            Overloaded: definite.
        """
        if self.bytes and self.bytes + record_bytes(data_bytes) > self._bytes_max:
            raise Overloaded(
                f"{self.bytes} bytes of entries wait for a majority to hold them",
                retry_after_ms=self._retry_after_ms,
            )

    def add(self, index: int, data_bytes: int) -> None:
        """Note an entry that was appended."""
        size = record_bytes(data_bytes)
        self._entries.append((index, size))
        self.bytes += size

    def committed(self, index: int) -> None:
        """Take in that entries up to an index are committed."""
        while self._entries and self._entries[0][0] <= index:
            self.bytes -= self._entries.popleft()[1]
