"""`log tail`, `log show`, `request show`, `batch show`: words and exits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from coordinator.offline import read_directory
from raftbatch import records as r
from raftbatch.cli import tail
from raftbatch.cli.main import app
from raftbatch.cli.records import details, duration, lines, nanoseconds, objects, size
from raftbatch.cli.source import Item
from raftbatch.cli.telling import request_lines
from raftbatch.cli.text import log_time
from raftbatch.realworld import RealWorld
from raftbatch.stories import Stories
from tests.tidy.tree import ROOT
from tests.unit.record_examples import EXAMPLES, entry
from tests.unit.stories_scene import Log

RECORDED = str(ROOT / "tests" / "replay" / "v1")


def run(*arguments: str) -> Result:
    """Run a command over the recording."""
    return CliRunner().invoke(app, [*arguments, "--directory", RECORDED])


def said(*arguments: str) -> list[str]:
    """Return the lines of a command that must succeed."""
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


@pytest.fixture(scope="module")
def stories() -> Stories:

    log = read_directory(RealWorld(), RECORDED)
    found = Stories(log.first_index)
    for index, term, content in log:
        found.feed(index, term, content)
    return found


# Records.


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_record_has_a_line_an_object_and_no_secret(name: str) -> None:
    record = EXAMPLES[name]
    item = Item(7, 5, 100, entry(record), "")
    [(at_ms, kind, text)] = lines(item)
    assert (at_ms, kind) == (1_700_000_000_123, type(record).__name__)
    assert text
    assert "\n" not in text
    assert isinstance(list(details(record)), list)
    [found] = objects(item)
    assert list(found)[:4] == ["index", "term", "at_ms", "record"]
    assert found["record"] == name
    assert "payload" not in found
    assert "result" not in found
    json.dumps(found)
    [whole] = objects(item, payloads=True)
    if name in ("admit", "complete"):
        assert "payload" in whole or "result" in whole


def test_lines_say_what_a_record_does() -> None:
    texts = {
        name: next(lines(Item(7, 5, 9, entry(record), "")))[2] for name, record in EXAMPLES.items()
    }
    assert texts["seal"] == "batch 3  bert/1  2 requests among #7..9  reason size"
    assert texts["assign"] == "batch 3  attempt 1  to gpu-1 (incarnation 12)"
    assert texts["lapse"] == (
        "batch 3  attempt 1  fence 40  timed_out, was running  timed_out: 30 s"
    )
    assert texts["complete"] == (
        "batch 3  attempt 1  fence 40  by gpu-1  1 ok, 1 failed  6 bytes  ran 3.000 s"
    )
    assert texts["admit"].startswith("3 requests: #7..9 a b and 1 more  bert/1, bert/2  3 rows")
    assert texts["leave"] == "gpu-1 (incarnation 12)  lost  was running batch 3"


def test_entries_without_records_have_a_line_too() -> None:
    assert list(lines(Item(1, 1, 9, None, "n1 n2"))) == [(None, "Members", "n1 n2")]
    assert list(lines(Item(2, 1, 0, None, ""))) == [(None, "-", "nothing: a term begins")]
    assert list(lines(Item(2, 1, 6, None, ""))) == [(None, "-", "6 bytes that mean nothing here")]
    assert list(objects(Item(2, 1, 0, None, ""))) == [
        {"index": 2, "term": 1, "record": "none", "size": 0}
    ]


def test_quantities_are_readable() -> None:
    assert [log_time(each) for each in (0, 62_345, 360_000_000)] == [
        "00:00:00.000",
        "00:01:02.345",
        "100:00:00.000",
    ]
    assert [duration(each) for each in (0, 999, 1250, 185_000, 7_500_000)] == [
        "0 ms",
        "999 ms",
        "1.250 s",
        "3 min 5 s",
        "2 h 5 min",
    ]
    assert [nanoseconds(each) for each in (900, 3_250_000, 1_250_000_000)] == [
        "0 us",
        "3.2 ms",
        "1.250 s",
    ]
    assert [size(each) for each in (1, 812, 3300, 16 << 20)] == [
        "1 byte",
        "812 bytes",
        "3.2 KiB",
        "16.0 MiB",
    ]


# Commands.


def test_tail_prints_the_newest_entries_a_line_for_each_record() -> None:
    found = said("log", "tail", "-n", "2")
    assert [line.split()[0] for line in found] == ["541", "542", "542"]
    assert found[0].split()[:3] == ["541", "00:00:22.560", "Bisect"]
    assert len(said("log", "tail", "--from", "540")) == 4


def test_tail_as_json_is_an_object_a_line() -> None:
    found = [json.loads(line) for line in said("log", "tail", "--json", "--from", "1")]
    assert {each["record"] for each in found} >= {"none", "admit", "seal", "complete", "lead"}
    assert sorted({each["index"] for each in found}) == list(range(1, 543))


def test_show_prints_each_request() -> None:
    found = said("log", "show", "16")
    assert "16  00:00:00.122  Admit" in "\n".join(found)
    assert any("#13  r357  tenant umbrella  llm/1  2 rows" in line for line in found)
    assert {line.split()[0] for line in said("log", "show", "540..") if line[:8].strip()} == {
        "540",
        "541",
        "542",
    }


def test_show_with_payloads_prints_them_as_json() -> None:
    [first, *_] = [
        each
        for each in map(json.loads, said("log", "show", "16", "--json", "--payloads"))
        if each["record"] == "admit"
    ]
    assert len(first["payload"]) == len(first["payload_bytes"])


def test_request_is_told_whole(stories: Stories) -> None:
    story = max(stories.requests.values(), key=lambda each: (each.runs, len(each.events)))
    found = said("request", "show", story.request_id, "--tenant", story.tenant)
    text = "\n".join(found)
    assert f"request    {story.request_id}  tenant {story.tenant}" in text
    assert "sealed into batch" in text
    assert "assigned to gpu-" in text
    assert "lapsed, attempt" in text
    events = found[found.index("") + 2 :]
    assert [int(line.split()[0]) for line in events] == [event.index for event in story.events]
    result = run("request", "show", story.request_id, "--tenant", story.tenant, "--json")
    told: dict[str, Any] = json.loads(result.stdout)
    assert told["events"][0]["kind"] == "admitted"
    assert told["log"] == {"node": "n1", "first": 1, "last": 542}
    assert told["state"] is None


def test_ids_that_one_command_prints_others_take(stories: Stories) -> None:
    story = next(each for each in stories.requests.values() if each.batch)
    told = said("request", "show", story.request_id, "--tenant", story.tenant)
    batch = next(line for line in told if "sealed into batch" in line)
    number = batch.split("batch ")[1].split(":")[0]
    shown = said("batch", "show", number)
    assert any(story.request_id in line.split() for line in shown)
    index = batch.split()[0]
    assert any(f"batch {number}" in line for line in said("log", "show", index))


def test_id_that_was_cancelled_before_it_came_is_said_to_be_no_more() -> None:
    log = Log()
    log.do(r.Cancel(("t",), ("a",)))
    [story] = log.stories.find("a")
    text: list[str] = []
    request_lines(lambda line, style: text.append(line), story, log.stories)
    told = next(line for line in text if line.startswith("outcome"))
    assert told.startswith("outcome    cancelled before it came  at ")
    assert not any("admission" in line for line in text), "it never was"


def test_batch_is_told_whole(stories: Stories) -> None:
    for batch in stories.batches.values():
        told = json.loads(run("batch", "show", str(batch.number), "--json").stdout)
        assert told["end"] == batch.end
        assert [each["number"] for each in told["requests"]] == list(batch.members)
        if len(batch.attempts) > 1 and batch.halves:
            break
    text = "\n".join(said("batch", "show", str(batch.number)))
    assert f"bisected into batch {batch.halves[0]}" in text
    assert text.count("lapsed at") == len(batch.attempts)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("request", "show", "nobody"), "nothing is known of request nobody of tenant default"),
        (("request", "show", "r443"), "try --tenant umbrella"),
        (("request", "show", "\x1b[31mred"), "request \\x1b[31mred of tenant"),
        (("request", "show", ""), "nothing is known of request  of"),
        (("batch", "show", "999999"), "nothing is known of batch 999999, in the log of n1"),
        (("log", "show", "543"), "there is no entry 543 yet: the log of n1 ends with 542"),
        (("log", "show", "9" * 19), "there is no entry"),
    ],
)
def test_what_is_not_there_is_said_with_what_to_try(arguments: tuple[str, ...], words: str) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (1, "")
    assert words in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("log", "tail", "--from", "-1"),
        ("log", "tail", "-n", "0"),
        ("log", "tail", "--follow"),
        ("log", "tail", "--address", "x:1"),
        ("log", "tail", "--from", str(1 << 64)),
        ("log", "tail", "-n", str(1 << 64)),
        ("log", "show", "0"),
        ("log", "show", "-3"),
        ("log", "show", "9..7"),
        ("log", "show", "x"),
        ("log", "show", "7...9"),
        ("log", "show", "7", "--payloads"),
        ("log", "show", "1" * 40),
        ("batch", "show", "0"),
        ("batch", "show", "x"),
        ("request", "show", "r1", "--config", "x.toml"),
    ],
)
def test_wrong_usage_is_status_2(arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    "command", [("log", "tail"), ("request", "show", "a"), ("batch", "show", "1")]
)
def test_place_must_be_said_and_be_there(command: tuple[str, ...], tmp_path: Path) -> None:
    result = CliRunner().invoke(app, list(command))
    assert result.exit_code == 2
    assert "--directory DIR" in result.stderr
    result = CliRunner().invoke(app, [*command, "--directory", str(tmp_path)])
    assert (result.exit_code, result.stdout) == (1, "")
    assert "is not the data directory of a node" in result.stderr


def test_ids_from_the_log_are_made_printable() -> None:
    record = EXAMPLES["admit"]
    assert isinstance(record, r.Admit)
    hostile = replace(record, request_id=("\x1b[2J", "b\nc", "\u202e"))

    shown: list[str] = []
    text = tail._Text(is_long=True)
    text._write = lambda line, style: shown.append(line)
    text.show(Item(1, 5, 100, entry(hostile), ""))
    assert len(shown) == 4
    assert all(line.isascii() and line.isprintable() for line in shown)


def test_reader_that_has_gone_ends_the_command() -> None:
    command = f"{sys.executable} -m raftbatch log tail --from 1 --directory {RECORDED} | head -1"
    done = subprocess.run(
        ["bash", "-c", f"{command}; echo ${{PIPESTATUS[0]}}"],
        cwd=ROOT,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines()[-1] == "141"
