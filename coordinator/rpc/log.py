"""The service Log: entries in, results out, many at a time.

Each stream has a bound on the data that is under way; beyond it nothing more is
read, and the flow control of HTTP/2 slows the client down. Results leave together:
all that are known when the one before has been handed over.

What lives here: streams. What must never live here: the log. Called by: gRPC. One
thread: the loop's. Tasks: one that writes, which gRPC runs, and one that reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import grpc.aio

from coordinator.config import ServerLimits
from coordinator.node import Node, Phase
from coordinator.rpc.errors import abort, to_message
from raftbatch.errors import Draining, Fatal, Overloaded, RaftbatchError
from raftbatch.v1 import log_pb2

Context = grpc.aio.ServicerContext[log_pb2.AppendRequest, log_pb2.AppendReply]

_REPLY_RESULTS_MAX = 10_000  # of some tens of bytes each, errors apart
_RETRY_MS = 100


class LogService:
    """See the module's docstring; its methods are named as gRPC asks.

    Args:
        node: whose log it is.
        limits: bounds of streams.
    """

    def __init__(self, node: Node, limits: ServerLimits) -> None:
        self._node = node
        self._limits = limits
        self._streams = 0

    async def Append(  # noqa: N802 - the name of the call
        self, requests: AsyncIterator[log_pb2.AppendRequest], context: Context
    ) -> None:
        """Serve one stream to its end."""
        if self._streams >= self._limits.streams_max:
            error = Overloaded(
                f"{self._streams} streams are open: use one of them for many entries",
                retry_after_ms=_RETRY_MS,
            )
            await abort(context, error, self._node.client_address)
        self._streams += 1
        stream = _Stream(self._node, self._limits.stream_bytes_max)
        try:
            await stream.serve(requests, context)
        finally:
            self._streams -= 1
            stream.end()


class _Stream:
    """One client's stream.

    Attributes:
        results: not written yet.
        under_way: entries without a result, and their bytes.
    """

    def __init__(self, node: Node, bytes_max: int) -> None:
        self._node = node
        self._bytes_max = bytes_max
        self._results: list[log_pb2.AppendResult] = []
        self._entries, self._bytes = 0, 0
        self._changed = asyncio.Event()  # there is something to write, or an end to see
        self._has_room = asyncio.Event()
        self._has_room.set()
        node.on_stopping.append(self._changed.set)

    async def serve(self, requests: AsyncIterator[log_pb2.AppendRequest], context: Context) -> None:
        """Read and write until the client has ended, or the node stops."""
        reading = asyncio.ensure_future(self._read(requests))
        reading.add_done_callback(lambda _: self._changed.set())
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                while self._results:
                    some = self._results[:_REPLY_RESULTS_MAX]
                    del self._results[:_REPLY_RESULTS_MAX]
                    await context.write(log_pb2.AppendReply(results=some))
                is_stopping = self._node.phase is Phase.STOPPING
                if self._entries == 0 and not self._results and (reading.done() or is_stopping):
                    break
        finally:
            reading.cancel()
        if reading.done() and not reading.cancelled() and (failed := reading.exception()):
            raise failed
        if self._node.phase is Phase.STOPPING:
            error = Draining(f"{self._node.config.node_id} stops", retry_after_ms=_RETRY_MS)
            await abort(context, error, self._node.client_address)

    def end(self) -> None:
        """Wait for nothing any more; what was proposed goes its way."""
        self._node.on_stopping.remove(self._changed.set)
        self._results.clear()

    async def _read(self, requests: AsyncIterator[log_pb2.AppendRequest]) -> None:
        """Take in requests while there is room."""
        async for request in requests:
            for entry in request.entries:
                self._take(entry.number, entry.data)
            await self._has_room.wait()

    def _take(self, number: int, data: bytes) -> None:
        try:
            proposal = self._node.append(data)
        except (RaftbatchError, Fatal) as error:
            self._failed(number, error)
            return
        size = len(data)
        self._entries += 1
        self._bytes += size
        if self._bytes >= self._bytes_max:
            self._has_room.clear()

        def resolved(error: BaseException | None) -> None:
            self._entries -= 1
            self._bytes -= size
            if self._bytes < self._bytes_max:
                self._has_room.set()
            if error is None:
                self._results.append(log_pb2.AppendResult(number=number, index=proposal.index))
                self._changed.set()
            else:
                self._failed(number, error)

        proposal.when_resolved(resolved)

    def _failed(self, number: int, error: BaseException) -> None:
        message = to_message(error, self._node.client_address)
        self._results.append(log_pb2.AppendResult(number=number, error=message))
        self._changed.set()
