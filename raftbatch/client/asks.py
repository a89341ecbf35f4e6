"""What has been asked for and has no answer yet.

What lives here: that, as values, and how long to pause before it is asked for again. What
must never live here: whom to ask (`engine`). Called by: `engine`, `link`, `background`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from raftbatch.backoff import backoff_s
from raftbatch.client.host import drawn
from raftbatch.errors import PayloadTooLarge, RaftbatchError
from raftbatch.v1 import gateway_pb2 as pb

if TYPE_CHECKING:
    from raftbatch.client.link import Link

_GROUP_MAX = 1024  # requests of one message; the protocol's bound is 4096
_GROUP_BYTES_MAX = 1 << 20  # of one message, unless one request alone is larger
_OVERHEAD_BYTES = 256  # of a request, beside its payload

_PAUSE_S = 0.02  # some round trips
_PAUSE_S_MAX = 1.0  # of an election that fails once or twice, the greater part


class Ask:
    """A request that is to be taken in, or one whose outcome is waited for.

    Args:
        answer: is given the outcome as a `Result`, the ticket's index, or an exception.
        request_id: of the request.
        submission: what is to be taken in; the same bytes for every try. None: it was
            taken in before.
        index: of its ticket, where there is one.

    Attributes:
        link: where it was asked for, and is owed.
        number: under which.
        is_lost: it was asked for somewhere, and what became of that is not known.
        said: why it was refused last.
        attempts: how often it was refused.
        timer: ends it.
    """

    __slots__ = (
        "answer",
        "attempts",
        "index",
        "is_lost",
        "link",
        "number",
        "request_id",
        "said",
        "submission",
        "timer",
    )

    def __init__(
        self,
        answer: asyncio.Future[Any],
        request_id: str,
        submission: pb.Submission | None = None,
        index: int = 0,
    ) -> None:
        self.answer = answer
        self.request_id = request_id
        self.submission = submission
        self.index = index
        self.link: Link | None = None
        self.number = 0
        self.is_lost = False
        self.said: RaftbatchError | None = None
        self.attempts = 0
        self.timer: asyncio.TimerHandle | None = None

    def fail(self, error: BaseException) -> None:
        """End it with an error, unless it has ended."""
        if not self.answer.done():
            self.answer.set_exception(error)


class Ready:
    """What is to be asked for as soon as somebody leads, in its order."""

    def __init__(self) -> None:
        self._asks: deque[Ask] = deque()

    def __len__(self) -> int:
        """Return how many there are, given up ones among them."""
        return len(self._asks)

    def put(self, ask: Ask) -> None:
        """Add one."""
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

    def fill(self, request: pb.SessionRequest, link: Link, number: int) -> int:
        """Put as many into a message as it and the node have room for.

        Args:
            request: the message.
            link: that it is for, and that owes them from then on.
            number: the last that was used.

        Returns:
            The last number that is used now.
        """
        ready, asks = self._asks, link.asks
        room = min(_GROUP_MAX, link.opened.in_flight_max - len(asks) - len(link.controls))
        most = min(_GROUP_BYTES_MAX, link.opened.message_bytes_max)
        submissions: list[pb.Submission] = []
        size = 0
        while ready and room > 0:
            ask = ready[0]
            if ask.answer.done():  # it was given up
                ready.popleft()
                continue
            submission = ask.submission
            if submission is not None:
                own = len(submission.payload) + _OVERHEAD_BYTES
                if own > link.opened.message_bytes_max:
                    ready.popleft()
                    ask.fail(_too_large(own, link.opened.message_bytes_max))
                    continue
                size += own
                if size > most and submissions:
                    break
            ready.popleft()
            number += 1
            room -= 1
            ask.number, ask.link = number, link
            asks[number] = ask
            if submission is not None:
                submission.number = number
                submissions.append(submission)
            else:
                request.awaits.add(number=number, request_id=ask.request_id, index=ask.index)
        request.submissions.extend(submissions)
        return number


def _too_large(size: int, most: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"a request of {size} bytes is more than the {most} that a node takes")


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
