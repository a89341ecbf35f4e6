"""The bugs that real processes are given: each is in the product's text, and each rule has one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from random import Random

import pytest

from chaos.broken import BROKEN, OF_DISKS
from chaos.bugs import Broken
from chaos.nemeses import schedule
from chaos.workloads import WORKLOADS
from tests.tidy.tree import ROOT

_JUDGES = ("chaos/running.py", "chaos/workloads/members.py")


@pytest.mark.parametrize("bug", [*BROKEN.values(), *OF_DISKS.values()], ids=lambda bug: bug.name)
def test_bug_is_in_the_products_text(bug: Broken) -> None:
    texts: dict[str, str] = {}
    for mutant in bug.mutants:
        spec = find_spec(mutant.module)
        assert spec is not None
        assert spec.origin is not None
        text = texts.get(mutant.module) or Path(spec.origin).read_text("utf-8")
        assert text.count(mutant.old) == 1, mutant.name
        texts[mutant.module] = text.replace(mutant.old, mutant.new)
    for module, text in texts.items():
        compile(text, module, "exec")


@pytest.mark.parametrize("bug", BROKEN.values(), ids=lambda bug: bug.name)
def test_bug_names_a_run_that_finds_it(bug: Broken) -> None:
    workload, nemeses, time_s, seed = bug.found_by
    assert workload in WORKLOADS
    planned = schedule(nemeses, Random(seed), time_s)
    assert {each.name for each in planned} == set(nemeses), "each within its time"
    assert bug.is_found({*bug.rules})
    assert not bug.is_found(set())
    if bug.perhaps is not None:
        assert not bug.is_found({*bug.rules, "something-else"})


def test_each_rule_is_shown_by_real_processes() -> None:
    """A rule that no bug brings about may be blind, and nobody would know."""
    paths = [*(ROOT / "chaos" / "checkers").glob("process*.py"), *(ROOT / each for each in _JUDGES)]
    rules = {rule for path in paths for rule in _rules(path)}
    assert len(rules) > 30
    shown = {rule for bug in BROKEN.values() if not bug.is_one_enough for rule in bug.rules}
    assert shown == rules


def _rules(path: Path) -> Iterator[str]:
    """Yield the rules that a file holds against a run."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        match node:
            case ast.Call(func=ast.Name("Finding"), args=[ast.Constant(str(rule)), *_]):
                yield rule
            case ast.Call(func=ast.Attribute(attr="broken"), args=[ast.Constant(str(rule)), *_]):
                yield rule
            case ast.Assign(targets=[ast.Name("rule")], value=value):
                for each in ast.walk(value):
                    if isinstance(each, ast.Constant):
                        yield str(each.value)
            case _:
                pass
