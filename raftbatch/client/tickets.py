"""The receipt of a request that was taken in.

What lives here: that, for programs on asyncio. What must never live here: whom to ask
(`engine`). Called by: users, `aio`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from raftbatch.client.results import Result

if TYPE_CHECKING:
    from raftbatch.client.aio import AsyncClient


class Ticket:
    """The receipt of a request that is taken in: it has its outcome one day, whoever dies.

    Args:
        client: that asks for the outcome.
        request_id: of the request.
        index: of the log entry that admitted it; 0: it is not known, or there is none.
        is_single: whether its inputs had no batch axis.

    Attributes:
        request_id: of the request.
        index: of the log entry. Both together find the outcome from any process, by
            `AsyncClient.ticket`.
    """

    __slots__ = ("_client", "_found", "_is_single", "index", "request_id")

    def __init__(
        self, client: AsyncClient, request_id: str, index: int, *, is_single: bool = False
    ) -> None:
        self.request_id = request_id
        self.index = index
        self._client = client
        self._is_single = is_single
        self._found: Result | None = None

    def __repr__(self) -> str:
        """Return both names."""
        return f"Ticket({self.request_id}, index={self.index})"

    async def result(self, *, timeout_s: float | None = None) -> Result:
        """Wait for the outcome; return the outputs. To cancel the await ends nothing else.

        Args:
            timeout_s: how long to wait; None: the client's `patience_s`.

        Raises:
            RequestFailed, RequestCancelled, DeadlineExceeded: the outcome; definite.
            UnknownRequest: there is no such request; definite.
            OutcomeForgotten: it had an outcome, which somebody has read, or whose retention
                is over; definite.
            OutcomeUnknown: none in time; it goes on. Not definite.
        """
        if self._found is None:
            self._found = await self._client._result(self, timeout_s)
            self._found.is_single = self._is_single
        return self._found

    async def cancel(self) -> bool:
        """Cancel it; one whose result is here has ended. See `AsyncClient.cancel`."""
        if self._found is not None:
            return False  # which was acknowledged: nodes may have forgotten the request by now
        return await self._client.cancel(self.request_id)
