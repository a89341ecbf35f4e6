"""What has been asked for and has no answer yet.

What lives here: that, as values, and how long to pause before it is asked for again. What
must never live here: whom to ask (`engine`). Called by: `engine`, `link`, `background`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from raftbatch.backoff import backoff_s
from raftbatch.client.host import drawn
from raftbatch.errors import SURE, NoLeader, OutcomeUnknown, PayloadTooLarge, RaftbatchError
from raftbatch.framing import tag_of, varint
from raftbatch.v1 import gateway_pb2 as pb

if TYPE_CHECKING:
    from raftbatch.client.link import Link

_GROUP_MAX = 1024  # requests of one message; the protocol's bound is 4096
_GROUP_BYTES_MAX = 1 << 20  # of one message, unless one request alone is larger
_MANY = 4096  # asks that wait: looked through each time that there are twice as many
_OVERHEAD_BYTES = 32  # of a request, beside its head and its inputs
_SUBMISSIONS = tag_of(pb.SessionRequest, "submissions")
_NUMBER = tag_of(pb.Submission, "number")

_PAUSE_S = 0.02  # some round trips
_PAUSE_S_MAX = 1.0  # of an election that fails once or twice, the greater part


class Answer(Protocol):
    """Where an answer goes: a future, or something simpler."""

    def done(self) -> bool:
        """Whether it is there, or nobody wants it any more."""
        ...

    def set_result(self, result: Any, /) -> None:
        """Take it."""
        ...

    def set_exception(self, error: BaseException, /) -> None:
        """Take an error."""
        ...


class Ask:
    """A request that is to be taken in, or one whose outcome is waited for.

    Args:
        answer: is given the outcome as a `Result`, the ticket's index, or an exception.
        request_id: of the request.
        head: what is to be taken in, up to its inputs (`heads`); the same bytes for every
            try. Empty: it was taken in before.
        payload: its inputs.
        index: of its ticket, where there is one.
        is_single: whether its inputs have no batch axis.
        wants_ticket: whether its answer is its ticket alone, and not its outcome.

    Attributes:
        link: where it was asked for, and is owed.
        number: under which.
        is_lost: it was asked for somewhere, and what became of that is not known.
        is_read: its answer is an outcome, which may go in the cluster once it is taken here.
        said: why it was refused last.
        attempts: how often it was refused.
        together: with what its wait ends (`deadlines`).
    """

    __slots__ = (
        "answer",
        "attempts",
        "head",
        "index",
        "is_lost",
        "is_read",
        "is_single",
        "link",
        "number",
        "payload",
        "request_id",
        "said",
        "together",
        "wants_ticket",
    )

    def __init__(
        self,
        answer: Answer,
        request_id: str,
        head: bytes = b"",
        payload: bytes = b"",
        index: int = 0,
        is_single: bool = False,
        wants_ticket: bool = False,
    ) -> None:
        self.answer = answer
        self.request_id = request_id
        self.head = head
        self.payload = payload
        self.index = index
        self.is_single = is_single
        self.wants_ticket = wants_ticket
        self.link: Link | None = None
        self.number = 0
        self.is_lost = False
        self.is_read = False
        self.said: RaftbatchError | None = None
        self.attempts = 0
        self.together: dict[Ask, tuple[float, bool]] | None = None

    def late(self, limit_s: float, is_cancelled: bool) -> RaftbatchError:
        """Return what is said of it where there is no answer in time."""
        if not self.head or self.is_lost or self.link is not None:
            what = "it is cancelled" if is_cancelled else "it goes on"
            unknown = f"{self.request_id} has no answer within {limit_s:g} s, and {what}"
            return OutcomeUnknown(unknown)
        # It was never sent, or refused each time: nothing was done.
        return self.said or NoLeader(f"no node took it within {limit_s:g} s")

    def judged(self, error: RaftbatchError) -> RaftbatchError:
        """Return what may be said of it where it is refused: nothing definite, once lost."""
        if not self.head or not self.is_lost or isinstance(error, SURE):
            return error
        return self.unknown(error.message)

    def unknown(self, why: str) -> OutcomeUnknown:
        """Return what is said of it where an earlier try was lost, and this one does not help."""
        return OutcomeUnknown(
            f"{self.request_id} was asked for before, and its answer was lost: ask again with the "
            f"same request id ({why})"
        )

    def fail(self, error: BaseException) -> None:
        """End it with an error, unless it has ended."""
        if not self.answer.done():
            self.answer.set_exception(error)


class Ready:
    """What is to be asked for as soon as somebody leads, in its order."""

    def __init__(self) -> None:
        self._asks: deque[Ask] = deque()
        self._many = _MANY  # beyond it, what was given up is looked for

    def __len__(self) -> int:
        """Return how many there are, given up ones among them."""
        return len(self._asks)

    def put(self, ask: Ask) -> None:
        """Add one."""
        if len(self._asks) >= self._many:  # nothing is taken out while nobody leads
            self._asks = deque(each for each in self._asks if not each.answer.done())
            self._many = max(_MANY, 2 * len(self._asks))
        self._asks.append(ask)

    def put_first(self, asks: Sequence[Ask]) -> None:
        """Add some before all others, in their order."""
        for ask in reversed(asks):
            ask.link = None
            if not ask.answer.done():
                self._asks.appendleft(ask)

    def take(self) -> list[Ask]:
        """Return all; none is left."""
        found = list(self._asks)
        self._asks.clear()
        return found

    def fill(self, request: pb.SessionRequest, parts: list[bytes], link: Link, number: int) -> int:
        """Put as many into a message as it and the node have room for.

        Args:
            request: the message, for what was taken in before; it may say something already.
            parts: is given the bytes that follow it, of what is to be taken in.
            link: that it is for, and that owes them from then on.
            number: the last that was used.

        Returns:
            The last number that is used now.
        """
        ready, asks = self._asks, link.asks
        room = min(_GROUP_MAX, link.room)
        whole: int = link.opened.message_bytes_max
        most, size = min(_GROUP_BYTES_MAX, whole), request.ByteSize()
        is_alone = not (request.dropped or request.cancels or request.acknowledgements)
        while ready and room > 0:
            ask = ready[0]
            if ask.answer.done():  # it was given up
                ready.popleft()
                continue
            bytes_of_it = (
                len(ask.head) + len(ask.payload) if ask.head else id_bytes_max(ask.request_id)
            )
            own = bytes_of_it + _OVERHEAD_BYTES
            if size + own > most and not is_alone:
                break
            if size + own > whole:
                ready.popleft()
                why = f"a request of {size + own} bytes is more than the {whole} that a node takes"
                # It was not asked, and so says nothing of an earlier try.
                ask.fail(ask.unknown(why) if ask.is_lost else PayloadTooLarge(why))
                continue
            size += own
            is_alone = False
            if ask.head:
                field = _NUMBER + varint(number + 1)
                length = varint(bytes_of_it + len(field))
                parts += (_SUBMISSIONS + length, ask.head, ask.payload, field)
            else:
                request.awaits.add(number=number + 1, request_id=ask.request_id, index=ask.index)
            ready.popleft()
            number += 1
            room -= 1
            ask.number, ask.link = number, link
            asks[number] = ask
        return number


def id_bytes_max(request_id: str) -> int:
    """Return how many bytes an id takes in a message, at most."""
    length = len(request_id)
    return (length if request_id.isascii() else 4 * length) + 3  # its tag and length


def end_wait(future: asyncio.Future[None]) -> None:
    """Let whoever waits go on, unless somebody did before."""
    if not future.done():
        future.set_result(None)


def pause_s(attempts: int, retry_after_ms: int = 0) -> float:
    """Return how long to wait before the next try: longer each time, and never just as long.

    Args:
        attempts: that have failed, from 1.
        retry_after_ms: what the node asks for, at least.
    """
    own = backoff_s(attempts, _PAUSE_S, _PAUSE_S_MAX, drawn())
    asked = retry_after_ms / 1000
    # A node that asks many to come back later must not get them all in one moment.
    return max(own, asked * (1.25 + drawn() / 4))
