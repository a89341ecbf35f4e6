"""What commands say when they fail: words on standard error, and with `--json` one object too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from raftbatch.cli import failing, requests
from raftbatch.cli.main import app
from raftbatch.client import RequestFailed
from raftbatch.errors import OutcomeUnknown, Overloaded, RaftbatchError
from tests.tidy.tree import ROOT

NOBODY = ["--address", "127.0.0.1:1"]


@pytest.mark.parametrize(
    ("words", "status", "code"),
    [
        (["infer", "m", "x", "--wait", "0.3", *NOBODY], 1, "no_leader"),
        (["submit", "m", "x", "--address", "nonsense"], 2, "usage"),
        (["result", "a", "--wait", "0.3", *NOBODY], 1, "no_leader"),
        (["members", "list", "--timeout", "0.1", *NOBODY], 1, "no_answer"),
        (["request", "show", "nobody", "--directory", "tests/replay/v1"], 1, "unknown_request"),
        (["log", "show", "7..3", "--directory", "tests/replay/v1"], 2, "usage"),
        (["log", "dump", "nowhere"], 2, "usage"),
        (["config", "check", "nowhere.toml"], 2, "usage"),
        (["models", "check"], 2, "usage"),
        (["status"], 2, "usage"),
        (["serve", "--node", "n1", "--config", "nowhere.toml"], 2, "usage"),
        (["executor", "--id", "x1", "--config", "nowhere.toml"], 2, "usage"),
        (["up", "nowhere.toml"], 2, "usage"),
    ],
)
def test_error_is_an_object_where_json_is_asked_for(
    words: list[str], status: int, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    result = CliRunner().invoke(app, [*words, "--json"])
    assert result.exit_code == status
    found = json.loads(result.stdout)
    assert list(found) == ["error"]
    assert found["error"]["code"] == code
    assert found["error"]["definite"] is True
    assert found["error"]["message"]
    assert result.stderr.startswith("Error: ")
    plain = CliRunner().invoke(app, words)
    assert (plain.exit_code, plain.stdout) == (status, "")


@pytest.mark.parametrize(
    "words",
    [
        ["nonsense"],
        ["--nonsense", "status"],
        ["members", "nonsense"],
        ["members", "remove"],
        ["infer", "m", "x", "--nonsense"],
        ["infer", "m", "x", "--wait", "soon"],
        ["status", "--timeout"],
        ["log", "show", "1", "2"],
    ],
)
def test_wrong_words_are_an_object_where_json_is_asked_for(words: list[str]) -> None:
    result = CliRunner().invoke(app, [words[0], "--json", *words[1:]])
    assert result.exit_code == 2
    found = json.loads(result.stdout)
    assert list(found) == ["error"]
    assert found["error"]["code"] == "usage"
    assert found["error"]["definite"] is True
    assert found["error"]["message"]
    assert result.stderr
    for plain in (words, [*words, "--", "--json"]):
        again = CliRunner().invoke(app, plain)
        assert (again.exit_code, again.stdout) == (2, "")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (Overloaded("full", retry_after_ms=50), {"code": "overloaded", "retry_after_ms": 50}),
        (OutcomeUnknown("lost"), {"code": "outcome_unknown", "definite": False}),
        (RequestFailed("it broke", code="model_failed"), {"code": "failed", "definite": True}),
    ],
)
def test_error_of_a_request_keeps_what_it_says(
    error: RaftbatchError, told: dict[str, object], capsys: pytest.CaptureFixture[str]
) -> None:
    def call() -> None:
        raise error

    failing.note_json(True)
    try:
        with pytest.raises(typer.Exit):
            requests._ended(call)
    finally:
        failing.note_json(False)
    found = json.loads(capsys.readouterr().out)["error"]
    assert found.items() >= told.items()
    assert error.message in found["message"]


def test_executor_refuses_settings_that_it_does_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    text = (ROOT / "cluster_configs" / "local-1.toml").read_text("utf-8")
    path.write_text(f"{text}\n[policy]\nrequests_waitin_max = 1\n", encoding="utf-8")
    result = CliRunner().invoke(app, ["executor", "--id", "x", "--config", str(path)])
    assert result.exit_code == 2
    assert "policy.requests_waitin_max is unknown: the nearest is" in result.stderr


def test_check_of_a_file_of_models_alone_says_who_takes_it(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("[models.m]\nmax_batch_size = 4\n", encoding="utf-8")
    result = CliRunner().invoke(app, ["config", "check", str(path)])
    assert result.exit_code == 2
    assert "`raftbatch up` takes such a file as it is" in result.stderr
    assert "`raftbatch models check --config`" in result.stderr
