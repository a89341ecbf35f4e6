"""The demo ends when it is told to, whatever it is doing, and leaves nothing behind.

That it loses and doubles nothing is shown by `test_readme`, which runs it; that it would say so,
by `tests/unit/test_demo_audit.py`.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from tests.e2e.demo_needs import needs_demo
from tests.e2e.processes import Process
from tests.tidy.tree import ROOT

pytestmark = [pytest.mark.slow, needs_demo]

_LIMIT_S = 120.0


def demo(folder: Path, *arguments: str) -> Process:
    """Start a demo whose temporary directories are in a folder."""
    command = [sys.executable, "-m", "demo", "--sentences", "40", *arguments]
    script = f"cd {ROOT} && exec {' '.join(command)} >&2"
    return Process(["sh", "-c", script], {"TMPDIR": str(folder), "TERM": "dumb"})


def running(folder: Path) -> list[str]:
    """Return the processes that have something of a folder in their command line."""
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = each.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in command:
            found.append(command)
    return found


def test_demo_that_is_kept_up_stops_with_ctrl_c(tmp_path: Path) -> None:
    with demo(tmp_path, "--keep") as process:
        process.until(
            lambda: "demo ok: " in process.unlocked() or not process.is_up, "end", _LIMIT_S
        )
        assert "The cluster is up. In another terminal:" in process.said, process.said
        assert len(running(tmp_path)) >= 5
        process.send(signal.SIGINT)
        assert process.ended() == 0
    assert process.said.splitlines()[-1].startswith("demo ok: requests=")
    assert (running(tmp_path), list(tmp_path.iterdir())) == ([], [])


@pytest.mark.parametrize(
    ("number", "sign"), [(signal.SIGINT, "leads; each"), (signal.SIGTERM, "start coordinators")]
)
def test_demo_that_is_interrupted_leaves_nothing(
    tmp_path: Path, number: signal.Signals, sign: str
) -> None:
    with demo(tmp_path) as process:
        process.until(lambda: sign in process.unlocked() or not process.is_up, sign, _LIMIT_S)
        process.send(number)
        process.send(number)  # whoever is impatient leaves nothing behind either
        assert process.ended() == 128 + number
    assert process.said.splitlines()[-1] == f"demo FAILED: stopped by {number.name}"
    assert (running(tmp_path), list(tmp_path.iterdir())) == ([], [])
