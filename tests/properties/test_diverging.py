"""A replica that is not what the others are stops, and nobody else: G6, G15.

Whole clusters of the scheduler in which replicas are turned into other ones
(`chaos.suites.diverging`), one a seed.
"""

from __future__ import annotations

import pytest

from chaos.suites.diverging import run_seed
from tests.properties.seeds import PROCESSES, RUN, expect_all, run_all

QUICK = range(3)
HAPPENS = ("diverged", "handed_over", "died_before", "ok", "reruns", "transfers", "restarts")
"""What drawn runs must reach: where one of these is 0, the suite has become blind."""


@pytest.mark.parametrize("seed", QUICK)
def test_diverging_seed(seed: int) -> None:
    """A few drawn runs, for those who cannot wait."""
    counts = run_seed(seed)
    assert counts["flipped"] > 0
    assert counts["settled"] >= 2, "once before all lost their power, and once after"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_diverging_seeds() -> None:
    """Some dozens more; a failure names its seed."""
    expect_all(run_all("diverging", range(QUICK.stop, RUN["diverging"]), PROCESSES), HAPPENS)
