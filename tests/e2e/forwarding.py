"""A scripted node that does not lead, and nodes that may: what tests of handing on need.

What lives here: running a test against them, and what it asks. What must never live here:
what a test expects. Called by: tests of the forwarder.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from coordinator.config import SessionLimits
from coordinator.rpc.forwarding import Forwarder
from coordinator.rpc.handed_on import Item
from raftbatch.trailers import Said
from raftbatch.v1 import gateway_pb2 as pb
from raftbatch.v1.gateway_pb2_grpc import GatewayStub
from tests.e2e.executors import error_of
from tests.e2e.scripted import LIMIT_S, ScriptedNode, configured, serving
from tests.unit.fake_gateway import FakeNode, fakes

Test = Callable[[ScriptedNode, grpc.aio.Channel, list[FakeNode]], Coroutine[Any, Any, None]]


def play(
    folder: Path, test: Test, limits: SessionLimits | None = None, *, has_leader: bool = True
) -> None:
    """Run a test against a node that does not lead, and two that may; the first does."""
    config = configured(folder)
    config = dataclasses.replace(config, sessions=limits or config.sessions)

    async def main() -> None:
        async with fakes(2) as nodes:
            node = ScriptedNode(config)
            node.scripted.is_leading = False
            if has_leader:
                node.leads = ("m1", nodes[0].address)
            async with asyncio.timeout(LIMIT_S), serving(node) as channel:
                await test(node, channel, nodes)
            left = [task for task in asyncio.all_tasks() if "coordinator/rpc" in repr(task)]
            assert left == []

    asyncio.run(main())


def submissions(
    count: int, *, tenant: str = "", want: Any = pb.WANT_OUTCOME, first: int = 1
) -> pb.SessionRequest:
    """Return a message of requests that are to be handed on."""
    return pb.SessionRequest(
        tenant=tenant,
        forward=True,
        submissions=[
            pb.Submission(
                request_id=f"{tenant}r{n}",
                model="echo",
                rows=1,
                payload=b"%d" % n * 100,
                priority=2,
                number=n,
                want=want,
            )
            for n in range(first, first + count)
        ],
    )


def submit(*names: str, **fields: Any) -> pb.SubmitRequest:
    """Return a single call."""
    asked = [pb.Submission(request_id=each, model="echo", rows=1, payload=b"x") for each in names]
    return pb.SubmitRequest(submissions=asked, forward=True, **fields)


async def opened(channel: grpc.aio.Channel) -> Any:
    """Return a session whose first message was read."""
    session = GatewayStub(channel).Session()
    await session.read()
    return session


async def answers(session: Any, count: int) -> dict[int, Any]:
    """Return so many last answers: indexes, results, and errors."""
    found: dict[int, Any] = {}
    while len(found) < count:
        reply = await session.read()
        assert reply is not grpc.aio.EOF
        found.update(zip(reply.tickets.numbers, reply.tickets.indexes, strict=True))
        found.update({each.number: each.result for each in reply.outcomes})
        for error in reply.errors:
            found.update(dict.fromkeys(error.numbers, error.error))
    return found


async def failed(call: Any) -> Said:
    """Return the error of a call."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    said = error_of(caught.value)
    assert said is not None, caught.value
    return said


def asked_of(leader: FakeNode) -> list[pb.Submission]:
    """Return all that a leader was asked to take in: for tickets alone, and never to hand on."""
    assert not any(each.forward or each.awaits for each in leader.messages)
    found = [each for message in leader.messages for each in message.submissions]
    assert {each.want for each in found} <= {pb.WANT_TICKET}
    return found


def count_handed_on(monkeypatch: pytest.MonkeyPatch) -> Counted:
    """Count calls that a node is given to hand on."""
    counted = Counted()
    prepared = Forwarder.prepared

    def count(self: Forwarder, tenant: str, messages: Sequence[pb.Submission]) -> list[Item]:
        counted.grow()
        return prepared(self, tenant, messages)

    monkeypatch.setattr(Forwarder, "prepared", count)
    return counted


class Counted:
    """A number that grows, and that can be waited for."""

    def __init__(self) -> None:
        self.count = 0
        self._grown = asyncio.Event()

    def grow(self) -> None:
        """Count one more."""
        self.count += 1
        self._grown.set()

    async def until(self, count: int) -> None:
        """Wait until there are so many."""
        while self.count < count:
            self._grown.clear()
            await self._grown.wait()


async def reply_of(call: Any) -> Any:
    """Return what a call is answered with: a coroutine, for tasks."""
    return await call
