"""What a client has asked for in a session, until its last answer is there.

What lives here: that, as a value, and how much one message may ask for. What must never live here:
a stream. Called by: `session`, and the services, for their bounds.
"""

from __future__ import annotations

from collections.abc import Sized

from coordinator.waits import Wait
from raftbatch.errors import InvalidRequest
from raftbatch.v1 import gateway_pb2 as pb

ASKS_MAX = 4096
"""Of each kind, in one message."""


class Ask:
    """Something that the client has asked for, and has no last answer to.

    Attributes:
        number: the client's.
        tenant: whose request it is about, where it is about one.
        request_id: of that.
        index: of its ticket, where there is one.
        want: what is wanted of a submission.
        wait: for the outcome.
    """

    __slots__ = ("index", "number", "request_id", "tenant", "wait", "want")

    def __init__(self, number: int, tenant: str = "", request_id: str = "", index: int = 0) -> None:
        self.number = number
        self.tenant = tenant
        self.request_id = request_id
        self.index = index
        self.want: int | None = None  # it is no submission
        self.wait: Wait | None = None


def bounded(things: Sized, most: int, what: str) -> None:
    """Refuse too many, before any of them is looked at: a message holds millions of small ones.

    Raises:
        InvalidRequest: definite.
    """
    if len(things) > most:
        raise InvalidRequest(f"{len(things)} {what} at once, at most {most}")


def check(request: pb.SessionRequest, in_flight_max: int) -> None:
    """Refuse a message that asks for more than one may.

    Raises:
        InvalidRequest: definite.
    """
    bounded(request.dropped, in_flight_max, "numbers are dropped")
    for each in (request.submissions, request.awaits, request.cancels, request.acknowledgements):
        bounded(each, ASKS_MAX, "of a kind")


def names_of(tenant: str, message: pb.SessionNames) -> tuple[list[tuple[str, str]], int]:
    """Return whom a list of ids names, and about how many bytes that takes.

    Raises:
        InvalidRequest: definite; they are too many.
    """
    bounded(message.request_ids, ASKS_MAX, "ids")
    names = [(tenant, request_id) for request_id in message.request_ids]
    return names, sum(map(len, message.request_ids))
