"""What is handed on to the leader, until its answer is there.

It is kept as the bytes that it is sent as, which are made once: a message to the leader is
those bytes behind each other, as Protobuf lays out the parts of a message.

What lives here: one request, or one list of ids, the call that it belongs to, and asking
this node, should it come to lead. What must never live here: whom it is handed to
(`forwarding`). Called by: `forwarding`. One thread: the loop's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from enum import Enum

from coordinator.answers import Ticket
from coordinator.api import Api
from coordinator.config import SessionLimits
from coordinator.core.effects import Verdict
from coordinator.rpc import values
from coordinator.shares import CALLER, Shares
from raftbatch.errors import SURE, Fatal, NoLeader, OutcomeUnknown, RaftbatchError
from raftbatch.framing import tag_of, varint
from raftbatch.v1 import gateway_pb2 as pb

Answer = Ticket | Sequence[Verdict | RaftbatchError] | RaftbatchError
"""A ticket, an answer to each id, or why not."""

_ITEM_BYTES = 256  # of an item, beside its message
_RETRY_MS = 100


class Kind(Enum):
    """What is asked for; the value names its field in a message of a Session."""

    SUBMIT = "submissions"
    CANCEL = "cancels"
    ACKNOWLEDGE = "acknowledgements"


_TAGS = {kind: tag_of(pb.SessionRequest, kind.value) for kind in Kind}


class Item:
    """One thing that is asked for, and that has one answer.

    Args:
        number: of its answer, on whatever stream: it is the same for every try.
        tenant: whose it is.
        kind: of what is asked for.
        message: the client's own; its bytes are taken, and it is needed no more.

    Attributes:
        call: that it is a part of.
        data: the message.
        request_id: of a request.
        ids: how many, of a list of ids.
        size: in bytes, about.
        is_settled: it has its answer, or nobody wants it any more.
        is_owed: it was sent on the stream that is open.
        is_lost: it was sent, and what became of that is not known.
        said: why it was refused last.
    """

    __slots__ = (
        "answer",
        "call",
        "data",
        "ids",
        "is_lost",
        "is_owed",
        "is_settled",
        "kind",
        "number",
        "request_id",
        "said",
        "size",
        "tenant",
    )

    def __init__(
        self, number: int, tenant: str, kind: Kind, message: pb.Submission | pb.SessionNames
    ) -> None:
        self.call: HandedOn | None = None
        self.number = number
        self.tenant = tenant
        self.kind = kind
        self.request_id, self.ids = "", 0
        message.number = number
        if isinstance(message, pb.Submission):
            message.want = pb.WANT_TICKET  # the outcome comes to this node by itself
            self.request_id = message.request_id
        else:
            self.ids = len(message.request_ids)
        self.data: bytes = message.SerializeToString()
        # A message brings the tenant along, and nobody has looked at that yet.
        self.size = len(self.data) + len(tenant.encode()) + _ITEM_BYTES
        self.is_settled = self.is_owed = self.is_lost = False
        self.said: RaftbatchError | None = None
        self.answer: Answer | None = None

    def put_into(self, parts: list[bytes]) -> None:
        """Add it to the parts of a message, which it is sent with; it is owed from then on."""
        self.is_owed = True
        parts.append(_TAGS[self.kind] + varint(len(self.data)))
        parts.append(self.data)

    def settle(self, answer: Answer) -> HandedOn:
        """Give it its answer, and return its call; its bytes are let go."""
        call, self.call = self.call, None
        assert call is not None
        self.is_settled, self.answer, self.data = True, answer, b""
        call.settled()
        return call

    def judged(self, error: RaftbatchError) -> RaftbatchError:
        """Return what may be said of an item that was refused: nothing definite, once lost."""
        if not self.is_lost or isinstance(error, SURE):
            return error
        return OutcomeUnknown(
            f"it was handed on before, and its answer was lost: ask again with the same request "
            f"id ({error.message})",
            retry_after_ms=error.retry_after_ms,
        )

    def late(self, why: str) -> RaftbatchError:
        """Return what is to be said of an item that has no answer."""
        if self.is_owed or self.is_lost:
            unknown = f"it was handed on to the leader, and {why}: ask again with the same id"
            return OutcomeUnknown(unknown)
        said = f" ({self.said.message})" if self.said is not None else ""
        return NoLeader(f"no leader took it, and {why}{said}")


class OnTheirWay:
    """How much is on its way to the leader, and whose it is.

    Args:
        limits: bounds, of which each caller has its share.

    Attributes:
        requests: how many, and lists of ids.
    """

    def __init__(self, limits: SessionLimits) -> None:
        what, where = "are being handed on", "sessions.forward"
        most = limits.forward_requests_max
        self.requests = Shares(most, f"requests {what}", f"{where}_requests_max", _RETRY_MS)
        self._bytes = Shares(
            limits.forward_bytes_max,
            f"bytes {what}",
            f"{where}_bytes_max",
            _RETRY_MS,
            first_is_free=True,  # any request is to be handed on, however large
        )

    def take(self, call: HandedOn) -> None:
        """Count what a call has handed on.

        Raises:
            Overloaded: definite; it is too much, of all or of this caller.
        """
        size = sum([item.size for item in call.items])
        self.requests.check(len(call.items))
        self._bytes.check(size)
        self.requests.take(len(call.items))
        self._bytes.take(size)

    def settled(self, call: HandedOn, item: Item) -> None:
        """Count an item of a call no more."""
        self.requests.give(call.caller)
        self._bytes.give(call.caller, item.size)


class HandedOn:
    """The items of one call, and who waits for them.

    Args:
        items: in order.

    Attributes:
        caller: whose they count as.
    """

    def __init__(self, items: Sequence[Item]) -> None:
        self.items, self.caller = items, CALLER.get()
        for item in items:
            item.call = self
        self._left = len(items)
        self._all: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def is_over(self) -> bool:
        """Whether all have their answers."""
        return not self._left

    def settled(self) -> None:
        """Take in that one more has its answer."""
        self._left -= 1
        if not self._left and not self._all.done():
            self._all.set_result(None)

    async def answers(self) -> list[Answer]:
        """Return all answers, in order, once they are there."""
        if self._left:
            await self._all
        return [item.answer for item in self.items if item.answer is not None]


async def asked_of(api: Api, group: Sequence[Item]) -> Sequence[Answer]:
    """Return what this node itself answers, in order: to requests of one tenant, or one list."""
    first = group[0]
    for item in group:
        item.is_owed = True
    try:
        if first.kind is Kind.SUBMIT:
            messages = [pb.Submission.FromString(item.data) for item in group]
            return await api.submit([values.submission(first.tenant, each) for each in messages])
        asked = pb.SessionNames.FromString(first.data)
        names = [(first.tenant, each) for each in asked.request_ids]
        return [await (api.cancel if first.kind is Kind.CANCEL else api.acknowledge)(names)]
    except RaftbatchError as error:
        return [error] * len(group)
    except Fatal as error:
        return [OutcomeUnknown(f"this node stops: {error}")] * len(group)


def answer_to_ids(count: int, told: pb.SessionCancelled | pb.SessionAcknowledged) -> Answer:
    """Return what the leader says of a list of ids: of each, or nothing that is known."""
    found: list[Verdict | RaftbatchError]
    if isinstance(told, pb.SessionCancelled):
        found = [values.cancel_verdict(each) for each in told.results]
    else:
        found = [values.acknowledge_verdict(each) for each in told.results]
        found = found or [Verdict.OK] * count
    if len(found) != count:
        return OutcomeUnknown("the leader has not answered for each id")
    return found
