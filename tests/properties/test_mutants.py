"""The checkers find known bugs: each mutant's recorded seed or test is replayed.

A check that cannot fail is a defect. `make mutants` searches for the seeds anew.
"""

from __future__ import annotations

import json
import multiprocessing
import os
from pathlib import Path

import pytest

from chaos.mutants import MUTANTS
from chaos.runner import run_one
from tests.properties.seeds import RUN

NAMES = [mutant.name for suite in MUTANTS.values() for mutant in suite]
SEEDS = sorted(
    {("raft", RUN["raft"])}
    | {
        (suite, mutant.killer)
        for suite, mutants in MUTANTS.items()
        for mutant in mutants
        if isinstance(mutant.killer, int) and mutant.killer >= RUN.get(suite, 0)
    }
)
"""Of the others there is a test that runs them; the first is one that no test else runs."""

# Each mutant needs a process that has imported nothing of the product. All are forked from one
# that has imported what is not the product's, which spares each that start. It leaves out pytest's
# plugins: pytest wants to import them itself.
FRESH = multiprocessing.get_context("forkserver")
FRESH.set_forkserver_preload(["chaos.__main__", "pytest", "msgpack", "pysyncobj"])


def _run_mutant(name: str, said: Path) -> None:
    """Be `python -m chaos mutant NAME`, in a process of its own, and write to a file."""
    from chaos.__main__ import app

    written = os.open(said, os.O_WRONLY | os.O_CREAT)
    os.dup2(written, 1)
    os.dup2(written, 2)
    app(["mutant", name])


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_mutant_is_found(name: str, tmp_path: Path) -> None:
    """The process that runs the mutant says that a promise broke."""
    process = FRESH.Process(target=_run_mutant, args=(name, tmp_path / "said"))
    process.start()
    try:
        process.join()
    finally:
        process.kill()
    said = (tmp_path / "said").read_text(encoding="utf-8")
    assert process.exitcode == 1, said
    assert json.loads(said.splitlines()[-1])["violations"] == 1


@pytest.mark.slow
@pytest.mark.parametrize(("suite", "seed"), SEEDS)
def test_product_without_a_bug_is_not_found_guilty(suite: str, seed: int) -> None:
    """The same seeds pass without the mutants: they find the bugs, not the weather."""
    assert run_one(suite, seed).violation is None
