"""Sends what the machine has to report, again and again, until it is settled.

A call costs executor and leader as much as some ten requests do, and a report more goes with it
for little. So the report of a batch that ran for a moment waits for that of the next, where
that runs already, and where nothing runs it goes at once.

What lives here: that. What must never live here: what is reported, or whom to ask.
Called by: the agent. Tasks: `run`, and one for each call that is under way.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence

from executor.core.machine import Machine
from executor.core.values import Due, Verdict
from executor.link import STALE, TOO_LARGE, Link, Refused, Trouble
from raftbatch.logs import fields

_LOG = logging.getLogger(__name__)

_CALL_BYTES = 16 << 20  # of reports in one call, unless one alone is larger
_GATHER_S = 0.002  # by then the next report is there: see `Holdings.has_company_soon`


class Reporter:
    """See the module's docstring.

    Args:
        machine: whose reports they are.
        link: to the coordinators.
        stale: called once the executor's life is found to be over.
        settled: called after answers were taken in.
    """

    def __init__(
        self,
        machine: Machine,
        link: Link,
        stale: Callable[[], None],
        settled: Callable[[], None],
    ) -> None:
        self._machine = machine
        self._link = link
        self._stale = stale
        self._settled = settled
        self._is_marked = asyncio.Event()

    def wake(self) -> None:
        """Look for reports that are due."""
        self._is_marked.set()

    async def run(self) -> None:
        """Send reports as they come, for ever; each call is repeated on its own."""
        async with asyncio.TaskGroup() as sending:
            while True:
                await self._is_marked.wait()
                self._is_marked.clear()
                if self._machine.holdings.has_company_soon():
                    await self._gather()
                for dues in _grouped(self._machine.due()):
                    sending.create_task(self._send(dues))

    async def _gather(self) -> None:
        """Let a report wait for the next, which is soon there."""
        try:
            async with asyncio.timeout(_GATHER_S):
                while self._machine.holdings.has_company_soon():
                    await self._is_marked.wait()
                    self._is_marked.clear()
        except TimeoutError:
            pass  # it is not: what is there goes

    async def _send(self, dues: Sequence[Due]) -> None:
        """Send reports until each is answered definitely, or need not be sent any more."""
        pauses = self._link.pauses()
        while dues := [due for due in dues if self._machine.is_open(due)]:
            try:
                answers = await self._link.report([due.report for due in dues])
            except Refused as error:  # the call as a whole
                if error.slug == TOO_LARGE and len(dues) > 1:
                    for due in dues:  # each may be small enough
                        await self._send([due])
                    return
                answers = [Trouble(error.slug, error.message, is_definite=True)] * len(dues)
            pairs = zip(dues, answers, strict=True)
            dues = [due for due, answer in pairs if not self._is_settled(due, answer)]
            self._settled()
            if dues:
                await asyncio.sleep(pauses.next_s())

    def _is_settled(self, due: Due, answer: Trouble | None) -> bool:
        if answer is None:
            self._machine.answered(due, Verdict.TAKEN)
        elif not answer.is_final:
            return False
        elif answer.slug == STALE:
            self._stale()
        elif answer.slug == "stale_fence":
            self._machine.answered(due, Verdict.STALE)
        elif answer.slug == TOO_LARGE:
            self._machine.answered(due, Verdict.TOO_LARGE, answer.message)
        else:
            _LOG.warning("report.rejected", extra=fields(slug=answer.slug, why=answer.message))
            self._machine.answered(due, Verdict.REJECTED, answer.message)
        return True


def _grouped(dues: Sequence[Due]) -> Iterator[list[Due]]:
    """Yield reports that go into one call each."""
    group: list[Due] = []
    size = 0
    for due in dues:
        of_due = due.report.ByteSize()
        if group and size + of_due > _CALL_BYTES:
            yield group
            group, size = [], 0
        group.append(due)
        size += of_due
    if group:
        yield group
