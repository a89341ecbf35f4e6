"""The root of the command line."""

import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from raftbatch import __version__
from raftbatch.cli import main
from raftbatch.cli.main import app


@pytest.fixture
def cli() -> CliRunner:
    return CliRunner()


def test_cli_prints_its_version(cli: CliRunner) -> None:
    result = cli.invoke(app, ["--version"])
    assert (result.exit_code, result.output) == (0, f"raftbatch {__version__}\n")


def test_cli_lists_its_commands(cli: CliRunner) -> None:
    result = cli.invoke(app, ["--help"])
    assert result.exit_code == 0
    assert "log" in result.output


def test_cli_exits_with_2_on_wrong_usage(cli: CliRunner) -> None:
    assert cli.invoke(app, ["no-such-command"]).exit_code == 2
    assert cli.invoke(app, []).exit_code == 2


@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_cli_says_that_its_output_cannot_be_written(argument: str) -> None:
    command = [
        "sh",
        "-c",
        'exec "$@" >/dev/full',
        "sh",
        sys.executable,
        "-m",
        "raftbatch",
        argument,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch("Error: the output cannot be written: .+\n", done.stderr)


def test_cli_hides_no_other_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise OSError("of something else")

    monkeypatch.setattr(main, "app", fail)
    with pytest.raises(OSError, match="something else"):
        main.main()
