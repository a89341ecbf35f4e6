"""Which requests are past their deadline, without a look at those that are not.

A request stands in the bucket of its deadline, rounded up to a grain that grows
with its timeout (1/256 of it at most), so that there are some ten thousand
buckets whatever waits, and a request that ends leaves its bucket in no time.
What its deadline is, is not rounded; only when it is looked at. What lives here:
buckets, and the queue of what is due. What must never live here: what happens to
it. Called by: `state`, `expiry`. Total. Deterministic: due requests come by
(bucket, number), also after they were put in anew from a snapshot.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush

_GRAIN_BITS = 8


class Timers:
    """See the module's docstring.

    Attributes:
        due: numbers whose time has come; those that ended meanwhile are still there.
    """

    __slots__ = ("_buckets", "_heap", "due")

    def __init__(self) -> None:
        self._buckets: dict[int, dict[int, None]] = {}
        self._heap: list[int] = []
        self.due: deque[int] = deque()

    def bucket(self, at_ms: int, deadline_ms: int) -> dict[int, None]:
        """Return where to put the number of a request admitted at `at_ms`, as a key."""
        grain = (deadline_ms - at_ms) >> _GRAIN_BITS or 1
        time_ms = -(-deadline_ms // grain) * grain
        bucket = self._buckets.get(time_ms)
        if bucket is None:
            bucket = self._buckets[time_ms] = {}
            heappush(self._heap, time_ms)
        return bucket

    def bucket_left(self, at_ms: int, deadline_ms: int) -> dict[int, None]:
        """Return where to take a number from; an empty dict where its time has come already."""
        grain = (deadline_ms - at_ms) >> _GRAIN_BITS or 1
        return self._buckets.get(-(-deadline_ms // grain) * grain) or {}

    def advance(self, now_ms: int) -> None:
        """Move what is due by now into `due`."""
        while self._heap and self._heap[0] <= now_ms:
            # Of one entry they stand there by timeout, and where a snapshot brought them by number.
            self.due.extend(sorted(self._buckets.pop(heappop(self._heap))))

    def next_ms(self) -> int | None:
        """Return when something is due next; None: never."""
        while self._heap and not self._buckets[self._heap[0]]:
            del self._buckets[heappop(self._heap)]
        return self._heap[0] if self._heap else None

    def watched(self) -> list[int]:
        """Return the numbers in all buckets and in `due`, in order, for checks."""
        return sorted([*self.due, *[n for bucket in self._buckets.values() for n in bucket]])
