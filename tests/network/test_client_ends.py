"""The SDK's bounds and ends, against nodes that stand still, are cut off, or are not there."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from itertools import pairwise
from typing import Any

import pytest

from raftbatch.client import (
    AsyncClient,
    Client,
    ClientOptions,
    Payload,
    Result,
    aio,
    asks,
    host,
    sync,
)
from raftbatch.errors import (
    InvalidRequest,
    NoLeader,
    OutcomeUnknown,
    PayloadTooLarge,
)
from raftbatch.v1 import gateway_pb2 as pb
from tests.unit.fake_gateway import FakeNode, FakeSession, infer_all, play


def test_no_more_is_under_way_than_the_node_allows() -> None:
    async def test(nodes: list[FakeNode]) -> None:
        [node] = nodes
        node.in_flight_max = 4
        node.message_bytes_max = 4096
        later: list[asyncio.Task[None]] = []

        async def answer_later(session: FakeSession, request: pb.SessionRequest) -> bool:
            async def answer() -> None:
                for _ in range(5):  # turns, in which more could come
                    await asyncio.sleep(0)
                await session.answer(request)

            later.append(asyncio.ensure_future(answer()))
            return True

        node.hook = answer_later
        async with AsyncClient(node.address) as client:
            await infer_all(client, 30)
            large = [client.infer("echo", Payload(bytes(2000))) for _ in range(4)]
            await asyncio.gather(*large)
            with pytest.raises(PayloadTooLarge, match="4096"):
                await client.infer("echo", Payload(bytes(5000)))
        assert node.sessions[0].most <= 4
        assert max(each.ByteSize() for each in node.messages) <= 4096

    play(test)


def test_only_dead_nodes_at_the_start_are_an_error_that_says_so() -> None:
    async def test(nodes: list[FakeNode]) -> None:
        nodes[0].is_silent = True
        dead = "127.0.0.1:1"
        options = ClientOptions(connect_timeout_s=0.05)
        async with AsyncClient(dead, options) as client:
            for _ in range(2):
                with pytest.raises(NoLeader, match="none of the nodes that were named") as caught:
                    await client.infer("echo", Payload(b""))
                assert caught.value.definite
            with pytest.raises(NoLeader, match="none of the nodes that were named"):
                await client.cancel("a")
        async with AsyncClient([dead, nodes[1].address]) as client:
            nodes[1].leader = nodes[1].address
            await infer_all(client, 3)
        for addresses in ("", "nowhere", ":1"):
            with pytest.raises(InvalidRequest):
                AsyncClient(addresses)

    play(test, 2)


def test_wait_for_nodes_none_of_which_ever_answers_ends_with_who_they_are() -> None:
    async def test(nodes: list[FakeNode]) -> None:
        dead = ["127.0.0.1:1", "127.0.0.1:2"]
        options = ClientOptions(patience_s=0.3, connect_timeout_s=60.0)
        said = ""
        async with AsyncClient(dead, options) as client:
            for call in (
                client.infer("echo", Payload(b"")),
                client.ticket("a", 7).result(),
                client.cancel("a"),
            ):
                with pytest.raises(NoLeader, match="none of the nodes that were named") as caught:
                    await call
                assert caught.value.definite, "nothing was ever sent"
                said = caught.value.message
        assert "127.0.0.1:1, 127.0.0.1:2: nothing listens there" in said, "once for both"
        assert said.count("127.0.0.1:1") == 1

    play(test, 1)


def test_close_is_bounded_and_leaves_nothing() -> None:
    async def test(nodes: list[FakeNode]) -> None:
        [node] = nodes

        async def ignore_names(session: FakeSession, request: pb.SessionRequest) -> bool:
            return bool(request.acknowledgements or request.cancels)

        node.hook = ignore_names
        client = AsyncClient(node.address, ClientOptions(close_timeout_s=0.1))
        await infer_all(client, 3)

        async def hold(session: FakeSession, request: pb.SessionRequest) -> bool:
            return True

        node.hook = hold
        node.came.clear()
        waiting = asyncio.ensure_future(client.infer("echo", Payload(b"")))
        await node.came.wait()
        loop = asyncio.get_running_loop()
        began = loop.time()
        await client.close()
        assert loop.time() - began < 20.0  # of a wait that would last for ever
        with pytest.raises(OutcomeUnknown, match="closed"):
            await waiting
        await client.close()
        with pytest.raises(NoLeader, match="closed"):
            await client.infer("echo", Payload(b""))

    play(test)


def test_close_ends_what_was_to_be_asked_for_later() -> None:
    async def test(nodes: list[FakeNode]) -> None:
        [node] = nodes
        refused = asyncio.Event()

        async def refuse(session: FakeSession, request: pb.SessionRequest) -> bool:
            numbers = [each.number for each in request.submissions]
            await session.refuse(numbers, "overloaded", retry_after_ms=60_000)
            refused.set()
            return True

        node.hook = refuse
        client = AsyncClient(node.address)
        waiting = asyncio.ensure_future(client.infer("echo", Payload(b"")))
        await refused.wait()
        asked = asyncio.ensure_future(client.submit("echo", Payload(b"")))
        await client.close()
        for each in (waiting, asked):
            with pytest.raises((OutcomeUnknown, NoLeader), match="closed"):
                await each

    play(test)


def test_nodes_without_a_leader_are_asked_all_the_same() -> None:
    async def test(nodes: list[FakeNode]) -> None:
        for node in nodes:
            node.leader = ""
        options = ClientOptions(connect_timeout_s=1.0)
        async with AsyncClient([each.address for each in nodes], options) as client:
            await infer_all(client, 5)  # whoever is asked leads by the time that it answers
        assert [len(each.messages) > 0 for each in nodes].count(True) == 1

    play(test, 3)


def test_models_are_looked_up_once_for_all_who_wait() -> None:
    async def test(nodes: list[FakeNode]) -> None:
        [node] = nodes
        node.may_tell.clear()
        async with AsyncClient(node.address) as client:
            given_up = asyncio.ensure_future(client.infer("echo", Payload(b"a")))
            await node.asked.wait()
            waiting = asyncio.ensure_future(client.infer("echo", Payload(b"b")))
            await asyncio.sleep(0)
            given_up.cancel()
            with pytest.raises(asyncio.CancelledError):
                await given_up
            node.may_tell.set()
            assert (await waiting).payload == b"b"

    play(test)


@pytest.mark.slow
def test_waits_for_nodes_that_say_nothing_are_bounded() -> None:
    async def test(nodes: list[FakeNode]) -> None:
        [node] = nodes

        async def hold(session: FakeSession, request: pb.SessionRequest) -> bool:
            return True

        options = ClientOptions(patience_s=1.0, close_timeout_s=0.1)
        async with AsyncClient(node.address, options) as client:
            node.may_tell.clear()
            with pytest.raises(NoLeader, match="told of echo"):
                await client.infer("echo", Payload(b""))
            node.may_tell.set()
            await infer_all(client, 1)
            node.hook = hold
            with pytest.raises(OutcomeUnknown, match="nobody has cancelled"):
                await client.cancel("a")
            waiting = asyncio.ensure_future(client.cancel("b"))
            await asyncio.sleep(0)
            await client.close()
            with pytest.raises(OutcomeUnknown):
                await waiting

    play(test)


def test_session_that_breaks_while_models_are_looked_up_is_replaced() -> None:
    async def test(nodes: list[FakeNode]) -> None:
        [node] = nodes
        node.may_tell.clear()

        async def break_off(session: FakeSession, request: pb.SessionRequest) -> bool:
            node.hook = None
            await session.end()
            return True

        node.hook = break_off
        async with AsyncClient(node.address) as client:
            waiting = asyncio.ensure_future(client.infer("echo", Payload(b"b")))
            await node.asked.wait()
            assert await client.cancel("another") is True
            node.may_tell.set()
            assert (await waiting).payload == b"b"
        assert len(node.sessions) == 2

    play(test)


def test_client_is_for_one_loop_and_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    clients: list[AsyncClient] = []

    async def test(nodes: list[FakeNode]) -> None:
        if not clients:
            clients.append(AsyncClient(nodes[0].address))
            await infer_all(clients[0], 1)
            await clients[0].close()
            return
        with pytest.raises(InvalidRequest, match="another event loop"):
            await clients[0].connect()
        monkeypatch.setattr(aio, "process_id", lambda: -1)
        with pytest.raises(InvalidRequest, match="fork"):
            await clients[0].connect()
        await clients[0].close()

    play(test)
    play(test)


def test_ticket_whose_result_is_known_is_not_cancelled_whatever_nodes_remember() -> None:
    async def test(nodes: list[FakeNode]) -> None:
        async with AsyncClient(nodes[0].address) as client:
            ticket = await client.submit("echo", Payload(b"a"))
            await ticket.result()
            assert await ticket.cancel() is False
        assert nodes[0].truth.cancelled == []

    play(test)


def test_map_keeps_so_many_in_flight_and_the_order() -> None:
    async def test(nodes: list[FakeNode]) -> None:
        [node] = nodes
        taken = 0

        def items() -> Any:
            nonlocal taken
            for n in range(100):
                taken += 1
                yield Payload(b"%d" % n)

        async with AsyncClient(node.address) as client:
            found: list[Result] = [each async for each in client.map("echo", items(), in_flight=7)]
            assert [each.payload for each in found] == [b"%d" % n for n in range(100)]
            assert node.sessions[0].most <= 7 + 1  # and one acknowledgement
            taken = 0
            results = client.map("echo", items(), in_flight=7)
            async for each in results:
                assert each.payload == b"0"
                break
            await results.aclose()
            assert taken <= 7 * 4 + 1

    play(test)


def test_pause_grows_and_honours_what_the_node_asks() -> None:
    pauses = [max(asks.pause_s(attempt) for _ in range(200)) for attempt in range(1, 12)]
    assert pauses[0] <= 0.02
    assert all(a < b for a, b in pairwise(pauses[:6]))
    assert max(pauses) <= 1.0
    assert min(asks.pause_s(1) for _ in range(200)) >= 0.01
    asked = [asks.pause_s(1, 500) for _ in range(200)]
    assert min(asked) >= 0.5
    assert max(asked) > min(asked) + 0.05  # not all at one moment
    assert max(asked) <= 0.75


def test_client_without_a_loop_is_refused_where_it_cannot_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(nodes: list[FakeNode]) -> None:
        def calls() -> None:
            with Client(nodes[0].address) as client:
                assert client.infer("echo", Payload(b"one")).payload == b"one"
                with monkeypatch.context() as forked:
                    forked.setattr(sync, "process_id", lambda: -1)
                    with pytest.raises(InvalidRequest, match="fork"):
                        client.infer("echo", Payload(b""))
                    client.close()  # which it leaves to the other process
                assert client.infer("echo", Payload(b"two")).payload == b"two"
                results = client.map("echo", [Payload(b"three")] * 3)
                next(results)
            with pytest.raises(InvalidRequest, match="closed"):
                client.infer("echo", Payload(b""))
            with pytest.raises(InvalidRequest, match="closed"):
                list(client.map("echo", [Payload(b"")]))
            results.close()

        await asyncio.to_thread(calls)

    play(test)


def test_interrupted_wait_of_a_thread_cancels_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()

    async def wait_for_ever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    def interrupt(future: Future[None], timeout: float | None = None) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Future, "result", interrupt)
    with pytest.raises(KeyboardInterrupt):
        host.loop_thread().run(wait_for_ever())
    assert ended.wait(10)
