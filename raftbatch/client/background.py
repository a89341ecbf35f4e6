"""What is said in the background, many at once: outcomes that were read, and cancels.

Nobody's request waits for it. What a node does not take is said again, to the next: both
are harmless to repeat.

What lives here: which ids are to be said, and what became of it. What must never live
here: whom to say it to (`engine`). Called by: `engine`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import islice

from raftbatch.client.asks import id_bytes_max, pause_s
from raftbatch.errors import InvalidRequest, OutcomeUnknown, RaftbatchError
from raftbatch.fields import NAME_LENGTH_MAX
from raftbatch.trailers import error_in
from raftbatch.v1 import gateway_pb2 as pb

NAMES_MAX = 4096
"""Of one message: the protocol's bound. A node may take fewer, and says so."""

_PART = 8  # of a message for ids of either kind
_ID_BYTES_MAX = 4 * NAME_LENGTH_MAX + 3  # `checks` lets no other in

_ENOUGH = 256  # acknowledgements that are worth a message of their own
_SOON_S = 0.05  # fewer wait so long for others
_HELD_MAX = 1 << 17  # beyond that the oldest is left to its retention, or goes on

RETRIED = (
    "not_leader",
    "no_leader",
    "draining",
    "overloaded",
    "quota_exceeded",
    "no_space",
)
"""Definite errors that another try may not meet."""


@dataclass(frozen=True, slots=True)
class Control:
    """Ids of one message.

    Attributes:
        is_cancel: they are cancelled; else they are acknowledged.
        request_ids: which.
    """

    is_cancel: bool
    request_ids: tuple[str, ...]


class Background:
    """See the module's docstring.

    Args:
        wake: called when there is something to say.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._read: dict[str, None] = {}
        self._cancels: dict[str, None] = {}
        self._cancelled: dict[str, asyncio.Future[bool]] = {}  # who waits to hear
        self._unread: dict[str, Collection[int]] = {}  # see `cancel`
        self._most = NAMES_MAX  # less once lists were refused
        self._owed = 0  # ids that a node is about to answer for
        self._attempts = 0
        self._is_due = False
        self._is_pausing = False
        self._timer: asyncio.TimerHandle | None = None
        self._idle: asyncio.Future[None] | None = None

    @property
    def is_due(self) -> bool:
        """Whether something is to be said now."""
        return not self._is_pausing and bool(self._cancels or (self._is_due and self._read))

    def acknowledge(self, request_id: str) -> None:
        """Say soon that an outcome was read."""
        read = self._read
        read[request_id] = None
        if len(read) >= _ENOUGH:
            while len(read) > _HELD_MAX:
                del read[next(iter(read))]
            if not (self._is_due or self._is_pausing):
                self._due()
        elif self._timer is None:
            self._due_in(_SOON_S)

    def cancel(self, request_id: str, unread: Collection[int] = ()) -> asyncio.Future[bool]:
        """Cancel a request; the future tells whether it is cancelled: else it had an outcome.

        Args:
            request_id: of the request.
            unread: states (`pb.CancelState`) of which nobody is to read the outcome: it may go.
        """
        future = self._cancelled.get(request_id)
        if future is None:
            future = asyncio.get_running_loop().create_future()
            self._cancelled[request_id] = future
            self._cancels[request_id] = None
            if len(self._cancels) > _HELD_MAX:
                self._forget(next(iter(self._cancels)))
            self._unread[request_id] = unread
            if not self._is_pausing:
                self._wake()
        return future

    def _forget(self, request_id: str) -> None:
        """Leave a request to itself: no node has taken its cancel, and too many wait for one."""
        del self._cancels[request_id]
        why = f"{request_id} was not cancelled: {_HELD_MAX} others wait for a node"
        self._tell(request_id, OutcomeUnknown(why))

    def take(self, most: int, message_bytes_max: int, names_max: int = 0) -> list[Control]:
        """Return what is to be said now; it is owed from then on.

        Args:
            most: lists of ids at once.
            message_bytes_max: of the message that they travel in: they take a part of it.
            names_max: ids of one list that the node takes; 0: it does not say.
        """
        bounds = message_bytes_max // _PART, min(names_max or NAMES_MAX, self._most)
        controls: list[Control] = []
        if self._is_pausing:
            return controls
        if self._cancels and most > 0:
            controls.append(Control(True, _taken(self._cancels, *bounds)))
        if self._read and self._is_due and most > len(controls):
            controls.append(Control(False, _taken(self._read, *bounds)))
            self._is_due = bool(self._read)
        self._owed += sum(len(control.request_ids) for control in controls)
        return controls

    def cancelled(
        self, control: Control, results: Sequence[pb.CancelResult]
    ) -> RaftbatchError | None:
        """Take in what became of cancels; return an error that says where to go, if any."""
        again: list[str] = []
        error = None
        for request_id, result in zip(control.request_ids, results, strict=True):
            if result.HasField("error"):
                found = error_in(result.error)
                if _is_retried(found):
                    again.append(request_id)
                    error = found
                else:
                    self._tell(request_id, found)
            else:
                if result.state in self._unread.get(request_id, ()):
                    self.acknowledge(request_id)
                self._tell(request_id, result.state != pb.CANCEL_STATE_ENDED)
        self._settled(control, again, error)
        return error

    def acknowledged(
        self, control: Control, results: Sequence[pb.AcknowledgeResult]
    ) -> RaftbatchError | None:
        """Take in what became of acknowledgements; return an error, as `cancelled`."""
        again: list[str] = []
        error = None
        for request_id, result in zip(control.request_ids, results, strict=False):
            if result.HasField("error") and _is_retried(error_in(result.error)):
                again.append(request_id)
                error = error_in(result.error)
        self._settled(control, again, error)
        return error

    def failed(self, control: Control, error: RaftbatchError) -> None:
        """Take in that nobody knows what became of it, or that it was refused.

        A list that is none, by the node's word, may be too long for it, or for whom it hands it on
        to: it is said again in two parts, down to single ids. One that is refused by itself was
        why, and not how many they were.
        """
        count = len(control.request_ids)
        is_none = isinstance(error, InvalidRequest)
        is_divided = is_none and count > 1
        if is_none:
            self._most = min(self._most, -(-count // 2)) if is_divided else NAMES_MAX
        if is_divided or _is_retried(error):
            self._settled(control, control.request_ids, error)
            return
        for request_id in control.request_ids if control.is_cancel else ():
            self._tell(request_id, error)
        self._settled(control, (), None)

    def give_up(self, error: RaftbatchError) -> None:
        """Say nothing of what is to be said now: there is nobody to say it to."""
        cancels, self._cancels = self._cancels, {}
        for request_id in cancels:
            self._tell(request_id, error)

    async def said(self) -> None:
        """Return when all is said and answered."""
        self._due()
        if self._is_idle:
            return
        self._idle = asyncio.get_running_loop().create_future()
        await self._idle

    def close(self) -> None:
        """Say nothing any more."""
        self._end_timer()
        waiting, self._cancelled = self._cancelled, {}
        for request_id, future in waiting.items():
            if not future.done():
                future.set_exception(OutcomeUnknown(f"closed before {request_id} was cancelled"))
                future.exception()  # as below

    @property
    def _is_idle(self) -> bool:
        return not self._read and not self._cancels and not self._owed

    def _settled(
        self, control: Control, again: Sequence[str], error: RaftbatchError | None
    ) -> None:
        """Take in that a message is answered; what is left of it is said again after a pause."""
        self._owed -= len(control.request_ids)
        target = self._cancels if control.is_cancel else self._read
        target.update(dict.fromkeys(again))
        if again:
            self._attempts += 1
            pause = pause_s(self._attempts, error.retry_after_ms if error is not None else 0)
            self._pause(pause)
        else:
            self._attempts = 0
        if self._idle is not None and not self._idle.done() and self._is_idle:
            self._idle.set_result(None)

    def _pause(self, duration_s: float) -> None:
        """Say nothing for so long, or for as long as another answer has asked for."""
        if self._is_pausing and self._timer is not None:
            duration_s = max(duration_s, self._timer.when() - asyncio.get_running_loop().time())
        self._is_pausing = True
        self._due_in(duration_s)

    def _due_in(self, duration_s: float) -> None:
        self._end_timer()
        self._timer = asyncio.get_running_loop().call_later(duration_s, self._due)

    def _end_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _due(self) -> None:
        self._end_timer()
        self._is_due = True
        self._is_pausing = False
        if self._read or self._cancels:
            self._wake()

    def _tell(self, request_id: str, answer: bool | RaftbatchError) -> None:
        self._unread.pop(request_id, None)
        future = self._cancelled.pop(request_id, None)
        if future is None or future.done():
            return
        if isinstance(answer, bool):
            future.set_result(answer)
        else:
            future.set_exception(answer)
            future.exception()  # whoever waits hears of it; where nobody does, nobody is to


def _is_retried(error: RaftbatchError) -> bool:
    return (not error.definite or error.slug in RETRIED) and not isinstance(error, InvalidRequest)


def _taken(ids: dict[str, None], bytes_max: int, names_max: int) -> tuple[str, ...]:
    """Take the first ids out, as many as a message may hold, and one in any case."""
    if len(ids) <= names_max and len(ids) * _ID_BYTES_MAX <= bytes_max:
        found = tuple(ids)
        ids.clear()
        return found
    left, first = bytes_max, list[str]()
    for each in islice(ids, names_max):
        left -= id_bytes_max(each)
        if left < 0 and first:
            break
        first.append(each)
    for each in first:
        del ids[each]
    return tuple(first)
