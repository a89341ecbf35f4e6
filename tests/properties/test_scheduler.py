"""The scheduler keeps its promises, whatever the world does: G0, G2 to G6, G8 to G13.

Whole clusters of the product in the simulated world, with executors and clients
(`chaos.suites.scheduler`), one a seed.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from chaos.suites.scheduler import run_seed, trace_digest
from tests.properties.seeds import PROCESSES, RUN, expect_all, run_all

QUICK = range(8)
REMEMBERED = (315,)  # many are due at once, and few may end in an entry
HAPPENS = (
    "ok",
    "failed",
    "expired",
    "cancelled",
    "quota_exceeded",
    "overloaded",
    "request_id_conflict",
    "outcome_forgotten",
    "unknown_request",
    "cancelled_before",
    "acknowledged",
    "lapsed_executor_lost",
    "lapsed_timed_out",
    "lapsed_failed",
    "lapsed_refused",
    "bisect_records",
    "quarantine_records",
    "probe_records",
    "free_records",
    "leave_records",
    "stale_reports",
    "reruns",
    "deletemodel_records",
    "advance_records",
    "crashes",
    "installs",
    "transfers",
    "restarts",
    "whole_states",
)
"""What drawn runs must reach: where one of these is 0, the suite has become blind."""


@pytest.mark.parametrize("seed", [*QUICK, *REMEMBERED])
def test_scheduler_seed(seed: int) -> None:
    """A few drawn runs, for those who cannot wait, and those that once showed a fault of ours."""
    counts = run_seed(seed)
    assert counts["outcomes"] > 0
    assert counts["settled"] >= 2, "once before all lost their power, and once after"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_scheduler_seeds() -> None:
    """Some dozens more; a failure names its seed."""
    expect_all(run_all("scheduler", range(QUICK.stop, RUN["scheduler"]), PROCESSES), HAPPENS)


def test_scheduler_seed_is_repeated_by_the_command_that_anybody_can_run() -> None:
    """It prints the seed first, then the digest of the trace, and the counts last."""
    command = [sys.executable, "-m", "chaos", "sim", "--suite", "scheduler", "--seeds", "5"]
    done = subprocess.run([*command, "--digest"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    first, digest, last = done.stdout.splitlines()
    assert first == "seeds 5 of suite scheduler"
    assert digest == f"trace of seed 5: {trace_digest(5)}"
    assert json.loads(last)["violations"] == 0
