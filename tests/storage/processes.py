"""Starting `chaos.storage_process`, and reading what it wrote before it died."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random

from chaos.suites.storage import StorageNode
from chaos.suites.storage_model import StorageModel, Violation
from raftbatch.errors import Fatal
from tests.storage.story import ProcessFiles
from tests.tidy.tree import ROOT

LIMIT_S = 60
"""No process takes so long; a test that hangs would say nothing."""


def command(directory: Path, *arguments: str) -> list[str]:
    """Return the command that keeps a data directory."""
    return [sys.executable, "-m", "chaos.storage_process", str(directory), *arguments]


def start(arguments: Sequence[str], lines: Path) -> subprocess.Popen[str]:
    """Start a command, its lines going to a file."""
    with open(lines, "wb") as output:
        return subprocess.Popen(
            arguments,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
        )


def run_to_end(arguments: Sequence[str], lines: Path = Path(os.devnull)) -> tuple[int, str]:
    """Run a command until it has ended; return its status and its complaints."""
    with start(arguments, lines) as process:
        try:
            _, said = process.communicate(timeout=LIMIT_S)
        finally:
            process.kill()
    return process.returncode, said


def aftermath(directory: Path, lines: Path, seed: str) -> str | None:
    """Open what a process left, hold it against what it had said, and go on; else say why not.

    A process that was killed has lost nothing that it wrote: damage is no answer here.
    """
    files, model = ProcessFiles(), StorageModel()
    try:
        for line in lines.read_text(encoding="ascii").splitlines():
            model.take(line)
        for life in range(2):
            node = StorageNode(files, str(directory), Random(f"{seed}, life {life}"), model.take)
            node.create()
            node.open()
            node.hold_against(model)
            for _ in range(4):
                node.turn()
            node.settle()
            node.hold_against(model)
            files.die()
    except (Fatal, Violation) as error:
        return f"{type(error).__name__}: {error}"
    finally:
        files.die()
    return None
