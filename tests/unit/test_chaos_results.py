"""The folder of a run: page and picture say what was seen, and need nothing from elsewhere."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from random import Random
from xml.etree import ElementTree

import pytest

from chaos.checkers.process_values import Finding
from chaos.history import Event, History
from chaos.nemeses import schedule
from chaos.real import Asked
from chaos.results import write
from chaos.running import Verdict
from chaos.selection import SELECTION, TIME_S, asked
from chaos.timeline import page
from chaos.workloads import WORKLOADS


def make_history() -> History:
    """Return a short run."""
    history = History()
    history.note("phase", name="safety")
    seen = {"role": "leader", "term": 2, "applied": 5, "digest": "aa"}
    history.note("look", leader="n1", nodes={"n1": seen})
    row = history.invoke("submit", "c1", "r<1>", text="r1|ok|")
    history.note("fault", name="kill-leader", place=0)
    history.end(row, "ok", index=5)
    history.note("fault", name="partition", missed="nobody leads")
    history.note("look", leader=None, nodes={})
    history.note("heal", name="kill-leader", place=0)
    return history


def test_picture_is_one_file_that_shows_all() -> None:
    text = page(make_history().events, "a <title>", 0)
    drawing = text[text.index("<svg") : text.index("</svg>") + len("</svg>")]
    found = ElementTree.fromstring(drawing)
    titles = [each.text or "" for each in found.iter("title")]
    assert any(title.startswith("kill-leader: ") for title in titles)
    assert "n1, term 2" in titles
    assert any(title.startswith("submit r<1>: ") for title in titles)
    assert "prefers-color-scheme: dark" in text
    assert not re.search(r"<script|<link|https?:|@import|url\(", text)


def test_picture_has_a_bar_for_each_time_that_a_node_led() -> None:
    second = 10**9
    events = []
    for at_s, (role, term) in enumerate(
        (("leader", 2), ("leader", 2), ("leader", 4), ("follower", 5), ("leader", 6), ("", 6))
    ):
        seen = {"role": role, "term": term, "applied": 5, "digest": "aa"}
        value = {"leader": "n1", "nodes": {"n1": seen}}
        events.append(Event(at_s * second, "info", "look", value=value))
    events.append(Event(10 * second, "info", "phase", value={"name": "heal"}))
    events.append(Event(10 * second + 5, "info", "phase", value={"name": "liveness"}))
    events.append(Event(20 * second, "info", "phase", value={"name": "judgement"}))
    text = page(events, "a title", 0)
    assert re.findall(r"<title>n1, term (\d)</title>", text) == ["2", "4", "6"]
    found = re.findall(
        r'x="([\d.]+)" y="(\d+)" text-anchor="start">(heal|liveness|judgement)', text
    )
    (_, one, _), (_, other, _), (right, _, _) = found
    assert one != other  # one beside the other they could not be read
    assert float(right) < 1080  # and none is cut off


def test_picture_of_nothing_is_empty() -> None:
    assert "<svg" in page([], "nothing", 0)


def test_folder_says_what_was_found(tmp_path: Path) -> None:
    finding = Finding("lost-ticket", "r1 is lost", ("default", "r1"), ["a line of its story"])
    verdict = Verdict([finding], Counter(submit_ok=3, none=0), {"outcomes": 3})
    told = {"workload": "submit", "nemeses": ["kill-leader"], "seed": 7, "time_s": 1.0}
    write(tmp_path, make_history().events, verdict, told, "python -m chaos run …")
    found = json.loads((tmp_path / "verdict.json").read_text("utf-8"))
    assert found["findings"][0]["story"] == ["a line of its story"]
    assert found["counts"]["submit_ok"] == 3
    text = (tmp_path / "README.md").read_text("utf-8")
    for part in ("**1 broken promises.**", "a line of its story", "kill-leader done"):
        assert part in text
    assert "partition missed: nobody leads" in text
    assert "kill-leader healed" in text
    assert "python -m chaos run …" in text


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (Asked("sumbit", (), 1.0, 1), "there is no workload 'sumbit'"),
        (Asked("submit", ("kill",), 1.0, 1), "there is no nemesis 'kill'"),
        (Asked("submit", (), 0.0, 1), "the time must be above 0"),
    ],
)
def test_what_is_asked_wrongly_is_told(wrong: Asked, said: str) -> None:
    assert said in wrong.check()


def test_command_does_it_again() -> None:
    one = Asked("submit", ("kill-leader", "partition"), 60.0, 7)
    assert one.again() == (
        "python -m chaos run --workload submit --nemesis kill-leader,partition --time 60 --seed 7"
    )
    assert one.results().name == "submit-kill-leader-partition-7"


@pytest.mark.parametrize("one", list(asked(TIME_S)), ids=lambda one: f"{one.workload}-{one.seed}")
def test_selection_does_each_fault_that_it_names(one: Asked) -> None:
    planned = schedule(one.nemeses, Random(one.seed), one.time_s)
    assert {each.name for each in planned} == set(one.nemeses)


def test_selection_has_each_workload_of_clients_and_no_seed_twice() -> None:
    names = {workload for workload, _, _ in SELECTION}
    assert names == {name for name, each in WORKLOADS.items() if each.is_drawn}
    assert len({seed for _, _, seed in SELECTION}) == len(SELECTION)
    for each in asked(1.0):
        # Whether this machine can do it is another question.
        assert "there is no" not in each.check()
