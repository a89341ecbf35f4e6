"""Running many seeds, on all cores, and saying what came of it.

What lives here: the sharing out of seeds, counting, and the report. What must
never live here: what a suite does. Called by: `chaos.__main__`.
"""

from __future__ import annotations

import importlib
import logging
import multiprocessing
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

SUITES = {
    "diverging": "chaos.suites.diverging",
    "founding": "chaos.suites.founding",
    "journal": "chaos.suites.journal",
    "raft": "chaos.suites.raft",
    "raft-stock": "chaos.suites.raft_stock",
    "scheduler": "chaos.suites.scheduler",
}
"""Where each suite's `run_seed(seed)` is; it returns what it counted, or raises."""

CORES = {"hardened": "", "stock": "-stock"}
"""What a core adds to the name of a suite that has several."""

logging.getLogger("coordinator").addHandler(logging.NullHandler())
# What simulated nodes log is no part of what a run says.

_SEEDS_A_CHUNK = 20  # large enough that handing them out costs nothing, small enough to share


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of one seed: counts, and where a promise broke, how."""

    seed: int
    counts: dict[str, int]
    violation: str | None


def run_one(suite: str, seed: int) -> Verdict:
    """Run a seed; any exception but a request to stop is a violation."""
    run_seed: Callable[[int], dict[str, int]] = importlib.import_module(SUITES[suite]).run_seed
    try:
        return Verdict(seed, run_seed(seed), None)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 - a crash that escapes is a finding too
        return Verdict(seed, {}, "".join(traceback.format_exception(error)))


def digest_of(suite: str, seed: int) -> str:
    """Run a seed again, and return a digest of everything that happened in it.

    Raises:
        ValueError: the suite keeps no trace.
    """
    trace_digest = getattr(importlib.import_module(SUITES[suite]), "trace_digest", None)
    if trace_digest is None:
        raise ValueError(f"suite {suite} keeps no trace")
    digest: str = trace_digest(seed)
    return digest


def run_seeds(suite: str, seeds: Iterable[int], processes: int) -> Iterator[Verdict]:
    """Yield each seed's verdict, as they come."""
    if processes == 1:
        for seed in seeds:
            yield run_one(suite, seed)
        return
    jobs = ((suite, seed) for seed in seeds)
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield from pool.imap_unordered(_run_job, jobs, chunksize=_SEEDS_A_CHUNK)


def summary(verdicts: Iterable[Verdict]) -> dict[str, int]:
    """Add the counts up."""
    total: Counter[str] = Counter(seeds=0, violations=0)
    for verdict in verdicts:
        total.update(verdict.counts)
        total["seeds"] += 1
        total["violations"] += verdict.violation is not None
    return dict(total)


def parse_seeds(text: str) -> range:
    """Return the seeds in `A..B`, both included, or in `A` alone.

    Raises:
        ValueError: it is neither.
    """
    first, dots, last = text.partition("..")
    seeds = range(int(first), int(last if dots else first) + 1)
    if not seeds:
        raise ValueError(f"{text!r} holds no seed")
    return seeds


def _run_job(job: tuple[str, int]) -> Verdict:
    return run_one(*job)
