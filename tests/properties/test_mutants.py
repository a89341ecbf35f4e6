"""The checkers find known bugs: each mutant's recorded seed or test is replayed.

A check that cannot fail is a defect. `make mutants` searches for the seeds anew.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from chaos.mutants import MUTANTS

NAMES = [mutant.name for suite in MUTANTS.values() for mutant in suite]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_mutant_is_found(name: str) -> None:
    """The process that runs the mutant says that a promise broke."""
    command = [sys.executable, "-m", "chaos", "mutant", name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["violations"] == 1


@pytest.mark.slow
def test_product_without_a_bug_is_not_found_guilty() -> None:
    """The same seeds pass without the mutants: they find the bugs, not the weather."""
    for suite, mutants in MUTANTS.items():
        seeds = {mutant.killer for mutant in mutants if isinstance(mutant.killer, int)}
        for seed in sorted(seeds):
            command = [sys.executable, "-m", "chaos", "sim", "--suite", suite]
            command += ["--seeds", str(seed), "--processes", "1"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
