"""What is handed on when leaders change, break off or refuse, and within which bounds."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc
import grpc.aio
import pytest

from coordinator.config import SessionLimits
from raftbatch.v1 import error_pb2
from raftbatch.v1 import gateway_pb2 as pb
from raftbatch.v1.gateway_pb2_grpc import GatewayStub
from tests.e2e.forwarding import (
    Counted,
    answers,
    asked_of,
    count_handed_on,
    failed,
    opened,
    play,
    reply_of,
    submissions,
    submit,
)
from tests.e2e.scripted import ScriptedNode
from tests.unit.fake_gateway import FakeNode, FakeSession


@pytest.fixture
def handed_on(monkeypatch: pytest.MonkeyPatch) -> Counted:
    """Return how many calls a node was given to hand on."""
    return count_handed_on(monkeypatch)


@pytest.mark.parametrize(
    "how", ["breaks", "not_leader", "no_leader", "draining", "outcome_unknown"]
)
def test_leader_that_cannot_answer_is_left_for_the_next(tmp_path: Path, how: str) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel, nodes: list[FakeNode]) -> None:
        old, new = nodes

        async def fail(session: FakeSession, request: pb.SessionRequest) -> bool:
            old.hook = None
            if how in ("breaks", "outcome_unknown"):
                for each in request.submissions[:10]:
                    old.truth.admit(each)  # and nobody hears of it
            node.turn_to("m2", new.address)
            if how == "breaks":
                await session.end()
            numbers = [each.number for each in request.submissions]
            await session.refuse(numbers, how, definite=how != "outcome_unknown")
            return True

        old.hook = fail
        session = await opened(channel)
        await session.write(submissions(20, want=pb.WANT_TICKET))
        found = await answers(session, 20)
        assert sorted(found.values()) == list(range(1, 21))
        truth = new.truth
        assert len(truth.tickets) == 20
        assert max(truth.seen.values()) <= 2
        asked = [each.request_id for message in new.messages for each in message.submissions]
        assert asked == [f"r{n}" for n in range(1, 21)]  # once, in their order
        session.cancel()

    play(tmp_path, test)


def test_leader_that_stands_still_is_left_when_another_leads(tmp_path: Path) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel, nodes: list[FakeNode]) -> None:
        old, new = nodes

        async def stand_still(session: FakeSession, request: pb.SessionRequest) -> bool:
            return True

        old.hook = stand_still
        reply = asyncio.ensure_future(reply_of(GatewayStub(channel).Submit(submit("a", "b"))))
        await old.came.wait()
        node.turn_to("", "")  # it is not known yet who leads, so the old one may answer yet
        await GatewayStub(channel).Nodes(pb.NodesRequest())
        assert new.sessions == []
        node.turn_to("m2", new.address)
        assert [each.ticket.index for each in (await reply).results] == [1, 2]

    play(tmp_path, test)


def test_node_that_comes_to_lead_asks_itself(tmp_path: Path, handed_on: Counted) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel, nodes: list[FakeNode]) -> None:
        stub = GatewayStub(channel)
        asked = submit("a", "b")
        calls = [
            reply_of(stub.Submit(asked)),
            reply_of(stub.Cancel(pb.CancelRequest(request_ids=["x"], forward=True))),
            reply_of(stub.Acknowledge(pb.AcknowledgeRequest(request_ids=["y"], forward=True))),
        ]
        waiting = asyncio.gather(*calls)
        await handed_on.until(1)
        node.turn_to("n1", node.config.addresses.client)
        replies = await waiting
        assert [each.ticket.index for each in replies[0].results] == [2, 2]
        assert [each.payload for each in node.scripted.submitted] == [b"x", b"x"]
        assert sorted(node.scripted.asked) == [("default", "x"), ("default", "y")]

    play(tmp_path, test, has_leader=False)


REFUSALS = [
    error_pb2.Error(slug="overloaded", message="full", definite=True, retry_after_ms=70),
    error_pb2.Error(slug="request_id_conflict", message="it is taken", definite=True),
    error_pb2.Error(slug="of_tomorrow", message="who knows", definite=True, retry_after_ms=5),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda each: each.slug)
@pytest.mark.parametrize("is_lost", [False, True])
def test_refusal_passes_as_it_is_unless_an_earlier_try_was_lost(
    tmp_path: Path, refusal: error_pb2.Error, is_lost: bool
) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel, nodes: list[FakeNode]) -> None:
        [leader, _] = nodes

        async def refuse(session: FakeSession, request: pb.SessionRequest) -> bool:
            numbers = [each.number for each in request.submissions]
            await session.say(errors=[pb.SessionError(numbers=numbers, error=refusal)])
            return True

        async def lose(session: FakeSession, request: pb.SessionRequest) -> bool:
            leader.hook = refuse
            await session.end()
            return True

        leader.hook = lose if is_lost else refuse
        session = await opened(channel)
        await session.write(submissions(2))
        found = await answers(session, 2)
        is_sure = refusal.slug == "request_id_conflict"
        if is_lost and not is_sure:
            assert [(each.slug, each.definite) for each in found.values()] == [
                ("outcome_unknown", False)
            ] * 2
            assert found[1].retry_after_ms == refusal.retry_after_ms
        else:
            assert list(found.values()) == [refusal] * 2
        session.cancel()

    play(tmp_path, test)


@pytest.mark.slow
def test_call_without_a_leader_ends_in_time_and_nothing_was_done(tmp_path: Path) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel, nodes: list[FakeNode]) -> None:
        reply = await GatewayStub(channel).Submit(submit("a"))  # the node's own bound
        error = reply.results[0].error
        assert (error.slug, error.definite) == ("no_leader", True)
        error = await failed(
            GatewayStub(channel).Cancel(
                pb.CancelRequest(request_ids=["a"], forward=True), timeout=3.0
            )
        )
        assert (error.slug, error.definite) == ("no_leader", True)
        node.turn_to("m9", "")
        assert (await failed(GatewayStub(channel).Submit(submit("a")))).slug == "not_leader"
        # Nothing was kept of it: whoever leads is asked for what comes now alone.
        node.turn_to("m1", nodes[0].address)
        await GatewayStub(channel).Submit(submit("b"))
        assert [each.request_id for each in asked_of(nodes[0])] == ["b"]

    play(tmp_path, test, SessionLimits(forward_ms_max=1500), has_leader=False)


def test_call_whose_answer_does_not_come_in_time_is_unknown(tmp_path: Path) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel, nodes: list[FakeNode]) -> None:
        async def hold(session: FakeSession, request: pb.SessionRequest) -> bool:
            return True

        nodes[0].hook = hold
        reply = await GatewayStub(channel).Submit(submit("a"))
        error = reply.results[0].error
        assert (error.slug, error.definite) == ("outcome_unknown", False)

    play(tmp_path, test, SessionLimits(forward_ms_max=1000))


def test_what_is_on_its_way_is_bounded(tmp_path: Path, handed_on: Counted) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel, nodes: list[FakeNode]) -> None:
        stub = GatewayStub(channel)
        first = asyncio.ensure_future(reply_of(stub.Submit(submit("a", "b", "c"))))
        await handed_on.until(1)
        error = await failed(stub.Submit(submit("d", "e")))
        assert (error.slug, error.definite, error.retry_after_ms) == ("overloaded", True, 100)
        large = submit("f")
        large.submissions[0].payload = bytes(10_000)
        assert (await failed(stub.Submit(large))).slug == "overloaded"
        second = asyncio.ensure_future(reply_of(stub.Submit(submit("d"))))
        await handed_on.until(4)
        node.turn_to("m1", nodes[0].address)
        assert len((await first).results) == len((await second).results) + 2 == 3
        assert len((await stub.Submit(submit("g", "h", "i", "j"))).results) == 4  # room again

    # Of which one caller may have half.
    limits = SessionLimits(forward_requests_max=8, forward_bytes_max=16_000)
    play(tmp_path, test, limits, has_leader=False)


def test_no_caller_takes_all_that_may_be_on_its_way(tmp_path: Path, handed_on: Counted) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel, nodes: list[FakeNode]) -> None:
        session = await opened(channel)
        await session.write(submissions(20, want=pb.WANT_TICKET))
        refused = await answers(session, 20)
        assert {(each.slug, each.definite, each.retry_after_ms) for each in refused.values()} == {
            ("overloaded", True, 100)
        }
        await session.write(submissions(4, first=21, want=pb.WANT_TICKET))
        await handed_on.until(2)
        error = await failed(GatewayStub(channel).Submit(submit("more")))
        assert error.message.startswith(
            "4 requests are being handed on already for ipv4:127.0.0.1:"
        )
        assert "half of what others leave of sessions.forward_requests_max = 8" in error.message
        own = [("grpc.use_local_subchannel_pool", 1)]
        address = node.config.addresses.client
        async with grpc.aio.insecure_channel(address, options=own) as other:
            victim = asyncio.ensure_future(reply_of(GatewayStub(other).Submit(submit("a", "b"))))
            await handed_on.until(4)
            error = await failed(GatewayStub(other).Submit(submit("c")))
            assert error.message.startswith("6 requests are being handed on already for ipv4:127.")
            node.turn_to("m1", nodes[0].address)
            assert len((await victim).results) == 2
        assert sorted(await answers(session, 4)) == [21, 22, 23, 24]
        await session.write(submissions(4, first=31, want=pb.WANT_TICKET))
        assert sorted(await answers(session, 4)) == [31, 32, 33, 34], "room again"
        session.cancel()

    play(tmp_path, test, SessionLimits(forward_requests_max=8), has_leader=False)


def test_client_that_goes_away_is_handed_on_no_more(tmp_path: Path, handed_on: Counted) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel, nodes: list[FakeNode]) -> None:
        session = await opened(channel)
        await session.write(submissions(3))
        await handed_on.until(1)
        session.cancel()
        while node.on_stopping:
            await GatewayStub(channel).Nodes(pb.NodesRequest())  # turns of the loop
        node.turn_to("m1", nodes[0].address)
        await GatewayStub(channel).Submit(submit("b"))
        assert [each.request_id for each in asked_of(nodes[0])] == ["b"]

    play(tmp_path, test, SessionLimits(forward_requests_max=3), has_leader=False)


def test_no_message_is_more_than_the_leader_takes(tmp_path: Path) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel, nodes: list[FakeNode]) -> None:
        [leader, _] = nodes
        leader.in_flight_max = 3
        leader.message_bytes_max = 2_000
        request = submissions(20, want=pb.WANT_TICKET)
        request.submissions[19].payload = bytes(3_000)
        session = await opened(channel)
        await session.write(request)
        found = await answers(session, 20)
        assert found.pop(20).slug == "payload_too_large"
        assert sorted(found.values()) == list(range(1, 20))
        assert leader.sessions[0].most <= 3
        assert max(each.ByteSize() for each in leader.messages) <= 2_000
        session.cancel()

    play(tmp_path, test)


def test_tenant_counts_in_each_message(tmp_path: Path) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel, nodes: list[FakeNode]) -> None:
        nodes[0].message_bytes_max = 2_000
        session = await opened(channel)
        await session.write(submissions(2, tenant="t" * 1_000))
        found = await answers(session, 2)
        assert {each.slug for each in found.values()} == {"payload_too_large"}
        assert nodes[0].messages == []
        session.cancel()

    play(tmp_path, test)


def test_request_that_another_leader_would_not_take_may_be_known_all_the_same(
    tmp_path: Path,
) -> None:
    """Files may differ in what a message may hold, and the answer to the first try was lost."""

    async def test(node: ScriptedNode, channel: grpc.aio.Channel, nodes: list[FakeNode]) -> None:
        [leader, _] = nodes

        async def lose(session: FakeSession, request: pb.SessionRequest) -> bool:
            leader.message_bytes_max = 300
            await session.end()
            return True

        leader.hook = lose
        request = submit("a")
        request.submissions[0].payload = bytes(1_000)
        reply = await GatewayStub(channel).Submit(request)
        error = reply.results[0].error
        assert (error.slug, error.definite) == ("outcome_unknown", False)

    play(tmp_path, test)
