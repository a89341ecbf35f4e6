"""A captured table stays as it was, whatever is written; and it becomes plain again."""

from __future__ import annotations

import random
from collections.abc import MutableMapping

import pytest

from coordinator.core.state import State
from coordinator.core.table import Overlay, ordered
from coordinator.core.timers import Timers


@pytest.mark.parametrize("seed", range(20))
def test_overlay_is_as_a_dict_through_captures_and_merges(seed: int) -> None:
    draw = random.Random(seed)
    plain: dict[int, int] = {}
    table: MutableMapping[int, int] = {}
    captures: list[tuple[MutableMapping[int, int], dict[int, int], Overlay[int, int]]] = []
    for step in range(600):
        key = draw.randrange(30)
        match draw.randrange(12):
            case 0:
                captured = table
                table = Overlay(captured)
                captures.append((captured, dict(plain), table))
            case 1 | 2 if captures:
                at = draw.randrange(len(captures))
                captured, before, overlay = captures.pop(at)
                assert {k: captured[k] for k in ordered(captured)} == before
                assert len(captured) == len(before)
                overlay.is_held = False
            case 3 | 4 | 5:
                assert plain.pop(key, None) == table.pop(key, None)
            case _:
                plain[key] = table[key] = step
        if isinstance(table, Overlay):
            table = table.merge(draw.randrange(4))
        assert {k: table[k] for k in ordered(table)} == plain
        assert len(table) == len(plain)
        assert [k in table for k in range(30)] == [k in plain for k in range(30)]
    for _, _, overlay in captures:
        overlay.is_held = False
    for _ in range(1000):
        if isinstance(table, Overlay):
            table = table.merge(3)
    assert table == plain
    assert type(table) is dict


def test_overlay_has_no_key_that_was_removed() -> None:
    table: Overlay[int, int] = Overlay({1: 1})
    del table[1]
    with pytest.raises(KeyError):
        table[1]
    with pytest.raises(KeyError):
        del table[1]
    assert table.get(1) is None


def test_captured_state_becomes_plain_in_bounded_steps() -> None:
    state = State()
    overlays = state.freeze()
    for number in range(1000):
        state.requests[number] = number  # type: ignore[assignment]
    state.settle(100)
    assert "requests" in state.overlaid
    for each in overlays:
        each.is_held = False
    for _ in range(9):
        state.settle(100)
        assert "requests" in state.overlaid
    state.settle(100)
    state.settle(100)
    assert state.overlaid == ()
    assert isinstance(state.requests, dict)
    assert len(state.requests) == 1000


def test_released_table_becomes_plain_however_much_is_written() -> None:
    table: MutableMapping[int, int] = Overlay({n: n for n in range(100)})
    assert isinstance(table, Overlay)
    for number in range(100):
        table[number] = -1
    table.is_held = False
    steps = 0
    while isinstance(table, Overlay):
        for number in range(1000 * steps, 1000 * steps + 50):
            table[number] = steps
        table = table.merge(10)
        steps += 1
    assert steps < 12


def test_timers_give_what_is_due_in_order_and_never_early() -> None:
    timers = Timers()
    deadlines = {1: 1500, 2: 1100, 3: 1100, 4: 200_000, 5: 1001}
    for number, deadline_ms in deadlines.items():
        timers.bucket(1000, deadline_ms)[number] = None
    timers.bucket_left(1000, 1001).pop(5)
    assert timers.next_ms() == 1100
    timers.advance(1099)
    assert not timers.due
    timers.advance(1600)
    assert list(timers.due) == [2, 3, 1]
    assert timers.bucket_left(1000, 1100) == {}
    timers.advance(199_999)
    assert list(timers.due) == [2, 3, 1]
    timers.advance(200_000 + 200_000 // 256)
    assert list(timers.due) == [2, 3, 1, 4]
    assert timers.next_ms() is None


def test_timers_have_few_buckets_whatever_waits() -> None:
    timers = Timers()
    for number in range(100_000):
        timers.bucket(number, number + 3_600_000)[number] = None
    assert len(timers._buckets) < 100
