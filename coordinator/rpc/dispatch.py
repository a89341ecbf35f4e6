"""The service Dispatch: what executors ask, and are told.

What lives here: messages into calls of `coordinator.api`, and back. What must never
live here: a decision, or the form of a feed (`pieces`). Called by: gRPC. One thread:
the loop's.

Source: proto/raftbatch/v1/dispatch.proto.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import grpc.aio

from coordinator.api import Report
from coordinator.core.watch import Holding
from coordinator.node import Node
from coordinator.rpc.asks import bounded
from coordinator.rpc.errors import abort, to_message
from coordinator.rpc.loads import load_of
from coordinator.rpc.pieces import PIECE_BYTES, pieces
from raftbatch import records as r
from raftbatch.codec import MODELS_MAX
from raftbatch.errors import Fatal, InvalidRequest, RaftbatchError
from raftbatch.kinds import LapseReason, OutcomeKind, Ran
from raftbatch.v1 import dispatch_pb2 as pb

T = TypeVar("T")
Context = grpc.aio.ServicerContext[Any, Any]

REPORTS_MAX = 1024
"""In one call."""


class DispatchService:
    """See the module's docstring; its methods are named as gRPC asks.

    Args:
        node: who is asked.
    """

    def __init__(self, node: Node) -> None:
        self._node = node

    async def Join(  # noqa: N802 - the name of the call, as are all below
        self, request: pb.JoinRequest, context: Context
    ) -> pb.JoinReply:
        """Begin a life of an executor."""

        async def join() -> pb.JoinReply:
            record = r.Join(
                request.executor,
                request.replaces,
                request.slots,
                _models(request.models),
                request.attributes,
            )
            incarnation = await self._node.api.join(record)
            return pb.JoinReply(
                incarnation=incarnation, lease_ms=self._node.config.scheduler.leader.lease_ms
            )

        return await self._answered(context, join)

    async def Ready(  # noqa: N802
        self, request: pb.ReadyRequest, context: Context
    ) -> pb.ReadyReply:
        """Name what an executor has ready."""

        async def ready() -> pb.ReadyReply:
            record = r.Ready(request.executor, request.incarnation, _models(request.models))
            await self._node.api.ready(record)
            return pb.ReadyReply()

        return await self._answered(context, ready)

    async def Tail(  # noqa: N802
        self, request: pb.TailRequest, context: Context
    ) -> None:
        """Tell an executor its feed, for as long as it listens."""

        async def tell() -> None:
            held = _slots(request.held, self._node.config.scheduler.feed.holdings_max)
            tail = await self._node.api.tail(
                request.executor, request.incarnation, held, request.seen_index
            )
            most = self._node.config.server.message_bytes_max
            piece_bytes = min(PIECE_BYTES, most // 2)  # with room for what the first says besides
            try:
                while True:
                    message = await tail.next()
                    for piece in pieces(message, piece_bytes):
                        await context.write(piece)
                    del message  # else its payloads would be held until there is another
            finally:
                tail.close()

        await self._answered(context, tell)

    async def Report(  # noqa: N802
        self, request: pb.ReportRequest, context: Context
    ) -> pb.ReportReply:
        """Take in what an executor reports."""

        async def report() -> pb.ReportReply:
            bounded(request.reports, REPORTS_MAX, "reports")
            reporting = [asyncio.ensure_future(self._report(each)) for each in request.reports]
            try:
                return pb.ReportReply(results=[await each for each in reporting])
            finally:
                for each in reporting:
                    each.cancel()

        return await self._answered(context, report)

    async def Heartbeat(  # noqa: N802
        self, request: pb.HeartbeatRequest, context: Context
    ) -> pb.HeartbeatReply:
        """Hear that an executor lives."""

        async def heartbeat() -> pb.HeartbeatReply:
            most = self._node.config.scheduler.feed.holdings_max
            holdings = _holdings(request.holdings, most)
            load = load_of(request.load) if request.HasField("load") else None
            self._node.api.heartbeat(
                request.executor, request.incarnation, request.tailed_index, holdings, load
            )
            return pb.HeartbeatReply()

        return await self._answered(context, heartbeat)

    async def Drain(  # noqa: N802
        self, request: pb.DrainRequest, context: Context
    ) -> pb.DrainReply:
        """Let an executor get nothing new, or something again."""

        async def drain() -> pb.DrainReply:
            await self._node.api.drain(r.Drain(request.executor, request.incarnation, request.on))
            return pb.DrainReply()

        return await self._answered(context, drain)

    async def Leave(  # noqa: N802
        self, request: pb.LeaveRequest, context: Context
    ) -> pb.LeaveReply:
        """End an executor's life by its own will."""

        async def leave() -> pb.LeaveReply:
            record = r.Leave(request.executor, request.incarnation, False, tuple(request.running))
            await self._node.api.leave(record)
            return pb.LeaveReply()

        return await self._answered(context, leave)

    async def _report(self, message: pb.Report) -> pb.ReportResult:
        try:
            await self._node.api.report(_record(message))
        except (RaftbatchError, Fatal) as error:
            return pb.ReportResult(error=to_message(error, self._node.client_address))
        return pb.ReportResult()

    async def _answered(self, context: Context, call: Callable[[], Awaitable[T]]) -> T:
        """Return what a call returns, or end the gRPC call with its error."""
        try:
            return await call()
        except (RaftbatchError, Fatal) as error:
            await abort(context, error, self._node.client_address)


def _slots(held: Sequence[pb.Slot], most: int) -> list[tuple[int, int]]:
    bounded(held, most, "assignments are held")
    return [(each.batch, each.fence) for each in held]


def _holdings(holdings: Sequence[pb.Holding], most: int) -> list[Holding]:
    bounded(holdings, most, "assignments are held")
    return [Holding(each.batch, each.fence, each.running) for each in holdings]


def _models(models: Sequence[pb.ModelVersion]) -> tuple[tuple[str, str], ...]:
    bounded(models, MODELS_MAX, "model versions")
    return tuple([(each.name, each.version) for each in models])


def _record(message: pb.Report) -> Report:
    """Return what is reported as a record; what it may hold is the api's to check."""
    match message.WhichOneof("report"):
        case "complete":
            return _complete(message.complete)
        case "lapse":
            lapse = message.lapse
            if lapse.reason not in _REASONS or lapse.ran not in _RAN:
                raise InvalidRequest("a lapse for no reason that is known")
            return r.Lapse(
                lapse.batch,
                lapse.attempt,
                lapse.fence,
                _REASONS[lapse.reason],
                _RAN[lapse.ran],
                lapse.stopped,
                lapse.code,
                lapse.message,
            )
        case "free":
            free = message.free
            return r.Free(
                free.executor,
                free.incarnation,
                tuple([each.batch for each in free.slots]),
                tuple([each.fence for each in free.slots]),
            )
        case "probe":
            probe = message.probe
            return r.Probe(probe.executor, probe.incarnation, probe.succeeded)
        case _:
            raise InvalidRequest("a report of nothing, or of a kind that is not known")


def _complete(message: pb.Complete) -> r.Complete:
    numbers = tuple(message.numbers)
    count = len(numbers)
    if len(message.results) != count:
        raise InvalidRequest(f"{len(message.results)} results for {count} requests")
    kinds, codes, said = [int(OutcomeKind.OK)] * count, [""] * count, [""] * count
    if message.failures:
        places = {number: place for place, number in enumerate(numbers)}
        for failure in message.failures:
            place = places.get(failure.number)
            if place is None:
                raise InvalidRequest(f"request {failure.number} failed, and is not reported")
            kinds[place] = int(OutcomeKind.FAILED)
            codes[place], said[place] = failure.code, failure.message
    return r.Complete(
        message.batch,
        message.attempt,
        message.fence,
        message.executor,
        message.incarnation,
        message.last,
        message.queue_ns,
        message.compute_input_ns,
        message.infer_ns,
        message.output_ns,
        tuple(message.padded),
        message.fingerprint,
        numbers,
        tuple(kinds),
        tuple(codes),
        tuple(said),
        tuple(message.results),
    )


_REASONS = {int(each): each for each in LapseReason}
_RAN = {int(each): each for each in Ran}
