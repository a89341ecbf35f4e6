"""A client that has its node hand on what is the leader's, and one whose node has no room."""

from __future__ import annotations

import asyncio

import pytest

from raftbatch.client import AsyncClient, ClientOptions, link, search
from raftbatch.v1 import gateway_pb2 as pb
from tests.unit.fake_gateway import FakeNode, FakeSession, infer_all, play


def test_tenant_whose_requests_fill_the_node_says_nothing_meanwhile() -> None:
    async def test(nodes: list[FakeNode]) -> None:
        [node] = nodes
        node.in_flight_max = 4
        held: list[tuple[FakeSession, pb.SessionRequest]] = []

        async def hold(session: FakeSession, request: pb.SessionRequest) -> bool:
            held.append((session, request))
            return True

        node.hook = hold
        async with AsyncClient(node.address, ClientOptions(tenant="t", forward=True)) as client:
            asked = asyncio.ensure_future(infer_all(client, 10))
            await node.came.wait()
            await client.models()  # a round trip, in which more could come
            assert [len(request.submissions) for _, request in held] == [4]
            node.hook = None
            await held[0][0].answer(held[0][1])
            await asked

    play(test)


def test_client_that_wishes_it_asks_the_node_that_it_knows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It knows all by then, and goes to another only where that one cannot help."""
    monkeypatch.setattr(link, "_DOUBT_S", 20.0)  # this process may stand still, and all with it
    monkeypatch.setattr(search, "STAGGER_S", 20.0)  # for that, too: no other is asked beside it

    async def test(nodes: list[FakeNode]) -> None:
        leader, follower, _ = nodes
        async with AsyncClient(follower.address, ClientOptions(forward=True)) as client:
            await infer_all(client, 5)
            assert set(client.addresses) == {each.address for each in nodes}
            assert await client.cancel("id1") is True

            async def break_off(session: FakeSession, request: pb.SessionRequest) -> bool:
                follower.hook = None
                await session.end("draining")
                return True

            follower.hook = break_off
            await infer_all(client, 5, "more")
            assert (leader.sessions, len(follower.sessions)) == ([], 2)

            async def send_on(session: FakeSession, request: pb.SessionRequest) -> bool:
                numbers = [each.number for each in request.submissions]
                await session.refuse(numbers, "not_leader", leader=leader.address)
                return True

            follower.hook = send_on
            await infer_all(client, 5, "sent on")
            assert len(leader.sessions) == 1
        assert {each.forward for each in (*leader.messages, *follower.messages)} == {True}

    play(test, 3)


def test_client_that_does_not_wish_it_says_so() -> None:
    async def test(nodes: list[FakeNode]) -> None:
        async with AsyncClient(nodes[1].address) as client:
            await infer_all(client, 5)
        assert {each.forward for each in nodes[0].messages} == {False}

    play(test, 2)
