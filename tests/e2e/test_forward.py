"""A node that does not lead hands on what it is asked to, and waits for outcomes by itself."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from raftbatch.errors import NotLeader
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
from tests.e2e.scripted import ScriptedNode, configured, outcome, serving
from tests.unit.fake_gateway import FakeNode


@pytest.fixture
def handed_on(monkeypatch: pytest.MonkeyPatch) -> Counted:
    """Return how many calls a node was given to hand on."""
    return count_handed_on(monkeypatch)


def test_session_is_handed_on_for_tickets_and_outcomes_are_the_nodes_own(tmp_path: Path) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel, nodes: list[FakeNode]) -> None:
        session = await opened(channel)
        await session.write(submissions(20))
        await session.write(submissions(5, tenant="t", want=pb.WANT_TICKET, first=21))
        api = node.scripted
        await session.read()  # the tickets of the second
        await api.until(lambda: len(api.watching) == 20)
        for n in range(1, 21):
            api.end(f"r{n}", outcome(f"r{n}", b"%d" % n))
        assert await answers(session, 20) == {n: b"%d" % n for n in range(1, 21)}
        assert api.submitted == []
        leader, other = nodes
        asked = asked_of(leader)
        assert [each.request_id for each in asked] == [
            *(f"r{n}" for n in range(1, 21)),
            *(f"tr{n}" for n in range(21, 26)),
        ]
        wanted = submissions(1).submissions[0]
        first = asked[0]
        first.number, first.want = wanted.number, wanted.want
        assert first == wanted
        tenants = [each.tenant for each in leader.messages if each.submissions]
        assert tenants == ["default", "t"]
        # The furthest ticket was waited for here, once, and none of the others.
        assert len([each for each in api.heard if len(each) == 3]) == 1
        assert other.sessions == []
        session.cancel()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.e2e.scripted.ScriptedApi.find", _find_all)
        play(tmp_path, test)


async def _find_all(api: Any, tenant: str, request_id: str, index: int) -> None:
    """Apply all at once: the entry that the highest ticket names is the last."""
    api.heard.append((tenant, request_id, index))
    api.applied.update(f"r{n}" for n in range(1, 21))


def test_ticket_and_outcome_are_both_told(tmp_path: Path) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel, nodes: list[FakeNode]) -> None:
        session = await opened(channel)
        await session.write(submissions(3, want=pb.WANT_TICKET_AND_OUTCOME))
        assert await answers(session, 3) == {1: 1, 2: 2, 3: 3}
        await node.scripted.until(lambda: len(node.scripted.watching) == 3)
        node.scripted.end("r2", outcome("r2", b"two"))
        assert await answers(session, 1) == {2: b"two"}
        session.cancel()
        await node.scripted.until(lambda: node.scripted.unwatched == 2)

    play(tmp_path, test)


def test_single_calls_are_handed_on_together(tmp_path: Path, handed_on: Counted) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel, nodes: list[FakeNode]) -> None:
        stub = GatewayStub(channel)
        calls = [asyncio.ensure_future(reply_of(stub.Submit(submit(f"a{n}")))) for n in range(50)]
        await handed_on.until(50)  # they wait for a leader
        node.turn_to("m1", nodes[0].address)
        replies = await asyncio.gather(*calls)
        assert sorted(each.results[0].ticket.index for each in replies) == list(range(1, 51))
        assert len(nodes[0].sessions) == len(nodes[0].messages) == 1
        assert len(asked_of(nodes[0])) == 50

    play(tmp_path, test, has_leader=False)


def test_infer_cancel_and_acknowledge_are_handed_on(tmp_path: Path) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel, nodes: list[FakeNode]) -> None:
        stub, truth = GatewayStub(channel), nodes[0].truth
        node.scripted.known["a"] = outcome("a", b"result")
        asked = submit("a").submissions[0]
        reply = await stub.Infer(pb.InferRequest(submission=asked, forward=True))
        assert (reply.outcome.result, reply.ticket.request_id) == (b"result", "a")
        names = ["a", "b"]
        cancelled = await stub.Cancel(pb.CancelRequest(request_ids=names, forward=True))
        assert [each.state for each in cancelled.results] == [pb.CANCEL_STATE_CANCELLED] * 2
        done = await stub.Acknowledge(pb.AcknowledgeRequest(request_ids=names, forward=True))
        assert [each.HasField("error") for each in done.results] == [False, False]
        assert (truth.cancelled, truth.acknowledged) == (names, names)
        session = await opened(channel)
        of_names = [pb.SessionNames(number=7, request_ids=["c", "d"])]
        await session.write(pb.SessionRequest(tenant="t", cancels=of_names, forward=True))
        [told] = (await session.read()).cancelled
        assert (told.number, len(told.results)) == (7, 2)
        of_names[0].number = 8
        await session.write(pb.SessionRequest(acknowledgements=of_names, forward=True))
        [acknowledged] = (await session.read()).acknowledged
        assert (acknowledged.number, len(acknowledged.results)) == (8, 0)
        assert (truth.cancelled[2:], truth.acknowledged[2:]) == (["c", "d"], ["c", "d"])
        assert node.scripted.asked == []
        session.cancel()

    play(tmp_path, test)


def test_what_does_not_ask_to_be_handed_on_is_not(tmp_path: Path) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel, nodes: list[FakeNode]) -> None:
        node.scripted.error = NotLeader("m1 leads", leader="m1")
        request = submit("a")
        request.forward = False
        assert (await failed(GatewayStub(channel).Submit(request))).slug == "not_leader"
        node.scripted.error = None
        node.scripted.is_leading = True  # and a leader serves by itself, whatever is asked
        await GatewayStub(channel).Submit(submit("b"))
        assert [each.request_id for each in node.scripted.submitted] == ["a", "b"]
        assert [each.sessions for each in nodes] == [[], []]

    play(tmp_path, test)


@pytest.mark.slow
def test_nothing_goes_round(tmp_path: Path) -> None:
    """Two nodes, each of which takes the other for the leader."""

    async def main() -> None:
        found = []
        for name in ("a", "b"):
            (tmp_path / name).mkdir()
            found.append(ScriptedNode(configured(tmp_path / name)))
        for node, other in zip(found, reversed(found), strict=True):
            node.scripted.is_leading = False
            node.scripted.error = NotLeader("the other leads")
            node.leads = ("other", other.config.addresses.client)
        async with serving(found[0]) as channel, serving(found[1]):
            reply = await GatewayStub(channel).Submit(submit("a"), timeout=3.0)
            error = reply.results[0].error
            assert (error.slug, error.definite) == ("no_leader", True)
            assert "the other leads" in error.message
        # The second was asked, more than once, and has asked nobody; so has the first itself.
        assert {each.request_id for each in found[1].scripted.submitted} == {"a"}
        assert found[0].scripted.submitted == []

    asyncio.run(main())
