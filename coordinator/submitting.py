"""One call to submit: the answers that have come, and how many have not.

What lives here: that, by callbacks, so that a request costs no task. What must never live
here: whether a request may be (`api_requests`). Called by: `api_requests`. One thread: the
loop's.
"""

from __future__ import annotations

import asyncio

from coordinator.answers import Ticket, error_of
from coordinator.core.effects import Verdict, Verdicts
from coordinator.proposer import Landed
from raftbatch.errors import Invariant, RaftbatchError

Answer = Ticket | RaftbatchError


class Submitting:
    """One call to submit: the answers that have come, and how many have not.

    Args:
        count: of its requests.
        refused: counts those that get an error, by its slug.
    """

    def __init__(self, count: int, refused: dict[str, int]) -> None:
        self._refused = refused
        self._answers: list[Answer | None] = [None] * count
        self._left = count
        self._all: asyncio.Future[None] | None = None

    def answer(self, place: int, answer: Answer) -> None:
        """Answer one."""
        self._answers[place] = answer
        self._left -= 1
        if not self._left and self._all is not None and not self._all.done():
            self._all.set_result(None)

    def refuse(self, place: int, error: RaftbatchError) -> None:
        """Answer one by an error."""
        self._refused[error.slug] = self._refused.get(error.slug, 0) + 1
        self.answer(place, error)

    def landed(
        self, place: int, request_id: str, result: Landed | Verdicts | RaftbatchError
    ) -> None:
        """Answer one by what became of its Admit."""
        if type(result) is Landed and not result.verdict:  # as mostly
            self.answer(place, Ticket(request_id, result.index))
            return
        if isinstance(result, RaftbatchError):
            self.refuse(place, result)
            return
        if isinstance(result, Verdicts):
            raise Invariant("a request landed in columns")
        match result.verdict:
            case Verdict.KNOWN | Verdict.ENDED:
                self.answer(place, Ticket(request_id, result.value))
            case verdict:
                self.refuse(place, error_of(verdict, result.message, result.retry_after_ms))

    async def all_answered(self) -> list[Answer]:
        """Return all, once they are there."""
        if self._left:
            self._all = asyncio.get_running_loop().create_future()
            await self._all
        return [answer for answer in self._answers if answer is not None]
