"""Numbers by size: each falls into one place, and none is lost."""

from __future__ import annotations

import random

from coordinator.raft.spread import MS, S, Spread, durations


def test_number_counts_with_those_up_to_its_bound() -> None:
    spread = Spread((10, 20))
    for number in (0, 10, 11, 20, 21, 1000):
        spread.add(number)
    assert spread.counts == [2, 2, 2]
    assert (spread.count, spread.total) == (6, 1062)


def test_drawn_numbers_are_counted_as_by_looking_at_each() -> None:
    draw = random.Random(7)
    spread = durations()
    numbers = [draw.choice((draw.randrange(MS), draw.randrange(10 * S))) for _ in range(500)]
    for number in numbers:
        spread.add(number)
    for place, bound in enumerate(spread.bounds):
        assert sum(spread.counts[: place + 1]) == sum(each <= bound for each in numbers)
    assert (spread.count, spread.total) == (500, sum(numbers))


def test_bounds_rise() -> None:
    bounds = durations().bounds
    assert list(bounds) == sorted(set(bounds))
    assert (bounds[0], bounds[-1]) == (MS // 10, 5 * S)
