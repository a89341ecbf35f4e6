"""Fifty losses of power, one after another, on a real file system: what was acknowledged is there.

That each cut does cut is shown by nodes which skip one kind of sync, or
acknowledge too early: they must be found out.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from chaos.power_loss import EXIT_BROKEN
from tests.tidy.tree import ROOT

ROUNDS = 50
SEED = 1  # draws the moments; what the process does between them is up to the machine
LIMIT_S = 240

_TOOLS = ("mkfs.ext4", "mount", "umount", "unshare")


def _missing() -> str:
    """Return why no file system can be made here; nothing if one can."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "needs root"
    if tools := [tool for tool in _TOOLS if shutil.which(tool) is None]:
        return f"{', '.join(tools)} missing"
    if not Path("/dev/loop-control").exists():
        return "there are no loop devices"
    private = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    return "" if private.returncode == 0 else "may not make a mount namespace"


_MISSING = _missing()
pytestmark = [pytest.mark.root, pytest.mark.skipif(bool(_MISSING), reason=_MISSING)]


def _power_loss(tmp_path: Path, *mutant: str) -> tuple[int, str]:
    """Run the rounds; return how they ended, and what was said."""
    arguments = ["--seed", str(SEED), "--rounds", str(ROUNDS), *mutant]
    done = subprocess.run(
        [sys.executable, "-m", "chaos.power_loss", *arguments],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=LIMIT_S,
        check=False,
        text=True,
    )
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"
    assert str(tmp_path) not in Path("/proc/self/mounts").read_text(encoding="utf-8")
    return done.returncode, done.stdout


@pytest.mark.slow  # under 30 seconds
def test_power_loss_takes_nothing_acknowledged(tmp_path: Path) -> None:
    status, said = _power_loss(tmp_path)
    assert status == 0, said
    assert f"{ROUNDS} rounds" in said, said
    assert " 0 changes lost" not in said, "a cut that takes nothing is none"


@pytest.mark.parametrize("mutant", ["datasync", "sync_directory", "early"])
def test_power_loss_shows_a_node_that_skips_a_sync(tmp_path: Path, mutant: str) -> None:
    status, said = _power_loss(tmp_path, "--mutant", mutant)
    assert status == EXIT_BROKEN, said
    assert "BROKEN in round" in said, said
