"""Handing on what clients ask of a node that does not lead, where they wish it.

    client -> this node -> queue -> one stream, many requests in a message -> leader -> tickets
           <- outcomes, as this node applies the entries that hold them

The leader is asked for tickets alone: outcomes come to every node by the log, so nothing is sent
twice. What is handed on does not ask to be handed on: a node that does not lead answers it with
`not_leader`, and no request goes round. A try that breaks is repeated under the same request id,
with whoever leads then, until the call's time is over; what is not known by then is
`outcome_unknown`. Refusals pass as they are. Bounded are requests and bytes, and each call's time.

What lives here: whom to hand on to, and what an answer means. What must never live here: gRPC
(`onward`), or a decision. Called by: `gateway`, `session`. One thread: the loop's. Tasks: one,
while a stream is open or something waits; one that writes on it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import groupby

from coordinator.answers import Ticket
from coordinator.api import Name
from coordinator.config import SessionLimits
from coordinator.core.effects import Verdict
from coordinator.node import Node, Phase
from coordinator.proposer import copy_of
from coordinator.refusing import why_full
from coordinator.rpc.asks import ASKS_MAX
from coordinator.rpc.handed_on import (
    Answer,
    HandedOn,
    Item,
    Kind,
    OnTheirWay,
    answer_to_ids,
    asked_of,
)
from coordinator.rpc.onward import Stream
from raftbatch.backoff import backoff_s
from raftbatch.errors import (
    Draining,
    InvalidRequest,
    NoLeader,
    NotLeader,
    PayloadTooLarge,
    RaftbatchError,
)
from raftbatch.trailers import error_in
from raftbatch.v1 import gateway_pb2 as pb

Open = Callable[[str, str], Awaitable[Stream]]
"""Opens a stream to a node's client address, by address and name."""

_GROUP_MAX, _GROUP_BYTES_MAX = 1024, 1 << 20  # of one message; one request alone may be larger
_PAUSE_S = 0.02  # before the next try, doubled with each that fails
_PAUSE_S_MAX = 0.5
_ELSEWHERE = (NotLeader, NoLeader, Draining)  # another node leads, or will soon


class Forwarder:
    """See the module's docstring.

    Args:
        node: that is asked.
        open_stream: to the leader.
        limits: bounds.
    """

    def __init__(self, node: Node, open_stream: Open, limits: SessionLimits) -> None:
        self._node = node
        self._open = open_stream
        self._limits = limits
        self._queue: deque[Item] = deque()
        self._owed: dict[int, Item] = {}
        self._calls: dict[HandedOn, None] = {}  # that wait for answers
        self._under_way = OnTheirWay(limits)
        self._number = self._failures = 0
        self._stream: Stream | None = None
        self._followed = ""  # whose stream it is
        self._change: asyncio.Future[None] | None = None  # what the task waits for
        self._task: asyncio.Task[None] | None = None
        self._is_watching = self._is_closed = False

    # What is asked.

    def wants(self, forward: bool) -> bool:
        """Whether something is to be handed on: a node that leads serves it by itself."""
        return forward and not self._node.api.is_leading

    def prepared(self, tenant: str, messages: Sequence[pb.Submission]) -> list[Item]:
        """Return what `submit` takes: the messages' bytes, which are needed no more."""
        return [self._item(tenant, Kind.SUBMIT, each) for each in messages]

    async def submit(
        self, items: Sequence[Item], limit_s: float | None = None
    ) -> list[Ticket | RaftbatchError]:
        """Have requests taken in by whoever leads; see `Api.submit`.

        Args:
            items: see `prepared`.
            limit_s: how long the client waits; None: it does not say.

        Raises:
            InvalidRequest: definite; too many at once.
            Overloaded, Draining, NotLeader: definite; this node hands on nothing more now.
        """
        if len(items) > ASKS_MAX:
            raise InvalidRequest(f"{len(items)} requests at once, at most {ASKS_MAX}")
        found = await self._hand_on(items, limit_s)
        return [each for each in found if isinstance(each, Ticket | RaftbatchError)]

    async def cancel(
        self, names: Sequence[Name], limit_s: float | None = None
    ) -> Sequence[Verdict | RaftbatchError]:
        """Have requests cancelled; see `Api.cancel` and `submit`. All are of one tenant."""
        return await self._names(Kind.CANCEL, names, limit_s)

    async def acknowledge(
        self, names: Sequence[Name], limit_s: float | None = None
    ) -> Sequence[Verdict | RaftbatchError]:
        """Say that outcomes were read; see `Api.acknowledge` and `cancel`."""
        return await self._names(Kind.ACKNOWLEDGE, names, limit_s)

    async def close(self) -> None:
        """Hand on nothing more; whoever waits is told."""
        self._is_closed = True
        self._end_all("this node stops")
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _names(
        self, kind: Kind, names: Sequence[Name], limit_s: float | None
    ) -> Sequence[Verdict | RaftbatchError]:
        if not names:
            return []
        message = pb.SessionNames(request_ids=[request_id for _, request_id in names])
        [found] = await self._hand_on([self._item(names[0][0], kind, message)], limit_s)
        if isinstance(found, RaftbatchError):
            raise found
        assert not isinstance(found, Ticket)
        return found

    def _item(self, tenant: str, kind: Kind, message: pb.Submission | pb.SessionNames) -> Item:
        self._number += 1
        return Item(self._number, tenant, kind, message)

    async def _hand_on(self, items: Sequence[Item], limit_s: float | None) -> list[Answer]:
        """Hand on, and return the answers, in order."""
        self._check()
        if not items:
            return []
        most_s = self._limits.forward_ms_max / 1000
        limit_s = most_s if limit_s is None else max(0.0, min(limit_s, most_s))
        call, late = HandedOn(items), f"has no answer within {limit_s:.3g} s"
        self._under_way.take(call)
        timer = asyncio.get_running_loop().call_later(limit_s, self._end, call, late)
        self._calls[call] = None
        if len(self._queue) > 2 * self._under_way.requests.total + _GROUP_MAX:
            self._put_in_order()  # what was given up stands there, where nothing can be sent
        self._queue.extend(items)
        self._begin()
        try:
            return await call.answers()
        finally:
            timer.cancel()
            self._end(call, "nobody waits for it")

    def _check(self) -> None:
        """Refuse what cannot be handed on at all."""
        node = self._node
        if self._is_closed or node.phase is Phase.STOPPING:
            raise Draining(f"{node.config.node_id} stops: ask another node")
        leader = node.leader
        if leader and not node.client_address(leader):
            raise NotLeader(f"{leader} leads, and where clients reach it is not known here")

    # What becomes of it.

    def _settle(self, item: Item, answer: Answer) -> None:
        """Give an item its answer."""
        call = item.settle(answer)
        self._under_way.settled(call, item)
        if call.is_over:
            del self._calls[call]

    def _end(self, call: HandedOn, why: str) -> None:
        """Wait no more for what a call has no answer to; what was sent goes its way."""
        for item in call.items:
            if not item.is_settled:
                self._settle(item, item.late(why))

    def _end_all(self, why: str) -> None:
        for call in list(self._calls):
            self._end(call, why)

    def _answered(self, item: Item, answer: Answer) -> None:
        """Take in what the leader says of an item."""
        item.is_owed = False
        if item.is_settled:
            return  # nobody waits any more
        if isinstance(answer, RaftbatchError):
            if isinstance(answer, _ELSEWHERE) or not answer.definite:
                item.said = answer
                item.is_lost = item.is_lost or not answer.definite
                self._queue.append(item)  # put in order before it is sent
                self._leave()
                return
            answer = item.judged(answer)
        self._failures = 0
        self._settle(item, answer)

    # The task.

    def _begin(self) -> None:
        """Let the queue be handed on."""
        if not self._is_watching:
            self._is_watching = True
            self._node.watch_leader(self._look)
        if self._stream is not None:
            self._stream.wake()
        elif self._task is None:
            self._task = asyncio.ensure_future(self._run())
            self._task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:  # a bug: nobody is to wait on
            why = "handing on has failed"
            task.get_loop().call_exception_handler({"message": why, "exception": task.exception()})
            self._end_all(why)

    def _look(self) -> None:
        """Take in that another node may lead."""
        leader = self._node.leader
        if not self._followed or (leader and leader != self._followed):
            self._leave()

    def _leave(self) -> None:
        """End what the task waits for."""
        if self._change is not None and not self._change.done():
            self._change.set_result(None)

    async def _run(self) -> None:
        """Hand on whatever waits, to whoever leads, as long as there is a stream or a need."""
        own = self._node.config.node_id
        try:
            while self._calls:
                self._put_in_order()
                leader = self._node.leader
                address = self._node.client_address(leader)
                if leader == own:
                    await self._ask_here()
                elif address:
                    await self._hand_to(leader, address)
                elif full := why_full(self._node.log):
                    for item in [x for x in self._queue if not (x.is_settled or x.is_lost)]:
                        self._settle(item, copy_of(full))
                if self._calls:
                    await self._pause()
        finally:
            self._task = None
            self._queue.clear()

    async def _pause(self) -> None:
        """Wait a while, or until another node leads; longer after each try that failed."""
        loop = asyncio.get_running_loop()
        self._failures += 1
        pause_s = backoff_s(self._failures, _PAUSE_S, _PAUSE_S_MAX, drawn=1.0)
        self._change = loop.create_future()
        timer = loop.call_later(pause_s, self._leave)
        try:
            await self._change
        finally:
            timer.cancel()
            self._change = None

    async def _hand_to(self, leader: str, address: str) -> None:
        """Follow one stream to its end."""
        change = self._change = asyncio.get_running_loop().create_future()
        self._followed = leader
        opening = asyncio.ensure_future(self._open(address, leader))
        try:
            await asyncio.wait((opening, change), return_when=asyncio.FIRST_COMPLETED)
            if opening.done():
                await self._follow(opening.result(), change)
        except RaftbatchError as error:
            for item in self._queue:
                item.said = error
        finally:
            self._followed, self._change = "", None
            opening.cancel()
            [opened] = await asyncio.gather(opening, return_exceptions=True)
            if not isinstance(opened, BaseException):
                await opened.close()

    async def _follow(self, stream: Stream, change: asyncio.Future[None]) -> None:
        """Say and hear, until the stream ends, or is to be left."""
        self._stream = stream
        reading = asyncio.ensure_future(stream.read(self._heard))
        writing = asyncio.ensure_future(stream.write(partial(self._next_message, stream)))
        stream.wake()
        try:
            await asyncio.wait((reading, change), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._stream = None
            reading.cancel()
            writing.cancel()
            ends = await asyncio.gather(reading, writing, return_exceptions=True)
            for item in self._owed.values():
                item.is_lost, item.is_owed = True, False
            self._put_in_order()
        for end in ends:
            if isinstance(end, Exception) and not isinstance(end, RaftbatchError):
                raise end

    def _put_in_order(self) -> None:
        """Put what is to be asked for again before all else, in its order; drop what is settled."""
        waiting = {item.number: item for item in (*self._owed.values(), *self._queue)}
        if self._stream is None:
            self._owed.clear()
        self._queue = deque(
            waiting[number]
            for number in sorted(waiting)
            if not (waiting[number].is_settled or number in self._owed)
        )

    async def _ask_here(self) -> None:
        """Ask this node itself, which has come to lead."""
        items, self._queue = list(self._queue), deque()
        for (_, kind), run in groupby(items, lambda item: (item.tenant, item.kind)):
            together = list(run)
            most = min(_GROUP_MAX, self._node.config.scheduler.api.submissions_max)
            step = most if kind is Kind.SUBMIT else 1
            for first in range(0, len(together), step):
                group = [item for item in together[first : first + step] if not item.is_settled]
                if group:
                    found = await asked_of(self._node.api, group)
                    for item, answer in zip(group, found, strict=True):
                        self._answered(item, answer)

    # The stream.

    def _next_message(self, stream: Stream) -> bytes | None:
        """Return as much of the queue as a message may hold, of one tenant; None: it is empty."""
        if self._change is None or self._change.done():
            return None  # the stream is left
        queue, owed = self._queue, self._owed
        room = min(_GROUP_MAX, stream.opened.in_flight_max - len(owed))
        whole = stream.opened.message_bytes_max
        most, size, tenant = min(_GROUP_BYTES_MAX, whole), 0, ""
        parts: list[bytes] = []
        while queue and room > 0:
            item = queue[0]
            if not item.is_settled and item.size > whole:
                why = f"{item.size} bytes are more than the leader takes"
                # It was not asked, and so says nothing of an earlier try.
                self._settle(item, item.late(why) if item.is_lost else PayloadTooLarge(why))
            if item.is_settled:
                queue.popleft()
                continue
            if size and (size + item.size > most or item.tenant != tenant):
                break
            if not parts:
                tenant = item.tenant
                parts.append(pb.SessionRequest(tenant=tenant).SerializeToString())
            queue.popleft()
            size += item.size
            room -= 1 + item.ids  # each is a part of the message, of which few may be (`parts`)
            owed[item.number] = item
            item.put_into(parts)
        return b"".join(parts) if parts else None

    def _heard(self, reply: pb.SessionReply) -> None:
        """Take in what the leader says."""
        tickets, owed = reply.tickets, self._owed
        for number, index in zip(tickets.numbers, tickets.indexes, strict=False):
            item = owed.pop(number, None)
            if item is not None:
                self._answered(item, Ticket(item.request_id, index))
        for each in reply.errors:
            error = error_in(each.error)
            for number in each.numbers:
                item = owed.pop(number, None)
                if item is not None:
                    self._answered(item, error)
        for told in (*reply.cancelled, *reply.acknowledged):
            assert isinstance(told, pb.SessionCancelled | pb.SessionAcknowledged)
            item = owed.pop(told.number, None)
            if item is not None:
                self._answered(item, answer_to_ids(item.ids, told))
        if self._queue and self._stream is not None:
            self._stream.wake()  # there is room again
