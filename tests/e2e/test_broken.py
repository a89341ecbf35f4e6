"""The checkers of real runs find real processes whose product has a bug; the product passes.

The product does what finds those bugs too: the same workload and faults, drawn from the same seed.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from chaos.broken import BROKEN
from chaos.history import read
from chaos.limits import Limits
from chaos.real import CONFIG, Asked, run
from chaos.worlds import namespaces
from tests.network.certificates import Authority

_WIDTH = 4  # is enough, and leaves less to judge
_WITHOUT_ROOT = [
    name for name, each in BROKEN.items() if each.found_by[1] in ((), ("kill-leader",))
]
_WITH_ROOT = [name for name in BROKEN if name not in _WITHOUT_ROOT]
_PLACES = ("n1", "n2", "n3", "n4", "n5", "x1", "x2")


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


def _expect_nothing(asked: Asked) -> None:
    """Do what finds bugs with the product as it is, which has all the time that it may need."""
    verdict = run(replace(asked, program=(), limits=Limits(step_s=60.0)), print)
    assert verdict.findings == []
    assert verdict.counts["outcome_ok"] > 0
    assert (verdict.counts["faults"] > 0) == bool(asked.nemeses)


@pytest.mark.slow
def test_product_passes_where_broken_ones_do_not(tmp_path: Path) -> None:
    asked = _asked(tmp_path, "careless")
    assert asked.nemeses == ()
    _expect_nothing(replace(asked, network=False))
    folder = tmp_path / "run"
    assert {each.op for each in read(folder / "history.jsonl")} >= {"submit", "result", "look"}
    for name in ("README.md", "verdict.json", "timeline.html", "cluster/logs/n1.log"):
        assert (folder / name).stat().st_size > 0


@pytest.mark.slow
def test_product_whose_leader_is_killed_passes(tmp_path: Path) -> None:
    _expect_nothing(replace(_asked(tmp_path, "never-back"), network=False))


@pytest.mark.slow
def test_product_changes_its_members_under_certificates(tmp_path: Path) -> None:
    """Whoever is added, removed, added again, promoted, or loses its disk shows who it is."""
    certificates = tmp_path / "certificates"
    certificates.mkdir()
    authority = Authority(certificates)
    for name in _PLACES:
        authority.issue(name, "executor" if name.startswith("x") else "peer")
    authority.issue("operator", "operator", "client")
    text = CONFIG.read_text("utf-8").replace('"../chaos/', f'"{CONFIG.parents[1]}/chaos/')
    config = tmp_path / "secure.toml"
    config.write_text(
        f"{text}\n[tls]\n"
        'ca = "certificates/ca.pem"\n'
        'cert = "certificates/{node}.pem"\nkey = "certificates/{node}.key"\n'
        'operator_cert = "certificates/operator.pem"\n'
        'operator_key = "certificates/operator.key"\n'
        'executor_cert = "certificates/{executor}.pem"\n'
        'executor_key = "certificates/{executor}.key"\n',
        "utf-8",
    )
    asked = _asked(tmp_path, "careless-members")
    _expect_nothing(replace(asked, network=False, config=config))
    rows = [each for each in read(tmp_path / "run" / "history.jsonl") if each.op == "operator"]
    done = [f"{each.value['what']} {each.value['name']}" for each in rows]
    for change in ("join n4", "remove n4", "promote n5", "start without a disk n3", "remove n5"):
        assert change in done, done
    log = (tmp_path / "run" / "cluster" / "cluster.toml").read_text("utf-8")
    assert "operator.pem" in log
