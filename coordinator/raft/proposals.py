"""Entries that this node appended as a leader, until it is known what became of them.

What lives here: who waits for which index, and what each is told. What must
never live here: appending, or applying. Called by: `log`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from coordinator.raft.segments.layout import Entry
from raftbatch.errors import NotLeader, OutcomeUnknown, RaftbatchError


class Proposal:
    """An entry that was appended by the leader of its term.

    Without a future of its own: one costs more than all the rest of a proposal.

    Args:
        index: see below.
        term: see below.
        loop: tells those who wait.

    Attributes:
        index: where it stands.
        term: in which it was proposed.
        is_resolved: whether it is known what became of it.
        error: what `committed` raises then; None if it was committed.
    """

    __slots__ = ("_callbacks", "_futures", "_loop", "error", "index", "is_resolved", "term")

    def __init__(self, index: int, term: int, loop: asyncio.AbstractEventLoop) -> None:
        self.index = index
        self.term = term
        self.is_resolved = False
        self.error: RaftbatchError | None = None
        self._loop = loop
        self._futures: list[asyncio.Future[None]] = []
        self._callbacks: list[Callable[[BaseException | None], None]] = []

    async def committed(self) -> None:
        """Return once it is committed, and applied here. May be awaited by many.

        Raises:
            NotLeader: definite; another entry was committed in its place.
            OutcomeUnknown: this node stopped, was given a snapshot, or led again, before it
                knew.
        """
        if not self.is_resolved:
            future = self._loop.create_future()
            self._futures.append(future)
            await future
        elif self.error is not None:
            raise self.error

    def when_resolved(self, told: Callable[[BaseException | None], None]) -> None:
        """Call back on a later turn of the loop with what `committed` would raise, or None.

        For those who wait for many: a callback costs less than a task.
        """
        if self.is_resolved:
            self._loop.call_soon(told, self.error)
        else:
            self._callbacks.append(told)

    def resolve(self, error: RaftbatchError | None) -> None:
        """Tell those who wait; the log's own call."""
        if self.is_resolved:
            return
        self.is_resolved, self.error = True, error
        for told in self._callbacks:
            self._loop.call_soon(told, error)
        for future in self._futures:
            if future.done():
                continue  # who waited was cancelled
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)
        self._futures.clear()
        self._callbacks.clear()


class Proposals:
    """The proposals that wait, by index."""

    def __init__(self) -> None:
        self._waiting: dict[int, Proposal] = {}
        self._term = 0  # of the last entry applied

    def add(self, proposal: Proposal) -> None:
        """Wait for an entry. One of an earlier term that stood there was taken back here.

        Another node may still hold that one, lead later, and commit it.
        """
        overtaken = self._waiting.pop(proposal.index, None)
        if overtaken is not None:
            reason = f"entry {overtaken.index} of term {overtaken.term} was taken back: ask again"
            overtaken.resolve(OutcomeUnknown(reason))
        self._waiting[proposal.index] = proposal

    def applied(self, entry: Entry) -> None:
        """Tell who waits for that index."""
        proposal = self._waiting.pop(entry.index, None)
        if proposal is not None:
            proposal.resolve(None if proposal.term == entry.term else _replaced(proposal))
        self._reached(entry.term)

    def installed(self, index: int, term: int) -> None:
        """Tell who waits for what a snapshot stands for: it may be in it, or not."""
        for each in [each for each in self._waiting if each <= index]:
            reason = f"a snapshot stands for entry {each}: ask again"
            self._waiting.pop(each).resolve(OutcomeUnknown(reason))
        self._reached(term)

    def end(self, reason: OutcomeUnknown) -> None:
        """Tell all."""
        waiting, self._waiting = self._waiting, {}
        for proposal in waiting.values():
            proposal.resolve(reason)

    def _reached(self, term: int) -> None:
        """Tell who waits in vain.

        Terms never fall along a log: behind a committed entry of this term none
        of an earlier one can be committed any more.
        """
        if term > self._term:
            self._term = term
            for each in [each for each in self._waiting.values() if each.term < term]:
                self._waiting.pop(each.index).resolve(_replaced(each))


def _replaced(proposal: Proposal) -> NotLeader:
    return NotLeader(f"entry {proposal.index} of term {proposal.term} was replaced")
