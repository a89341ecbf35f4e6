"""Plans of faults: drawn from the seed alone, one at a time, healed before the end."""

from itertools import pairwise
from random import Random

from chaos.nemeses import NEMESES, schedule

NAMES = ("kill-leader", "partition", "slow-fsync")


def test_schedule_is_drawn_from_the_seed() -> None:
    assert schedule(NAMES, Random(7), 120.0) == schedule(NAMES, Random(7), 120.0)
    assert schedule(NAMES, Random(7), 120.0) != schedule(NAMES, Random(8), 120.0)


def test_schedule_heals_each_fault_before_the_next_and_before_the_end() -> None:
    for seed in range(50):
        plan = schedule(NAMES, Random(seed), 60.0)
        assert all(a.at_s + a.for_s < b.at_s for a, b in pairwise(plan))
        assert plan[-1].at_s + plan[-1].for_s <= 60.0
        assert {each.name for each in plan[:3]} == set(NAMES)


def test_schedule_without_time_or_names_is_empty() -> None:
    assert schedule(NAMES, Random(7), 1.0) == []
    assert schedule((), Random(7), 60.0) == []


def test_nemeses_are_found_by_their_names_and_say_what_they_do() -> None:
    assert all(name == each.name and each.description for name, each in NEMESES.items())
    assert len({each.description for each in NEMESES.values()}) == len(NEMESES)
