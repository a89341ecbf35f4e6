"""The root of the command line."""

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from raftbatch import __version__
from raftbatch.cli import calls, main, requests
from raftbatch.cli.calls import Cluster, Target
from raftbatch.cli.main import app
from raftbatch.cli.status import statuses
from raftbatch.client import RequestFailed
from raftbatch.errors import OutcomeForgotten, OutcomeUnknown, RaftbatchError
from raftbatch.v1 import admin_pb2
from tests.tidy.tree import ROOT


@pytest.fixture
def cli() -> CliRunner:
    return CliRunner()


def test_cli_prints_its_version(cli: CliRunner) -> None:
    result = cli.invoke(app, ["--version"])
    assert (result.exit_code, result.output) == (0, f"raftbatch {__version__}\n")


def test_cli_lists_its_commands(cli: CliRunner) -> None:
    result = cli.invoke(app, ["--help"])
    assert result.exit_code == 0
    for command in ("up", "serve", "status", "infer", "submit", "result", "cancel", "transfer"):
        assert f" {command} " in result.output


@pytest.mark.parametrize(
    "command",
    [["up"], ["serve"], ["status"], ["infer"], ["submit"], ["transfer"], ["members", "remove"]],
)
def test_cli_help_says_what_the_exit_status_means(cli: CliRunner, command: list[str]) -> None:
    result = cli.invoke(app, [*command, "--help"], env={"COLUMNS": "200", "TERM": "dumb"})
    assert result.exit_code == 0
    assert "Exit status: 0" in result.output


def test_cli_help_shows_words_in_brackets(cli: CliRunner) -> None:
    result = cli.invoke(app, ["up", "--help"], env={"COLUMNS": "200", "TERM": "dumb"})
    assert "may leave out [nodes] and [cluster]" in " ".join(result.output.split())
    assert "up [OPTIONS] [CONFIG]" in result.output


def test_cli_help_breaks_lines_where_the_terminal_ends(cli: CliRunner) -> None:
    for command in (["infer"], ["members", "add"], ["log", "tail"], ["batch", "show"]):
        result = cli.invoke(app, [*command, "--help"], env={"COLUMNS": "300", "TERM": "dumb"})
        line = next(each for each in result.output.splitlines() if "Exit status: 0" in each)
        assert " 2 wrong usage" in line
        assert line.rstrip().endswith(".")


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (
            RequestFailed("IndexError: list index out of range", code="model_failed"),
            1,
            "Error: the request failed: model_failed: IndexError: list index out of range\n",
        ),
        (
            OutcomeUnknown("a has no answer within 2 s, and it is cancelled"),
            3,
            "`raftbatch request show` tells what came of it",
        ),
        (OutcomeForgotten("it was acknowledged"), 1, "What it was, `raftbatch request show` tells"),
    ],
)
def test_cli_says_what_became_of_a_request(
    capsys: pytest.CaptureFixture[str], error: RaftbatchError, status: int, said: str
) -> None:
    def call() -> None:
        raise error

    with pytest.raises(typer.Exit) as ended:
        requests._ended(call)
    assert ended.value.exit_code == status
    assert said in capsys.readouterr().err


def test_cli_tries_nodes_for_as_long_as_it_waits() -> None:
    """Who relies on a queue that lasts waits for nodes that start as for the answer."""
    options = requests._options(Cluster(()), 20.0, False, "")
    assert (options.patience_s, options.connect_timeout_s) == (20.0, 20.0)


@pytest.mark.parametrize(
    "words",
    [
        ["infer", "echo", "a", "--address", "nonsense"],
        ["status", "nonsense"],
        ["members", "add", "n9", "nonsense", "--address", "127.0.0.1:1"],
        ["members", "move", "n1", "x:0", "--address", "127.0.0.1:1"],
        ["log", "tail", "--address", ":1"],
    ],
)
def test_cli_says_what_is_no_address(cli: CliRunner, words: list[str]) -> None:
    result = cli.invoke(app, words)
    assert result.exit_code == 2
    assert "is no address: it has the form host:port" in result.stderr


def test_cli_wants_a_number_that_a_batch_can_have(cli: CliRunner) -> None:
    result = cli.invoke(app, ["batch", "show", str(1 << 64), "--address", "127.0.0.1:1"])
    assert result.exit_code == 2


def test_cli_checks_a_configuration(cli: CliRunner) -> None:
    path = str(ROOT / "cluster_configs" / "local-3.toml")
    result = cli.invoke(app, ["config", "check", path])
    assert result.exit_code == 0
    assert "cluster local-3, 3 nodes, no TLS" in result.output
    assert "heartbeat_ms = 50" in result.output
    assert "5555 requests/s" in result.output
    found = json.loads(cli.invoke(app, ["config", "check", path, "--json"]).output)
    assert [each["node"] for each in found["nodes"]] == ["n1", "n2", "n3"]
    assert found["storage"]["segment_bytes"] == 64 << 20
    assert len(found["notes"]) == 1


def test_cli_finds_limits_that_can_never_be_reached(cli: CliRunner, tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    text = (ROOT / "cluster_configs" / "local-1.toml").read_text("utf-8")
    path.write_text(f"{text}\n[policy]\ndedupe_entries_max = 10\n", encoding="utf-8")
    result = cli.invoke(app, ["config", "check", str(path)])
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: policy.requests_waiting_max = 200000 can never be ")
    found = json.loads(cli.invoke(app, ["config", "check", str(path), "--json"]).stdout)
    assert len(found["unreachable"]) == 1
    path.write_text(f"{text}\n[models.m.executor]\nfile = 'm.py'\n", encoding="utf-8")
    result = cli.invoke(app, ["config", "check", str(path)])
    assert result.exit_code == 2
    assert "models.m.executor.class is missing" in result.stderr


def test_cli_looks_at_the_machine_of_a_node(cli: CliRunner, tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        at = f"127.0.0.1:{taken.getsockname()[1]}"
        path.write_text(
            f'[cluster]\nname = "a"\n[nodes.n1]\npeer = "{at}"\nclient = "127.0.0.1:1"\n'
            '[tls]\nca = "ca.pem"\ncert = "n1.pem"\nkey = "n1.key"\n'
            f"[storage]\ndisk_low_bytes = {1 << 50}\n",
            encoding="utf-8",
        )
        words = ["config", "check", str(path), "--json"]
        assert cli.invoke(app, words).exit_code == 0, "nothing of this machine was asked"
        result = cli.invoke(app, [*words, "--node", "n1"])
    assert result.exit_code == 1
    certificate, port, space = json.loads(result.stdout)["unready"]
    assert certificate == f"{tmp_path}/ca.pem cannot be read: No such file or directory"
    assert port.startswith(f"nobody can listen at {at}: somebody does")
    assert space.startswith(f"{tmp_path} has room for ")
    assert cli.invoke(app, [*words, "--node", "n2"]).exit_code == 2


@pytest.mark.parametrize("place", ["", "data", "data/n1", "data/n1/journal", "data/n1/snapshots"])
@pytest.mark.parametrize("what", ["file", "link", "forbidden"])
def test_cli_says_that_a_data_directory_cannot_be_used(
    cli: CliRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, what: str
) -> None:
    path, at = tmp_path / "a.toml", tmp_path / "disk" / place
    folder = tmp_path / "disk" / "data" / "n1"
    nodes = '[nodes.n1]\npeer = "127.0.0.1:1"\nclient = "127.0.0.1:2"\n'
    storage = f'[storage]\ndata_dir = "{folder}"\ndisk_low_bytes = {1 << 50}\n'
    path.write_text(f'[cluster]\nname = "a"\n{nodes}{storage}', encoding="utf-8")
    at.parent.mkdir(parents=True, exist_ok=True)
    said = f"{at} is no directory: move it away"
    if what == "file":
        at.write_bytes(b"")
    elif what == "link":
        at.symlink_to(tmp_path / "nowhere")
    else:  # root may write anywhere, so that no mode keeps a test of root's out
        at.mkdir()
        monkeypatch.setattr(os, "access", lambda asked, _: Path(asked) != at)
        said = f"this process may not read and write in {at}: give it to the user"
    before = sorted(tmp_path.rglob("*"))
    words = ["config", "check", str(path), "--node", "n1"]
    result = cli.invoke(app, words)
    assert result.exit_code == 1
    assert f"Error: n1 cannot start here: {folder} cannot be used: {said}" in result.stderr
    assert sorted(tmp_path.rglob("*")) == before


def test_cli_says_what_is_wrong_with_a_configuration(cli: CliRunner, tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text("[clutser]", encoding="utf-8")
    result = cli.invoke(app, ["config", "check", str(path)])
    assert result.exit_code == 2
    assert result.stderr == f"Error: {path}: clutser is unknown: the nearest is cluster\n"


@pytest.mark.parametrize("command", [["status"], ["members", "list"], ["transfer"]])
def test_cli_wants_to_know_which_cluster(cli: CliRunner, command: list[str]) -> None:
    result = cli.invoke(app, command)
    assert result.exit_code == 2
    assert "--config FILE" in result.stderr


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


@pytest.mark.parametrize(
    ("redirected", "words", "status", "said"),
    [
        (">&-", ["config", "check", "FILE"], 2, "the output cannot be written: .*is closed\n"),
        (">&-", ["config", "check", "FILE", "--json"], 2, ".*"),
        ("2>&-", ["config", "check", "FILE"], 0, ""),
        ("<&- >&- 2>&-", ["config", "check", "FILE"], 2, ""),
        ("<&-", ["infer", "m", "-", "--address", "127.0.0.1:1"], 2, ".*holds no JSON.*"),
    ],
)
def test_cli_takes_closed_standard_streams(
    redirected: str, words: list[str], status: int, said: str
) -> None:
    file = str(ROOT / "cluster_configs" / "local-1.toml")
    words = [file if each == "FILE" else each for each in words]
    # Whoever follows is told which descriptors the standard ones are: none of our own files.
    command = ["sh", "-c", f'exec "$@" {redirected}', "sh", sys.executable, "-m", "raftbatch"]
    done = subprocess.run(
        [*command, *words], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == status, done.stderr
    assert re.search(said, done.stderr, re.DOTALL)
    assert "Traceback" not in done.stderr


def test_closed_standard_streams_take_no_place_of_files() -> None:
    code = (
        "import os, sys\n"
        "from raftbatch.cli import main\n"
        "def app():\n"
        "    taken = os.open('/dev/zero', os.O_RDONLY)\n"
        "    os._exit(taken if sys.stdin.read() == '' else 100)\n"
        "main.app = app\n"
        "main.main()\n"
    )
    command = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", sys.executable, "-c", code]
    done = subprocess.run(command, check=False, timeout=60, cwd=ROOT)
    assert 3 <= done.returncode < 100


def test_status_of_all_nodes_takes_no_longer_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connecting, the call, and asking those that the file does not name share one time."""
    now, given = [0.0], []

    class Stub:
        async def Status(self, _: object, *, timeout: float) -> admin_pb2.StatusReply:  # noqa: N802
            given.append((now[0], timeout))
            now[0] += 0.5
            member = admin_pb2.MemberStatus(node_id="n2", client_address="127.0.0.1:2")
            return admin_pb2.StatusReply(node_id="n1", members=[member])

    @asynccontextmanager
    async def connected(_: Cluster, target: Target, timeout_s: float) -> AsyncIterator[Stub]:
        given.append((now[0], timeout_s))
        now[0] += 2.0
        yield Stub()

    async def main() -> int:
        loop = asyncio.get_running_loop()
        with monkeypatch.context() as patch:
            patch.setattr(loop, "time", lambda: now[0])
            known = (Target("127.0.0.1:1", "n1"),)
            return len(await statuses(Cluster(known, known), 3.0))

    monkeypatch.setattr(calls, "connected", connected)
    assert asyncio.run(main()) == 2
    assert given == [(0.0, 3.0), (2.0, 1.0), (2.5, 1.0), (4.5, 0.1)]


def test_cli_hides_no_other_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise OSError("of something else")

    monkeypatch.setattr(main, "app", fail)
    with pytest.raises(OSError, match="something else"):
        main.main()
