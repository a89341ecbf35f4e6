"""Answers of a session leave as they are read: who reads gets all, who does not is cut off."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import grpc.aio
import pytest

from coordinator.config import SessionLimits
from coordinator.rpc.forwarding import Forwarder
from coordinator.rpc.onward import open_stream
from coordinator.rpc.session import Session
from raftbatch.errors import OutcomeForgotten
from raftbatch.v1 import gateway_pb2 as pb
from raftbatch.v1.gateway_pb2_grpc import GatewayStub
from tests.e2e.scripted import LIMIT_S, ScriptedNode, configured, outcome, run
from tests.e2e.test_session import broken, opened, submissions

LIMITS = SessionLimits(unread_bytes_max=5_000_000)
SIZE = 100_000  # of each result; two hundred are four times the limit


def awaits(*numbers: int) -> pb.SessionRequest:
    """Return a message that asks for the outcomes of `r` and the number."""
    asked = [pb.SessionAwait(number=each, request_id=f"r{each}", index=2) for each in numbers]
    return pb.SessionRequest(awaits=asked)


async def read(session: Any, count: int) -> list[int]:
    """Return the numbers of so many outcomes, each of which is whole."""
    found: list[int] = []
    while len(found) < count:
        reply = await session.read()
        assert not reply.errors
        assert {len(each.result) for each in reply.outcomes} <= {SIZE}
        found += [each.number for each in reply.outcomes]
    return found


@pytest.mark.parametrize("ask", [awaits, submissions])
def test_client_that_reads_gets_more_than_may_be_unread(
    tmp_path: Path, ask: Callable[..., pb.SessionRequest]
) -> None:
    """What is known when it is asked for is left where it is, until there is room."""

    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        for number in range(200):
            node.scripted.known[f"r{number}"] = outcome(f"r{number}", bytes(SIZE))
        session = await opened(channel)
        await session.write(ask(*range(200)))
        await session.done_writing()
        assert sorted(await read(session, 200)) == list(range(200))
        assert await session.read() is grpc.aio.EOF

    run(tmp_path, test, LIMITS)


def test_client_that_reads_gets_what_comes_at_once(tmp_path: Path) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        session = await opened(channel)
        for first in range(0, 200, 40):
            numbers = list(range(first, first + 40))
            await session.write(submissions(*numbers))
            await node.scripted.until(lambda: len(node.scripted.watching) == 40)
            for number in numbers:
                node.scripted.known[f"r{number}"] = outcome(f"r{number}", bytes(SIZE))
                node.scripted.end(f"r{number}", node.scripted.known[f"r{number}"])
            assert sorted(await read(session, 40)) == numbers
        session.cancel()

    run(tmp_path, test, LIMITS)


class Reader:
    """A client that is served without a network, and takes no answer until it may."""

    def __init__(self, *requests: pb.SessionRequest) -> None:
        self.may_take = asyncio.Event()
        self.has_asked = asyncio.Event()
        self.taken: list[pb.SessionReply] = []
        self._requests = list(requests)

    async def read(self) -> object:
        """Return what it asks next."""
        if self._requests:
            return self._requests.pop(0)
        self.has_asked.set()
        return grpc.aio.EOF

    async def write(self, reply: pb.SessionReply) -> None:
        """Give it an answer; the first says who answers, and asks for nothing."""
        if self.taken:
            await self.may_take.wait()
        self.taken.append(reply)


def test_what_waits_for_room_can_be_dropped_and_forgotten(tmp_path: Path) -> None:
    async def main() -> None:
        node = ScriptedNode(configured(tmp_path))
        known = node.scripted.known
        for number in range(6):
            known[f"r{number}"] = outcome(f"r{number}", bytes(1_000_000))
        forwarder = Forwarder(node, partial(open_stream, None), LIMITS)
        reader = Reader(awaits(*range(6)), pb.SessionRequest(dropped=[2, 4]))
        session = Session(node, node.api, forwarder, LIMITS)
        serving = asyncio.ensure_future(session.serve(cast("Any", reader)))
        await reader.has_asked.wait()
        known["r3"] = cast("Any", OutcomeForgotten("its time is over"))
        del known["r5"]
        reader.may_take.set()
        async with asyncio.timeout(LIMIT_S):
            await serving
        session.end()
        outcomes = [each.number for reply in reader.taken for each in reply.outcomes]
        errors = [each for reply in reader.taken for each in reply.errors]
        assert outcomes == [0, 1]
        assert [(list(each.numbers), each.error.slug) for each in errors] == [
            ([3], "outcome_forgotten"),
            ([5], "outcome_unknown"),
        ]

    asyncio.run(main())


async def _unread(node: ScriptedNode, channel: grpc.aio.Channel) -> Any:
    """Return a session of whose two hundred outcomes, of 100 KB each, nothing is read."""
    api = node.scripted
    session = await opened(channel)
    await session.write(submissions(*range(200)))
    await api.until(lambda: len(api.watching) == 200)
    for number in range(200):
        api.end(f"r{number}", outcome(f"r{number}", bytes(100_000)))
        if number % 10 == 0:
            await GatewayStub(channel).Nodes(pb.NodesRequest())  # turns of the loop
    return session


def test_client_that_does_not_read_is_cut_off(tmp_path: Path) -> None:
    """What comes for it is not held for ever: it is dropped, and it is told so if it ever reads."""

    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        session = await _unread(node, channel)
        assert await broken(session) == "overloaded"

    run(tmp_path, test, SessionLimits(unread_bytes_max=5_000_000))


def test_client_that_never_reads_holds_no_session(tmp_path: Path) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        session = await _unread(node, channel)
        while node.on_stopping:  # it is there still
            await GatewayStub(channel).Nodes(pb.NodesRequest())
        (await opened(channel)).cancel()
        session.cancel()

    run(tmp_path, test, SessionLimits(unread_bytes_max=5_000_000, sessions_max=1))
