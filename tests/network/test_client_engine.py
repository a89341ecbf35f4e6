"""The SDK's engine, against nodes that redirect, refuse, break, answer late, and answer twice."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from raftbatch.client import (
    AsyncClient,
    ClientOptions,
    Payload,
    Refused,
    RequestCancelled,
    RequestFailed,
    Result,
)
from raftbatch.client.engine import Engine
from raftbatch.client.link import Link
from raftbatch.errors import (
    DeadlineExceeded,
    InvalidRequest,
    OutcomeUnknown,
    Overloaded,
    RaftbatchError,
    UnknownModel,
    UnknownRequest,
)
from raftbatch.v1 import error_pb2
from raftbatch.v1 import gateway_pb2 as pb
from tests.unit.fake_gateway import FakeNode, FakeSession, infer_all, play


def test_requests_of_one_moment_travel_together() -> None:
    async def test(nodes: list[FakeNode]) -> None:
        [node] = nodes
        async with AsyncClient(node.address) as client:
            await infer_all(client, 1)
            node.messages.clear()
            await infer_all(client, 200, "more")
            groups = [len(each.submissions) for each in node.messages]
            assert [each for each in groups if each] == [200]  # beside acknowledgements
            assert set(node.truth.seen.values()) == {1}
        # What was read is acknowledged, many at once, by the time that it is closed.
        assert Counter(node.truth.acknowledged) == Counter(node.truth.tickets.keys())
        assert sum(len(each.acknowledgements) for each in node.messages) <= 3

    play(test)


def test_leader_is_followed_and_remembered() -> None:
    async def test(nodes: list[FakeNode]) -> None:
        async with AsyncClient(nodes[1].address) as client:
            await infer_all(client, 3)
            assert client.leader == nodes[0].address
            assert nodes[1].messages == []
            assert set(client.addresses) == {each.address for each in nodes}
            await infer_all(client, 3, "again")
            assert [len(each.sessions) for each in nodes] == [1, 1, 0]

    play(test, 3)


def test_deposed_leader_keeps_what_it_has_and_sends_the_rest_on() -> None:
    async def test(nodes: list[FakeNode]) -> None:
        old, new, _ = nodes
        held: list[tuple[FakeSession, pb.SessionRequest]] = []

        async def hold(session: FakeSession, request: pb.SessionRequest) -> bool:
            held.append((session, request))
            return True

        async def send_on(session: FakeSession, request: pb.SessionRequest) -> bool:
            numbers = [each.number for each in request.submissions]
            await session.refuse(numbers, "not_leader", leader=new.address)
            return True

        old.hook = hold
        async with AsyncClient(old.address) as client:
            first = asyncio.ensure_future(infer_all(client, 2, "old"))
            await old.came.wait()
            old.hook = send_on
            new.leader = new.address
            await infer_all(client, 5, "new")
            assert not first.done()
            assert client.leader == new.address
            for session, request in held:
                await session.answer(request)
            await first
            assert set(old.truth.seen.values()) == {1}

    play(test, 3)


@pytest.mark.parametrize("slug", ["overloaded", "no_space", "quota_exceeded"])
def test_refused_for_now_is_asked_again_later(slug: str) -> None:
    async def test(nodes: list[FakeNode]) -> None:
        [node] = nodes
        refusals = 3

        async def refuse(session: FakeSession, request: pb.SessionRequest) -> bool:
            nonlocal refusals
            numbers = [each.number for each in request.submissions]
            if not numbers or refusals == 0:
                return False
            refusals -= 1
            await session.refuse(numbers, slug, retry_after_ms=1)
            return True

        node.hook = refuse
        async with AsyncClient(node.address) as client:
            await infer_all(client, 10)
        asked = [[one.request_id for one in each.submissions] for each in node.messages]
        assert [each for each in asked if each] == [[f"id{n}" for n in range(10)]] * 4
        assert len(node.sessions) == 1

    play(test)


@pytest.mark.parametrize("slug", ["no_leader", "draining", "outcome_unknown", "of_tomorrow"])
def test_node_that_cannot_answer_is_left_for_another(slug: str) -> None:
    async def test(nodes: list[FakeNode]) -> None:
        old, new = nodes
        is_definite = slug in ("no_leader", "draining")

        async def refuse(session: FakeSession, request: pb.SessionRequest) -> bool:
            numbers = [each.number for each in request.submissions]
            old.hook = None
            old.leader = new.leader = new.address
            for each in request.submissions if not is_definite else ():
                old.truth.admit(each)
            await session.refuse(numbers, slug, definite=is_definite)
            return True

        old.hook = refuse
        async with AsyncClient(old.address) as client:
            await infer_all(client, 10)
            assert old.truth.seen.keys() == {f"id{n}" for n in range(10)}
            assert len(old.truth.tickets) == 10

    play(test, 2)


@pytest.mark.parametrize("slug", ["", "draining", "overloaded"])
def test_what_a_broken_session_owed_is_asked_for_under_the_same_id(slug: str) -> None:
    async def test(nodes: list[FakeNode]) -> None:
        old, new, _ = nodes

        async def break_off(session: FakeSession, request: pb.SessionRequest) -> bool:
            for node in nodes:
                node.leader = new.address
            old.hook = None
            half = pb.SessionRequest(submissions=request.submissions[:20])
            await session.answer(half)
            for each in request.submissions[20:30]:
                old.truth.admit(each)  # and nobody hears of it
            await session.end(slug)
            return True

        old.hook = break_off
        async with AsyncClient(old.address) as client:
            tickets = [await client.submit("echo", Payload(b""), request_id="ticketed")]
            assert tickets[0].index >= 1
            await infer_all(client, 50)
            assert len(old.truth.tickets) == 51
            assert max(old.truth.seen.values()) <= 2
            assert (await tickets[0].result()).index == tickets[0].index

    play(test, 3)


@pytest.mark.parametrize("is_whole", [True, False])
def test_what_is_said_in_the_background_is_said_again_elsewhere(is_whole: bool) -> None:
    async def test(nodes: list[FakeNode]) -> None:
        old, new = nodes

        async def send_on(session: FakeSession, request: pb.SessionRequest) -> bool:
            error = error_pb2.Error(slug="not_leader", definite=True, leader=new.address)
            for names in [*request.cancels, *request.acknowledgements]:
                new.leader = old.leader = new.address
                count = len(names.request_ids)
                if is_whole:
                    await session.refuse([names.number], "not_leader", leader=new.address)
                elif names in request.cancels:
                    results = [pb.CancelResult(error=error)] * count
                    cancelled = pb.SessionCancelled(number=names.number, results=results)
                    await session.say(cancelled=[cancelled])
                else:
                    done = [pb.AcknowledgeResult(error=error)] * count
                    acknowledged = pb.SessionAcknowledged(number=names.number, results=done)
                    await session.say(acknowledged=[acknowledged])
            return not request.submissions

        old.hook = send_on
        async with AsyncClient(old.address) as client:
            await infer_all(client, 5)
            assert await client.cancel("to come") is True
        assert old.truth.cancelled == ["to come"]
        assert sorted(old.truth.acknowledged) == [f"id{n}" for n in range(5)]

    play(test, 2)


@pytest.mark.parametrize("slug", ["", "outcome_unknown"])
def test_what_was_lost_stays_unknown_though_it_is_refused_later(slug: str) -> None:
    async def test(nodes: list[FakeNode]) -> None:
        [node] = nodes

        async def refuse(session: FakeSession, request: pb.SessionRequest) -> bool:
            await session.refuse([each.number for each in request.submissions], "overloaded")
            return bool(request.submissions)

        async def lose(session: FakeSession, request: pb.SessionRequest) -> bool:
            node.hook = refuse
            for each in request.submissions:
                node.truth.admit(each)
            if slug:
                numbers = [each.number for each in request.submissions]
                await session.refuse(numbers, slug, definite=False)
            else:
                await session.end()
            return True

        node.hook = lose
        async with AsyncClient(node.address, ClientOptions(patience_s=1.0)) as client:
            with pytest.raises(OutcomeUnknown):
                await client.infer("echo", Payload(b""), request_id="lost")
        assert node.truth.cancelled == ["lost"]

    play(test)


@pytest.mark.parametrize("slug", ["", "unknown_model", "of_tomorrow", "invalid_request"])
def test_refusal_says_nothing_definite_of_what_was_lost(slug: str) -> None:
    """By a node that does not know of it, or, without a slug, whose messages are smaller."""

    async def test(nodes: list[FakeNode]) -> None:
        old, new = nodes

        async def refuse(session: FakeSession, request: pb.SessionRequest) -> bool:
            await session.refuse([each.number for each in request.submissions], slug)
            return bool(request.submissions)

        async def lose(session: FakeSession, request: pb.SessionRequest) -> bool:
            for each in request.submissions:
                old.truth.admit(each)
            old.leader = new.leader = new.address
            await session.end()
            return True

        old.hook = lose
        if slug:
            new.hook = refuse
        else:
            new.message_bytes_max = 1000
        async with AsyncClient(old.address) as client:
            with pytest.raises(RaftbatchError) as caught:
                await client.infer("echo", Payload(bytes(5000)), request_id="lost")
        # What it is, and not where it went, makes a request invalid.
        assert caught.value.definite is (slug == "invalid_request")

    play(test, 2)


def test_answers_that_nobody_waits_for_change_nothing() -> None:
    async def test(nodes: list[FakeNode]) -> None:
        [node] = nodes

        async def twice(session: FakeSession, request: pb.SessionRequest) -> bool:
            await session.say(outcomes=[pb.Outcome(number=999, result=b"whose?")])
            await session.answer(request)
            if request.submissions:
                wrong = [pb.Outcome(number=e.number, result=b"no") for e in request.submissions]
                await session.say(outcomes=wrong)
                await session.refuse([e.number for e in request.submissions], "unknown_model")
            return True

        node.hook = twice
        async with AsyncClient(node.address) as client:
            await infer_all(client, 5)
            await infer_all(client, 5, "more")

    play(test)


def test_wait_that_is_over_drops_the_number_and_cancels_the_request() -> None:
    async def test(nodes: list[FakeNode]) -> None:
        [node] = nodes

        async def say_nothing(session: FakeSession, request: pb.SessionRequest) -> bool:
            for each in request.submissions:
                node.truth.admit(each)
            return bool(request.submissions)

        node.hook = say_nothing
        async with AsyncClient(node.address, ClientOptions(patience_s=1.0)) as client:
            with pytest.raises(OutcomeUnknown, match="it is cancelled") as caught:
                await client.infer("echo", Payload(b""), request_id="late")
            assert not caught.value.definite
            waiting = asyncio.ensure_future(
                client.infer("echo", Payload(b""), request_id="given up", timeout_s=5)
            )
            node.came.clear()
            await node.came.wait()
            while not node.truth.seen["given up"]:
                node.came.clear()
                await node.came.wait()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        assert sorted(node.truth.cancelled) == ["given up", "late"]
        assert sorted(node.truth.acknowledged) == ["given up", "late"]
        asked = [each for message in node.messages for each in message.submissions]
        dropped = [number for message in node.messages for number in message.dropped]
        assert sorted(each.number for each in asked) == sorted(dropped)
        assert [each.timeout_ms for each in asked] == [0, 5000]

    play(test)


def test_outcome_that_nobody_had_is_not_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting: list[asyncio.Task[Result]] = []
    heard = Engine.heard

    def cancel_in_that_turn(engine: Engine, link: Link, reply: pb.SessionReply) -> None:
        heard(engine, link, reply)
        for each in waiting if reply.outcomes else ():
            each.cancel()

    async def test(nodes: list[FakeNode]) -> None:
        [node] = nodes
        async with AsyncClient(node.address) as client:
            tickets = [await client.submit("echo", Payload(b"one")) for _ in range(2)]
            waiting.append(asyncio.ensure_future(tickets[0].result()))
            monkeypatch.setattr(Engine, "heard", cancel_in_that_turn)
            with pytest.raises(asyncio.CancelledError):
                await waiting[0]
            waiting.clear()
            assert (await tickets[1].result()).payload == b"one"
        assert node.truth.acknowledged == [tickets[1].request_id]

    play(test)


def test_what_was_never_sent_is_definitely_not_done() -> None:
    async def test(nodes: list[FakeNode]) -> None:
        [node] = nodes

        async def refuse(session: FakeSession, request: pb.SessionRequest) -> bool:
            numbers = [each.number for each in request.submissions]
            await session.refuse(numbers, "overloaded", retry_after_ms=60_000)
            return True

        node.hook = refuse
        options = ClientOptions(patience_s=1.0, pending_max=2)
        async with AsyncClient(node.address, options) as client:
            with pytest.raises(Overloaded) as caught:
                await client.infer("echo", Payload(b""))
            assert caught.value.definite
            calls = [client.infer("echo", Payload(b"")) for _ in range(3)]
            errors = await asyncio.gather(*calls, return_exceptions=True)
            assert [type(each) for each in errors] == [Overloaded] * 3
            assert "in this client already" in str(errors[2])
        assert node.truth.cancelled == []

    play(test)


def test_outcomes_and_definite_errors_are_raised() -> None:
    async def test(nodes: list[FakeNode]) -> None:
        [node] = nodes
        async with AsyncClient(node.address) as client:

            async def error_of(request_id: str) -> RaftbatchError:
                with pytest.raises(RaftbatchError) as caught:
                    await client.infer("echo", Payload(b""), request_id=request_id)
                return caught.value

            failed = await error_of("fail 1")
            assert isinstance(failed, RequestFailed)
            assert (failed.code, failed.definite) == ("item_error", True)
            assert isinstance(await error_of("expire 1"), DeadlineExceeded)
            assert await client.cancel("cancelled 1") is True
            assert isinstance(await error_of("cancelled 1"), RequestCancelled)

            async def refuse(session: FakeSession, request: pb.SessionRequest) -> bool:
                for each in request.submissions:
                    await session.refuse([each.number], each.request_id)
                return bool(request.submissions)

            node.hook = refuse
            assert isinstance(await error_of("unknown_model"), UnknownModel)
            assert isinstance(await error_of("invalid_request"), InvalidRequest)
            assert isinstance(await error_of("unknown_request"), UnknownRequest)
            newer = await error_of("of_tomorrow")
            assert isinstance(newer, Refused)
            assert (newer.slug, newer.definite) == ("of_tomorrow", True)

    play(test)
