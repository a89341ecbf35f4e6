"""The checkers of real runs find real processes whose product has a bug; the product passes."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.broken import BROKEN
from chaos.history import read
from chaos.real import Asked, run
from chaos.worlds import namespaces

_WIDTH = 4  # is enough, and leaves less to judge
_WITHOUT_ROOT = [name for name, each in BROKEN.items() if not each.found_by[1]]
_WITH_ROOT = [name for name, each in BROKEN.items() if each.found_by[1]]


def _asked(folder: Path, name: str) -> Asked:
    workload, nemeses, time_s, seed = BROKEN[name].found_by
    return Asked(
        workload,
        nemeses,
        time_s,
        seed,
        folder=folder / "run",
        width=_WIDTH,
        program=("chaos.broken", name),
        limits=BROKEN[name].limits,
    )


def _expect_found(folder: Path, name: str) -> None:
    verdict = run(_asked(folder, name), print)
    rules = {each.rule for each in verdict.findings}
    assert BROKEN[name].is_found(rules), rules
    about = [each for each in verdict.findings if each.name is not None]
    assert all(each.story for each in about), about


@pytest.mark.slow
@pytest.mark.parametrize("name", _WITHOUT_ROOT)
def test_checkers_find_a_broken_product(tmp_path: Path, name: str) -> None:
    _expect_found(tmp_path, name)


@pytest.mark.slow
@pytest.mark.root
@pytest.mark.parametrize("name", _WITH_ROOT)
def test_checkers_find_a_broken_product_under_faults(tmp_path: Path, name: str) -> None:
    if missing := namespaces.missing():
        pytest.skip(missing)
    _expect_found(tmp_path, name)


@pytest.mark.slow
def test_product_passes_where_broken_ones_do_not(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    asked = Asked("submit", ("kill-leader",), 6.0, 1, folder=folder, width=_WIDTH, network=False)
    verdict = run(asked, print)
    assert verdict.findings == []
    assert verdict.counts["outcome_ok"] > 0
    assert {each.op for each in read(folder / "history.jsonl")} >= {"submit", "result", "look"}
    for name in ("README.md", "verdict.json", "timeline.html", "cluster/logs/n1.log"):
        assert (folder / name).stat().st_size > 0
