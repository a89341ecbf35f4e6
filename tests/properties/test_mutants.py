"""The checkers find known bugs: each mutant's recorded seed or test is replayed.

A check that cannot fail is a defect. `make mutants` searches for the seeds anew.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from chaos.mutants import MUTANTS

NAMES = [mutant.name for suite in MUTANTS.values() for mutant in suite]

Done = subprocess.CompletedProcess[str]


def _run(*arguments: str) -> Done:
    command = [sys.executable, "-m", "chaos", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def replays(request: pytest.FixtureRequest) -> Iterator[dict[str, Future[Done]]]:
    """Replay the mutants that are asked for, one on each processor at a time."""
    asked = [item.name.partition("[")[2].removesuffix("]") for item in request.session.items]
    pool = ThreadPoolExecutor(os.cpu_count() or 1)
    yield {name: pool.submit(_run, "mutant", name) for name in asked if name in NAMES}
    pool.shutdown(cancel_futures=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_mutant_is_found(name: str, replays: dict[str, Future[Done]]) -> None:
    """The process that runs the mutant says that a promise broke."""
    done = replays[name].result()
    assert done.returncode == 1, done.stdout + done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["violations"] == 1


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_product_without_a_bug_is_not_found_guilty() -> None:
    """The same seeds pass without the mutants: they find the bugs, not the weather."""
    runs = []
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for suite, mutants in MUTANTS.items():
            seeds = {mutant.killer for mutant in mutants if isinstance(mutant.killer, int)}
            for seed in sorted(seeds):
                arguments = ["sim", "--suite", suite, "--seeds", str(seed), "--processes", "1"]
                runs.append(pool.submit(_run, *arguments))
    for run in runs:
        done = run.result()
        assert done.returncode == 0, done.stdout + done.stderr
