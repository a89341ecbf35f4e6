"""The newest entries in memory: all that are not durable yet, and some that are.

What lives here: the window of entries that need no disk to be read. What must
never live here: a file. Called by: the journal. Total. Deterministic.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import islice
from typing import Final

from coordinator.raft.segments.layout import Entry, record_bytes

_ENTRY_BYTES: Final = 200  # what an entry takes besides its data: tuples, ints, list slots


class Tail:
    """Entries `first` to `last`, each with its LSN and size; empty where last < first.

    Attributes:
        first: lowest index held.
        size: bytes held, of data and around it.
    """

    def __init__(self, last_index: int) -> None:
        self.first = last_index + 1
        self.size = 0
        self._entries: list[Entry] = []
        self._lsns: list[int] = []

    @property
    def last(self) -> int:
        """Highest index held."""
        return self.first + len(self._entries) - 1

    def append(self, entry: Entry, lsn: int) -> None:
        """Take in the entry after the last."""
        self._entries.append(entry)
        self._lsns.append(lsn)
        self.size += _ENTRY_BYTES + len(entry.data)

    def keep(self, index: int) -> None:
        """Forget entries above `index`."""
        at = max(index - self.first + 1, 0)
        self.size -= sum(
            _ENTRY_BYTES + len(entry.data) for entry in islice(self._entries, at, None)
        )
        del self._entries[at:], self._lsns[at:]
        self.first = min(self.first, index + 1)

    def reset(self, index: int) -> None:
        """Forget all; the next entry is the one after `index`."""
        self.keep(self.first - 1)
        self.first = index + 1

    def durable_index(self, lsn: int) -> int:
        """Return the highest index of which it and all before are durable, as `lsn` is."""
        return self.first + bisect_right(self._lsns, lsn) - 1

    def evict(self, durable_lsn: int, bytes_max: int) -> None:
        """Forget the oldest durable entries if more than `bytes_max` is held.

        An eighth more than need be, so that the cost of moving the rest of the
        list forward is paid once for many entries.
        """
        if self.size <= bytes_max:
            return
        durable = bisect_right(self._lsns, durable_lsn)
        count, size = 0, self.size
        while count < durable and size > bytes_max - bytes_max // 8:
            size -= _ENTRY_BYTES + len(self._entries[count].data)
            count += 1
        del self._entries[:count], self._lsns[:count]
        self.first += count
        self.size = size

    def slice(self, first: int, bytes_max: int) -> tuple[Entry, ...]:
        """Return entries from `first` on until their records reach `bytes_max`, at least one."""
        at = first - self.first
        if at < 0:
            return ()
        end = at
        while end < len(self._entries) and bytes_max > 0:
            bytes_max -= record_bytes(len(self._entries[end].data))
            end += 1
        return tuple(self._entries[at:end])
