"""The runs over real processes that every change has to pass: `make chaos`.

What lives here: the list, with its seeds, and going through it. What must never live here: a run
(`chaos.running`). Called by: `chaos.__main__`.
"""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from chaos.real import RESULTS, Asked, run
from chaos.running import Verdict
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


def asked(time_s: float, results: Path = RESULTS) -> Iterator[Asked]:
    """Yield the runs, whose folders are below that of all results."""
    for workload, nemeses, seed in SELECTION:
        folder = results / "selection" / f"{workload}-{seed}"
        yield Asked(workload, nemeses, time_s, seed, folder=folder)


def run_all(
    time_s: float,
    say: Callable[[str], None],
    *,
    keeps: bool = True,
    play: Callable[[Asked, Callable[[str], None]], Verdict] = run,
    results: Path = RESULTS,
) -> Counter[str]:
    """Go through the selection; return counts: `runs`, `violations`, `skipped`, sums of figures.

    What this machine cannot do is skipped, with the reason; where CI=true that is a violation.
    Lines that begin with `==` tell how far it is.

    Args:
        time_s: of faults in each run.
        say: told how it goes.
        keeps: the results of runs that found nothing, too.
        play: does a run.
        results: the folder of all results.
    """
    total: Counter[str] = Counter(runs=0, violations=0, skipped=0)
    for number, each in enumerate(asked(time_s, results), 1):
        place = f"== {number} of {len(SELECTION)}"
        say(f"{place}: {each.again()}")
        if lacking := each.check():
            say(f"{place}: skipped: {lacking}")
            total["skipped"] += 1
            total["violations"] += os.environ.get("CI") == "true"
            continue
        total["runs"] += 1
        began = time.monotonic()
        try:
            verdict = play(each, say)
        except (CannotStart, OSError) as error:
            say(f"{place}: it could not run: {error}")
            total["violations"] += 1
            continue
        faults, outcomes = verdict.counts["faults"], int(verdict.figures["outcomes"])
        for finding in verdict.findings:
            say(f"\n{finding}")
        came = "passed"
        if verdict.findings:
            came = f"FAILED, all of it is in {each.results()}"
        elif not keeps:
            shutil.rmtree(each.results())
        took = f"{time.monotonic() - began:.0f} s, {faults} faults, {outcomes} outcomes"
        say(f"{place}: {came} ({took})")
        total["violations"] += len(verdict.findings)
        total["faults"] += faults
        total["outcomes"] += outcomes
    return total
