"""Rows of a history: written at once, read as they were, whatever a crash left of the last."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chaos.history import HARNESS, History, calls, parsed, read


def test_history_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    with History(path) as history:
        first = history.invoke("submit", "c1", "r1", text="one\nline")
        second = history.invoke("cancel", "c2", "r1")
        history.end(second, "fail", slug="no_leader")
        history.note("fault", name="kill-leader", place=0)
        history.end(first, "ok", index=7)
        assert list(read(path)) == history.events
    assert [each.ns for each in history.events] == sorted(each.ns for each in history.events)
    assert history.events[3].process == HARNESS
    assert "process" not in json.loads(history.events[3].row())


def test_calls_are_told_with_their_ends() -> None:
    history = History()
    first = history.invoke("submit", "c1", "r1")
    second = history.invoke("result", "c1", "r1")
    history.note("look", nodes={})
    history.end(second, "info", slug="outcome_unknown")
    found = calls(history.events)
    assert [(each.began, each.outcome) for each in found] == [(first, "invoke"), (second, "info")]
    assert found[0].latency_ns == 0
    assert found[1].latency_ns > 0


def test_row_that_was_cut_off_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    with History(path) as history:
        history.note("phase", name="begin")
        history.note("phase", name="safety")
    text = path.read_text("utf-8")
    path.write_text(text[:-5], "utf-8")
    assert list(read(path)) == history.events[:1]
    path.write_text("no row\n" + text, "utf-8")
    with pytest.raises(ValueError, match=r"history\.jsonl:1: no row of a history"):
        list(read(path))


def test_row_keeps_its_tenant() -> None:
    event = parsed('{"ns":1,"kind":"ok","op":"submit","call":2,"tenant":"t","id":"r"}')
    assert (event.tenant, event.id, event.value) == ("t", "r", {})
    assert parsed(event.row()) == event
