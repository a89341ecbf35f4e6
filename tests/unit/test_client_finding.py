"""The search for whoever leads, where nodes send the client round and round."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import cast

import pytest

from raftbatch.client.finding import Finder, Seeker
from raftbatch.client.link import Link
from raftbatch.client.nodes import Nodes
from tests.unit.memory_network import run

ROUND_TRIP_S = 0.001


class Doubted:
    """A session with a node that does not lead, or knows of nobody who does."""

    address = "a"
    is_doubted = True


class Scene:
    """Nodes that answer at once, and a client that is sent away as soon as it turns to one.

    Attributes:
        turns: when, in virtual seconds.
        again: what follows a turn.
        over: a minute has passed, or nothing has but far too many turns.
    """

    has_met = True

    def __init__(self) -> None:
        self.turns: list[float] = []
        self.again: Callable[[], None] = lambda: None
        self.over = asyncio.Event()
        self.finder = Finder(cast("Seeker", self), cast("Nodes", self), 1.0)

    async def find(self, owner: object, avoided: str = "") -> Link:
        """Return whoever was asked: it names another."""
        return cast("Link", Doubted())

    def turn_to(self, link: Link) -> None:
        """Ask there: it says that it does not lead."""
        loop = asyncio.get_running_loop()
        self.turns.append(loop.time())
        if len(self.turns) >= 1000 or self.turns[-1] - self.turns[0] >= 60.0:
            self.over.set()
        else:
            loop.call_later(ROUND_TRIP_S, self.again)

    async def pause(self, duration_s: float) -> None:
        """Wait."""
        await asyncio.sleep(duration_s)

    def has_link(self) -> bool:
        """Return that one is known, whatever it is good for."""
        return True

    def has_work(self) -> bool:
        """Return that there is something to ask."""
        return True


@pytest.mark.parametrize("is_beside", [False, True])
def test_nodes_that_name_each_other_are_asked_less_and_less_often(is_beside: bool) -> None:
    async def main() -> list[float]:
        scene = Scene()
        find, beside = scene.finder.find, scene.finder.find_beside
        scene.again = partial(beside, cast("Link", Doubted())) if is_beside else find
        scene.again()
        await scene.over.wait()
        await scene.finder.close()
        return [each - scene.turns[0] for each in scene.turns]

    turns = run(main())
    assert turns[2] < 3 * ROUND_TRIP_S < turns[3]  # a failover, and a mistake, cost no time
    assert turns[-1] >= 60.0
    assert 60 <= len(turns) < 140  # each second or two


def test_node_that_led_for_a_while_is_no_mistake() -> None:
    async def main() -> list[float]:
        scene = Scene()
        for _ in range(5):
            scene.finder.find()
            await asyncio.sleep(3.0)
        await scene.finder.close()
        return scene.turns

    assert [each % 3.0 for each in run(main())] == [0.0] * 5
