"""What operators read of a node: its log, entry by entry, and what its state holds of one thing.

What lives here: reading the applied log on, within bounds, and the values that tell of one
request or one batch. What must never live here: how they travel (`rpc`), or the stories that a
log tells (`raftbatch.stories`). Called by: `rpc`. One thread: the loop's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Protocol

from coordinator.core.state import State
from coordinator.core.values import Batch, Outcome, Request
from coordinator.raft.segments.layout import Entry
from raftbatch.errors import UnknownRequest

READ_BYTES = 1 << 20
"""Entries are read until they reach so much; one may be larger."""

MEMBERS_SHOWN_MAX = 1000
"""Of one batch: a reply is to be read, and made in no time."""


class AppliedLog(Protocol):
    """What is needed of the replicated log; see `coordinator.raft.log`."""

    @property
    def applied(self) -> int:
        """Index of the last entry that is applied."""
        ...

    async def entries(self, first: int, bytes_max: int) -> tuple[Entry, ...]:
        """Return applied entries."""
        ...

    async def reached(self, index: int) -> None:
        """Return once an index is applied."""
        ...


async def applied_entries(
    log: AppliedLog, first: int, last: int, *, follows: bool
) -> AsyncGenerator[tuple[Entry, ...], None]:
    """Yield applied entries in order, each once, some at a time; holds no more than it yields.

    Args:
        log: whose.
        first: index of the first.
        last: index of the last; 0: no end.
        follows: whether to wait for what is not applied yet; else that is the end.

    Raises:
        Compacted: definite; an index that is due is not in the log any more.
        Overloaded: definite; no descriptor is free.
        OutcomeUnknown, Fatal: the log has ended.
    """
    due = first
    while not last or due <= last:
        entries = await log.entries(due, READ_BYTES)
        if entries:
            due = entries[-1].index + 1
            wanted = tuple(entry for entry in entries if not last or entry.index <= last)
            del entries  # the next are read while nobody holds these
            yield wanted
            del wanted
        elif log.applied >= due:
            await asyncio.sleep(0)  # it was installed meanwhile: the next look says so
        elif follows:
            await log.reached(due)
        else:
            return


@dataclass(frozen=True, slots=True)
class RequestState:
    """What a state holds of a request.

    Attributes:
        found: the request, or its outcome.
        batch: that it is in; 0: none.
        is_quarantined: whether it is set aside.
    """

    found: Request | Outcome
    batch: int
    is_quarantined: bool


@dataclass(frozen=True, slots=True)
class BatchState:
    """What a state holds of a batch that is not done with; `members` have no outcome yet."""

    batch: Batch
    members: tuple[Request, ...]


def request_state(state: State, tenant: str, request_id: str) -> RequestState:
    """Return what a state holds of a request.

    Raises:
        UnknownRequest: definite; nothing.
    """
    found = state.request(tenant, request_id)
    if found is None:
        raise UnknownRequest(
            f"nothing is known of request {request_id} of tenant {tenant}: it was never admitted, "
            "or its retention is over"
        )
    batch = state.batch_of.get(found.number, 0)
    return RequestState(found, batch, found.number in state.quarantine)


def batch_state(state: State, number: int) -> BatchState:
    """Return what a state holds of a batch.

    Raises:
        UnknownRequest: definite; nothing: there was none, or it is done with.
    """
    batch = state.batches.get(number)
    if batch is None:
        below = number < state.next_batch
        raise UnknownRequest(
            f"batch {number} is done with, or never came to be"
            if below
            else f"there is no batch {number} yet: the next is {state.next_batch}"
        )
    waiting = [state.requests[each] for each in batch.members if each in state.requests]
    return BatchState(batch, tuple(waiting[:MEMBERS_SHOWN_MAX]))
