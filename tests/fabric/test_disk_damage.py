"""A stopped node whose files are cut, or have a bit flipped, starts whole or says where it is hurt.

`make chaos-disks` damages hundreds of times what is damaged here a few times.
"""

import os
from pathlib import Path

import pytest

from chaos.disk_damage import run

pytestmark = pytest.mark.slow

SAMPLES = int(os.environ.get("CHAOS_DAMAGES", "26"))  # of which one is of the whole cluster
SEED = 7


@pytest.mark.timeout(300 + 10 * SAMPLES)
def test_damaged_files_are_refused_by_name_or_harmless(tmp_path: Path) -> None:
    damages = run(tmp_path, SEED, SAMPLES)
    assert damages.found == []
    counts = damages.counts
    assert counts["segment refused"] > 0
    assert counts["snapshot refused"] > 0
    assert counts["whole"] > 0
    assert counts["together"] > 0
    assert counts["founding refused"] == 4


def test_damage_shows_a_node_that_does_not_look_at_checksums(tmp_path: Path) -> None:
    damages = run(tmp_path, SEED, 12, broken="checksum-off", kinds=("segment",))
    assert any("cannot be read" in each for each in damages.found), damages.found
