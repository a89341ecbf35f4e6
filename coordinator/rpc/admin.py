"""The service Admin: what operators ask of a node, and change in the cluster.

What lives here: messages into calls of `coordinator.node`, and back. What must
never live here: a decision. Called by: gRPC. One thread: the loop's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any, TypeVar

import grpc.aio

from coordinator.api import Standing
from coordinator.node import MemberState, Node
from coordinator.overview import Overview
from coordinator.raft.membership import Rank
from coordinator.rpc.entries import Reading, draining
from coordinator.rpc.errors import abort
from coordinator.rpc.listing import shorten, shorten_status
from coordinator.rpc.loads import load_message
from raftbatch.errors import Fatal, InvalidRequest, RaftbatchError
from raftbatch.ids import NodeId, is_node_id
from raftbatch.v1 import admin_pb2

T = TypeVar("T")
Context = grpc.aio.ServicerContext[Any, Any]


class AdminService:
    """See the module's docstring; its methods are named as gRPC asks.

    Args:
        node: who is asked.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._reading = Reading(node)

    async def Status(  # noqa: N802 - the name of the call, as are all below
        self, _request: admin_pb2.StatusRequest, _context: Context
    ) -> admin_pb2.StatusReply:
        """Say how it stands."""
        state = self._node.state()
        reply = admin_pb2.StatusReply(
            node_id=state.node_id,
            cluster_name=state.cluster_name,
            phase=state.phase.value,
            waiting=[
                admin_pb2.Waiting(node_id=node, why=why) for node, why in state.waiting.items()
            ],
            cluster_id=state.identity.cluster_id if state.identity else "",
            incarnation=state.identity.incarnation if state.identity else 0,
            role=state.role,
            term=state.term,
            leader=state.leader,
            leader_address=state.leader_address,
            commit=state.commit,
            applied=state.applied,
            digest=state.digest,
            members=[_member(each) for each in state.members],
            peers=[
                admin_pb2.PeerStatus(
                    node_id=each.node_id,
                    address=each.address,
                    incarnation=each.incarnation,
                    queued_bytes=each.queued_bytes,
                    refusal=each.refusal.text if each.refusal else "",
                    differs=each.differs,
                )
                for each in state.peers
            ],
            space=state.space,
            counters=dict(state.counters),
            scheduler=_scheduler(state.standing, state.overview),
        )
        shorten_status(reply, self._node.config.server.message_bytes_max)
        return reply

    async def Members(  # noqa: N802
        self, _request: admin_pb2.MembersRequest, context: Context
    ) -> admin_pb2.MembersReply:
        """Say who belongs to the cluster."""

        async def members() -> admin_pb2.MembersReply:
            return admin_pb2.MembersReply(members=[_member(each) for each in self._node.members()])

        return await self._answered(context, members)

    async def Add(  # noqa: N802
        self, request: admin_pb2.AddRequest, context: Context
    ) -> admin_pb2.AddReply:
        """Add a node."""
        rank = Rank.LEARNER if request.stays_learner else Rank.JOINING

        async def add() -> admin_pb2.AddReply:
            member = await self._node.add(_node(request.node_id), request.address, rank)
            return admin_pb2.AddReply(incarnation=member.incarnation)

        return await self._answered(context, add)

    async def Promote(  # noqa: N802
        self, request: admin_pb2.PromoteRequest, context: Context
    ) -> admin_pb2.PromoteReply:
        """Let a learner vote."""

        async def promote() -> admin_pb2.PromoteReply:
            await self._node.promote(_node(request.node_id))
            return admin_pb2.PromoteReply()

        return await self._answered(context, promote)

    async def Remove(  # noqa: N802
        self, request: admin_pb2.RemoveRequest, context: Context
    ) -> admin_pb2.RemoveReply:
        """Remove a member."""

        async def remove() -> admin_pb2.RemoveReply:
            await self._node.remove(_node(request.node_id), is_forced=request.force)
            return admin_pb2.RemoveReply()

        return await self._answered(context, remove)

    async def Move(  # noqa: N802
        self, request: admin_pb2.MoveRequest, context: Context
    ) -> admin_pb2.MoveReply:
        """Note another address."""

        async def move() -> admin_pb2.MoveReply:
            await self._node.move(_node(request.node_id), request.address)
            return admin_pb2.MoveReply()

        return await self._answered(context, move)

    async def Transfer(  # noqa: N802
        self, request: admin_pb2.TransferRequest, context: Context
    ) -> admin_pb2.TransferReply:
        """Hand leadership over."""
        heir = request.node_id

        async def transfer() -> admin_pb2.TransferReply:
            found = await self._node.transfer(_node(heir) if heir else None)
            # A leader hands over to others alone.
            led_already = found == self._node.config.node_id
            return admin_pb2.TransferReply(node_id=found, led_already=led_already)

        return await self._answered(context, transfer)

    async def Entries(  # noqa: N802
        self, request: admin_pb2.EntriesRequest, context: Context
    ) -> None:
        """Let the log be read."""
        is_writing = False

        async def send() -> None:
            nonlocal is_writing
            async with aclosing(self._reading.replies(request)) as replies:
                async for reply in replies:
                    is_writing = True
                    await context.write(reply)
                    is_writing = False
                    if (stopping := draining(self._node)) is not None:
                        raise stopping

        sending = asyncio.ensure_future(send())

        def stop() -> None:
            # A message that is on its way goes first: no other word may overtake it. Where it is
            # not taken, the port's end is what the reader hears of.
            if not is_writing:
                sending.cancel()

        self._node.on_stopping.append(stop)
        failure: BaseException
        try:
            await sending
            return
        except asyncio.CancelledError:
            stopping = draining(self._node)
            if stopping is None or is_writing:  # the reader has gone
                raise
            failure = stopping
        except (RaftbatchError, Fatal) as error:
            failure = error
        finally:
            sending.cancel()
            self._node.on_stopping.remove(stop)
        await abort(context, failure, self._node.client_address)

    async def Request(  # noqa: N802
        self, request: admin_pb2.RequestRequest, context: Context
    ) -> admin_pb2.RequestReply:
        """Say what is known of a request."""

        async def known() -> admin_pb2.RequestReply:
            return self._reading.request(request)

        return await self._answered(context, known)

    async def Batch(  # noqa: N802
        self, request: admin_pb2.BatchRequest, context: Context
    ) -> admin_pb2.BatchReply:
        """Say what is known of a batch."""

        async def known() -> admin_pb2.BatchReply:
            reply = self._reading.batch(request)
            shorten(reply.members, reply, self._node.config.server.message_bytes_max)
            return reply

        return await self._answered(context, known)

    async def _answered(self, context: Context, call: Callable[[], Awaitable[T]]) -> T:
        """Return what a call returns, or end the gRPC call with its error."""
        try:
            return await call()
        except (RaftbatchError, Fatal) as error:
            await abort(context, error, self._node.client_address)


def _node(name: str) -> NodeId:
    if not is_node_id(name):
        raise InvalidRequest(f"{name!r} is no name of a node")
    return NodeId(name)


def _member(state: MemberState) -> admin_pb2.MemberStatus:
    member, progress = state.member, state.progress
    return admin_pb2.MemberStatus(
        node_id=member.node_id,
        incarnation=member.incarnation,
        address=member.address,
        client_address=state.client_address,
        rank=member.rank.name.lower(),
        progress=None
        if progress is None
        else admin_pb2.Progress(
            match=progress.match,
            feeding=progress.feeding.value,
            connected=progress.is_connected,
            in_flight_bytes=progress.in_flight_bytes,
        ),
    )


def _scheduler(
    standing: Standing | None, state: Overview | None
) -> admin_pb2.SchedulerStatus | None:
    if standing is None or state is None:
        return None
    return admin_pb2.SchedulerStatus(
        at_ms=standing.at_ms,
        requests=standing.requests,
        batches=standing.batches,
        outcomes=standing.outcomes,
        quarantined=standing.quarantined,
        windows_total=standing.windows,
        windows=[
            admin_pb2.WindowStatus(
                opened_ms=each.opened[0],
                first_index=each.opened[1],
                model=each.model[0],
                version=each.model[1],
                requests=each.requests,
                rows=each.rows,
            )
            for each in state.windows
        ],
        executors_total=standing.executors,
        executors=[
            admin_pb2.ExecutorStatus(
                executor=each.executor,
                incarnation=each.incarnation,
                slots=each.slots,
                held=each.held,
                draining=each.is_draining,
                suspended=each.is_suspended,
                load=None if each.load is None else load_message(each.load),
            )
            for each in state.executors
        ],
        models_total=standing.models,
        models=[
            admin_pb2.ModelStatus(
                name=each.model[0],
                version=each.model[1],
                requests=each.requests,
                executors=each.executors,
                deleting=each.is_deleting,
            )
            for each in state.models
        ],
    )
