"""The service Gateway: what clients ask for, one call at a time.

What lives here: messages into calls of `coordinator.api`, and back. What must never
live here: a decision, or the stream (`session`). Called by: gRPC. One thread: the loop's.

Source: proto/raftbatch/v1/gateway.proto.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, TypeVar

import grpc.aio

from coordinator.answers import Ticket, Waiting
from coordinator.api import ApiConfig
from coordinator.core.effects import Verdict
from coordinator.core.values import Outcome
from coordinator.node import Node
from coordinator.refusing import told_leader
from coordinator.rpc import values
from coordinator.rpc.asks import ASKS_MAX, bounded
from coordinator.rpc.callers import note, open_calls, open_sessions
from coordinator.rpc.errors import abort, to_message
from coordinator.rpc.forwarding import Forwarder
from coordinator.rpc.given_up import GivenUp
from coordinator.rpc.listing import models_page
from coordinator.rpc.session import Session
from coordinator.submission import Submission
from raftbatch.errors import Fatal, RaftbatchError
from raftbatch.v1 import gateway_pb2 as pb

T = TypeVar("T")
Context = grpc.aio.ServicerContext[Any, Any]

_ANSWER_S = 0.05  # before a call's end: an answer that says what is not known comes in time


class GatewayService:
    """See the module's docstring; its methods are named as gRPC asks.

    Args:
        node: who is asked.
        forwarder: hands on what clients wish to be handed on.
    """

    def __init__(self, node: Node, forwarder: Forwarder) -> None:
        self._node = node
        self._forwarder = forwarder
        self._sessions = open_sessions(node.config.sessions)
        self._given_up = GivenUp(node, forwarder)
        self._calls = open_calls(node.config.server)
        self._api_config: ApiConfig = node.config.scheduler.api

    async def Submit(  # noqa: N802 - the name of the call, as are all below
        self, request: pb.SubmitRequest, context: Context
    ) -> pb.SubmitReply:
        """Take requests in."""

        async def submit() -> pb.SubmitReply:
            answers = await self._submit(
                request.tenant, request.submissions, request.forward, context
            )
            return pb.SubmitReply(results=[self._submitted(each) for each in answers])

        return await self._answered(context, submit)

    async def Await(  # noqa: N802
        self, request: pb.AwaitRequest, context: Context
    ) -> pb.AwaitReply:
        """Wait for what becomes of a request."""

        async def wait() -> pb.AwaitReply:
            tenant = request.tenant or values.DEFAULT_TENANT
            found = await self._node.api.outcome(
                tenant, request.request_id, index=request.index, timeout_ms=request.wait_ms
            )
            return _awaited(request.request_id, found)

        return await self._answered(context, wait)

    async def Infer(  # noqa: N802
        self, request: pb.InferRequest, context: Context
    ) -> pb.AwaitReply:
        """Take one request in, and wait for what becomes of it."""
        began = asyncio.get_running_loop().time()

        async def infer() -> pb.AwaitReply:
            api, tenant = self._node.api, request.tenant or values.DEFAULT_TENANT
            [answer] = await self._submit(tenant, [request.submission], request.forward, context)
            if isinstance(answer, RaftbatchError):
                raise answer
            try:
                await api.find(tenant, answer.request_id, answer.index)
                found = await api.outcome(
                    tenant,
                    answer.request_id,
                    index=answer.index,
                    timeout_ms=request.wait_ms or self._api_config.timeout_ms_max,
                )
            except RaftbatchError as error:
                raise values.admitted_and_lost(error) from None
            return _awaited(answer.request_id, found)

        try:
            return await self._answered(context, infer)
        except asyncio.CancelledError:
            name = (request.tenant or values.DEFAULT_TENANT, request.submission.request_id)
            self._given_up.ended(name, began, context.time_remaining())
            raise

    async def Cancel(  # noqa: N802
        self, request: pb.CancelRequest, context: Context
    ) -> pb.CancelReply:
        """Give requests the outcome `cancelled`."""
        address_of = self._node.client_address

        async def cancel() -> pb.CancelReply:
            answers: Sequence[Verdict | RaftbatchError]
            names = _names(request.tenant, request.request_ids)
            if self._forwarder.wants(request.forward):
                answers = await self._forwarder.cancel(names, _time_left_s(context))
            else:
                answers = await self._node.api.cancel(names)
            return pb.CancelReply(
                results=[values.cancel_result(each, address_of) for each in answers]
            )

        return await self._answered(context, cancel)

    async def Acknowledge(  # noqa: N802
        self, request: pb.AcknowledgeRequest, context: Context
    ) -> pb.AcknowledgeReply:
        """Let the bytes of outcomes go."""
        address_of = self._node.client_address

        async def acknowledge() -> pb.AcknowledgeReply:
            answers: Sequence[Verdict | RaftbatchError]
            names = _names(request.tenant, request.request_ids)
            if self._forwarder.wants(request.forward):
                answers = await self._forwarder.acknowledge(names, _time_left_s(context))
            else:
                answers = await self._node.api.acknowledge(names)
            return pb.AcknowledgeReply(
                results=[values.acknowledge_result(each, address_of) for each in answers]
            )

        return await self._answered(context, acknowledge)

    async def Session(  # noqa: N802
        self,
        requests: AsyncIterator[pb.SessionRequest],  # noqa: ARG002 - see `Session`
        context: Context,
    ) -> None:
        """Serve one stream to its end."""
        limits, who = self._node.config.sessions, note(context)
        try:
            api = self._node.api
            self._sessions.begin(who)
        except RaftbatchError as error:
            await abort(context, error, self._node.client_address)
        session = Session(self._node, api, self._forwarder, limits)
        try:
            await session.serve(context)
            return
        except (RaftbatchError, Fatal) as error:
            failure = error
        finally:
            self._sessions.end(who)
            session.end()
        # Whoever reads nothing does not read this either, and would hold the session open.
        await abort(context, failure, self._node.client_address)

    async def Nodes(  # noqa: N802
        self, _request: pb.NodesRequest, _context: Context
    ) -> pb.NodesReply:
        """Say who the nodes are, and where; in every phase of this one's life."""
        node = self._node
        return pb.NodesReply(
            nodes=[
                pb.NodeAddress(node_id=name, address=address)
                for name, address in node.client_addresses().items()
            ],
            node_id=node.config.node_id,
            leader_id=told_leader(node.log),
        )

    async def Models(  # noqa: N802
        self, request: pb.ModelsRequest, context: Context
    ) -> pb.ModelsReply:
        """Say which model versions there are."""

        async def models() -> pb.ModelsReply:
            after = request.after_name, request.after_version
            found = [
                each
                for each in self._node.models(request.name)
                if (each[0].name, each[0].version) > after
            ]
            most = self._node.config.server.message_bytes_max
            return models_page(found, self._node.replica.index, most)

        return await self._answered(context, models)

    async def _submit(
        self, tenant: str, messages: Sequence[pb.Submission], forward: bool, context: Context
    ) -> list[Ticket | RaftbatchError]:
        """Have requests taken in, here or by whoever leads."""
        if self._forwarder.wants(forward):
            bounded(messages, ASKS_MAX, "requests")
            items = self._forwarder.prepared(tenant or values.DEFAULT_TENANT, messages)
            return await self._forwarder.submit(items, _time_left_s(context))
        return await self._node.api.submit(_submissions(tenant, messages))

    def _submitted(self, answer: Ticket | RaftbatchError) -> pb.SubmitResult:
        if isinstance(answer, RaftbatchError):
            return pb.SubmitResult(error=to_message(answer, self._node.client_address))
        return pb.SubmitResult(ticket=_ticket(answer))

    async def _answered(self, context: Context, call: Callable[[], Awaitable[T]]) -> T:
        """Return what a call returns, or end the gRPC call with its error."""
        who = note(context)
        try:
            self._calls.begin(who)
            try:
                return await call()
            finally:
                self._calls.end(who)
        except (RaftbatchError, Fatal) as error:
            await abort(context, error, self._node.client_address)


def _time_left_s(context: Context) -> float | None:
    """Return how long the client waits yet, but for what the answer takes; None: it did not say."""
    left_s: float | None = context.time_remaining()
    return None if left_s is None else left_s - _ANSWER_S


def _submissions(tenant: str, messages: Sequence[pb.Submission]) -> list[Submission]:
    bounded(messages, ASKS_MAX, "requests")
    return [values.submission(tenant, each) for each in messages]


def _names(tenant: str, request_ids: Sequence[str]) -> list[tuple[str, str]]:
    bounded(request_ids, ASKS_MAX, "ids")
    whose = tenant or values.DEFAULT_TENANT
    return [(whose, request_id) for request_id in request_ids]


def _ticket(ticket: Ticket) -> pb.Ticket:
    return pb.Ticket(request_id=ticket.request_id, index=ticket.index)


def _awaited(request_id: str, found: Outcome | Waiting) -> pb.AwaitReply:
    if isinstance(found, Waiting):
        return pb.AwaitReply(ticket=_ticket(found.ticket))
    return pb.AwaitReply(
        ticket=pb.Ticket(request_id=request_id, index=found.ticket),
        outcome=values.outcome_message(found, values.run_message(found.run)),
    )
