"""`raftbatch log dump`: what it prints, and how it exits."""

from __future__ import annotations

import base64
import datetime
import json
import os
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from typer.testing import CliRunner

from coordinator.raft.datadir import DataDirectory
from coordinator.raft.dump_items import ITEMS
from coordinator.raft.dump_view import StillFiles
from coordinator.raft.membership import Rank
from raftbatch.cli.main import app
from raftbatch.cli.text import iso_time
from raftbatch.realworld import RealFiles, RealWorld
from tests.scenarios.fakes import N1, N2, N3, N4, members
from tests.tidy.tree import ROOT
from tests.unit.dump_example import (
    CONFIG,
    FIRST,
    IDENTITY,
    JOURNAL,
    LIMITS,
    NEWEST,
    OLDER,
    SECOND,
    make_disk,
)


@pytest.fixture
def cli() -> CliRunner:
    return CliRunner()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Put the test's data directory on the real disk."""
    disk = make_disk()
    for path in (FIRST, SECOND, f"{JOURNAL}/mark", "/data/lock", OLDER, NEWEST):
        target = tmp_path / path.removeprefix("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(disk.read(path))
    return tmp_path / "data"


def damage(directory: Path, offset: int = 900) -> None:
    segment = directory / "journal" / FIRST.rpartition("/")[2]
    content = bytearray(segment.read_bytes())
    content[offset] ^= 1
    segment.write_bytes(content)


def dumped(cli: CliRunner, *arguments: object, exit_code: int = 0) -> str:
    result = cli.invoke(app, ["log", "dump", *map(str, arguments)])
    assert result.exit_code == exit_code, result.output
    return result.output


def objects(output: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in output.splitlines()]


def test_log_dump_prints_lines_a_person_can_read(cli: CliRunner, directory: Path) -> None:
    output = dumped(cli, directory)
    lines = output.splitlines()
    assert output.isascii()
    assert output.replace("\n", "").isprintable()
    assert not [line for line in lines if line != line.rstrip()]
    assert "node       n1, incarnation 1" in lines
    assert "state      term 2, no vote" in lines
    assert "2023-11-14T22:13:20.000Z" in output
    assert re.search(r"\n *11  entry +7 +2 +9 +8 +1@\d+  [0-9a-f]{8}  1b5b33316d726564 ", output)
    assert "|.[31mred|" in output
    assert "entries above 4 are taken back" in output
    assert lines[-2:] == ["13 records read in order", "verdict: opens"]


def test_log_dump_prints_all_data_when_asked(cli: CliRunner, directory: Path) -> None:
    output = dumped(cli, directory, "--lsn", "13", "--data")
    assert len(re.findall(r"^    000000[0-6]0  7a", output, re.MULTILINE)) == 7  # 100 bytes
    (record,) = (
        item
        for item in objects(dumped(cli, directory, "--lsn", "13", "--data", "--json"))
        if item["type"] == "record"
    )
    assert base64.b64decode(str(record["data"])) == b"z" * 100


def test_log_dump_exits_with_1_where_opening_refuses(cli: CliRunner, directory: Path) -> None:
    damage(directory)
    lines = dumped(cli, directory, exit_code=1).splitlines()
    assert lines[-1].startswith(f"verdict: refused: {directory}/journal/{FIRST[-28:]} at offset 8")
    assert sum(line.startswith("!") for line in lines) > 1
    verdict = objects(dumped(cli, directory, "--json", exit_code=1))[-1]
    assert (verdict["type"], verdict["outcome"]) == ("verdict", "refused")


def test_log_dump_exits_with_0_where_only_a_torn_tail_is_cut(
    cli: CliRunner, directory: Path
) -> None:
    segment = directory / "journal" / SECOND.rpartition("/")[2]
    content = bytearray(segment.read_bytes())
    content[1016:1020] = b"torn"
    segment.write_bytes(content)
    assert dumped(cli, directory).splitlines()[-1] == (
        f"verdict: opens after cutting {segment} at offset 1016 "
        "(nothing shows that it was acknowledged)"
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["{}/nowhere"],
        ["{}/snapshots"],
        ["{}", "--lsn", "3-4"],
        ["{}", "--lsn", ""],
        ["{}", "--lsn", "9..7"],
        ["{}", "--from", "5", "--to", "3"],
        ["{}", "--tail", "-1"],
        [],
    ],
)
def test_log_dump_exits_with_2_on_wrong_usage(
    cli: CliRunner, directory: Path, arguments: list[str]
) -> None:
    output = dumped(cli, *(a.format(directory) for a in arguments), exit_code=2)
    assert "Error" in output or "Usage" in output


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--lsn", "7"], [7]),
        (["--lsn", "12.."], [12, 13]),
        (["--lsn", "..2"], [1, 2]),
        (["--lsn", "3..4"], [3, 4]),
        (["--from", "8"], [12, 13]),
        (["--to", "1"], [2]),
        (["--tail", "1"], [13]),
        (["--limit", "1"], [1]),
        (["--no-records"], []),
    ],
)
def test_log_dump_lists_what_is_selected(
    cli: CliRunner, directory: Path, arguments: list[str], expected: list[int]
) -> None:
    items = objects(dumped(cli, directory, "--json", *arguments))
    assert [item["lsn"] for item in items if item["type"] == "record"] == expected


def test_log_dump_json_is_what_the_document_says(cli: CliRunner, directory: Path) -> None:
    document = (ROOT / "docs/OPERATIONS.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", document, re.MULTILINE))
    for kind in ITEMS:
        names = [field.name.replace("created_ms", "created") for field in fields(kind)]
        assert re.findall(r"`(\w+)`", rows[kind.__name__.lower()]) == names
    damage(directory)
    for item in objects(dumped(cli, directory, "--json", "--data", exit_code=1)):
        assert list(item) == ["type", *re.findall(r"`(\w+)`", rows[str(item["type"])])]


def test_log_dump_shows_names_from_the_disk_without_obeying_them(
    cli: CliRunner, directory: Path
) -> None:
    (directory / "snapshots" / "\x1b[2J\udc80").touch()
    output = dumped(cli, directory, exit_code=1)
    assert "\x1b" not in output
    assert r"\x1b[2J\udc80 is no snapshot" in output
    assert r"\udc80" in dumped(cli, directory, "--json", exit_code=1)


def test_log_dump_tells_the_pid_in_the_lock_file(cli: CliRunner, directory: Path) -> None:
    RealFiles().lock(f"{directory}/lock").release()
    assert f"lock       lock file names pid {os.getpid()}" in dumped(cli, directory).splitlines()
    (directory / "lock").write_bytes(b"")
    assert "lock       lock file names no pid" in dumped(cli, directory).splitlines()


def test_log_dump_says_that_a_node_is_running(
    cli: CliRunner, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StillFiles, "changed", True)  # the mark has moved
    assert dumped(cli, directory).splitlines()[-1].startswith("a node is running: ")


def test_log_dump_shows_the_configuration_in_a_snapshot(cli: CliRunner, directory: Path) -> None:
    assert re.search(r"^ +6 +2  intact .* n1$", dumped(cli, directory), re.MULTILINE)
    snapshots = [i for i in objects(dumped(cli, directory, "--json")) if i["type"] == "snapshot"]
    assert [base64.b64decode(str(item["config"])) for item in snapshots] == [CONFIG] * 2


def test_log_dump_shows_memberships(cli: CliRunner, tmp_path: Path) -> None:
    joining = members(N1, N2).added(N3, "n3:1", Rank.JOINING).added(N4, "n4:1", Rank.LEARNER)
    founding = tmp_path / "founding"
    DataDirectory.create(RealWorld(), str(founding), IDENTITY, LIMITS, joining)
    output = dumped(cli, founding)
    assert "state      term 1, no vote" in output
    assert "entries    1..1, last term 1" in output
    said = r"^ +1  config +1 +1 +0 +\d+ +1@512  [0-9a-f]{8}  n1 n2, learner n4, joining n3$"
    assert re.search(said, output, re.MULTILINE)
    (record,) = (i for i in objects(dumped(cli, founding, "--json")) if i["type"] == "record")
    assert (record["kind"], record["index"], record["term"]) == ("config", 1, 1)
    only = dumped(cli, founding, "--from", "1", "--to", "1")
    assert " config " in only


def test_log_dump_is_quiet_where_its_reader_goes_away(directory: Path) -> None:
    program = [*COMMAND, str(directory), "--data"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()  # before anything is printed
        assert process.stderr.read() == b""
        assert process.wait() == 141


COMMAND = [sys.executable, "-m", "raftbatch", "log", "dump"]


@pytest.mark.parametrize("options", [[], ["--json"], ["--no-records"]])
@pytest.mark.parametrize("into", ["/dev/full", "&-"])
def test_log_dump_says_that_it_cannot_be_written(
    directory: Path, options: list[str], into: str
) -> None:
    command = ["sh", "-c", f'exec "$@" >{into}', "sh", *COMMAND, str(directory), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch("Error: the listing cannot be written: .+\n", done.stderr)


@pytest.mark.parametrize("name", [f"journal/{SECOND[-28:]}", f"snapshots/{OLDER[-50:]}"])
@pytest.mark.parametrize("place", ["fifo", "directory", "link", "other user's"])
def test_log_dump_exits_with_2_where_a_file_cannot_be_read(
    directory: Path, name: str, place: str
) -> None:
    path = directory / name
    if place == "other user's":
        path.chmod(0)
    else:
        path.unlink()
    match place:
        case "fifo":
            os.mkfifo(path)
        case "directory":
            path.mkdir()
        case "link":
            path.symlink_to(directory / "lock")
    program = [*COMMAND, str(directory)]
    if place == "other user's" and os.geteuid() == 0:  # whom no mode keeps out
        program = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", *program]
    done = subprocess.run(program, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2, done.stderr
    assert re.fullmatch(rf"Error: {path}: it cannot be read: .+\n", done.stderr)
    assert done.stdout.splitlines()[-1].startswith(f"verdict: none: {path}: it cannot be read: ")


def test_log_dump_help_is_enough_to_go_on(cli: CliRunner) -> None:
    output = dumped(cli, "--help")
    for word in ("--from", "--to", "--lsn", "--limit", "--tail", "--data", "--json", "verdict"):
        assert word in output


@pytest.mark.parametrize("year", [1, 1600, 1969, 1970, 1999, 2000, 2023, 2024, 2100, 9999])
def test_iso_time_knows_the_calendar(year: int) -> None:
    start = datetime.datetime(year, 1, 1, tzinfo=datetime.UTC)
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    wall_ms = (start - epoch) // datetime.timedelta(milliseconds=1)
    assert iso_time(wall_ms + 3_723_004) == f"{year:04}-01-01T01:02:03.004Z"


def test_iso_time_is_the_number_where_the_calendar_ends() -> None:
    assert iso_time(1 << 63) == str(1 << 63)
    assert iso_time(-1) == "1969-12-31T23:59:59.999Z"
