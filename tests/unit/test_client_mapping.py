"""Many requests and their results in order: when each is had, and what an error leaves of them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from raftbatch.client import AsyncClient, Client
from raftbatch.client.mapping import Slot, run_all
from raftbatch.client.progress import Progress
from raftbatch.errors import InvalidRequest

ADDRESS = "127.0.0.1:1"  # where nobody is asked


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What happened, with a cluster that answers at once with what it is given."""
    told: list[str] = []

    async def infer(client: AsyncClient, model: str, item: str, **settings: Any) -> str:
        told.append(f"asked for {item}")
        if item == "bad":
            raise InvalidRequest(item)
        return item

    monkeypatch.setattr(AsyncClient, "infer", infer)
    return told


def test_results_come_one_by_one_without_a_loop_too(said: list[str]) -> None:
    with Client(ADDRESS) as client:
        for each in client.map("m", "abcdefg", in_flight=1):
            said.append(f"had {each}")
    # The next is under way by then, and the one behind it is not begun.
    for item, later in zip("abcde", "cdefg", strict=True):
        assert said.index(f"had {item}") < said.index(f"asked for {later}")


@pytest.mark.parametrize("in_flight", [1, 2, 100])
def test_what_was_found_before_an_error_is_had_before_it(said: list[str], in_flight: int) -> None:
    items = [*"abcdefg", "bad", "never had"]
    with Client(ADDRESS) as client:
        results = client.map("m", items, in_flight=in_flight)
        assert [next(results) for _ in "abcdefg"] == [*"abcdefg"]
        with pytest.raises(InvalidRequest, match="bad"):
            next(results)
        found = list(client.map("m", items, in_flight=in_flight, return_errors=True))
    assert [str(each) for each in found] == items


def test_answers_that_are_there_come_together_up_to_a_bound() -> None:
    slots: list[Slot] = []

    async def bunches(most: int) -> list[list[Any]]:
        def start(item: int, slot: Slot) -> None:
            slots.append(slot)
            if item != 3:
                slot.set_result(f"{item}")

        found = []
        async for bunch in run_all(start, range(6), 10, False, Progress(False, ()), most):
            found.append(bunch)
            if not slots[3].done():
                asyncio.get_running_loop().call_soon(slots[3].set_result, "3")
        return found

    assert asyncio.run(bunches(64)) == [["0", "1", "2"], ["3", "4", "5"]]
    slots.clear()
    assert asyncio.run(bunches(2)) == [["0", "1"], ["2"], ["3", "4"], ["5"]]
