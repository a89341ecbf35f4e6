"""A seed is one identical run, in every suite that keeps a trace."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from chaos.runner import digest_of

DIGEST = "from chaos.runner import digest_of; print(digest_of({suite!r}, {seed}))"


@pytest.mark.parametrize(
    ("suite", "seed"),
    [
        ("raft", 4),  # with changes of the membership
        ("scheduler", 5),
        ("diverging", 0),
    ],
)
def test_seed_is_one_identical_run(suite: str, seed: int) -> None:
    """Every call and message at the same instant, whatever the hash seed is and what ran before."""
    digests = [digest_of(suite, seed), digest_of(suite, seed)]
    for hash_seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", DIGEST.format(suite=suite, seed=seed)],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        digests.append(done.stdout.strip())
    assert len(set(digests)) == 1, digests
