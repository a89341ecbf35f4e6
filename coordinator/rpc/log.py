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
from google.protobuf.message import DecodeError

from coordinator.config import ServerLimits
from coordinator.node import Node, Phase
from coordinator.rpc import legible
from coordinator.rpc.errors import abort, to_message
from raftbatch.errors import Draining, Fatal, InvalidRequest, Overloaded, RaftbatchError
from raftbatch.v1 import log_pb2

Context = grpc.aio.ServicerContext[log_pb2.AppendRequest, log_pb2.AppendReply]

ENTRIES_MAX = 10_000
"""In one message."""

_ENTRIES_A_TURN = 200  # of some ten microseconds each, while peers wait for their turn
_ENTRY_BYTES = 1024  # what an entry costs here beside its data
_REPLY_RESULTS_MAX = 1000  # with errors of some hundred bytes each a reply stays small
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
        self,
        requests: AsyncIterator[log_pb2.AppendRequest],  # noqa: ARG002 - see `_read`
        context: Context,
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
            await stream.serve(context)
        finally:
            self._streams -= 1
            stream.end()


def _result(reading: asyncio.Future[None]) -> None:
    """Raise what broke a stream, if anything did."""
    try:
        reading.result()
    except DecodeError as error:
        raise InvalidRequest(f"a message that cannot be read: {error}") from None


class _Stream:
    """One client's stream: what it has under way, and the results that have not left.

    An entry counts against the bound from when it is read until its result is
    handed over: so a client that sends and does not read is stopped too.

    Args:
        node: whose log it is.
        bytes_max: the bound.
    """

    def __init__(self, node: Node, bytes_max: int) -> None:
        self._node = node
        self._bytes_max = bytes_max
        self._results: list[tuple[log_pb2.AppendResult, int]] = []  # each with what it counts
        self._entries, self._bytes = 0, 0
        self._changed = asyncio.Event()  # there is something to write, or an end to see
        self._has_room = asyncio.Event()
        self._has_room.set()
        node.on_stopping.append(self._changed.set)

    async def serve(self, context: Context) -> None:
        """Read and write until the client has ended, or the node stops."""
        reading = asyncio.ensure_future(self._read(context))
        reading.add_done_callback(lambda _: self._changed.set())
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                while self._results:
                    await self._write(context)
                is_stopping = self._node.phase is Phase.STOPPING
                if self._entries == 0 and not self._results and (reading.done() or is_stopping):
                    break
        finally:
            is_read = reading.done()
            reading.cancel()
        try:
            if is_read:
                _result(reading)
                return
            raise Draining(f"{self._node.config.node_id} stops", retry_after_ms=_RETRY_MS)
        except RaftbatchError as error:
            await abort(context, error, self._node.client_address)

    def end(self) -> None:
        """Wait for nothing any more; what was proposed goes its way."""
        self._node.on_stopping.remove(self._changed.set)
        self._results.clear()

    async def _read(self, context: Context) -> None:
        """Take in requests while there is room, and let others have their turns between."""
        while True:
            # gRPC's iterator would hold on to the last message for as long as the stream idles.
            request: object = await context.read()
            legible.check(request)
            if not isinstance(request, log_pb2.AppendRequest):
                return
            await self._take_all(request)
            del request
            await self._has_room.wait()

    async def _take_all(self, request: log_pb2.AppendRequest) -> None:
        if len(request.entries) > ENTRIES_MAX:
            raise InvalidRequest(
                f"a message of {len(request.entries)} entries: at most {ENTRIES_MAX}"
            )
        for count, entry in enumerate(request.entries, start=1):
            self._take(entry.number, entry.data)
            if count % _ENTRIES_A_TURN == 0:
                await asyncio.sleep(0)

    def _take(self, number: int, data: bytes) -> None:
        size = len(data) + _ENTRY_BYTES
        self._bytes += size
        if self._bytes >= self._bytes_max:
            self._has_room.clear()
        try:
            proposal = self._node.append(data)
        except (RaftbatchError, Fatal) as error:
            self._failed(number, size, error)
            return
        self._entries += 1

        def resolved(error: BaseException | None) -> None:
            self._entries -= 1
            if error is None:
                result = log_pb2.AppendResult(number=number, index=proposal.index)
                self._answer(result, size)
            else:
                self._failed(number, size, error)

        proposal.when_resolved(resolved)

    def _failed(self, number: int, size: int, error: BaseException) -> None:
        message = to_message(error, self._node.client_address)
        self._answer(log_pb2.AppendResult(number=number, error=message), size)

    def _answer(self, result: log_pb2.AppendResult, size: int) -> None:
        self._results.append((result, size))
        self._changed.set()

    async def _write(self, context: Context) -> None:
        """Hand results over; returns when the client has room for more."""
        some = self._results[:_REPLY_RESULTS_MAX]
        del self._results[:_REPLY_RESULTS_MAX]
        await context.write(log_pb2.AppendReply(results=[result for result, _ in some]))
        self._bytes -= sum(size for _, size in some)
        if self._bytes < self._bytes_max:
            self._has_room.set()
