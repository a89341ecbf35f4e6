"""`raftbatch log dump`: what it prints, and how it exits."""

from __future__ import annotations

import base64
import datetime
import json
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from typer.testing import CliRunner

from coordinator.raft.dump_items import ITEMS
from raftbatch.cli.main import app
from raftbatch.cli.text import iso_time
from raftbatch.realworld import RealFiles
from tests.tidy.tree import ROOT
from tests.unit.dump_example import FIRST, JOURNAL, NEWEST, OLDER, SECOND, make_disk


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
        f"verdict: opens after cutting {segment} at offset 1016 (never acknowledged)"
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["{}/nowhere"],
        ["{}/snapshots"],
        ["{}", "--lsn", "3-4"],
        ["{}", "--lsn", ""],
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


def test_log_dump_says_that_a_node_is_running(cli: CliRunner, directory: Path) -> None:
    lock = RealFiles().lock(f"{directory}/lock")
    output = dumped(cli, directory)
    lock.release()
    assert "this listing may be a moment old" in output
    expected = "held" if Path("/proc/locks").exists() else "unknown: last held"
    assert re.search(rf"^lock +{expected} by pid [0-9]+", output, re.MULTILINE)


def test_log_dump_is_quiet_where_its_reader_goes_away(directory: Path) -> None:
    program = [sys.executable, "-m", "raftbatch", "log", "dump", str(directory), "--data"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()  # before anything is printed
        assert process.stderr.read() == b""
        assert process.wait() == 141


def test_log_dump_help_is_enough_to_go_on(cli: CliRunner) -> None:
    output = dumped(cli, "--help")
    for word in ("--from", "--to", "--lsn", "--limit", "--tail", "--data", "--json", "verdict"):
        assert word in output


@pytest.mark.parametrize("year", [1, 1600, 1969, 1970, 1999, 2000, 2023, 2024, 2100, 9999])
def test_iso_time_knows_the_calendar(year: int) -> None:
    start = datetime.datetime(year, 1, 1, tzinfo=datetime.UTC)
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    for day in range(365):
        moment = start + datetime.timedelta(days=day, seconds=day * 200, milliseconds=day)
        wall_ms = (moment - epoch) // datetime.timedelta(milliseconds=1)
        expected = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        assert iso_time(wall_ms) == expected


def test_iso_time_goes_on_where_the_calendar_ends() -> None:
    assert iso_time(1 << 63).endswith("Z")
    assert iso_time(-1) == "1969-12-31T23:59:59.999Z"
