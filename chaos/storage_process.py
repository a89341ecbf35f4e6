"""A process of its own that keeps a data directory, to be killed or to have its disk cut off.

    python -m chaos.storage_process DIRECTORY --seed 7 --turns 100

What lives here: the command. It writes the lines of `chaos.suites.storage_model`
to its standard output, each with one unbuffered write: a change before it is
made, an acknowledgement after it was given. What must never live here: a check;
whoever reads the lines does that. Called by: `chaos.power_loss`, tests/storage/.
"""

from __future__ import annotations

import argparse
import os
import sys
from random import Random

from chaos.suites.storage import Report, StorageNode
from raftbatch.errors import Fatal
from raftbatch.realworld import RealFile, RealFiles
from raftbatch.world import OpenMode

MUTANTS = ("datasync", "sync_directory", "early")
"""Ways in which it can be made to break its promise, so that a check can be shown to notice."""

EXIT_FATAL = 3


class _LazyFile(RealFile):
    """A file whose sync does nothing."""

    def datasync(self) -> None:
        """Return at once."""


class _LazyFiles(RealFiles):
    """Files of which one kind of sync does nothing."""

    def __init__(self, mutant: str) -> None:
        self._mutant = mutant

    def open(self, path: str, mode: OpenMode) -> RealFile:
        """Open, without a sync if that is the mutant."""
        file = super().open(path, mode)
        # The mutant takes the descriptor over; nothing else refers to it.
        return _LazyFile(file._descriptor) if self._mutant == "datasync" else file

    def sync_directory(self, path: str) -> None:
        """Sync, unless that is the mutant."""
        if self._mutant != "sync_directory":
            super().sync_directory(path)


def _reporter(acknowledgements_max: int | None, early: bool) -> Report:
    """Return what writes a line, and stands still for ever after so many acknowledgements.

    Args:
        acknowledgements_max: so many; opening is the first.
        early: acknowledge each entry when it is asked for; the mutant.
    """
    count = 0

    def write(line: str) -> None:
        nonlocal count
        os.write(1, f"{line}\n".encode("ascii"))
        count += acknowledges(line)
        if count == acknowledgements_max:
            sys.stdin.buffer.read()  # until the end: it is cut off here, or killed

    def report(line: str) -> None:
        if not (early and line.startswith("durable")):
            write(line)
        if early and line.startswith("change append"):
            write(f"durable {line.split()[2]}")

    return report


def acknowledges(line: str) -> bool:
    """Return whether a line says that something is durable."""
    return line.startswith(("opened", "durable", "snapshot"))


def main() -> int:
    """Open the directory, begin it if need be, and work on it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("directory")
    parser.add_argument("--seed", required=True, help="decides all it does; any text")
    parser.add_argument("--turns", type=int, default=1 << 60, help="stop after so many")
    parser.add_argument(
        "--acknowledgements", type=int, help="stand still after so many; opening is the first"
    )
    parser.add_argument("--mutant", choices=MUTANTS, help="break a promise")
    arguments = parser.parse_args()
    files = _LazyFiles(arguments.mutant or "")
    report = _reporter(arguments.acknowledgements, arguments.mutant == "early")
    node = StorageNode(files, arguments.directory, Random(arguments.seed), report)
    try:
        node.create()
        node.open()
        for _ in range(arguments.turns):
            node.turn()
        node.settle()
        node.close()
    except Fatal as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return EXIT_FATAL
    return 0


if __name__ == "__main__":
    sys.exit(main())
