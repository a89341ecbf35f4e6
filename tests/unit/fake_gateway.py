"""Nodes that say to clients what a test wants them to, over real gRPC on loopback.

What lives here: such nodes, and the one truth that they share, as coordinators share a log:
an id is taken in once, and has one outcome. What must never live here: what a test expects.
Called by: tests of the SDK.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import grpc
import grpc.aio

from raftbatch.client import AsyncClient, Payload
from raftbatch.errors import TRAILER
from raftbatch.v1 import error_pb2, model_pb2
from raftbatch.v1 import gateway_pb2 as pb
from raftbatch.v1.gateway_pb2_grpc import GatewayServicer, add_GatewayServicer_to_server

LIMIT_S = 60.0

Hook = Callable[["FakeSession", pb.SessionRequest], Awaitable[bool]]
"""Takes in a message; returns whether it is done with it: else it is answered as it should be."""


class Truth:
    """What all nodes know.

    Attributes:
        tickets: by id.
        inputs: by id.
        seen: how often each was asked to be taken in.
        cancelled, acknowledged: ids.
    """

    def __init__(self) -> None:
        self.tickets: dict[str, int] = {}
        self.inputs: dict[str, bytes] = {}
        self.seen: Counter[str] = Counter()
        self.cancelled: list[str] = []
        self.acknowledged: list[str] = []

    def admit(self, submission: pb.Submission) -> int:
        """Take a request in, unless it is known; return its ticket's index."""
        name = submission.request_id
        self.seen[name] += 1
        index = self.tickets.setdefault(name, len(self.tickets) + 1)
        assert self.inputs.setdefault(name, submission.payload) == submission.payload
        return index

    def outcome(self, request_id: str, number: int) -> pb.Outcome:
        """Return what becomes of a request: its inputs come back, but for those of some ids."""
        kind = pb.OUTCOME_KIND_OK
        if request_id in self.cancelled:
            kind = pb.OUTCOME_KIND_CANCELLED
        elif request_id.startswith("fail"):
            kind = pb.OUTCOME_KIND_FAILED
        elif request_id.startswith("expire"):
            kind = pb.OUTCOME_KIND_EXPIRED
        return pb.Outcome(
            kind=kind,
            final=True,
            result=self.inputs[request_id],
            code="item_error" if kind == pb.OUTCOME_KIND_FAILED else "",
            index=self.tickets[request_id],
            number=number,
        )


class FakeSession:
    """One stream of one node.

    Args:
        node: whose.
        context: of the call.

    Attributes:
        under_way: numbers without a last answer.
        most: how many there were at once.
    """

    def __init__(self, node: FakeNode, context: Any) -> None:
        self.node = node
        self.under_way: set[int] = set()
        self.most = 0
        self._context = context
        self._lock = asyncio.Lock()

    async def say(self, **fields: Any) -> None:
        """Write a reply."""
        async with self._lock:
            await self._context.write(pb.SessionReply(**fields))

    async def refuse(self, numbers: list[int], slug: str, **fields: Any) -> None:
        """Answer numbers with an error."""
        fields.setdefault("definite", True)
        error = error_pb2.Error(slug=slug, message=f"it is {slug}", **fields)
        self.under_way -= set(numbers)
        await self.say(errors=[pb.SessionError(numbers=numbers, error=error)])

    async def end(self, slug: str = "", definite: bool = True) -> None:
        """Break the stream: with an error in the trailer, or just so."""
        trailer: tuple[tuple[str, bytes], ...] = ()
        if slug:
            error = error_pb2.Error(slug=slug, message=f"it is {slug}", definite=definite)
            trailer = ((TRAILER, error.SerializeToString()),)
        await self._context.abort(grpc.StatusCode.UNAVAILABLE, "broken", trailer)

    def note(self, request: pb.SessionRequest) -> None:
        """Note what is under way."""
        for part in (
            request.submissions,
            request.awaits,
            request.cancels,
            request.acknowledgements,
        ):
            for each in part:
                assert each.number not in self.under_way, "a number twice"
                self.under_way.add(each.number)
        self.under_way -= set(request.dropped)
        self.most = max(self.most, len(self.under_way))

    async def answer(self, request: pb.SessionRequest) -> None:
        """Answer a message as it should be."""
        truth = self.node.truth
        outcomes, tickets = [], pb.SessionTickets()
        for each in request.submissions:
            index = truth.admit(each)
            self.under_way.discard(each.number)
            if each.want == pb.WANT_TICKET:
                tickets.numbers.append(each.number)
                tickets.indexes.append(index)
            else:
                outcomes.append(truth.outcome(each.request_id, each.number))
        for wait in request.awaits:
            self.under_way.discard(wait.number)
            outcomes.append(truth.outcome(wait.request_id, wait.number))
        cancelled = []
        for names in request.cancels:
            self.under_way.discard(names.number)
            truth.cancelled += names.request_ids
            result = pb.CancelResult(state=pb.CANCEL_STATE_CANCELLED)
            results = [result] * len(names.request_ids)
            cancelled.append(pb.SessionCancelled(number=names.number, results=results))
        acknowledged = []
        for names in request.acknowledgements:
            self.under_way.discard(names.number)
            truth.acknowledged += names.request_ids
            acknowledged.append(pb.SessionAcknowledged(number=names.number))
        await self.say(
            outcomes=outcomes, tickets=tickets, cancelled=cancelled, acknowledged=acknowledged
        )


class FakeNode(GatewayServicer):
    """A node.

    Args:
        truth: what it knows.
        name: its id.

    Attributes:
        address: where it listens, once it does.
        leader: whom it calls the leader; None: itself; empty: nobody.
        hook: takes messages in before it does.
        messages: all that came, in their order.
        sessions: all that were opened.
        is_silent: it says nothing, not even who it is.
        refusal: why it lets nobody in; empty: it does.
        in_flight_max: that it tells.
        others: nodes that it names, beside itself.
        came: set once there was a message.
        asked: set once it was asked for models.
        asked_for_nodes: how often.
        may_tell: it tells no models while this is not set.
    """

    def __init__(self, truth: Truth, name: str) -> None:
        self.truth = truth
        self.name = name
        self.address = ""
        self.leader: str | None = None
        self.hook: Hook | None = None
        self.messages: list[pb.SessionRequest] = []
        self.sessions: list[FakeSession] = []
        self.is_silent = False
        self.refusal = ""
        self.in_flight_max = 1000
        self.message_bytes_max = 1 << 24
        self.others: list[FakeNode] = []
        self.came = asyncio.Event()
        self.asked = asyncio.Event()
        self.asked_for_nodes = 0
        self.may_tell = asyncio.Event()
        self.may_tell.set()
        self.models = [model_pb2.Model(name="echo", version="1", max_batch_size=8)]
        self._never = asyncio.Event()

    async def Session(  # noqa: N802
        self, requests: AsyncIterator[pb.SessionRequest], context: Any
    ) -> None:
        """Take in messages."""
        if self.is_silent:
            await self._never.wait()
        if self.refusal:
            error = error_pb2.Error(slug="permission_denied", message=self.refusal, definite=True)
            trailer = ((TRAILER, error.SerializeToString()),)
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, self.refusal, trailer)
        session = FakeSession(self, context)
        self.sessions.append(session)
        opened = pb.Opened(
            node_id=self.name,
            leader=self.address if self.leader is None else self.leader,
            in_flight_max=self.in_flight_max,
            message_bytes_max=self.message_bytes_max,
        )
        await session.say(opened=opened)
        async for request in requests:
            self.messages.append(request)
            session.note(request)
            self.came.set()
            if self.hook is None or not await self.hook(session, request):
                await session.answer(request)

    async def Nodes(  # noqa: N802
        self, request: pb.NodesRequest, context: Any
    ) -> pb.NodesReply:
        """Name all nodes."""
        self.asked_for_nodes += 1
        if self.is_silent:
            await self._never.wait()
        nodes = [
            pb.NodeAddress(node_id=each.name, address=each.address) for each in (self, *self.others)
        ]
        leaders = [
            each
            for each in (self, *self.others)
            if each.address == (self.address if self.leader is None else self.leader)
        ]
        return pb.NodesReply(
            nodes=nodes, node_id=self.name, leader_id=leaders[0].name if leaders else ""
        )

    async def Models(  # noqa: N802
        self, request: pb.ModelsRequest, context: Any
    ) -> pb.ModelsReply:
        """Name the models, once it may."""
        self.asked.set()
        await self.may_tell.wait()
        found = [each for each in self.models if request.name in ("", each.name)]
        return pb.ModelsReply(models=found, index=1)


async def infer_all(client: AsyncClient, count: int, prefix: str = "id") -> None:
    """Run requests at once; each gets its own result."""
    calls = [
        client.infer("echo", Payload(b"%d" % n), request_id=f"{prefix}{n}") for n in range(count)
    ]
    results = await asyncio.gather(*calls)
    assert [each.payload for each in results] == [b"%d" % n for n in range(count)]
    assert [each.request_id for each in results] == [f"{prefix}{n}" for n in range(count)]


@asynccontextmanager
async def fakes(count: int) -> AsyncIterator[list[FakeNode]]:
    """Yield nodes that listen, and know each other; the first leads."""
    truth = Truth()
    nodes = [FakeNode(truth, f"n{n + 1}") for n in range(count)]
    async with AsyncExitStack() as stack:
        for node in nodes:
            server = grpc.aio.server()
            add_GatewayServicer_to_server(node, server)
            node.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
            await server.start()
            stack.push_async_callback(server.stop, None)
        for node in nodes:
            node.others = [each for each in nodes if each is not node]
            node.leader = nodes[0].address
        yield nodes


def play(test: Callable[[list[FakeNode]], Coroutine[Any, Any, None]], count: int = 1) -> None:
    """Run a test against nodes; whatever it leaves running is an error."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        complaints: list[dict[str, Any]] = []

        def complain(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            if "PollerCompletionQueue" not in repr(context.get("handle")):
                complaints.append(context)  # and gRPC has not met a loop of an earlier test

        loop.set_exception_handler(complain)
        async with asyncio.timeout(LIMIT_S), fakes(count) as nodes:
            before = asyncio.all_tasks()
            await test(nodes)
            left = [
                task
                for task in asyncio.all_tasks() - before
                if "raftbatch/client" in repr(task.get_coro()) or "_search" in repr(task)
            ]
            assert left == []
        assert not complaints, repr(complaints)

    asyncio.run(main())
