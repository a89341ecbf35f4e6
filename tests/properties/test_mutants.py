"""The checkers find known bugs: each mutant's recorded seed or test is replayed.

A check that cannot fail is a defect. `make mutants` searches for the seeds anew.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from chaos.mutants import MUTANTS
from chaos.runner import run_one

NAMES = [mutant.name for suite in MUTANTS.values() for mutant in suite]
SEEDS = sorted(
    {
        (suite, mutant.killer)
        for suite, mutants in MUTANTS.items()
        for mutant in mutants
        if isinstance(mutant.killer, int)
    }
)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_mutant_is_found(name: str) -> None:
    """The process that runs the mutant says that a promise broke."""
    command = [sys.executable, "-m", "chaos", "mutant", name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["violations"] == 1


@pytest.mark.slow
@pytest.mark.parametrize(("suite", "seed"), SEEDS)
def test_product_without_a_bug_is_not_found_guilty(suite: str, seed: int) -> None:
    """The same seeds pass without the mutants: they find the bugs, not the weather."""
    assert run_one(suite, seed).violation is None
