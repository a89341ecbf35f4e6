"""The SDK beside nodes that are silent: which it leaves, and which it stays with."""

from __future__ import annotations

import asyncio

import pytest

from raftbatch.client import AsyncClient, link
from raftbatch.v1 import gateway_pb2 as pb
from tests.unit.fake_gateway import FakeNode, FakeSession, infer_all, play


def test_node_that_stands_still_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "_LOOK_S", 0.02)
    monkeypatch.setattr(link, "OPEN_S", 60.0)  # nobody waits for that

    async def test(nodes: list[FakeNode]) -> None:
        old, new = nodes

        async def stand_still(session: FakeSession, request: pb.SessionRequest) -> bool:
            old.is_silent = True
            new.leader = new.address
            return True

        old.hook = stand_still
        async with AsyncClient(old.address) as client:
            await infer_all(client, 10)
        assert len(new.messages) >= 1

    play(test, 2)


def test_node_that_is_busy_is_not_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "_LOOK_S", 0.005)
    monkeypatch.setattr(link, "_DOUBT_S", 20.0)  # this process may stand still, and both with it

    async def test(nodes: list[FakeNode]) -> None:
        busy, other = nodes
        held: list[tuple[FakeSession, pb.SessionRequest]] = []

        async def hold(session: FakeSession, request: pb.SessionRequest) -> bool:
            busy.hook = None
            held.append((session, request))
            return True

        busy.hook = hold
        async with AsyncClient(busy.address) as client:
            waiting = asyncio.ensure_future(infer_all(client, 3))
            before = busy.asked_for_nodes
            while busy.asked_for_nodes < before + 5:  # noqa: ASYNC110 - nothing tells it
                await asyncio.sleep(0.005)
            [(session, request)] = held
            await session.answer(request)
            await waiting
        assert (len(busy.sessions), len(other.sessions)) == (1, 0)

    play(test, 2)


def test_silent_node_is_kept_where_nobody_else_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "_LOOK_S", 0.005)
    monkeypatch.setattr(link, "_DOUBT_S", 0.01)

    async def test(nodes: list[FakeNode]) -> None:
        slow, other = nodes

        async def answer_late(session: FakeSession, request: pb.SessionRequest) -> bool:
            slow.hook = None
            slow.is_silent = True
            while len(other.sessions) < 3:  # noqa: ASYNC110 - the client asks it, and again
                await asyncio.sleep(0.005)
            slow.is_silent = False
            return False

        slow.hook = answer_late
        async with AsyncClient(slow.address) as client:
            await infer_all(client, 3)
            assert client.leader == slow.address
        assert (len(slow.sessions), other.messages) == (1, [])

    play(test, 2)


def test_node_that_is_cut_off_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "_LOOK_S", 0.01)

    async def test(nodes: list[FakeNode]) -> None:
        old, new = nodes

        async def wait_for_ever(session: FakeSession, request: pb.SessionRequest) -> bool:
            old.leader = ""
            new.leader = new.address
            return True

        old.hook = wait_for_ever
        async with AsyncClient(old.address) as client:
            await infer_all(client, 10)

    play(test, 2)
