"""What `make` and `python -m chaos` say to a person is clear, and true."""

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from raftbatch.cli.main import app
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


def _helps(command: Any, name: str) -> Iterator[tuple[str, str]]:
    """Yield every text that the help of a command and of those below it shows, and whose it is."""
    yield name, command.help or ""
    yield name, command.epilog or ""
    for each in command.params:
        yield f"{name} {each.name}", getattr(each, "help", None) or ""
    for below, found in getattr(command, "commands", {}).items():
        yield from _helps(found, f"{name} {below}")


def test_no_help_loses_a_word_in_brackets() -> None:
    """Typer reads help as rich's markup, in which `[tls]` is a style, and is not shown."""
    helps = list(_helps(typer.main.get_command(app), "raftbatch"))
    assert len(helps) > 100
    eaten = [name for name, text in helps if "[" in text.replace(r"\[", "")]
    assert eaten == []
