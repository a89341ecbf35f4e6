"""How late an outcome may be: by a bound, and by what those take that were due with it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from chaos.checkers.scheduler_promptness import Promptness
from chaos.checkers.scheduler_stories import Story
from raftbatch.settings import Policy

POLICY = replace(Policy(), expire_per_entry_max=2, tick_ms=50)


@pytest.fixture
def complaints() -> list[str]:
    """Return what is complained of."""
    return []


@pytest.fixture
def promptness(complaints: list[str]) -> Promptness:
    """Return a judge of what comes 500 ms late, since 1,000."""
    judge = Promptness(complaints.append, Counter(), 500)
    judge.healed_ms = 1000
    return judge


def due(number: int, deadline_ms: int) -> Story:
    """Return a request with a deadline."""
    return Story(number, f"t\0{number}", deadline_ms=deadline_ms)


def test_outcome_is_late_where_nothing_was_due_with_it(
    promptness: Promptness, complaints: list[str]
) -> None:
    promptness.expired(due(1, 2000), 2550, POLICY)
    assert complaints == []
    promptness.expired(due(2, 3000), 3551, POLICY)
    assert complaints == [
        "request 2 expires 551 ms after its deadline, since when 1 have expired, 2 a tick of 50 ms"
    ]


def test_outcomes_that_are_due_together_come_some_a_tick(
    promptness: Promptness, complaints: list[str]
) -> None:
    for number in range(1, 41):
        promptness.expired(due(number, 2000), 2000 + 50 * (number // 2), POLICY)
    assert complaints == []
    promptness.expired(due(41, 2000), 2000 + 50 * 20 + 551, POLICY)
    assert len(complaints) == 1


def test_what_was_due_before_the_heal_is_not_judged(
    promptness: Promptness, complaints: list[str]
) -> None:
    promptness.expired(due(1, 1000), 9000, POLICY)
    promptness.healed_ms = None
    promptness.expired(due(2, 2000), 9000, POLICY)
    assert complaints == []
