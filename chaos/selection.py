"""The runs over real processes that every change has to pass: `make chaos`.

What lives here: the list, with its seeds, and going through it. What must never live here: a run
(`chaos.running`). Called by: `chaos.__main__`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from chaos.real import RESULTS, Asked, run
from raftbatch.errors import CannotStart

TIME_S = 18.0
"""Of faults in each run; with founding, heal and judgement it lasts some 12 s longer."""

SELECTION: tuple[tuple[str, tuple[str, ...], int], ...] = (
    ("submit", ("kill-leader", "partition", "lossy-net"), 401),
    ("submit", ("power-loss-all", "kill-in-fsync"), 12),
    ("cancel", ("pause-leader", "isolate-leader"), 13),
    ("deadline", ("kill-follower", "slow-net", "pause-executor"), 44),
    ("overload", ("kill-leader", "slow-fsync-leader"), 35),
    ("poison", ("pause-follower", "one-way"), 16),
    ("drain", ("half-deaf-leader", "scatter"), 27),
    ("rolling", ("kill-executor", "slow-fsync"), 18),
    ("long", ("pause-executor", "kill-executors", "isolate-executor"), 149),
    ("membership", ("kill-leader", "partition"), 222),
    ("soak", ("fill-disk-leader", "clock-jump", "kill-all"), 160),
)
"""Workload, nemeses and seed: one whose plan has each of its nemeses within `TIME_S`.

Together they have each workload, and each family of faults.
"""


def asked(time_s: float) -> Iterator[Asked]:
    """Yield the runs."""
    for workload, nemeses, seed in SELECTION:
        folder = RESULTS / "selection" / f"{workload}-{seed}"
        yield Asked(workload, nemeses, time_s, seed, folder=Path(folder))


def run_all(time_s: float, say: Callable[[str], None]) -> Counter[str]:
    """Go through the selection; return counts: `runs`, `violations`, `skipped`, sums of figures.

    What this machine cannot do is skipped, with the reason; where CI=true that is a violation.
    """
    total: Counter[str] = Counter(runs=0, violations=0, skipped=0)
    for each in asked(time_s):
        say(f"\n== {each.again()}")
        if lacking := each.check():
            say(f"skipped: {lacking}")
            total["skipped"] += 1
            total["violations"] += os.environ.get("CI") == "true"
            continue
        total["runs"] += 1
        try:
            verdict = run(each, say)
        except (CannotStart, OSError) as error:
            say(f"it could not run: {error}")
            total["violations"] += 1
            continue
        for finding in verdict.findings:
            say(f"\n{finding}")
        if verdict.findings:
            say(f"all of it is in {each.results()}")
        total["violations"] += len(verdict.findings)
        total["faults"] += verdict.counts["faults"]
        total["outcomes"] += int(verdict.figures["outcomes"])
    return total
