"""Tests of real processes and networks run one by one: they are where that is seen to.

`tests/conftest.py` names their folders. Beside others they would measure those, or lack processors.
"""

import ast
from collections.abc import Sequence

from tests.conftest import SERIAL
from tests.tidy.tree import ROOT, Source, expect_none, python_sources

# What starts servers, or makes networks.
_REAL = (
    "tests.e2e",
    "tests.fabric",
    "tests.network",
    "chaos.worlds.fabric",
    "chaos.worlds.mounts",
    "chaos.worlds.processes",
)
_ELSEWHERE = tuple(f"tests/{folder}/" for folder in SERIAL)


def check_serial(sources: Sequence[Source]) -> list[str]:
    """Complain about tests beside others that use what is real. Total. Deterministic."""
    complaints = []
    for source in sources:
        if source.path.startswith(_ELSEWHERE):
            continue
        for node in source.nodes:
            if isinstance(node, ast.ImportFrom) and source.imported_from(node).startswith(_REAL):
                complaint = f"{node.module} is for tests in {', '.join(SERIAL)}"
                complaints.append(source.at(node, complaint))
    return complaints


def test_serial_tests_are_where_they_are_known_in_the_tree() -> None:
    expect_none(check_serial(python_sources("tests")))
    for folder in SERIAL:
        assert (ROOT / "tests" / folder).is_dir()


def test_serial_fires_on_a_cluster_among_unit_tests() -> None:
    text = "from tests.e2e.cluster import ServedCluster\n"
    assert len(check_serial([Source("tests/unit/test_a.py", text)])) == 1
    assert check_serial([Source("tests/e2e/test_a.py", text)]) == []
