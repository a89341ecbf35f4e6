"""A cluster begins once, and nobody takes part who has forgotten, whatever happens: G1.

Drawn first starts in the simulated world (`chaos.suites.founding`), one a seed.
"""

from __future__ import annotations

from collections import Counter

import pytest

from chaos.suites.founding import run_seed
from tests.properties.seeds import RUN

QUICK = 400
CHUNK = 400


def test_founding_seeds() -> None:
    """Four hundred drawn runs; a failure names its seed."""
    counts = run_seeds(range(QUICK))
    for what in ("founded", "wiped", "adopted", "refusals"):
        assert counts[what] > 0, f"{what} never happened: the suite has become blind"


@pytest.mark.slow
@pytest.mark.parametrize("first", range(QUICK, RUN["founding"], CHUNK))
def test_founding_more_seeds(first: int) -> None:
    """And some thousands more."""
    assert run_seeds(range(first, first + CHUNK))["joined"] > 0


def run_seeds(seeds: range) -> Counter[str]:
    """Run seeds; return what was counted."""
    counts = Counter[str]()
    for seed in seeds:
        try:
            counts.update(run_seed(seed))
        except BaseException as error:
            error.add_note(f"python -m chaos sim --suite founding --seeds {seed}")
            raise
    return counts


def test_founding_seed_is_one_identical_run() -> None:
    """The same events, whatever ran before."""
    assert run_seed(7) == run_seed(7)
