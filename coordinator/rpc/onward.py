"""A stream to the node that leads: what this node hands on goes there, many requests in a message.

It is a Session like a client's, and what is sent on it never asks to be handed on: so
nothing is, twice. What lives here: gRPC, opening and closing. What must never live here:
what is said, or what an answer means (`forwarding`). Called by: `forwarding`. Tasks: one
that writes, while the stream is followed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import grpc
import grpc.aio

from raftbatch.channels import SESSION_OPTIONS, open_channel
from raftbatch.errors import NoLeader, OutcomeUnknown, RaftbatchError
from raftbatch.trailers import of_call
from raftbatch.v1 import gateway_pb2 as pb

OPEN_S = 2.0
"""No node takes so long to say who it is: it is gone, or stands still."""

_SESSION = "/raftbatch.v1.Gateway/Session"  # its requests are bytes already


class Stream:
    """See the module's docstring. Made by `open_stream`.

    Args:
        address: of the node.
        channel: to it, which ends with the stream.
        call: the stream.
        opened: what the node said of itself.
    """

    def __init__(
        self, address: str, channel: grpc.aio.Channel, call: Any, opened: pb.Opened
    ) -> None:
        self.opened = opened
        self._address = address
        self._channel = channel
        self._call = call
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """Let `write` ask for what is to be said."""
        self._wake.set()

    async def read(self, heard: Callable[[pb.SessionReply], None]) -> RaftbatchError:
        """Tell what the node says, to the stream's end; return why it ended."""
        try:
            while (reply := await self._call.read()) is not grpc.aio.EOF:
                heard(reply)
        except grpc.aio.AioRpcError as error:
            return of_call(self._address, error)
        return OutcomeUnknown(f"{self._address} has ended the stream")

    async def write(self, next_message: Callable[[], bytes | None]) -> None:
        """Say what there is to say, whenever there is something, to the stream's end.

        Args:
            next_message: returns the bytes of a SessionRequest; None: there is nothing now.
        """
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                while (message := next_message()) is not None:
                    await self._call.write(message)
                    del message  # its bytes are not kept while nothing is said
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            pass  # it is over: whoever reads hears why

    async def close(self) -> None:
        """End it."""
        await _close(self._channel, self._call)


async def open_stream(
    credentials: grpc.ChannelCredentials | None, address: str, node: str
) -> Stream:
    """Open a stream to a node. Nothing is asked of it yet.

    Args:
        credentials: this node's, where the cluster has certificates; else None.
        address: where clients reach the other.
        node: its name, which its certificate bears.

    Raises:
        RaftbatchError: it does not answer, or refuses; nothing was done.
    """
    channel = open_channel(address, credentials, node, SESSION_OPTIONS)
    session: Any = channel.stream_stream(_SESSION, None, pb.SessionReply.FromString)
    call = session()
    stream: Stream | None = None
    try:
        async with asyncio.timeout(OPEN_S):
            reply = await call.read()
        if reply is grpc.aio.EOF or not reply.HasField("opened"):
            raise NoLeader(f"{node} at {address} does not say who it is")
        stream = Stream(address, channel, call, reply.opened)
    except TimeoutError:
        raise NoLeader(f"{node} at {address} does not answer within {OPEN_S:g} s") from None
    except grpc.aio.AioRpcError as error:
        raise NoLeader(f"{node} leads, and refuses: {of_call(address, error).message}") from None
    finally:
        if stream is None:
            await _close(channel, call)
    return stream


async def _close(channel: grpc.aio.Channel, call: Any) -> None:
    call.cancel()
    await channel.close()
