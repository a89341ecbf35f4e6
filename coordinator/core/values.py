"""The rows of the state's tables: immutable values, replaced and never changed.

What lives here: the values. What must never live here: what changes them.
Called by: the core, and the shells that read its state. A request and an outcome
are tuples: there may be a million of each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from raftbatch.kinds import Key, OutcomeKind, Release

OUTCOME_BYTES = 128
"""What an outcome is counted as, beside its result and message."""


class Request(NamedTuple):
    """A request without an outcome.

    Attributes:
        number: its place in log order.
        name: tenant, NUL, request id.
        key: its batch key.
        rows: of the batch axis.
        priority: 0 is the most urgent.
        at_ms: log time of its admission.
        deadline_ms: log time of its deadline; 0: none.
        ticket: index of the entry that admitted it.
        content_hash: of what was asked for.
        size: bytes of payload and parameters.
        payload: the envelope.
        parameters: opaque.
        traceparent: empty: none.
    """

    number: int
    name: str
    key: Key
    rows: int
    priority: int
    at_ms: int
    deadline_ms: int
    ticket: int
    content_hash: bytes
    size: int
    payload: bytes
    parameters: bytes
    traceparent: str

    @property
    def tenant(self) -> str:
        """Whose it is."""
        return self.name.partition("\0")[0]

    @property
    def request_id(self) -> str:
        """The client's id of it."""
        return self.name.partition("\0")[2]


class Run(NamedTuple):
    """Which run of a batch gave outcomes; one value for all of them. See `records.Complete`."""

    batch: int
    attempt: int
    fence: int
    executor: str
    incarnation: int
    queue_ns: int
    compute_input_ns: int
    infer_ns: int
    output_ns: int
    padded: tuple[int, ...]
    fingerprint: bytes


class Outcome(NamedTuple):
    """What became of a request, or of an id that was cancelled before it was admitted.

    Attributes:
        name: tenant, NUL, request id.
        number: of the request; 0: it never was admitted.
        ticket: index of the entry that admitted it; 0: none.
        content_hash: of what was asked for; empty: not known.
        kind: of the outcome.
        code: a slug; empty where there is nothing to say.
        message: for people.
        result: the outputs.
        at_ms: log time of the outcome.
        ended_index: index of the entry that gave it.
        run: which run gave it; None: none.
        is_kept: whether message, result and run are still there.
    """

    name: str
    number: int
    ticket: int
    content_hash: bytes
    kind: OutcomeKind
    code: str
    message: str
    result: bytes
    at_ms: int
    ended_index: int
    run: Run | None
    is_kept: bool

    @property
    def size(self) -> int:
        """The bytes it is counted as."""
        return OUTCOME_BYTES + len(self.result) + len(self.message) if self.is_kept else 0


class Quarantined(NamedTuple):
    """A request set aside.

    Attributes:
        request: as it was, with its payload.
        batch: the last one it was in.
        code: what the last attempt failed with.
        message: for people.
        at_ms: log time.
    """

    request: Request
    batch: int
    code: str
    message: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class Batch:
    """A sealed batch that has requests without an outcome, or a slot.

    Attributes:
        number: its name.
        root: the batch it was bisected from, and that from ...; itself, if from none.
        key: of all its requests.
        members: their numbers, in order; also of those that ended since.
        open_requests: those without an outcome.
        rows: of those.
        size: bytes of those.
        reason: why its window was sealed.
        sealed_ms: log time.
        attempts_max: failures after which it is exhausted.
        attempts_single_max: the same for a request that is alone in the end.
        assigned_max: assignments after which it is exhausted.
        assigned: assignments so far; the current attempt while it is assigned.
        failed: those that failed.
        excluded: executors on which it failed.
        not_before_ms: log time before which it is in backoff.
        executor: where it is assigned; empty: nowhere.
        incarnation: of that executor.
        fence: of that assignment.
        has_success: whether a part of this attempt's report brought an `ok`.
        code: what its last failure said.
        message: the same, for people.
    """

    number: int
    root: int
    key: Key
    members: tuple[int, ...]
    open_requests: int
    rows: int
    size: int
    reason: Release
    sealed_ms: int
    attempts_max: int
    attempts_single_max: int
    assigned_max: int
    assigned: int = 0
    failed: int = 0
    excluded: tuple[str, ...] = ()
    not_before_ms: int = 0
    executor: str = ""
    incarnation: int = 0
    fence: int = 0
    has_success: bool = False
    code: str = ""
    message: str = ""

    @property
    def is_exhausted(self) -> bool:
        """Whether it is never assigned again: it waits to be bisected or quarantined."""
        spent = self.failed >= self.attempts_max or self.assigned >= self.assigned_max
        return spent and not self.executor


class Held(NamedTuple):
    """What takes a slot of an executor.

    Attributes:
        batch: its number.
        fence: of the assignment.
        is_lapsed: whether it was taken back, and the executor has not confirmed yet.
    """

    batch: int
    fence: int
    is_lapsed: bool


@dataclass(frozen=True, slots=True)
class Executor:
    """One incarnation of an executor that is live.

    Attributes:
        executor: its id.
        incarnation: index of the entry with its Join.
        slots: batches it can hold.
        models: versions it has ready, in order.
        attributes: for display.
        held: what takes its slots, in the order of assignment.
        is_draining: whether it gets nothing new.
        is_suspended: whether it gets nothing new until a probe succeeds.
        failures: root batches that failed there since the last success, in order.
    """

    executor: str
    incarnation: int
    slots: int
    models: tuple[tuple[str, str], ...]
    attributes: bytes
    held: tuple[Held, ...] = ()
    is_draining: bool = False
    is_suspended: bool = False
    failures: tuple[int, ...] = ()

    @property
    def free_slots(self) -> int:
        """Slots that nothing takes."""
        return self.slots - len(self.held)

    @property
    def takes_new(self) -> bool:
        """Whether it may be assigned anything, slots apart."""
        return not self.is_draining and not self.is_suspended
