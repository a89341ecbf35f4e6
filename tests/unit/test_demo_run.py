"""The demo's exit status and last line are those of its verdict, whatever happens."""

from __future__ import annotations

import asyncio
import io
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import demo.scenario
from demo.audit import Verdict
from demo.run import _run, main
from demo.sentences import Sentence
from raftbatch.errors import CannotStart
from tests.unit.demo_scene import log, verdict, without


def ran(
    folder: Path, monkeypatch: pytest.MonkeyPatch, came: Verdict | BaseException
) -> tuple[int, list[str]]:
    """Return status and lines of a run whose scenario comes to that."""

    class Scenario:
        def __init__(self, *arguments: Any) -> None:
            self.is_closed = False
            closed.append(self)

        async def run(self) -> Verdict:
            if isinstance(came, BaseException):
                raise came
            return came

        def close(self) -> None:
            self.is_closed = True

    closed: list[Scenario] = []
    monkeypatch.setattr(demo.scenario, "Scenario", Scenario)
    directory = folder / "demo"
    directory.mkdir()
    stream = io.StringIO()
    corpus = [Sentence("a", "A sentence.")]
    status = asyncio.run(_run(corpus, directory, False, Console(file=stream, width=200)))
    assert all(each.is_closed for each in closed)
    assert directory.exists() == (status == 1)  # its logs say why
    return status, stream.getvalue().splitlines()


def test_run_that_is_right_ends_with_0(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    status, lines = ran(tmp_path, monkeypatch, verdict())
    assert status == 0
    assert lines == ["demo ok: requests=4 lost=0 doubled=0 failover_ms=250"]


def test_run_that_lost_something_ends_with_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, lines = ran(tmp_path, monkeypatch, verdict(without(log(), 11)))
    assert status == 1
    assert lines[-1].startswith("demo FAILED: requests=4 lost=2 doubled=0 different=2: 2 requests")
    assert re.fullmatch(r"What its processes said stays in .*/demo/logs\.", lines[-2])


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (CannotStart("x1 does not run: it said nothing"), "x1 does not run: it said nothing"),
        (ExceptionGroup("two", [TimeoutError("too late")]), "too late"),
        (KeyError("x"), "KeyError: 'x'"),
    ],
)
def test_run_that_breaks_says_so_in_its_last_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, said: str
) -> None:
    status, lines = ran(tmp_path, monkeypatch, error)
    assert (status, lines[-1]) == (1, f"demo FAILED: {said}")


@pytest.mark.parametrize("count", ["1", "39", "1000000", "-1"])
def test_run_says_how_many_sentences_there_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], count: str
) -> None:
    monkeypatch.setattr("sys.argv", ["demo", "--sentences", count])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert f"--sentences {count}: there are 40 to " in capsys.readouterr().err


def test_run_says_what_is_not_installed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["demo"])
    monkeypatch.setattr("demo.run._NEEDS", {"no_such_module": "pip install it"})
    assert main() == 1
    assert capsys.readouterr().out.startswith("demo FAILED: no_such_module is not installed: ")
