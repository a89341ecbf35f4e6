"""Requests on their way: grouped, sent to the leader, asked for again wherever that is needed.

    ask -> ready -> one message, with all that is ready -> leader's link -> answer -> future
             ^ refused, or nobody knows: the same request id, after a pause, or elsewhere at once

Whoever asks has a future, and it is given one answer. A request keeps its id and its bytes
for every try, so it is never run twice; and it stays here until it is answered, so it is
never lost. A link that leads no more is kept until it owes nothing. What breaks with
answers owed is asked for on the next link.

What lives here: whom to ask, and what an error means. What must never live here: gRPC
(`link`), the search for the leader (`finding`), inputs and results. Called by: `aio`. One event
loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

from raftbatch.client.answers import take_outcomes, take_tickets
from raftbatch.client.asks import Ask, Ready, pause_s
from raftbatch.client.background import RETRIED, Background
from raftbatch.client.deadlines import Deadlines
from raftbatch.client.finding import Finder
from raftbatch.client.later import Later
from raftbatch.client.link import Link
from raftbatch.client.nodes import Nodes
from raftbatch.client.options import ClientOptions
from raftbatch.errors import NoLeader, OutcomeUnknown, Overloaded, RaftbatchError
from raftbatch.trailers import error_in
from raftbatch.v1 import gateway_pb2 as pb

_LATE = (pb.CANCEL_STATE_CANCELLED,)
_GIVEN_UP = (pb.CANCEL_STATE_CANCELLED, pb.CANCEL_STATE_ENDED)


class Engine:
    """See the module's docstring.

    Args:
        nodes: whom to ask.
        options: of the client.

    Attributes:
        pending: calls that wait for an answer.
    """

    def __init__(self, nodes: Nodes, options: ClientOptions) -> None:
        self.pending = 0
        self._nodes = nodes
        self._options = options
        self._loop = asyncio.get_running_loop()
        self._ready = Ready()
        self._background = Background(self._wake)
        self._number = 0
        self._link: Link | None = None  # where new requests go
        self._links: dict[Link, None] = {}  # all that are open
        self._finder = Finder(self, nodes, options.connect_timeout_s)
        self._ending: dict[asyncio.Task[None], None] = {}
        self._deadlines = Deadlines(self._late)
        self._timers = Later()
        self._is_closed = False
        self._is_over = False

    # What the client asks.

    def ask(self, ask: Ask, limit_s: float | None, is_cancelled: bool) -> None:
        """Ask; the answer comes to where the ask says, and `settled` is to be called then.

        Args:
            ask: what for.
            limit_s: how long to wait; None: for ever.
            is_cancelled: whether the request is cancelled when the wait is over.

        Raises:
            NoLeader, Overloaded: nothing is asked; definite.
        """
        if self._is_closed or self.pending >= self._options.pending_max:
            self._check_open()
            said = f"{self.pending} calls are under way in this client already (pending_max)"
            raise Overloaded(f"{said}: wait for some of them")
        if limit_s is not None:
            self._deadlines.add(ask, limit_s, is_cancelled)
        self._ready.put(ask)
        self.pending += 1
        self._wake()

    def settled(self, ask: Ask) -> None:
        """Take in that whoever asked has the answer, or has abandoned it."""
        self.pending -= 1
        if ask.together is not None:
            ask.together.pop(ask, None)
        if ask.is_read:
            self._background.acknowledge(ask.request_id)

    async def wait(self, ask: Ask, limit_s: float | None, is_cancelled: bool) -> Any:
        """Ask for a future's answer, and return it, or raise it: see `ask`."""
        self.ask(ask, limit_s, is_cancelled)
        answer: Any = ask.answer
        try:
            return await answer
        except asyncio.CancelledError:
            self.abandon(ask, is_cancelled=bool(ask.head))
            raise
        finally:
            self.settled(ask)

    def future(self) -> asyncio.Future[Any]:
        """Return a future for an answer."""
        return self._loop.create_future()

    async def pause(self, duration_s: float) -> None:
        """Wait for so long, or until the client is closed."""
        await self._timers.pause(duration_s)

    def acknowledge(self, request_id: str) -> None:
        """Say soon that an outcome was read.

        Raises:
            NoLeader: the client is closed; definite.
        """
        self._check_open()
        self._background.acknowledge(request_id)

    async def cancel(self, request_id: str) -> bool:
        """Cancel a request; return whether it is, or had an outcome before.

        Raises:
            OutcomeUnknown: nobody has said so in time; it is tried all the same.
            RaftbatchError: it was refused; definite.
        """
        self._check_open()
        limit_s = self._options.patience_s
        try:
            async with asyncio.timeout(limit_s):
                return await asyncio.shield(self._background.cancel(request_id))
        except TimeoutError:
            self._nodes.check_met()
            raise OutcomeUnknown(f"nobody has cancelled {request_id} within {limit_s} s") from None

    async def link(self, limit_s: float | None) -> Link:
        """Return a link to whoever leads, once there is one.

        Raises:
            NoLeader: there is none in time; definite.
        """
        self._check_open()
        try:
            async with asyncio.timeout(limit_s):
                while (link := self._link) is None:
                    await self._finder.found()
                    self._check_open()
                    self._nodes.check_met()
        except TimeoutError:
            self._nodes.check_met()
            raise NoLeader(f"no node that leads was found in time{self._nodes.why}") from None
        return link

    async def close(self) -> None:
        """Say what is left to say, within a bound, and end all. Harmless when called twice."""
        if self._is_closed:
            return
        self._is_closed = True
        closed = "the client was closed meanwhile"
        self._timers.now()  # what was to be asked for later is ready now, and ends with the rest
        sent = [ask for link in self._links for ask in link.asks.values()]
        for ask in [*self._ready.take(), *sent]:
            ask.fail(OutcomeUnknown(f"{closed}: ask again with the same request id"))
        try:
            async with asyncio.timeout(self._options.close_timeout_s):
                if self._nodes.has_met:
                    await self._background.said()
        except TimeoutError:
            pass  # the requests' outcomes go when their retention is over
        self._is_over = True
        self._background.close()
        self._deadlines.close()
        await self._finder.close()
        self._link = None
        for link in list(self._links):
            self._end(link)
        await asyncio.gather(*self._ending, return_exceptions=True)

    def _check_open(self) -> None:
        if self._is_closed:
            raise NoLeader("the client is closed: make another")

    def _late(self, ask: Ask, limit_s: float, is_cancelled: bool) -> None:
        """End a wait that has lasted long enough."""
        if ask.answer.done():
            return
        was_sent = ask.is_lost or ask.link is not None or self._nodes.has_met
        error = ask.late(limit_s, is_cancelled) if was_sent else self._nodes.nobody()
        self.abandon(ask, is_cancelled=is_cancelled)
        ask.fail(error)

    def abandon(self, ask: Ask, *, is_cancelled: bool) -> None:
        """Want an answer no more."""
        ask.is_read = False  # it may have come in this very turn
        was_sent = ask.is_lost or ask.link is not None
        if ask.link is not None:
            ask.link.drop(ask.number)
            self.end_if_idle(ask.link)
            ask.link = None
        if is_cancelled and was_sent and not self._is_closed:
            # Who is told that the time is over may ask again, to know what came of it.
            unread = _GIVEN_UP if ask.answer.done() else _LATE
            self._background.cancel(ask.request_id, unread if self._options.acknowledges else ())

    # What links ask and tell.

    def next_message(self, link: Link) -> bytes | None:
        """Return what is to be said on a link: on the leader's, all that is ready."""
        is_leading = link is self._link
        if not link.dropped and not (is_leading and self.has_work()):
            return None
        dropped = link.take_dropped()
        request = pb.SessionRequest(
            tenant=self._options.tenant, dropped=dropped, forward=self._options.forward
        )
        before = self._number
        parts: list[bytes] = []
        if is_leading and not link.dropped:
            of = link.opened
            for control in self._background.take(link.room, of.message_bytes_max, of.names_max):
                self._number += 1
                link.controls[self._number] = control
                names = request.cancels if control.is_cancel else request.acknowledgements
                names.add(number=self._number, request_ids=control.request_ids)
            self._number = self._ready.fill(request, parts, link, self._number)
        # Without room for anything more it would say nothing, over and over.
        if self._number == before and not dropped:
            return None
        return b"".join((request.SerializeToString(), *parts))

    def heard(self, link: Link, reply: pb.SessionReply) -> None:
        """Give answers to whom they belong."""
        asks = link.asks
        acknowledges = self._options.acknowledges
        take_outcomes(asks, reply.outcomes, link.address, acknowledges=acknowledges)
        take_tickets(asks, reply.tickets, link.address)
        for error in reply.errors:
            self._refused(link, error)
        for cancelled in reply.cancelled:
            control = link.controls.pop(cancelled.number, None)
            if control is not None:
                self._elsewhere(link, self._background.cancelled(control, cancelled.results))
        for acknowledged in reply.acknowledged:
            control = link.controls.pop(acknowledged.number, None)
            if control is not None:
                self._elsewhere(link, self._background.acknowledged(control, acknowledged.results))
        self.end_if_idle(link)
        if link is self._link and self.has_work():
            link.wake()  # there is room again

    def lost(self, link: Link, error: RaftbatchError) -> None:
        """Ask for all that is owed on the next link: the requests go on, wherever they are."""
        if link is self._link:
            self._link = None
        # What ends in good order (`draining`, `overloaded`) has still been taken, perhaps.
        asks, controls = list(link.asks.values()), list(link.controls.values())
        link.asks.clear()
        link.controls.clear()
        self._end(link)
        for control in controls:
            retry_ms = error.retry_after_ms
            self._background.failed(control, OutcomeUnknown(error.message, retry_after_ms=retry_ms))
        for ask in asks:
            ask.is_lost = True
        if error.slug == Overloaded.slug:
            self._later(asks, error)
        else:
            self._again(asks)

    def doubted(self, link: Link) -> None:
        """Ask the others who leads, while the leader is silent, or knows of none itself."""
        if link is self._link:
            self._finder.find_beside(link)
        elif self._link is not None:
            self._leave(link)

    def learned(self, reply: pb.NodesReply) -> None:
        """Take in who the nodes are."""
        self._nodes.learned(reply)

    # What becomes of it.

    def _refused(self, link: Link, message: pb.SessionError) -> None:
        """Take in an error: it is the answer, or the answer is elsewhere, or later."""
        error = error_in(message.error)
        is_final = error.definite and error.slug not in RETRIED
        asks: list[Ask] = []
        for number in message.numbers:
            control = link.controls.pop(number, None)
            if control is not None:
                self._background.failed(control, error)
                continue
            ask = link.asks.pop(number, None)
            if ask is None or ask.answer.done():
                continue
            ask.link = None
            ask.said = error
            ask.is_lost = ask.is_lost or not error.definite
            if is_final:
                ask.fail(ask.judged(error))
            else:
                ask.attempts += 1
                asks.append(ask)
        moved = self._elsewhere(link, error)
        if moved and error.leader not in ("", link.address):
            self._again(asks)
        elif asks:
            self._later(asks, error)

    def _elsewhere(self, link: Link, error: RaftbatchError | None) -> bool:
        """Leave a link whose node does not lead; return whether the error says that it does not."""
        if error is None or error.slug not in ("not_leader", "no_leader", "draining"):
            return False
        if link is self._link:
            self._link = None
            self._nodes.left(link.address, error.leader)
            self.end_if_idle(link)
            self._wake()
        return True

    def _again(self, asks: Sequence[Ask]) -> None:
        """Ask for these before all others, in their order."""
        self._ready.put_first(asks)
        self._wake()

    def _later(self, asks: Sequence[Ask], error: RaftbatchError) -> None:
        """Ask for these after a pause."""
        for ask in asks:
            ask.link = None
        attempts = max((ask.attempts for ask in asks), default=1) or 1
        self._timers.call(pause_s(attempts, error.retry_after_ms), partial(self._again, asks))

    # Links.

    def _wake(self) -> None:
        """Let what is ready be said, by whoever leads."""
        if self._link is not None:
            self._link.wake()
        else:
            self._find()

    def _find(self) -> None:
        if not self._is_over:
            self._finder.find()

    def has_link(self) -> bool:
        """Return whether it is known where what is ready goes."""
        return self._link is not None

    def turn_to(self, link: Link) -> None:
        """Send what is ready there from now on; and ask there for what others owe in vain."""
        self._links[link] = None
        self._link = link
        link.start()
        for old in list(self._links):
            if old.is_doubted and old is not link:
                self._leave(old)
            else:
                self.end_if_idle(old)

    def nobody(self, error: RaftbatchError) -> None:
        """Give up what is ready: none of the nodes that were named answers."""
        for ask in self._ready.take():
            ask.fail(error)
        self._background.give_up(error)

    def has_work(self) -> bool:
        """Return whether anybody is to be found for anything."""
        return bool(self._ready) or self._background.is_due

    def _leave(self, link: Link) -> None:
        self.lost(link, OutcomeUnknown(f"{link.address} is silent, or leads no more"))

    def end_if_idle(self, link: Link) -> None:
        """End a link that leads no more, and owes nothing."""
        if link is not self._link and not link.owes and link in self._links:
            self._end(link)

    def _end(self, link: Link) -> None:
        self._links.pop(link, None)
        task = self._loop.create_task(link.close())
        self._ending[task] = None
        task.add_done_callback(lambda task: self._ending.pop(task, None))
