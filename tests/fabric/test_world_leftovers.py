"""Whatever a world of real processes makes is gone with it, however its harness ends."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from chaos.worlds import groups, mounts, owners
from chaos.worlds.namespaces import ours
from tests.fabric.nodes import needs_namespaces
from tests.fabric.test_disks import needs_disks
from tests.fabric.test_leftovers import Watched
from tests.tidy.tree import ROOT

pytestmark = [*needs_namespaces, *needs_disks]

LIMIT_S = 60.0


def _clean() -> str:
    command = [sys.executable, "-m", "chaos", "clean"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=LIMIT_S
    )
    return done.stdout


def test_clean_removes_all_of_a_world_whose_harness_was_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.fabric.world_harness", str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as harness:
        try:
            assert harness.stdout is not None
            made = json.loads(harness.stdout.readline())
            owner = f"{owners.PREFIX}-{harness.pid}-{owners.started(harness.pid)}"
            processes = [Watched(pid) for pid in made["processes"]]
            assert all(os.path.ismount(path) for path in made["mounts"])
            _clean()
            assert all(os.path.ismount(path) for path in made["mounts"])
            assert not any(process.ends(0) for process in processes)
        finally:
            harness.kill()
    assert set(made["mounts"]) <= set(mounts.leftovers())
    assert not processes[0].ends(0)  # paused

    said = _clean()
    assert all(f"removed {path}\n" in said for path in made["mounts"])
    assert all(process.ends(LIMIT_S) for process in processes)
    assert not any(os.path.ismount(path) for path in made["mounts"])
    assert not [name for name in ours() if name.startswith(owner)]
    assert mounts.leftovers() == mounts.loops() == []
    assert groups.clean() == []
    for process in processes:
        process.close()


def test_what_the_machine_refuses_is_told_with_what_was_asked() -> None:
    with pytest.raises(owners.Unable, match="false --no: "):
        mounts.run("false", "--no")
