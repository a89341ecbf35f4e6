"""A scripted executor, and calls that follow the leader: as little as a test of the nodes needs.

What lives here: an executor that answers with its input, over the real protocol, and running a
test against nodes. What must never live here: what a test expects. Called by: end-to-end tests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import cycle
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import grpc
import grpc.aio

from raftbatch.trailers import Said, said_by
from raftbatch.v1 import dispatch_pb2
from raftbatch.v1.dispatch_pb2_grpc import DispatchStub
from tests.e2e.cluster import ServedCluster
from tests.e2e.processes import LIMIT_S

T = TypeVar("T")

CALL_S = 5.0
"""No answer takes so long: whoever is asked is gone."""

_BEAT_S = 0.3
_PAUSE_S = 0.05  # before the next node is asked, where nobody knows who leads


class Cluster:
    """Channels to all nodes of a cluster, and who is believed to lead it.

    Args:
        addresses: of the nodes' client ports, by name.
    """

    def __init__(self, addresses: Mapping[str, str]) -> None:
        self._channels = {each: grpc.aio.insecure_channel(each) for each in addresses.values()}
        self._order: Iterator[str] = cycle(addresses.values())
        self._leader = next(self._order)
        self._never = asyncio.Event()

    async def close(self) -> None:
        """Close all channels."""
        for channel in self._channels.values():
            await channel.close()

    def channel(self, address: str) -> grpc.aio.Channel:
        """Return the channel to an address."""
        return self._channels[address]

    def next_channel(self) -> grpc.aio.Channel:
        """Return the channel to one node after another."""
        return self._channels[next(self._order)]

    async def ask(self, call: Callable[[grpc.aio.Channel], Awaitable[T]]) -> T:
        """Return what the leader says, whoever that becomes.

        Raises:
            grpc.aio.AioRpcError: an error for which no other node is the answer.
        """
        while True:
            try:
                return await call(self._channels[self._leader])
            except grpc.aio.AioRpcError as error:
                said = error_of(error)
                if said is not None and said.slug not in ELSEWHERE:
                    raise
            await self.turn_to(said.leader if said is not None else "")

    async def turn_to(self, leader: str) -> None:
        """Ask that node from now on; where none is named, the next."""
        self._leader = leader or next(self._order)
        if not leader:
            await self.pause(_PAUSE_S)

    async def pause(self, pause_s: float) -> None:
        """Let others do something meanwhile."""
        try:
            await asyncio.wait_for(self._never.wait(), pause_s)
        except TimeoutError:
            pass


ELSEWHERE = ("not_leader", "no_leader", "draining", "outcome_unknown")


def error_of(error: grpc.aio.AioRpcError) -> Said | None:
    """Return what is in the trailer; None: the call broke."""
    return said_by(error.trailing_metadata())


class EchoExecutor:
    """See the module's docstring.

    Args:
        cluster: whose executor it is.
        name: its id.
        models: that it has ready, in version 1.
        slots: batches that it can hold.

    Attributes:
        may_report: it reports nothing while this is not set.
        started: set once it was given a batch.
        batches: that it was given, and how many requests each had.
    """

    def __init__(
        self,
        cluster: Cluster,
        name: str = "x1",
        models: Iterable[str] = ("echo",),
        slots: int = 2,
    ) -> None:
        self.may_report = asyncio.Event()
        self.may_report.set()
        self.started = asyncio.Event()
        self.batches: dict[tuple[int, int], int] = {}
        self._cluster = cluster
        self._name = name
        self._models = [dispatch_pb2.ModelVersion(name=each, version="1") for each in models]
        self._slots = slots
        self._incarnation = 0
        self._seen_index = 0
        self._held: dict[tuple[int, int], dispatch_pb2.Assignment] = {}
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        """Join, and begin to work."""
        request = dispatch_pb2.JoinRequest(
            executor=self._name, slots=self._slots, models=self._models
        )
        reply = await self._cluster.ask(
            lambda channel: DispatchStub(channel).Join(request, timeout=CALL_S)
        )
        self._incarnation = reply.incarnation
        self._start(self._tail())
        self._start(self._beat())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop, without a word."""
        for task in self._tasks:
            task.cancel()
        for result in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(result, Exception):
                raise result

    def _start(self, call: Any) -> None:
        self._tasks.append(asyncio.ensure_future(call))

    async def leave(self) -> None:
        """Say that it goes: nothing is given to it from now on."""
        for task in self._tasks[:2]:  # tail and beat, which would hear that it is over
            task.cancel()
        request = dispatch_pb2.LeaveRequest(executor=self._name, incarnation=self._incarnation)
        await self._cluster.ask(
            lambda channel: DispatchStub(channel).Leave(request, timeout=CALL_S)
        )

    async def _tail(self) -> None:
        """Follow the feed, from one node after another."""
        while True:
            held = [dispatch_pb2.Slot(batch=batch, fence=fence) for batch, fence in self._held]
            request = dispatch_pb2.TailRequest(
                executor=self._name,
                incarnation=self._incarnation,
                held=held,
                seen_index=self._seen_index,
            )
            try:
                message = dispatch_pb2.FeedMessage()
                async for piece in DispatchStub(self._cluster.next_channel()).Tail(request):
                    message.MergeFrom(piece)
                    if not piece.more:
                        self._take(message)
                        message = dispatch_pb2.FeedMessage()
            except grpc.aio.AioRpcError as error:
                said = error_of(error)
                if said is not None and said.slug not in ELSEWHERE:
                    raise
            await self._cluster.pause(_PAUSE_S)

    def _take(self, message: dispatch_pb2.FeedMessage) -> None:
        is_first = message.HasField("current")
        found = message.current if is_first else message.changes
        self._seen_index = found.index
        for slot in message.changes.finished:
            self._held.pop((slot.batch, slot.fence), None)
        gone = [(each.batch, each.fence) for each in message.current.drop]
        gone += [(each.batch, each.fence) for each in message.changes.stop]
        if gone:
            for key in gone:
                self._held.pop(key, None)
            slots = [dispatch_pb2.Slot(batch=batch, fence=fence) for batch, fence in gone]
            free = dispatch_pb2.Free(
                executor=self._name, incarnation=self._incarnation, slots=slots
            )
            self._start(self._report(dispatch_pb2.Report(free=free)))
        for assignment in found.start:
            key = (assignment.batch, assignment.fence)
            self._held[key] = assignment
            self.batches[key] = len(assignment.numbers)
            self._start(self._run(assignment))
        if found.start:
            self.started.set()

    @property
    def held(self) -> list[dispatch_pb2.Assignment]:
        """What it was given, and has not heard the end of."""
        return list(self._held.values())

    def report_of(self, assignment: dispatch_pb2.Assignment) -> dispatch_pb2.Complete:
        """Return what it reports of a batch."""
        return dispatch_pb2.Complete(
            batch=assignment.batch,
            attempt=assignment.attempt,
            fence=assignment.fence,
            executor=self._name,
            incarnation=self._incarnation,
            last=True,
            numbers=assignment.numbers,
            results=assignment.payloads,
        )

    async def _run(self, assignment: dispatch_pb2.Assignment) -> None:
        await self.may_report.wait()
        await self._report(dispatch_pb2.Report(complete=self.report_of(assignment)))

    async def _report(self, report: dispatch_pb2.Report) -> None:
        """Report until it is answered definitely."""
        request = dispatch_pb2.ReportRequest(reports=[report])

        async def once(channel: grpc.aio.Channel) -> dispatch_pb2.ReportResult:
            reply = await DispatchStub(channel).Report(request, timeout=CALL_S)
            [result] = reply.results
            found: dispatch_pb2.ReportResult = result
            return found

        while True:
            result = await self._cluster.ask(once)
            if not result.HasField("error") or result.error.slug not in ELSEWHERE:
                return
            await self._cluster.turn_to(result.error.leader)

    async def _beat(self) -> None:
        while True:
            holdings = [
                dispatch_pb2.Holding(batch=batch, fence=fence, running=True)
                for batch, fence in self._held
            ]
            request = dispatch_pb2.HeartbeatRequest(
                executor=self._name,
                incarnation=self._incarnation,
                tailed_index=self._seen_index,
                holdings=holdings,
            )
            await self._cluster.ask(partial(_heartbeat, request))
            await self._cluster.pause(_BEAT_S)


async def _heartbeat(request: dispatch_pb2.HeartbeatRequest, channel: grpc.aio.Channel) -> None:
    await DispatchStub(channel).Heartbeat(request, timeout=CALL_S)


Test = Callable[[ServedCluster, Cluster], Coroutine[Any, Any, None]]


def run_served(folder: Path, test: Test, models: str, nodes: Sequence[str]) -> None:
    """Run a test against nodes that serve these models; none may have met a bug of a leader."""
    with ServedCluster(folder, nodes, models, replica="scheduler") as served:
        served.start_all("--bootstrap")
        served.leader()

        async def main() -> None:
            cluster = Cluster(served.clients)
            try:
                async with asyncio.timeout(2 * LIMIT_S):
                    await test(served, cluster)
            finally:
                await cluster.close()

        asyncio.run(main())
        for node, status in served.statuses().items():
            for bug in ("leader_stale_total", "leader_voids_total", "leader_rejected_total"):
                assert status.counters[bug] == 0, (node, bug)
