"""Drawn runs of a suite, and what must come up in them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from chaos.runner import run_seeds, summary

RUN = {"raft": 300, "scheduler": 88, "diverging": 60, "founding": 4000, "journal": 2000}
"""Of each suite the seeds below this are run, whether anything was found there before or not."""

PROCESSES = min(2, os.cpu_count() or 1)


def run_all(suite: str, seeds: range, processes: int = 1) -> dict[str, int]:
    """Run seeds; return what was counted, and fail with the first violation."""
    verdicts = list(run_seeds(suite, seeds, processes))
    for verdict in verdicts:
        again = f"python -m chaos sim --suite {suite} --seeds {verdict.seed}"
        assert verdict.violation is None, f"{verdict.violation}\nagain: {again}"
    counts = summary(verdicts)
    assert counts["seeds"] == len(seeds)
    return counts


def expect_all(counts: Mapping[str, int], names: Iterable[str]) -> None:
    """Fail where one of these never happened."""
    for what in names:
        assert counts.get(what, 0) > 0, f"{what} never happened: the suite has become blind"
