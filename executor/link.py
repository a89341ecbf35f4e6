"""Calls to the coordinators: any node is asked, the leader is followed, what broke is repeated.

Everything an executor asks may be repeated: the answer to a second call is that of the
first, or says that it is so already.

What lives here: whom to ask, and how long to wait before the next try. What must never
live here: what is asked. Called by: `executor.agent`, on its loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import grpc
import grpc.aio

from executor.core.pieces import Joiner
from executor.nodes import Nodes
from executor.watching import Watch
from raftbatch.backoff import backoff_s
from raftbatch.channels import open_channel
from raftbatch.handshakes import in_words
from raftbatch.logs import fields
from raftbatch.trailers import Said, said_by, said_in
from raftbatch.v1 import dispatch_pb2 as pb
from raftbatch.v1 import error_pb2, gateway_pb2
from raftbatch.v1.dispatch_pb2_grpc import DispatchStub
from raftbatch.v1.gateway_pb2_grpc import GatewayStub
from raftbatch.world import Entropy

_LOG = logging.getLogger(__name__)

T = TypeVar("T")

ELSEWHERE = ("not_leader", "no_leader", "draining", "overloaded", "no_space", "outcome_unknown")
"""Errors that another try, or another node, mends."""

STALE = "stale_incarnation"
"""The executor's life is over."""

TOO_LARGE = "payload_too_large"
"""What was sent is more than may travel."""

_MESSAGE_BYTES_MAX = 64 << 20  # a piece holds 8 MiB, or one request of up to 16 and what it brings
_CALL_S = 3.0
_PAUSE_S = 0.05
_PAUSE_MAX_S = 0.5
_HOPS_MAX = 3  # moves that are made at once: more, and nobody knows who leads

_OPTIONS = [
    ("grpc.max_receive_message_length", _MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", _MESSAGE_BYTES_MAX),
    # A node that is gone without a word is noticed, and one that comes back is soon asked.
    ("grpc.keepalive_time_ms", 6_000),  # nodes take one every 5 s
    ("grpc.keepalive_timeout_ms", 2_000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 250),
]


class Refused(Exception):
    """The cluster has refused something, for good.

    Args:
        slug: of the error.
        message: for people.
    """

    def __init__(self, slug: str, message: str) -> None:
        super().__init__(f"{slug}: {message}")
        self.slug = slug
        self.message = message


class _NoMore(Exception):
    """Another node leads by now, or this one says nothing: a call to it is given up."""


class Unreachable(Exception):
    """No node took a call in time; the message says what each said last."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """What came of a call that failed.

    Attributes:
        slug: of the error; empty: the call broke.
        message: for people.
        leader: where to go.
        retry_after_ms: how long to wait.
        is_definite: whether nothing was done.
    """

    slug: str
    message: str
    leader: str = ""
    retry_after_ms: int = 0
    is_definite: bool = False

    @property
    def is_final(self) -> bool:
        """Whether no further try would be answered otherwise."""
        return bool(self.slug) and self.slug not in ELSEWHERE and self.is_definite


class Pauses:
    """How long to wait before the next try: longer each time, and drawn.

    Args:
        entropy: that two executors do not ask in step.
        least_s: the first, at most.
        most_s: any, at most.
    """

    def __init__(
        self, entropy: Entropy, least_s: float = _PAUSE_S, most_s: float = _PAUSE_MAX_S
    ) -> None:
        self._entropy = entropy
        self._least_s = least_s
        self._most_s = most_s
        self._count = 0

    def reset(self) -> None:
        """Begin anew: something worked."""
        self._count = 0

    def next_s(self) -> float:
        """Return the next one, in seconds."""
        self._count += 1
        drawn = self._entropy.random_bytes(1)[0] / 256
        return backoff_s(self._count, self._least_s, self._most_s, drawn)


class Link:
    """See the module's docstring.

    Args:
        addresses: of the nodes' client ports, by node.
        entropy: for pauses.
        credentials: for TLS, where a certificate names the node; None for none.
    """

    def __init__(
        self,
        addresses: Mapping[str, str],
        entropy: Entropy,
        credentials: grpc.ChannelCredentials | None = None,
    ) -> None:
        self._nodes = Nodes(addresses, entropy.random_bytes(1)[0])
        self._entropy = entropy
        self._credentials = credentials
        # By the address, and by the name that its certificate is held against.
        self._channels: dict[tuple[str, str], grpc.aio.Channel] = {}
        self._stubs: dict[tuple[str, str], DispatchStub] = {}
        self._asked = self._tailed = self._nodes.leader

    @property
    def addresses(self) -> str:
        """The nodes that it knows of, for people."""
        return ", ".join(self._nodes.addresses)

    def pauses(self) -> Pauses:
        """Return pauses between tries of something."""
        return Pauses(self._entropy)

    async def close(self) -> None:
        """Close all connections."""
        for channel in self._channels.values():
            await channel.close()

    async def learn(self) -> None:
        """Ask which nodes there are by now."""
        for address in [self._nodes.leader, *self._nodes.addresses]:
            if self._credentials is not None and not self._nodes.name(address):
                continue  # its certificate could be held against no name
            try:
                await self._nodes_of(address, _CALL_S)
            except grpc.aio.AioRpcError:
                continue
            return

    async def ask(
        self,
        call: Callable[[DispatchStub, float], Awaitable[T]],
        limit_s: float | None = None,
        call_s: float = _CALL_S,
    ) -> T:
        """Return what the leader says, whoever that becomes.

        Args:
            call: makes the call, within so many seconds.
            limit_s: how long to try; None: for as long as it takes.
            call_s: how long one node has for its answer.

        Raises:
            Refused: no other node, and no other time, is the answer.
            Unreachable: nobody took it in time.
        """
        loop = asyncio.get_running_loop()
        until = None if limit_s is None else loop.time() + limit_s
        pauses, hops = self.pauses(), 0
        while True:
            if self._credentials is not None and not self._nodes.name(self._nodes.leader):
                await self.learn()  # the name that its certificate bears
            address = self._nodes.leader
            try:
                found = await self._while_it_leads(address, call(self._stub(address), call_s))
                self._asked = address
                return found
            except grpc.aio.AioRpcError as error:
                trouble = trouble_of(error)
            except _NoMore:
                continue
            if trouble.is_final:
                raise Refused(trouble.slug, trouble.message)
            if self.turn(address, trouble) and hops < _HOPS_MAX:
                hops += 1
                continue
            hops = 0
            pause_s = max(pauses.next_s(), trouble.retry_after_ms / 1000)
            if until is not None and loop.time() + pause_s > until:
                raise Unreachable(f"{address}: {trouble.message}")
            await asyncio.sleep(pause_s)

    async def report(self, reports: Sequence[pb.Report]) -> list[Trouble | None]:
        """Return what the leader says to each report; None: it is taken.

        Raises:
            Refused: as `ask`.
        """
        request = pb.ReportRequest(reports=reports)

        async def call(stub: DispatchStub, call_s: float) -> pb.ReportReply:
            reply: pb.ReportReply = await stub.Report(request, timeout=call_s)
            return reply

        reply = await self.ask(call)
        asked = self._asked
        found = [told(each.error) if each.HasField("error") else None for each in reply.results]
        for trouble in found:
            if trouble is not None and not trouble.is_final:
                self.turn(asked, trouble)
                break
        return found

    def turn(self, address: str, trouble: Trouble) -> bool:
        """Go elsewhere after a node could not help; return whether to ask there at once."""
        if address != self._nodes.leader:
            return True  # another call has found out before
        if trouble.leader and trouble.leader != address:
            self._nodes.told(trouble.leader)
            return True
        if trouble.slug not in ("overloaded", "no_space"):  # these are the leader's words
            self._nodes.guess(self._nodes.after(address))
        # A call that broke says nothing of the others: one of them may lead already.
        return not trouble.slug and self._nodes.leader != address

    async def tail(self, request: Callable[[], pb.TailRequest]) -> AsyncIterator[pb.FeedMessage]:
        """Yield the messages of a feed, from one node after another, for ever.

        Args:
            request: returns how to go on from here.

        Raises:
            Refused: the executor's life is over, or another tail of its is open.
        """
        pauses, has_heard = self.pauses(), False
        while True:
            address = self._tailed
            call = self._stub(address).Tail(request())
            watch = Watch(partial(self._nodes_of, address), self._nodes.told)
            watching = asyncio.ensure_future(watch.run(call.cancel))
            try:
                joiner = Joiner()
                async for piece in call:
                    watch.heard()
                    message = joiner.add(piece)
                    del piece
                    if message is not None:
                        pauses.reset()
                        has_heard = True
                        yield message
                        del message
                trouble = Trouble("", "the node ended the tail")
            except grpc.aio.AioRpcError as error:
                trouble = trouble_of(error)
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if not watch.why or task is None or task.cancelling():
                    raise
                trouble = Trouble("", watch.why)
                self._nodes.silent(address)
            finally:
                watching.cancel()
                call.cancel()
            if trouble.is_final:
                raise Refused(trouble.slug, trouble.message)
            _LOG.info("tail.moved", extra=fields(address=address, why=trouble.message))
            self._tailed = self._nodes.after(address)
            if not has_heard:
                await asyncio.sleep(pauses.next_s())
            has_heard = False  # where it was well until now, the next one is asked at once

    async def _while_it_leads(self, address: str, call: Awaitable[T]) -> T:
        """Return what a call returns; give it up where it is heard that its node leads no more.

        Whatever an executor asks may be repeated, and a node that is cut off answers nothing.
        """
        asking = asyncio.ensure_future(call)
        asking.add_done_callback(_retrieve)
        try:
            while True:
                news = self._nodes.news
                await asyncio.wait((asking, news), return_when=asyncio.FIRST_COMPLETED)
                if asking.done():
                    return asking.result()
                if self._nodes.leader != address:
                    raise _NoMore
        finally:
            asking.cancel()

    async def _nodes_of(self, address: str, limit_s: float) -> tuple[bool, str]:
        """Ask a node who there is; return whether it knows a leader, and where that one is."""
        request = gateway_pb2.NodesRequest()
        reply = await GatewayStub(self._channel(address)).Nodes(request, timeout=limit_s)
        self._nodes.learn(reply)
        leader = [each.address for each in reply.nodes if each.node_id == reply.leader_id]
        return bool(reply.leader_id), leader[0] if leader else ""

    def _stub(self, address: str) -> DispatchStub:
        key = address, self._nodes.name(address)
        found = self._stubs.get(key)
        if found is None:
            found = self._stubs[key] = DispatchStub(self._channel(address))
        return found

    def _channel(self, address: str) -> grpc.aio.Channel:
        node = self._nodes.name(address)
        found = self._channels.get((address, node))
        if found is None:
            found = self._channels[address, node] = open_channel(
                address, self._credentials, node, _OPTIONS
            )
        return found


def _retrieve(task: asyncio.Future[Any]) -> None:
    """Look at what came of a call that was given up: nobody else does."""
    if not task.cancelled():
        task.exception()


def trouble_of(error: grpc.aio.AioRpcError) -> Trouble:
    """Return what a node said, from its trailer; without one the call broke."""
    said = said_by(error.trailing_metadata())
    if said is None:
        details = error.details() or error.code().name
        if "message larger than max" in details:  # gRPC's own words, of either end
            return Trouble(TOO_LARGE, details, is_definite=True)
        return Trouble("", in_words(details))
    return _trouble(said)


def told(error: error_pb2.Error) -> Trouble:
    """Return an error as it stands in a message."""
    return _trouble(said_in(error))


def _trouble(said: Said) -> Trouble:
    return Trouble(said.slug, said.message, said.leader, said.retry_after_ms, said.definite)
