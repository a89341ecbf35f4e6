"""The root of the command line."""

import pytest
from typer.testing import CliRunner

from raftbatch import __version__
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
