"""Ctrl-C before a command has begun ends it without a word, as it does later."""

from __future__ import annotations

import subprocess
import sys
import tomllib

import pytest

from tests.tidy.tree import ROOT

# Whoever presses the keys does so while modules are imported.
_INTERRUPTED = """
import importlib, runpy, signal, sys

class Keys:
    def find_spec(self, name, path=None, target=None):
        if name == {at!r}:
            signal.raise_signal(signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever starts this may ignore it
sys.meta_path.insert(0, Keys())
sys.argv = ["raftbatch", "status", "--address", "127.0.0.1:1"]
"""


@pytest.mark.parametrize("at", ["raftbatch.cli", "raftbatch.cli.main", "typer", "raftbatch.errors"])
@pytest.mark.parametrize("way", ["module", "script"])
def test_command_that_is_interrupted_while_it_is_loaded_says_nothing(at: str, way: str) -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        module, _, name = tomllib.load(file)["project"]["scripts"]["raftbatch"].partition(":")
    script = f"sys.exit(importlib.import_module({module!r}).{name}())"
    ends = script if way == "script" else "runpy.run_module('raftbatch', run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-c", _INTERRUPTED.format(at=at) + ends],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd=ROOT,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
