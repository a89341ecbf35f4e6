"""One session with one node: a stream, what is owed on it, and the two tasks that it takes.

What lives here: gRPC, opening and closing. What must never live here: what is asked, or
what an answer means (`engine`). Called by: `engine`, `nodes`. Tasks: one reads, one writes;
both end with the link.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from functools import partial
from typing import Any, Protocol, TypeVar

import grpc
import grpc.aio

from raftbatch.channels import SESSION_OPTIONS, meant_for, open_channel
from raftbatch.client.asks import Ask, end_wait
from raftbatch.client.background import Control
from raftbatch.client.options import TLS
from raftbatch.errors import NoLeader, OutcomeUnknown, RaftbatchError
from raftbatch.trailers import of_call
from raftbatch.v1 import gateway_pb2 as pb
from raftbatch.v1.gateway_pb2_grpc import GatewayStub

T = TypeVar("T")

OPEN_S = 2.0
"""No node takes so long to say who it is: it is gone, or stands still."""

_SESSION = "/raftbatch.v1.Gateway/Session"  # its requests are bytes already
_LOOK_S = 0.25
_SILENT_LOOKS = 2  # a node that owes something, and was silent for so many, is asked if it is there
_DOUBT_S = 0.25  # far longer than that answer takes, were it well
_DROPPED_PART = 32  # of a message, in numbers of up to ten bytes: a third of it at most
_LEADERLESS_MAX = 4  # answers in succession without a leader: it is cut off, or all are


class Owner(Protocol):
    """Who decides what is said on links, and is told what is heard."""

    def next_message(self, link: Link) -> bytes | None:
        """Return what is to be said now, a SessionRequest's bytes; None: nothing."""
        ...

    def heard(self, link: Link, reply: pb.SessionReply) -> None:
        """Take in what a node says."""
        ...

    def lost(self, link: Link, error: RaftbatchError) -> None:
        """Take in that a link has ended, though something may be owed on it."""
        ...

    def doubted(self, link: Link) -> None:
        """Take in that a node is silent, or knows of no leader: others may know better."""
        ...

    def learned(self, reply: pb.NodesReply) -> None:
        """Take in who the nodes are."""
        ...

    def end_if_idle(self, link: Link) -> None:
        """End a link that owes nothing any more, if nothing is to be asked there."""
        ...


class Link:
    """See the module's docstring. Made by `open_link`.

    Args:
        owner: who is told.
        address: of the node.
        channel: to it, which ends with the link.
        call: the stream.
        opened: what the node said of itself.

    Attributes:
        asks: what is owed, by number.
        controls: the same, of what is said in the background.
        dropped: numbers whose answers are not wanted any more, and the node is to be told.
        woken: the owner is to be asked what is to be said: see `wake`.
        is_doubted: the node is silent, though it owes something, or knows of no leader.
    """

    def __init__(
        self, owner: Owner, address: str, channel: grpc.aio.Channel, call: Any, opened: pb.Opened
    ) -> None:
        self.address = address
        self.opened = opened
        self.asks: dict[int, Ask] = {}
        self.controls: dict[int, Control] = {}
        self.dropped: list[int] = []
        self._owner = owner
        self._channel = channel
        self._call = call
        self.woken = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._doubting: asyncio.TimerHandle | None = None
        self.is_doubted = False
        self._calls = 0  # beside the stream
        self._heard = 0  # messages
        self._leaderless = 0
        self._is_over = False

    @property
    def owes(self) -> bool:
        """Whether an answer is missing."""
        return bool(self.asks or self.controls or self._calls)

    @property
    def room(self) -> int:
        """How much more the node lets be under way."""
        most: int = self.opened.in_flight_max
        return most - len(self.asks) - len(self.controls)

    def start(self) -> None:
        """Begin to say what there is to say, and to hear."""
        for call in (self._read(), self._write(), self._probe()):
            self._start(call)
        self.wake()

    def wake(self) -> None:
        """Let the owner be asked what is to be said, in the loop's next turn."""
        self.woken.set()

    def drop(self, number: int) -> None:
        """Ask for that answer no more."""
        if self.asks.pop(number, None) is not None:
            self.dropped.append(number)
            self.woken.set()

    def take_dropped(self) -> list[int]:
        """Return what was dropped, as much as a message has room for; the rest is left."""
        if not self.dropped:
            return []
        most = max(1, self.opened.message_bytes_max // _DROPPED_PART)
        taken, self.dropped = self.dropped[:most], self.dropped[most:]
        return taken

    async def models(self, name: str) -> pb.ModelsReply:
        """Return the versions of a model, as far as the node knows.

        Raises:
            RaftbatchError: it does not answer.
        """
        self._calls += 1
        try:
            reply = await self._models(name, "", "")
            more = reply.more
            while more and reply.models:
                last = reply.models[-1]
                page = await self._models(name, last.name, last.version)
                reply.models.extend(page.models)
                more = page.more and (last.name, last.version) < _end_of(page)
            return reply
        finally:
            self._calls -= 1
            self._owner.end_if_idle(self)

    async def _models(self, name: str, after_name: str, after_version: str) -> pb.ModelsReply:
        asked = pb.ModelsRequest(name=name, after_name=after_name, after_version=after_version)
        return await self._call_of(GatewayStub(self._channel).Models(asked))

    async def nodes(self) -> pb.NodesReply:
        """Return who the nodes are, as far as this one knows.

        Raises:
            RaftbatchError: it does not answer.
        """
        return await self._call_of(GatewayStub(self._channel).Nodes(pb.NodesRequest()))

    async def close(self) -> None:
        """End it, whatever is owed."""
        self._is_over = True
        for timer in (self._timer, self._doubting):
            if timer is not None:
                timer.cancel()
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await _close(self._channel, self._call)

    def _start(self, call: Any) -> None:
        task: asyncio.Task[None] = asyncio.ensure_future(call)
        self._tasks.append(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Take in that a task is over; an exception that nobody meant is shown, not lost."""
        if task.cancelled() or self._is_over:
            return
        if task in self._tasks:
            self._tasks.remove(task)
        error = task.exception()
        if error is not None:
            context = {"message": "a session of raftbatch failed", "exception": error}
            task.get_loop().call_exception_handler(context)
            self._lost(OutcomeUnknown(f"the session with {self.address} failed: {error!r}"))

    def _lost(self, error: RaftbatchError) -> None:
        if not self._is_over:
            self._is_over = True
            self._owner.lost(self, error)

    async def _read(self) -> None:
        error: RaftbatchError = OutcomeUnknown(f"{self.address} has ended the session")
        try:
            while True:
                reply: Any = await self._call.read()
                if reply is grpc.aio.EOF:
                    break
                self._heard += 1
                self.is_doubted = False
                self._owner.heard(self, reply)
        except grpc.aio.AioRpcError as broken:
            error = of_call(self.address, broken)
        self._lost(error)

    async def _write(self) -> None:
        try:
            while True:
                await self.woken.wait()
                self.woken.clear()
                while (message := self._owner.next_message(self)) is not None:
                    await self._call.write(message)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            pass  # the stream is over: whoever reads hears why

    async def _probe(self) -> None:
        """Find out who the nodes are; and, where one owes and is silent, whether it is there.

        A node that stands still, or that is cut off, keeps its connections, and the kernel takes
        minutes to notice. So whoever is silent is asked, and doubted where it does not answer soon:
        that costs a busy node nothing, and is over with the next that is heard.
        """
        while True:
            before = self._heard
            self._doubt_in(_DOUBT_S)
            try:
                await self._ask_for_nodes()
            except RaftbatchError as error:
                if self.owes and self._heard == before:
                    self._lost(error)
                    return
            self._is_certain()
            silent = 0
            while silent < _SILENT_LOOKS:
                before = self._heard
                await self._pause()
                silent = silent + 1 if self.owes and self._heard == before else 0

    def _doubt_in(self, pause_s: float) -> None:
        def doubt() -> None:
            if self.owes and self._heard == before:
                self.is_doubted = True
                self._owner.doubted(self)

        before = self._heard
        self._doubting = asyncio.get_running_loop().call_later(pause_s, doubt)

    def _is_certain(self) -> None:
        """Take in that the node has said who leads, or that nobody does as far as it knows."""
        if self._doubting is not None:
            self._doubting.cancel()
        self.is_doubted = self._leaderless > 0
        if self.is_doubted:
            self._owner.doubted(self)

    async def _call_of(self, call: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(OPEN_S):
                return await call
        except TimeoutError:
            raise OutcomeUnknown(f"{self.address} does not answer") from None
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self._is_over or task is None or task.cancelling():
                raise
            raise OutcomeUnknown(f"the session with {self.address} has ended") from None
        except grpc.aio.AioRpcError as error:
            raise of_call(self.address, error) from None

    async def _ask_for_nodes(self) -> None:
        reply = await self.nodes()
        self._leaderless = 0 if reply.leader_id else self._leaderless + 1
        self._owner.learned(reply)
        if self._leaderless > _LEADERLESS_MAX:
            raise OutcomeUnknown(f"{self.address} is cut off from the cluster")

    async def _pause(self) -> None:
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._timer = over.get_loop().call_later(_LOOK_S, partial(end_wait, over))
        await over


async def open_link(
    owner: Owner, address: str, tls: TLS | None, name: str = "", cluster: str = ""
) -> Link:
    """Open a session with a node. Nothing is asked of it yet.

    Args:
        owner: of the link.
        address: of the node.
        tls: certificates; None: without.
        name: that the node's certificate bears; empty: its host's.
        cluster: that the node must belong to; empty: any.

    Raises:
        RaftbatchError: it does not answer, or refuses; nothing was done.
    """
    channel = _channel(address, tls, name)
    session: Any = channel.stream_stream(_SESSION, None, pb.SessionReply.FromString)
    call = session(metadata=meant_for(cluster) or None)
    link: Link | None = None
    try:
        async with asyncio.timeout(OPEN_S):
            reply = await call.read()
        if reply is grpc.aio.EOF or not reply.HasField("opened"):
            raise NoLeader(f"{address} does not say who it is: it is no node of raftbatch")
        link = Link(owner, address, channel, call, reply.opened)
    except TimeoutError:
        raise NoLeader(f"{address} does not answer within {OPEN_S:g} s") from None
    except grpc.aio.AioRpcError as error:
        raise of_call(address, error) from None
    finally:
        if link is None:
            await _close(channel, call)
    return link


def _channel(address: str, tls: TLS | None, name: str) -> grpc.aio.Channel:
    credentials = None
    if tls is not None:
        credentials = grpc.ssl_channel_credentials(tls.ca, tls.key or None, tls.certificate or None)
    return open_channel(address, credentials, name, SESSION_OPTIONS)


async def _close(channel: grpc.aio.Channel, call: Any) -> None:
    call.cancel()
    await channel.close()


def _end_of(page: pb.ModelsReply) -> tuple[str, str]:
    """Return the last model of a page; nothing where it is empty: it leads no further."""
    return (page.models[-1].name, page.models[-1].version) if page.models else ("", "")
