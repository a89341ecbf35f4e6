"""A round of asking who leads: how many at once, and what silent nodes cost it."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from raftbatch.client import search
from raftbatch.client.link import Link
from raftbatch.client.search import Round
from raftbatch.errors import NoLeader, RaftbatchError
from raftbatch.v1 import gateway_pb2 as pb

SILENT, DEAD = "silent", "dead"


class FakeLink:
    """A session with a node that says who leads."""

    def __init__(self, scene: Scene, address: str, leader: str) -> None:
        self.address = address
        self.opened = pb.Opened(node_id=address, leader=leader)
        self.is_closed = False
        self._scene = scene

    async def nodes(self) -> pb.NodesReply:
        """Say who leads by now."""
        leader = self._scene.says[self.address]
        return pb.NodesReply(node_id=self.address, leader_id=leader)

    async def close(self) -> None:
        """Note it."""
        self.is_closed = True


class Scene:
    """Nodes, by what each says: who leads; empty: nobody; or that it is silent, or dead."""

    def __init__(self, **says: str) -> None:
        self.says = says
        self.opened: list[str] = []
        self.links: list[FakeLink] = []
        self.at_once = self.most = 0

    def met(self, link: Link) -> None:
        """Take it in."""

    def failed(self, address: str, error: RaftbatchError) -> None:
        """Take it in."""

    def learned(self, reply: pb.NodesReply) -> None:
        """Take it in: the election is over by the next time."""

    def is_named(self, address: str) -> bool:
        """Return that it need not be."""
        return True

    def address_of(self, node: str) -> str:
        """Return its name, which is its address here."""
        return node

    async def open_at(self, address: str) -> Link:
        """Open a session."""
        self.opened.append(address)
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        try:
            if self.says[address] == SILENT:
                await asyncio.Event().wait()
            if self.says[address] == DEAD:
                raise NoLeader("nobody there")
        finally:
            self.at_once -= 1
        self.links.append(FakeLink(self, address, self.says[address]))
        return cast("Link", self.links[-1])

    async def find(self, **more: Any) -> str:
        """Return whom a round finds; empty: nobody. It leaves no other session, and no task."""
        async with asyncio.timeout(20):
            found = await Round(self, self.open_at, list(self.says), 20, **more).run()
        left = [each.address for each in self.links if not each.is_closed]
        assert left == ([found.address] if found is not None else [])
        assert self.at_once == 0
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return found.address if found is not None else ""


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "STAGGER_S", 0.001)
    monkeypatch.setattr(search, "_AGAIN_S", 0.002)


def find(scene: Scene, **more: Any) -> str:
    """Return whom a round finds."""
    return asyncio.run(scene.find(**more))


def test_silent_nodes_are_passed_over() -> None:
    scene = Scene(a=SILENT, b=SILENT, c="d", d="d", e="d")
    assert find(scene) == "d"
    assert scene.opened == ["a", "b", "c", "d"]


def test_node_that_answers_soon_is_asked_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "STAGGER_S", 10.0)
    scene = Scene(a="a", b="a", c="a")
    assert find(scene) == "a"
    assert scene.opened == ["a"]


def test_no_more_than_three_are_asked_at_once() -> None:
    async def play() -> None:
        scene = Scene(**dict.fromkeys("abcdefg", SILENT))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(scene.find(), 0.1)
        assert (scene.opened, scene.most, scene.at_once) == (["a", "b", "c"], 3, 0)

    asyncio.run(play())


def test_who_answered_is_asked_again_while_the_one_it_named_is_silent() -> None:
    scene = Scene(a=SILENT, b="a", c=DEAD)
    asked = scene.address_of

    def elected(node: str) -> str:
        scene.says["b"] = "b"
        return asked(node)

    scene.address_of = elected  # type: ignore[method-assign]
    assert find(scene) == "b"


def test_nobody_leads_then_whoever_answered() -> None:
    assert find(Scene(a=DEAD, b="", c="")) == "b"
    assert find(Scene(a=DEAD, b="a", c="")) == "c"
    assert find(Scene(a=DEAD, b="a")) == ""
    assert find(Scene(a=DEAD)) == ""


def test_beside_one_that_is_avoided_only_a_better_one_will_do() -> None:
    assert find(Scene(a="a", b="a", c="a"), avoided="a") == ""
    assert find(Scene(a="a", b="", c=""), avoided="a") == ""
    scene = Scene(a="a", b="c", c="c")
    assert find(scene, avoided="a") == "c"
    assert "a" not in scene.opened
    assert find(Scene(a="b", b="a", c="b"), avoided="a", takes_any=True) == "c"
    assert find(Scene(a="b", b="c", c="c"), avoided="a", takes_any=True) == "b"
    assert find(Scene(a="b", b="", c=""), takes_any=True) == "a"
