"""One process at a time: the second is told who the first is, and may follow it once it is dead."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from chaos.storage_process import EXIT_FATAL
from tests.storage.processes import aftermath, command, run_to_end
from tests.storage.story import scratch
from tests.tidy.tree import ROOT


@contextmanager
def _holder(directory: Path) -> Iterator[subprocess.Popen[str]]:
    """Yield a process that has opened the directory and stands still."""
    arguments = command(directory, "--seed", "holder", "--acknowledgements", "1")
    with subprocess.Popen(
        arguments, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "opened 0\n"
            yield process
        finally:
            process.kill()


@pytest.fixture
def directory() -> Iterator[Path]:
    """Return where a data directory may be."""
    with scratch() as path:
        yield path / "data"


def test_second_process_is_told_the_pid_of_the_first(directory: Path) -> None:
    with _holder(directory) as holder:
        status, said = run_to_end(command(directory, "--seed", "second", "--turns", "1"))
        assert status == EXIT_FATAL
        assert re.search(rf"CannotStart: .* is in use: .*\bpid {holder.pid}\b", said)
        assert holder.poll() is None, "the first lives on"


def test_successor_of_a_killed_process_opens(directory: Path) -> None:
    with _holder(directory) as holder:
        holder.kill()
        holder.wait()
        lines = directory.parent / "lines"
        status, said = run_to_end(command(directory, "--seed", "next", "--turns", "5"), lines)
        assert status == 0, said
    assert aftermath(directory, lines, "after") is None
