"""Whom an executor asks: it follows the leader, passes over who is gone, and gives up in time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import grpc
import grpc.aio
import pytest

from executor import watching
from executor.link import Link, Pauses, Refused, Trouble, Unreachable
from raftbatch.errors import TRAILER
from raftbatch.v1 import dispatch_pb2 as pb
from raftbatch.v1 import error_pb2, gateway_pb2
from raftbatch.v1.dispatch_pb2_grpc import (
    DispatchServicer,
    DispatchStub,
    add_DispatchServicer_to_server,
)
from raftbatch.v1.gateway_pb2_grpc import GatewayServicer, add_GatewayServicer_to_server
from tests.e2e.cluster import free_ports

LIMIT_S = 60.0
RAN_OUT = Trouble("", "it ran out")


class FakeEntropy:
    """Bytes that are always the same."""

    def random_bytes(self, length: int) -> bytes:
        """Return zeros."""
        return bytes(length)


class FakeNode(DispatchServicer, GatewayServicer):
    """A node that says what a test wants it to say.

    Attributes:
        error: that it answers with; None: it does what it is asked.
        asked: how often it was asked anything.
        tails: what executors asked it to tail from.
        messages: that it tells them, a list for each tail.
        results: of reports, one for each call.
        others: addresses of the nodes that there are.
        leader: which of them leads, as it says; empty: it does not know.
        is_silent: it answers nothing but who leads.
        heard: is set once it was asked anything.
        named: is set once it has said who the nodes are.
    """

    def __init__(self) -> None:
        self.error: error_pb2.Error | None = None
        self.asked = 0
        self.tails: list[pb.TailRequest] = []
        self.messages: list[list[pb.FeedMessage]] = []
        self.results: list[list[pb.ReportResult]] = []
        self.others: list[str] = []
        self.leader = ""
        self.is_silent = False
        self.heard = asyncio.Event()
        self.named = asyncio.Event()

    async def Nodes(self, request: gateway_pb2.NodesRequest, context: Any) -> Any:  # noqa: N802
        """Answer, where it knows of others."""
        if not self.others:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "no")
        self.named.set()
        nodes = [gateway_pb2.NodeAddress(node_id=each, address=each) for each in self.others]
        return gateway_pb2.NodesReply(nodes=nodes, leader_id=self.leader)

    async def _judge(self, context: Any) -> None:
        self.asked += 1
        self.heard.set()
        if self.is_silent:
            await asyncio.Event().wait()
        if self.error is not None:
            trailer = ((TRAILER, self.error.SerializeToString()),)
            await context.abort(grpc.StatusCode.UNAVAILABLE, "no", trailer)

    async def Heartbeat(self, request: pb.HeartbeatRequest, context: Any) -> pb.HeartbeatReply:  # noqa: N802
        """Answer."""
        await self._judge(context)
        return pb.HeartbeatReply()

    async def Report(self, request: pb.ReportRequest, context: Any) -> pb.ReportReply:  # noqa: N802
        """Answer."""
        await self._judge(context)
        return pb.ReportReply(results=self.results.pop(0))

    async def Tail(self, request: pb.TailRequest, context: Any) -> Any:  # noqa: N802
        """Tell a few messages; where there are none, be quiet."""
        self.tails.append(request)
        await self._judge(context)
        if not self.messages:
            await asyncio.Event().wait()
        for message in self.messages.pop(0):
            yield message


def not_leader(leader: str = "") -> error_pb2.Error:
    """Return the error of a node that does not lead."""
    return error_pb2.Error(slug="not_leader", message="no", definite=True, leader=leader)


def run(test: Callable[[list[FakeNode], list[str], Link], Awaitable[None]], up: int = 3) -> None:
    """Run a test against three nodes, of which so many are up."""

    async def main() -> None:
        async with AsyncExitStack() as stack, asyncio.timeout(LIMIT_S):
            addresses = [f"127.0.0.1:{port}" for port in free_ports(3)]
            nodes = [FakeNode() for _ in addresses]
            for node, address in list(zip(nodes, addresses, strict=True))[3 - up :]:
                server = grpc.aio.server()
                add_DispatchServicer_to_server(node, server)
                add_GatewayServicer_to_server(node, server)
                server.add_insecure_port(address)
                await server.start()
                stack.push_async_callback(server.stop, None)
            names = {f"n{n}": address for n, address in enumerate(addresses)}
            link = Link(names, FakeEntropy())
            stack.push_async_callback(link.close)
            await test(nodes, addresses, link)

    asyncio.run(main())


async def beat(stub: DispatchStub, call_s: float) -> pb.HeartbeatReply:
    """Send a heartbeat."""
    reply: pb.HeartbeatReply = await stub.Heartbeat(pb.HeartbeatRequest(), timeout=call_s)
    return reply


def test_leader_is_followed_and_remembered() -> None:
    async def test(nodes: list[FakeNode], addresses: list[str], link: Link) -> None:
        nodes[0].error = not_leader(addresses[2])
        await link.ask(beat)
        await link.ask(beat)
        assert [node.asked for node in nodes] == [1, 0, 2]

    run(test)


@pytest.fixture
def paused(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the pauses that are made, as they come."""
    made: list[float] = []
    next_s = Pauses.next_s

    def noted(pauses: Pauses) -> float:
        made.append(next_s(pauses))
        return made[-1]

    monkeypatch.setattr(Pauses, "next_s", noted)
    return made


def test_nodes_that_are_gone_are_passed_over_at_once(paused: list[float]) -> None:
    async def test(nodes: list[FakeNode], addresses: list[str], link: Link) -> None:
        await link.ask(beat)
        assert [node.asked for node in nodes] == [0, 0, 1]
        assert paused == []

    run(test, up=1)


def test_call_that_nobody_takes_is_given_up_in_time() -> None:
    async def test(nodes: list[FakeNode], addresses: list[str], link: Link) -> None:
        for node in nodes:
            node.error = error_pb2.Error(slug="no_leader", message="wait", definite=True)
        with pytest.raises(Unreachable, match=r"127\.0\.0\.1:\d+: wait"):
            await link.ask(beat, 1.0)

    run(test)


def test_nodes_that_send_each_to_the_other_are_not_asked_without_end() -> None:
    async def test(nodes: list[FakeNode], addresses: list[str], link: Link) -> None:
        for node, leader in zip(nodes, addresses[1:] + addresses[:1], strict=True):
            node.error = not_leader(leader)
        with pytest.raises(Unreachable):
            await link.ask(beat, 0.3)
        assert sum(node.asked for node in nodes) < 40

    run(test)


def test_what_no_node_mends_is_refused() -> None:
    async def test(nodes: list[FakeNode], addresses: list[str], link: Link) -> None:
        nodes[0].error = error_pb2.Error(slug="stale_incarnation", message="over", definite=True)
        with pytest.raises(Refused, match="stale_incarnation: over"):
            await link.ask(beat)
        nodes[0].error = error_pb2.Error(slug="of_a_newer_node", message="so", definite=True)
        with pytest.raises(Refused):
            await link.ask(beat)
        nodes[0].error = error_pb2.Error(slug="of_a_newer_node", message="so", definite=False)
        await link.ask(beat)  # of the next
        assert nodes[1].asked == 1

    run(test)


def test_reports_have_an_answer_each_and_move_to_the_leader() -> None:
    async def test(nodes: list[FakeNode], addresses: list[str], link: Link) -> None:
        nodes[0].results = [[pb.ReportResult(), pb.ReportResult(error=not_leader(addresses[1]))]]
        nodes[1].results = [[pb.ReportResult()]]
        taken, moved = await link.report([pb.Report(), pb.Report()])
        assert taken is None
        assert moved is not None
        assert not moved.is_final
        assert await link.report([pb.Report()]) == [None]

    run(test)


def test_tail_goes_on_at_another_node_from_where_it_was(paused: list[float]) -> None:
    async def test(nodes: list[FakeNode], addresses: list[str], link: Link) -> None:
        def piece(index: int, batch: int, more: bool = False) -> pb.FeedMessage:
            start = [pb.Assignment(batch=batch, fence=9, numbers=[index], payloads=[b"x"])]
            return pb.FeedMessage(changes=pb.Changes(index=index, start=start), more=more)

        for node in nodes:
            node.others, node.leader = addresses, addresses[0]
        # The second message of the first node never ends: nothing of it counts.
        nodes[0].messages = [[piece(5, 1), piece(6, 2, more=True)]]
        nodes[1].error = error_pb2.Error(slug="no_leader", message="behind", definite=True)
        nodes[2].messages = [[piece(7, 3, more=True), piece(7, 3, more=True), piece(7, 4)]]
        seen = [0]
        found: list[pb.FeedMessage] = []
        async for message in link.tail(lambda: pb.TailRequest(seen_index=seen[0])):
            found.append(message)
            seen[0] = message.changes.index
            if len(found) == 2:
                break
        assert [each.changes.index for each in found] == [5, 7]
        start = found[1].changes.start
        assert [(each.batch, list(each.numbers)) for each in start] == [(3, [7, 7]), (4, [7])]
        assert list(start[0].parameters) == [b"", b""]
        assert [node.tails[0].seen_index for node in nodes] == [0, 5, 5]
        assert len(paused) == 1, "behind the second alone: the first was well until then"

    run(test)


@asynccontextmanager
async def tailing(link: Link, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """Tail a node meanwhile, which is asked again and again who leads."""
    monkeypatch.setattr(watching, "_LOOK_S", 0.01)

    async def tail() -> None:
        async for _ in link.tail(pb.TailRequest):
            pass

    task = asyncio.ensure_future(tail())
    try:
        yield
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


def test_call_to_a_silent_leader_is_given_up_once_another_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The node that is tailed tells who leads, before the call runs out."""

    async def test(nodes: list[FakeNode], addresses: list[str], link: Link) -> None:
        old, tailed, new = nodes
        old.is_silent, tailed.is_silent = True, True
        tailed.others = addresses
        asking = asyncio.ensure_future(link.ask(beat, call_s=LIMIT_S))
        await old.heard.wait()
        link._tailed = addresses[1]
        async with tailing(link, monkeypatch):
            tailed.leader = addresses[2]
            await asking
        assert (old.asked, new.asked) == (1, 1)

    run(test)


def test_call_to_a_silent_leader_is_given_up_though_another_call_has_moved_already(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(nodes: list[FakeNode], addresses: list[str], link: Link) -> None:
        old, new, tailed = nodes
        old.is_silent, tailed.is_silent = True, True
        tailed.others = addresses
        asking = asyncio.ensure_future(link.ask(beat, call_s=LIMIT_S))
        await old.heard.wait()
        link.turn(addresses[0], RAN_OUT)
        link._tailed = addresses[2]
        async with tailing(link, monkeypatch):
            tailed.leader = addresses[1]
            await asking
        assert (old.asked, new.asked) == (1, 1)

    run(test)


def test_silent_node_that_was_tailed_is_waited_for_no_more_though_another_call_has_moved_already(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(nodes: list[FakeNode], addresses: list[str], link: Link) -> None:
        old, new, _ = nodes
        old.is_silent = True  # and says not even who leads
        new.others, new.leader = addresses, addresses[1]
        asking = asyncio.ensure_future(link.ask(beat, call_s=LIMIT_S))
        await old.heard.wait()
        link.turn(addresses[0], RAN_OUT)
        async with tailing(link, monkeypatch):
            await asking
        assert old.asked == 2, "a call, and the tail"

    run(test)


def test_node_that_says_nothing_is_tailed_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "_LOOK_S", 0.01)
    monkeypatch.setattr(watching, "_SOON_S", 0.01)

    async def test(nodes: list[FakeNode], addresses: list[str], link: Link) -> None:
        nodes[0].is_silent = True  # and knows of no leader
        nodes[0].others = nodes[1].others = addresses
        nodes[1].leader = addresses[1]
        nodes[1].messages = [[pb.FeedMessage(changes=pb.Changes(index=5))]]
        async for message in link.tail(pb.TailRequest):
            assert message.changes.index == 5
            break
        assert [len(node.tails) for node in nodes] == [1, 1, 0]
        assert (await link.ask(beat), nodes[0].asked, nodes[1].asked) == (pb.HeartbeatReply(), 1, 2)

    run(test)


def test_nodes_that_came_later_are_asked_too() -> None:
    async def test(nodes: list[FakeNode], addresses: list[str], link: Link) -> None:
        lonely = Link({"n3": addresses[2]}, FakeEntropy())
        await lonely.learn()
        assert lonely.addresses == addresses[2], "nobody answers that"
        nodes[2].others = addresses
        await lonely.learn()
        nodes[2].error = error_pb2.Error(slug="no_leader", message="alone", definite=True)
        await lonely.ask(beat)
        assert nodes[0].asked == 1
        await lonely.close()

    run(test)


def test_nodes_that_took_the_place_of_all_others_are_tailed_and_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A life may outlast every node that it began with."""

    async def test(nodes: list[FakeNode], addresses: list[str], link: Link) -> None:
        given, *later = nodes
        old = Link({addresses[0]: addresses[0]}, FakeEntropy())
        given.others, given.leader = addresses[1:], addresses[1]
        later[0].others, later[0].leader = addresses[2:], addresses[2]
        async with tailing(old, monkeypatch):
            await given.named.wait()
            given.others = []  # it is gone
            await later[0].heard.wait()
            await later[0].named.wait()
            later[0].others = []
            await later[1].heard.wait()
        assert old.addresses == addresses[2]
        await old.close()

    run(test)


def test_pauses_grow_up_to_a_bound() -> None:
    pauses = Pauses(FakeEntropy(), 1.0, 3.0)
    assert [pauses.next_s() for _ in range(4)] == [0.5, 1.0, 1.5, 1.5]
    pauses.reset()
    assert pauses.next_s() == 0.5
