"""How long to wait before something is tried again: longer each time, and never just as long.

What lives here: that rule. What must never live here: chance, or a wait. Called by: the SDK,
executors, nodes that hand requests on, `raftbatch up`. Total. Deterministic.
"""

from __future__ import annotations

_DOUBLINGS_MAX = 20


def backoff_s(tries: int, least_s: float, most_s: float, drawn: float) -> float:
    """Return how long to wait, in seconds: half of a bound that doubles, or up to all of it.

    Args:
        tries: that have failed, from 1.
        least_s: the first bound.
        most_s: the last.
        drawn: from 0 to 1, by chance: many who failed together do not come back together; 1 is
            the bound itself, for whoever is alone.
    """
    bound_s = min(least_s * 2.0 ** min(tries - 1, _DOUBLINGS_MAX), most_s)
    return bound_s * (0.5 + drawn / 2)
