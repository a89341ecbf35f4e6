"""Consensus keeps its promises, whatever the world does: G1, G6, G7, G15.

Whole clusters of the product in the simulated world (`chaos.suites.raft`), one a
seed; and stock pysyncobj in the same world, to show that the suite can find.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from chaos.suites.raft import run_seed
from chaos.worlds.points import missed, without_points
from tests.properties.seeds import RUN, expect_all, run_all

QUICK = range(6)
REMEMBERED = (
    2487,  # a leader stands down after the heal: its write began on a slow disk before
    2771,  # a node joins through a window of one entry per round trip: half a minute, steadily
)
HAPPENS = ("acks", "reads", "crashes", "installs", "transfers", "changes", "joins", "wipes")
CHUNK = 25  # small enough that two workers end together
_POINTS_MIN = 10  # of some fifty, in a chunk; in all three hundred seeds it is nearly every one


@pytest.mark.parametrize("seed", [*QUICK, *REMEMBERED])
def test_raft_seed(seed: int) -> None:
    """A few drawn runs, for those who cannot wait, and those that once showed a fault of ours."""
    counts = run_seed(seed)
    assert counts["acks"] > 0
    assert counts["elections"] > 0


@pytest.mark.slow
@pytest.mark.timeout(600)  # beside others, on a machine that has other things to do as well
@pytest.mark.parametrize("first", range(QUICK.stop, RUN["raft"], CHUNK))
def test_raft_seeds(first: int) -> None:
    """Three hundred drawn runs in all; a failure names its seed."""
    seeds = range(first, min(first + CHUNK, RUN["raft"]))
    counts = run_all("raft", seeds)
    expect_all(counts, HAPPENS)
    reached = without_points(counts)["points"]
    assert reached >= _POINTS_MIN, f"nobody died at {missed(counts)}"


def test_raft_suite_finds_what_is_wrong_with_stock_pysyncobj() -> None:
    """It breaks its promises within a few seeds; told by the command that anybody can run."""
    command = [sys.executable, "-m", "chaos", "sim", "--suite", "raft", "--core", "stock"]
    done = subprocess.run(
        [*command, "--seeds", "0..19", "--processes", "1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["violations"] >= 3
    assert "again: python -m chaos sim --suite raft-stock --seeds" in done.stdout
