"""What `make` and `python -m chaos` say to a person is clear, and true."""

import os
import subprocess
import sys

import pytest

from tests.tidy.tree import ROOT


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    # A make that runs these tests must not show in the one that they run.
    outer = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")
    environment = {name: text for name, text in os.environ.items() if name not in outer}
    environment["TERM"] = "dumb"
    return subprocess.run(
        command, cwd=ROOT, env=environment, timeout=60, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("seeds", ["abc", "0", "-3", "08", "1..9", ""])
def test_make_sim_says_what_seeds_are(seeds: str) -> None:
    done = _run("make", "--old-file=.venv/.stamp", "sim", f"SEEDS={seeds}")
    assert done.returncode == 2
    assert done.stdout == ""
    assert f"make sim: SEEDS={seeds} is not a number of seeds" in done.stderr


@pytest.mark.parametrize("seed", ["abc", "-3", "1..9"])
def test_make_sim_says_what_a_seed_is(seed: str) -> None:
    done = _run("make", "--old-file=.venv/.stamp", "sim", f"SEED={seed}")
    assert done.returncode == 2
    assert done.stdout == ""
    assert f"make sim: SEED={seed} is not a seed" in done.stderr


def test_make_lists_its_targets() -> None:
    targets = {line.split()[0]: line.split()[1:] for line in _run("make").stdout.splitlines()}
    assert {"verify", "sim", "demo", "up", "chaos", "chaos-clean", "clean"} <= targets.keys()
    for said in targets.values():
        assert said != ["comes", "in", "a", "later", "release"]


def test_chaos_help_is_for_those_who_run_it() -> None:
    done = _run(sys.executable, "-m", "chaos", "--help")
    assert "show that the checkers find bugs" in done.stdout
    assert "What" not in done.stdout
    for command in ("sim", "mutant", "mutants", "run", "selection", "list", "clean"):
        assert f" {command} " in done.stdout
