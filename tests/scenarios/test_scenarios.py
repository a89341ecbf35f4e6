"""Every script gives the trace that stands in it.

A trace that changed is looked at line by line, then written anew:
`pytest tests/scenarios --rewrite`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.language import INDENT, Interpreter, Unmet, replay

OTHERS = {"aggregation.txt"}  # of the scheduler: see test_aggregation.py
SCRIPTS = [p for p in sorted(Path(__file__).parent.glob("*.txt")) if p.name not in OTHERS]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_scenario(path: Path, request: pytest.FixtureRequest) -> None:
    """The trace is the same, and all that the script expects is so."""
    text = path.read_text(encoding="utf-8")
    found = replay(text)
    if request.config.getoption("--rewrite", default=False):
        path.write_text(found, encoding="utf-8")
    else:
        assert found.splitlines() == text.splitlines(), f"look, then: pytest {path} --rewrite"


def test_scenarios_say_what_they_show() -> None:
    for path in SCRIPTS:
        first = path.read_text(encoding="utf-8").splitlines()[0]
        assert first.startswith("# "), f"{path.name} does not begin with what it shows"


def test_expectation_that_is_not_met_fails_with_its_line() -> None:
    script = f"nodes n1 n2 n3\n{INDENT}an old trace\nelect n1\nexpect n1 follower\n"
    with pytest.raises(Unmet) as failure:
        replay(script)
    assert failure.value.__notes__ == ["in line 4: expect n1 follower"]


def test_unknown_commands_and_expectations_are_errors() -> None:
    interpreter = Interpreter()
    interpreter.run("nodes n1 n2 n3")
    with pytest.raises(ValueError, match="no command"):
        interpreter.run("fly n1")
    with pytest.raises(ValueError, match="nothing can be expected"):
        interpreter.run("expect n1 wings")
