"""How numbers are spread: how many are at most so large, and their sum.

What lives here: counting. What must never live here: how it is shown. Called by:
whoever measures something; read by whoever shows metrics. Total. Deterministic.
"""

from __future__ import annotations

from bisect import bisect_left

MS, S = 1_000_000, 1_000_000_000
"""In nanoseconds."""

_DURATIONS_US = (100, 250, 500, 1000, 2500, 5000, 10_000, 25_000, 50_000, 100_000, 250_000)


class Spread:
    """Numbers that were seen, by size. A third of a microsecond a number.

    May be read on another thread than adds: a reader may miss the newest number in one
    of `counts` and `total`, and never sees one twice.

    Args:
        bounds: rising.

    Attributes:
        bounds: as above.
        counts: how many were at most as large as each bound, and larger than the one
            before; the last counts what is larger than all bounds.
        total: the sum.
    """

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[int, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0

    def add(self, number: int) -> None:
        """Count a number."""
        self.counts[bisect_left(self.bounds, number)] += 1
        self.total += number

    @property
    def count(self) -> int:
        """How many there were."""
        return sum(self.counts)


def durations() -> Spread:
    """Return a spread of nanoseconds, for what a disk, or a majority, takes.

    From 100 us, a sync of a disk with a battery behind it, to 5 s, where elections and
    leases are long over; two or three bounds a decade.
    """
    bounds = [each * 1000 for each in _DURATIONS_US]
    return Spread((*bounds, 500 * MS, S, 2500 * MS, 5 * S))
