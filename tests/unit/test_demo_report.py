"""What the demo prints can be read, and says the truth of its verdict."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from demo import report
from demo.screen import Screen
from demo.search import Hit, cosines, nearest
from demo.sentences import Sentence, sentences
from tests.unit.demo_scene import NAMES, log, seen, verdict, without


def test_table_holds_each_figure() -> None:
    text = "\n".join(report.counted(verdict(), seen(), "n3"))
    for line in (
        "Counted offline, in the log of n3, which was not killed:",
        "  requests                             4   4 sentences, 0 others",
        "  outcomes                             4   ok 4",
        "  lost                                 0 ",
        "  doubled                              0 ",
        "  run more than once                   2   they were with the executor when it died",
        "  batches of sentences                 2   of 2.0 on average; released by size 1, age 1",
        "  from the kill to a commit       250 ms ",
        "  vectors compared                     2   with the model run directly: ",
        "cosine at least 0.9999990 (wanted: 0.99999)",
    ):
        assert line in text


def test_cosine_is_not_rounded_up() -> None:
    found = replace(verdict(), similarities=(0.999989999, 3))
    assert "0.9999899" in "\n".join(report.counted(found, seen(), "n3"))


def test_story_says_where_the_leader_died() -> None:
    found = verdict()
    assert report.story(found.shown, found, seen(), "A sentence.") == [
        "One of 2 sentences in flight when n1 was killed: sentence-00002",
        "  A sentence.",
        "  entry 5         +0 ms   admitted: durable on a majority",
        "  entry 6       +100 ms   sealed into batch 2, released by age",
        "  entry 6       +100 ms   batch 2 assigned to x1, attempt 1",
        "                          ---- n1 is dead; n2 leads, from entry 8 on, term 2",
        "  entry 9       +400 ms   taken back from x1: executor_lost, may have run",
        "  entry 10      +500 ms   batch 2 assigned to x2, attempt 2",
        "  entry 11      +600 ms   outcome: ok, from x2",
    ]
    nobody = report.story(None, found, seen(), "")
    assert nobody == ["No request was in flight when the leader was killed."]


def test_last_line_is_for_programs() -> None:
    assert report.last_line(verdict()) == ("demo ok: requests=4 lost=0 doubled=0 failover_ms=250")
    lost = verdict(without(log(), 11))
    assert report.last_line(lost) == (
        "demo FAILED: requests=4 lost=2 doubled=0 different=2: 2 requests have no outcome"
    )
    assert report.problems(lost)[0] == "  wrong: 2 requests have no outcome"


def test_search_shows_topic_and_text_on_one_line() -> None:
    corpus = [Sentence("exceptions", "An exception " * 20), Sentence("lists", "A list.")]
    lines = report.found("What?", [Hit(0, 0.5), Hit(1, 0.25)], corpus)
    assert lines[0] == '"What?"'
    assert lines[1].startswith("  0.50  exceptions        An exception An")
    assert lines[1].endswith("…")
    assert max(map(len, lines)) <= 100


def test_look_around_names_commands_that_know_the_cluster() -> None:
    lines = report.look_around("c.toml", "n3", NAMES[0], "logs")
    assert any(line.endswith("raftbatch status --config c.toml") for line in lines)
    assert any(line.endswith(f"request show {NAMES[0]} --config c.toml") for line in lines)


def test_names_are_joined_as_a_text() -> None:
    assert report.joined(["n1"]) == "n1"
    assert report.joined(["n1", "n2", "n3"]) == "n1, n2 and n3"
    assert (report.plural(1, "row"), report.plural(2000, "row")) == ("1 row", "2,000 rows")


def test_sentences_are_prose_each_once() -> None:
    pages = {
        "b": "The first sentence of this page is long enough. It is\nfollowed by another one of "
        "some length.\n\n   x = {1: 2, 3: 4, 5: 6}; y[0] += 1; z(**x, *y)[1:2] << 3\n\nShort.",
        "a": "The first sentence of this page is long enough. " + "Endless words " * 30 + ".",
    }
    assert sentences(pages) == [
        Sentence("a", "The first sentence of this page is long enough."),
        Sentence("b", "It is followed by another one of some length."),
    ]


def test_nearest_is_the_best_first() -> None:
    rows = np.eye(3, dtype=np.float32)
    assert nearest([0.0, 1.0, 0.5], rows, 2) == [Hit(1, 1.0), Hit(2, 0.5)]


def test_cosines_are_of_pairs() -> None:
    assert cosines([[1, 0], [3, 4]], [[2, 0], [4, -3]]) == pytest.approx([1.0, 0.0])


def test_screen_can_be_read_in_a_file() -> None:
    stream = io.StringIO()
    clock = iter([0.0, 1.5, *[2.0] * 20])
    screen = Screen(Console(file=stream, width=40), lambda: next(clock))
    screen.say("SIGKILL n1, the leader, with [many] requests in flight", "bold red")
    with screen.progress("sentences", 20) as advance:
        for _ in range(20):
            advance()
    lines = stream.getvalue().splitlines()
    assert lines[0] == "   1.5 s  SIGKILL n1, the leader, with [many] requests in flight"
    assert lines[1] == "   2.0 s  2 of 20 sentences"
    assert lines[-1] == "   2.0 s  20 of 20 sentences"
    assert len(lines) == 11


def test_screen_has_a_bar_on_a_terminal() -> None:
    stream = io.StringIO()
    screen = Screen(Console(file=stream, force_terminal=True, width=80), lambda: 0.0)
    with screen.progress("sentences", 2) as advance:
        advance()
        screen.say("one")
    assert "1/2" in stream.getvalue() or "0/2" in stream.getvalue()
    assert "0.0 s  one" in stream.getvalue()
