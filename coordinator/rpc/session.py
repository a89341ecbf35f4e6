"""A session: one stream of a client, with many requests, and many answers, in each message.

What the client asks for has a number, and an `Ask` from when it is read until its last answer can
be written. Answers come as the replica applies entries: they are only noted then, and leave
together once the message before was taken. So the more there is to say, the less each costs.

    read -> Ask -> api.submit, one task for some hundred -> ticket -> api.watch
                   or the forwarder, where this node does not lead and the client wishes it
         -> outcome, on the loop as its entry is applied -> noted -> written

Bounds: payloads and ids on their way to the log: no more is read; numbers under way: more are
refused; outcomes noted and not written: more stay in the state until there is room; what comes
while nothing is read: the client is cut off.

What lives here: one stream. What must never live here: a decision, or an error's meaning. Called
by: `gateway`. One thread: the loop's. Tasks: one that writes, which gRPC runs, one that reads, and
one for each group of requests that are being taken.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial

import grpc.aio

from coordinator.answers import Ticket
from coordinator.api import Api, Name
from coordinator.config import SessionLimits
from coordinator.core.effects import Verdict
from coordinator.core.values import Outcome
from coordinator.node import Node, Phase
from coordinator.refusing import told_leader
from coordinator.rpc import legible, values
from coordinator.rpc.asks import ASKS_MAX, Ask, check, names_of
from coordinator.rpc.forwarding import Forwarder
from coordinator.rpc.outbox import Outbox
from raftbatch.errors import (
    Draining,
    Fatal,
    InvalidRequest,
    NoLeader,
    NotLeader,
    OutcomeUnknown,
    Overloaded,
    RaftbatchError,
)
from raftbatch.v1 import gateway_pb2 as pb

Context = grpc.aio.ServicerContext[pb.SessionRequest, pb.SessionReply]

_Submits = Callable[[], Awaitable[Sequence[Ticket | RaftbatchError]]]
_Answers = Sequence[Verdict | RaftbatchError]
_Asks = Callable[[list[Name]], Awaitable[_Answers]]
_Notes = Callable[[int, _Answers], None]

_A_TURN = 256  # requests taken in one turn of the loop: some milliseconds
_RETRY_MS = 100
_AHEAD = 16  # the part of `unread_bytes_max` that is noted ahead: most is left for what comes


class Session:
    """See the module's docstring.

    Args:
        node: whose it is.
        api: what is asked.
        forwarder: hands on what the client wishes to be handed on.
        limits: bounds.
    """

    def __init__(self, node: Node, api: Api, forwarder: Forwarder, limits: SessionLimits) -> None:
        self._node, self._api = node, api
        self._forwarder, self._limits = forwarder, limits
        self._turn = min(_A_TURN, node.config.scheduler.api.submissions_max)
        self._asks: dict[int, Ask] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._outbox = Outbox(node.client_address)
        self._ahead_bytes = limits.unread_bytes_max // _AHEAD
        self._late: OrderedDict[int, Ask] = OrderedDict()  # outcomes for which there was no room
        self._late_bytes = 0  # of those that came since the client took a message
        self._changed = asyncio.Event()  # there is something to write, or an end to see
        self._taking_bytes = 0
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._failure: BaseException | None = None
        self._writing: asyncio.Future[None] | None = None
        node.on_stopping.append(self._changed.set)

    async def serve(self, context: Context) -> None:
        """Read and write until the client has ended and has all its answers.

        Raises:
            Draining: the node stops, and nothing is owed.
            InvalidRequest: the client has asked for what cannot be.
            Overloaded: it does not read its answers.
        """
        await context.write(pb.SessionReply(opened=self._opened()))
        reading = asyncio.ensure_future(self._read(context))
        reading.add_done_callback(self._over)
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                while self._outbox.has_any and self._failure is None:
                    await self._write(context)
                if self._failure is not None:
                    break
                if not self._asks and not self._outbox.has_any:
                    if self._node.phase is Phase.STOPPING:
                        said = f"{self._node.config.node_id} stops"
                        self._failure = Draining(said, retry_after_ms=_RETRY_MS)
                        break
                    if reading.done():
                        return
        finally:
            reading.cancel()
        raise self._failure

    def end(self) -> None:
        """Wait for nothing any more, and keep nothing; what was proposed goes its way."""
        if self._changed.set in self._node.on_stopping:
            self._node.on_stopping.remove(self._changed.set)
        asks, self._asks = self._asks, {}
        for ask in asks.values():
            if ask.wait is not None:
                self._api.unwatch(ask.wait)
        for task in list(self._tasks):
            task.cancel()
        self._outbox.clear()

    def _opened(self) -> pb.Opened:
        node = self._node
        return pb.Opened(
            node_id=node.config.node_id,
            leader=node.client_address(told_leader(node.log)),
            in_flight_max=self._limits.in_flight_max,
            message_bytes_max=node.config.server.message_bytes_max,
            names_max=min(ASKS_MAX, node.config.scheduler.api.names_max),
        )

    # Reading.

    def _over(self, reading: asyncio.Future[None]) -> None:
        """Take in that the client has ended, or what broke the stream."""
        if not reading.cancelled() and reading.exception() is not None:
            self._fail(reading.exception())
        self._changed.set()

    async def _read(self, context: Context) -> None:
        """Take in messages, and let others have their turns between."""
        while True:
            # gRPC's iterator would hold on to the last message for as long as the stream idles.
            request: object = await context.read()
            legible.check(request)
            if not isinstance(request, pb.SessionRequest):
                return
            await self._take(request)
            del request
            await self._has_room.wait()

    async def _take(self, request: pb.SessionRequest) -> None:
        """Take in one message."""
        tenant = request.tenant or values.DEFAULT_TENANT
        check(request, self._limits.in_flight_max)
        for number in request.dropped:
            self._drop(number)
        if request.submissions:
            await self._take_submissions(tenant, request)
        if request.awaits:
            await self._take_awaits(tenant, request)
        asked = self._forwarder if self._forwarder.wants(request.forward) else self._api
        outbox = self._outbox
        for messages, call, note in (
            (request.cancels, asked.cancel, outbox.cancelled),
            (request.acknowledgements, asked.acknowledge, outbox.acknowledged),
        ):
            for each in messages:
                ask = self._ask(each.number, tenant)
                if ask is not None:
                    self._start(self._answer(ask, call, each, note), [ask])
                    await asyncio.sleep(0)

    async def _take_submissions(self, tenant: str, request: pb.SessionRequest) -> None:
        for begin in range(0, len(request.submissions), self._turn):
            if begin:
                await asyncio.sleep(0)
            asks: list[Ask] = []
            taken: list[pb.Submission] = []
            for message in request.submissions[begin : begin + self._turn]:
                ask = self._ask(message.number, tenant, message.request_id)
                if ask is not None:
                    ask.want = message.want
                    asks.append(ask)
                    taken.append(message)
            if asks:
                size, call = self._taken(tenant, taken, request.forward)
                self._taking(size)
                self._start(self._submit(asks, call, size), asks)

    def _taken(
        self, tenant: str, taken: list[pb.Submission], forward: bool
    ) -> tuple[int, _Submits]:
        """Return how many bytes requests are, and the call that takes them in."""
        if self._forwarder.wants(forward):
            items = self._forwarder.prepared(tenant, taken)
            return sum([each.size for each in items]), partial(self._forwarder.submit, items)
        submissions = [values.submission(tenant, each) for each in taken]
        size = sum([len(each.payload) + len(each.parameters) for each in submissions])
        return size, partial(self._api.submit, submissions)

    async def _take_awaits(self, tenant: str, request: pb.SessionRequest) -> None:
        unknown: list[Ask] = []
        for count, message in enumerate(request.awaits, start=1):
            ask = self._ask(message.number, tenant, message.request_id, message.index)
            if ask is not None and not self._watch_if_known(ask):
                unknown.append(ask)
            if count % _A_TURN == 0:
                await asyncio.sleep(0)
        if unknown:
            self._start(self._find(unknown), unknown)

    def _ask(
        self, number: int, tenant: str = "", request_id: str = "", index: int = 0
    ) -> Ask | None:
        """Note what is asked for; None: it was refused, since too much is under way.

        Raises:
            InvalidRequest: the number is under way: whose answer would it be?
        """
        if number in self._asks:
            raise InvalidRequest(f"number {number} is under way already")
        most = self._limits.in_flight_max
        if len(self._asks) >= most:
            error = Overloaded(f"{most} numbers are under way already", retry_after_ms=_RETRY_MS)
            self._outbox.error(number, error)
            self._noted()
            return None
        ask = self._asks[number] = Ask(number, tenant, request_id, index)
        return ask

    def _drop(self, number: int) -> None:
        self._late.pop(number, None)
        ask = self._asks.pop(number, None)
        if ask is not None and ask.wait is not None:
            self._api.unwatch(ask.wait)

    # What is asked of the api.

    def _start(self, call: Coroutine[object, object, None], asks: list[Ask]) -> None:
        """Run a call on the side; whatever it raises is the last answer to all of these."""
        task = asyncio.ensure_future(call)
        self._tasks[task] = None
        task.add_done_callback(partial(self._ended, asks))

    def _ended(self, asks: list[Ask], task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        error = None if task.cancelled() else task.exception()
        if error is None:
            return
        if not isinstance(error, RaftbatchError | Fatal):
            self._fail(error)
            return
        for ask in asks:
            self._error(ask, error)

    async def _submit(self, asks: list[Ask], call: _Submits, size: int) -> None:
        try:
            answers = await call()
        finally:
            self._taking(-size)
        watch, current = self._watch_if_known, self._asks
        behind: list[Ask] = []
        for ask, answer in zip(asks, answers, strict=True):
            if current.get(ask.number) is not ask:
                continue  # it was dropped
            if isinstance(answer, Ticket):
                if ask.want != pb.WANT_OUTCOME:
                    self._outbox.ticket(ask.number, answer.index)
                    if ask.want == pb.WANT_TICKET:
                        del current[ask.number]
                        continue
                if not watch(ask):  # it was handed on: this node is to apply its entry yet
                    ask.index = answer.index
                    behind.append(ask)
            else:
                self._error(ask, answer)
        self._noted()
        if behind:
            await self._find(behind)

    def _taking(self, size: int) -> None:
        """Count payloads and ids on their way to the log; let more be read where it may be."""
        self._taking_bytes += size
        has_room = self._taking_bytes < self._limits.taking_bytes_max
        (self._has_room.set if has_room else self._has_room.clear)()

    async def _find(self, asks: list[Ask]) -> None:
        """Find out about requests that this node does not know."""
        lost: RaftbatchError | None = None
        # Whoever waits for the highest index has waited for the others'.
        for ask in sorted(asks, key=lambda ask: -ask.index):
            if self._asks.get(ask.number) is not ask or self._watch_if_known(ask):
                continue
            if lost is not None and (ask.index > self._node.replica.index or not ask.index):
                self._not_found(ask, lost)
                continue
            try:
                # Known by then, and without an outcome or with one: watching tells either.
                await self._api.find(ask.tenant, ask.request_id, ask.index)
            except (NoLeader, NotLeader) as error:
                lost = error
                self._not_found(ask, error)
            except RaftbatchError as error:
                self._not_found(ask, error)
            else:
                self._watch_again(ask)

    def _not_found(self, ask: Ask, error: RaftbatchError) -> None:
        self._error(ask, values.admitted_and_lost(error) if ask.want is not None else error)

    def _watch_if_known(self, ask: Ask) -> bool:
        """Wait for an outcome, or note it at once; False: this node does not know the request."""
        try:
            ask.wait = self._api.watch(ask.tenant, ask.request_id, partial(self._told, ask))
        except NoLeader:
            return False
        except RaftbatchError as error:
            self._told(ask, error)
        return True

    def _watch_again(self, ask: Ask) -> None:
        """Wait for an outcome, or note it at once, of a request that this node has known."""
        if self._asks.get(ask.number) is ask and not self._watch_if_known(ask):
            self._error(ask, OutcomeUnknown("it was forgotten meanwhile: ask again"))

    def _told(self, ask: Ask, result: Outcome | RaftbatchError) -> None:
        """Note what became of a request; within the turn in which its entry is applied."""
        if not isinstance(result, Outcome):
            self._not_found(ask, result)
        elif self._outbox.bytes > self._ahead_bytes:
            self._late[ask.number] = ask
            if ask.wait is not None:  # it comes now, and was not known when it was asked for
                ask.wait = None
                self._late_bytes += len(result.result)
                self._noted()
        elif self._asks.pop(ask.number, None) is not None:
            self._outbox.outcome(ask.number, result)
            self._noted()

    async def _answer(self, ask: Ask, call: _Asks, message: pb.SessionNames, note: _Notes) -> None:
        names, size = names_of(ask.tenant, message)
        self._taking(size)
        try:
            answers = await call(names)
        finally:
            self._taking(-size)
        if self._asks.get(ask.number) is ask:
            del self._asks[ask.number]
            note(ask.number, answers)
            self._noted()

    # Writing.

    def _error(self, ask: Ask, error: RaftbatchError | Fatal) -> None:
        if self._asks.get(ask.number) is ask:
            del self._asks[ask.number]
            self._outbox.error(ask.number, error)
            self._noted()

    def _noted(self) -> None:
        """Let what is noted be written; cut off who does not read."""
        most = self._limits.unread_bytes_max
        if self._outbox.bytes + self._late_bytes > most:
            self._fail(Overloaded(f"{most} bytes of answers wait to be read", retry_after_ms=1000))
        self._changed.set()

    def _fail(self, error: BaseException | None) -> None:
        """End the stream with an error, also where the client reads nothing."""
        if self._failure is None:
            self._failure = error
            if self._writing is not None:
                self._writing.cancel()
        self._changed.set()

    async def _write(self, context: Context) -> None:
        """Hand answers over; returns when the client has room for more, and it is noted."""
        self._writing = asyncio.ensure_future(context.write(self._outbox.take()))
        try:
            await self._writing
        except asyncio.CancelledError:
            if self._failure is None:
                raise
        finally:
            self._writing = None
        self._late_bytes = 0
        while self._late and self._outbox.bytes <= self._ahead_bytes:
            self._watch_again(self._late.popitem(last=False)[1])
