"""What the feed tells an executor: its current set, then changes.

What lives here: the values, and how an assignment is made of the state. What must
never live here: when they are said (`feed`), their form on the wire. Called by:
`feed`, and whoever hands messages on.

An executor takes a message so: what is finished, dropped or to be stopped goes
first, then rows are shed, then what is to start comes: so it never holds more
than it has slots.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from coordinator.core.state import State
from raftbatch.kinds import Key, LapseReason


class Slot(NamedTuple):
    """An assignment by its name.

    Attributes:
        batch: its number.
        fence: of the assignment.
    """

    batch: int
    fence: int


class Stop(NamedTuple):
    """An assignment that lapsed: the executor stops it, and confirms with Free.

    Attributes:
        batch: its number.
        fence: of the assignment.
        reason: why; None: the executor never heard of it, or this node did not see why.
    """

    batch: int
    fence: int
    reason: LapseReason | None


class Shed(NamedTuple):
    """Rows that need neither be run nor reported any more: their requests have outcomes.

    They were cancelled, have expired, or stood in a part of a report that has landed.

    Attributes:
        batch: its number.
        fence: of the assignment.
        numbers: of the requests.
    """

    batch: int
    fence: int
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Assignment:
    """A batch to run; columns for its requests, in the batch's order.

    Only requests without an outcome are in it: where none is left, the executor reports just
    that, since the slot returns with the report. The bytes are the state's own.

    Attributes:
        batch: its number.
        attempt: which assignment of the batch this is, from 1.
        fence: of this one.
        key: batch key of all its requests.
        numbers: of the requests.
        rows: of each.
        payloads: the envelopes.
        parameters: opaque.
        traceparents: empty: none.
        deadlines_ms: log time; 0: none.
    """

    batch: int
    attempt: int
    fence: int
    key: Key
    numbers: tuple[int, ...]
    rows: tuple[int, ...]
    payloads: tuple[bytes, ...]
    parameters: tuple[bytes, ...]
    traceparents: tuple[str, ...]
    deadlines_ms: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Current:
    """The first message: all that the executor is to hold, against what it says it holds.

    Attributes:
        index: up to which it is true.
        at_ms: log time there.
        start: what it is to hold and does not.
        keep: what it holds rightly.
        shed: rows of those that it need not run.
        drop: what it is to hold no more, and to confirm with Free, which does no harm for
            what is unknown; also what it says nothing of and has not confirmed yet.
        is_draining: whether it gets nothing new.
        is_suspended: whether it gets nothing new until a probe succeeds.
    """

    index: int
    at_ms: int
    start: tuple[Assignment, ...]
    keep: tuple[Slot, ...]
    shed: tuple[Shed, ...]
    drop: tuple[Slot, ...]
    is_draining: bool
    is_suspended: bool


@dataclass(frozen=True, slots=True)
class Changes:
    """What changed since the message before.

    Attributes:
        index: up to which it is true.
        at_ms: log time there.
        start: what it is to hold now.
        stop: what lapsed.
        shed: rows that it need not run.
        finished: what it reported, and is complete.
        is_draining: whether it gets nothing new.
        is_suspended: whether it gets nothing new until a probe succeeds.
    """

    index: int
    at_ms: int
    start: tuple[Assignment, ...]
    stop: tuple[Stop, ...]
    shed: tuple[Shed, ...]
    finished: tuple[Slot, ...]
    is_draining: bool
    is_suspended: bool


def assignment(state: State, number: int) -> Assignment:
    """Return a batch that is assigned, as its executor is told of it. Total. Deterministic."""
    batch = state.batches[number]
    found = [state.requests[each] for each in batch.members if each in state.requests]
    return Assignment(
        number,
        batch.assigned,
        batch.fence,
        batch.key,
        tuple([request.number for request in found]),
        tuple([request.rows for request in found]),
        tuple([request.payload for request in found]),
        tuple([request.parameters for request in found]),
        tuple([request.traceparent for request in found]),
        tuple([request.deadline_ms for request in found]),
    )
