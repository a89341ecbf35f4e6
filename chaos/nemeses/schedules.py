"""When which nemesis acts, and for how long: drawn from a seed.

What lives here: that. What must never live here: doing it (`chaos.running`). Called by that, and
tests. Pure. Deterministic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

CALM_S_MIN, CALM_S_MAX = 1.0, 4.0
"""Between two faults: enough for an election and for work to go on, or not quite."""
FAULT_S_MIN, FAULT_S_MAX = 1.5, 8.0
"""Of one: less than an election, or long enough for leases to lapse and requests to give up."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A fault to come.

    Attributes:
        at_s: when it begins, from the beginning of the run.
        name: the nemesis.
        for_s: after so long it is healed.
        seed: of what it draws itself.
    """

    at_s: float
    name: str
    for_s: float
    seed: int


def schedule(names: Sequence[str], rng: Random, time_s: float) -> list[Planned]:
    """Return faults for a run: one at a time, each healed before the next, and before the end.

    Every name has its turn before any has a second one, in a drawn order, where time is enough.

    Args:
        names: of nemeses.
        rng: draws order and times.
        time_s: of the run.
    """
    plan: list[Planned] = []
    waiting: list[str] = []
    at_s = rng.uniform(CALM_S_MIN, CALM_S_MAX)
    while names:
        for_s = rng.uniform(FAULT_S_MIN, FAULT_S_MAX)
        if at_s + for_s > time_s:
            break
        waiting = waiting or rng.sample(names, len(names))
        plan.append(Planned(at_s, waiting.pop(), for_s, rng.getrandbits(32)))
        at_s += for_s + rng.uniform(CALM_S_MIN, CALM_S_MAX)
    return plan
