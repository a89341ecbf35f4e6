"""Every setting is in the table of limits, with the default it has."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from coordinator.api import ApiConfig
from coordinator.config import SessionLimits
from coordinator.feed import FeedConfig
from coordinator.leader import LeaderConfig
from raftbatch.settings import Model, Policy

Settings = Policy | Model | LeaderConfig | ApiConfig | FeedConfig | SessionLimits
LIMITS = Path(__file__).parents[2] / "docs" / "LIMITS.md"
_ROW = re.compile(r"^\| `(\w+)` \| ([^|]+) \|", re.MULTILINE)


@pytest.mark.parametrize(
    ("kind", "heading"),
    [
        (Policy, "policy"),
        (Model, "A model version"),
        (LeaderConfig, "[leader]"),
        (ApiConfig, "[api]"),
        (FeedConfig, "[feed]"),
        (SessionLimits, "[sessions]"),
    ],
)
def test_settings_are_in_the_table_with_their_defaults(kind: type[Settings], heading: str) -> None:
    text = LIMITS.read_text(encoding="utf-8")
    section = next(part for part in text.split("\n## ")[1:] if heading in part.partition("\n")[0])
    told = dict(_ROW.findall(section))
    wanted = {
        field.name: _shown(field.default)
        for field in fields(kind)
        if field.name not in ("name", "version")
    }
    assert {name: told.get(name) for name in wanted} == wanted


def _shown(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case int():
            return f"{value:,}"
        case bytes():
            return "empty"
        case _:
            return "none"
