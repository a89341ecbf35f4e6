"""What a client has asked for in a session, until its last answer is there.

What lives here: that, as a value. What must never live here: a stream. Called by: `session`.
"""

from __future__ import annotations

from coordinator.waits import Wait

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
