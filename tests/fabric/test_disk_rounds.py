"""Disks fail and lose their power under a cluster that works: nothing acknowledged is lost.

`make chaos-disks` does hundreds of the rounds that are done here once each.
"""

import os
import re
from pathlib import Path

import pytest

from chaos.disk_rounds import KINDS, run
from tests.fabric.test_disks import needs_disks, needs_library

pytestmark = [*needs_disks, *needs_library, pytest.mark.slow]

ROUNDS = int(os.environ.get("CHAOS_ROUNDS", "7"))
SEED = 7
_ALL = ("power", "kill-in-sync", "power", "sync-fails", "power", "write-fails", "write-no-space")


@pytest.mark.timeout(300 + 30 * ROUNDS)
def test_disks_fail_under_a_cluster_and_nothing_is_lost(tmp_path: Path) -> None:
    assert set(_ALL) == set(KINDS)
    rounds = run(tmp_path, SEED, ROUNDS, _ALL)
    assert rounds.findings == [], "\n".join(map(str, rounds.findings))
    assert sum(rounds.counts[f"rounds {kind}"] for kind in KINDS) == ROUNDS
    assert rounds.counts["outcome_ok"] > ROUNDS


@pytest.mark.parametrize(
    ("broken", "kind", "found"),
    [
        # What was not synced is not there; or a part of it, beside what vouches for all of it.
        ("fsync-off", "power", r"and holds|are damaged|was acknowledged, but"),
        ("sync-error-ignored", "sync-fails", r"goes on writing"),
    ],
)
def test_rounds_show_a_product_that_trusts_its_disk(
    tmp_path: Path, broken: str, kind: str, found: str
) -> None:
    rounds = run(tmp_path, SEED, 3, (kind,), broken=broken)
    assert [each for each in rounds.findings if re.search(found, each.what)], rounds.findings
