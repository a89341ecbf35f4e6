"""What is forked is the same to whoever looks as what was started anew."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e import forks
from tests.e2e.processes import LIMIT_S, run

pytestmark = pytest.mark.skipif(not forks.ARE_THERE, reason="only on Linux processes are forked")


@pytest.mark.parametrize(
    "words",
    [["--help"], ["serve"], ["result", "x", "--address", "nowhere"], ["config", "check", "/none"]],
)
def test_command_says_the_same(words: list[str]) -> None:
    forked, anew = run(*words), run(*words, anew=True)
    assert forked.returncode == anew.returncode
    assert (forked.stdout, forked.stderr) == (anew.stdout, anew.stderr)


@contextmanager
def _waiting(folder: Path) -> Iterator[forks.Forked]:
    """Let a process run that ends by itself at no time: it reads what nobody writes."""
    os.mkfifo(folder / "said")
    reading = os.open(folder / "said", os.O_RDWR)
    words = ["infer", "echo", "-", "--address", "127.0.0.1:1"]
    process = forks.begin(words, {}, (reading, reading, reading))
    try:
        yield process
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(LIMIT_S)
        os.close(reading)


def test_status_tells_of_the_signal_that_ended_it(tmp_path: Path) -> None:
    with _waiting(tmp_path) as process:
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        assert Path(f"/proc/{process.pid}").exists()
        process.send_signal(signal.SIGKILL)
        assert process.wait(LIMIT_S) == process.poll() == -signal.SIGKILL
        assert not Path(f"/proc/{process.pid}").exists()
    process.send_signal(signal.SIGKILL)  # harmless where it has ended
