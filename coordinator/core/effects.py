"""What `apply` gives back: a reply to each record, and effects for the shell to act on.

Effects say what has happened, in order; the shell answers waiting calls, feeds
executors and sets timers by them, and may drop any of them, since all of it can
be made anew from the state. What lives here: the values, and their rows for the
digest. What must never live here: who acts on them. Called by: the core and its
shells. Total. Deterministic.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from coordinator.core.values import Request
from raftbatch.kinds import LapseReason


class Verdict(IntEnum):
    """What was done with a record, or with one request of it. Numbers never change."""

    OK = 0
    KNOWN = 1
    """The id is that of a request without an outcome: its ticket is the answer."""
    ENDED = 2
    """The id has its outcome."""
    VOID = 3
    """A decision whose preconditions do not hold: nothing was done."""
    INVALID_REQUEST = 4
    PAYLOAD_TOO_LARGE = 5
    UNKNOWN_MODEL = 6
    UNKNOWN_REQUEST = 7
    OUTCOME_FORGOTTEN = 8
    OVERLOADED = 9
    QUOTA_EXCEEDED = 10
    DRAINING = 11
    NOT_LEADER = 12
    STALE_FENCE = 13
    STALE_INCARNATION = 14
    REQUEST_ID_CONFLICT = 15
    EXECUTOR_ID_IN_USE = 16
    EMPTY = 17
    """A decision about requests that have all ended since: nothing was to be done."""

    @property
    def slug(self) -> str:
        """The error's name in `raftbatch.errors`; meaningless for the first four, and EMPTY."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Reply:
    """What was done with a record.

    Attributes:
        verdict: OK, or why not.
        message: for people; empty: nothing to say.
        value: what the record made: an incarnation, a fence, or 0.
    """

    verdict: Verdict
    message: str = ""
    value: int = 0

    def row(self) -> tuple[object, ...]:
        """Return it as the digest takes it."""
        return (int(self.verdict), self.message, self.value)


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What was done with each request of a columnar record.

    Attributes:
        verdicts: a byte for each.
        tickets: place and admitting index of those that were KNOWN or had ENDED.
        messages: place and message, where there is something to say.
        retry_after_ms: for those that were refused for load; 0: there are none.
    """

    verdicts: bytes
    tickets: tuple[tuple[int, int], ...] = ()
    messages: tuple[tuple[int, str], ...] = ()
    retry_after_ms: int = 0

    @property
    def verdict(self) -> Verdict:
        """VOID where the record as a whole was refused, which was a bug of its proposer's."""
        void = self.verdicts and self.verdicts.count(Verdict.VOID) == len(self.verdicts)
        return Verdict.VOID if void else Verdict.OK

    def row(self) -> tuple[object, ...]:
        """Return it as the digest takes it."""
        return (self.verdicts, self.tickets, self.messages, self.retry_after_ms)


DONE = Reply(Verdict.OK)


def void(message: str) -> Reply:
    """Return that a decision's preconditions do not hold."""
    return Reply(Verdict.VOID, message)


@dataclass(frozen=True, slots=True)
class Led:
    """A term began."""

    term: int
    node: str

    def row(self) -> tuple[object, ...]:
        """Return it as the digest takes it."""
        return (1, self.term, self.node)


@dataclass(frozen=True, slots=True)
class Ended:
    """Requests have their outcomes.

    Attributes:
        requests: as they were.
        batch: where they were; 0: in a window.
    """

    requests: tuple[Request, ...]
    batch: int

    def row(self) -> tuple[object, ...]:
        """Return it as the digest takes it."""
        return (2, [each.number for each in self.requests], self.batch)


@dataclass(frozen=True, slots=True)
class Placed:
    """An executor is to run a batch."""

    executor: str
    incarnation: int
    batch: int
    attempt: int
    fence: int

    def row(self) -> tuple[object, ...]:
        """Return it as the digest takes it."""
        return (3, self.executor, self.incarnation, self.batch, self.attempt, self.fence)


@dataclass(frozen=True, slots=True)
class Revoked:
    """An assignment lapsed: the executor is to stop it. The batch waits again, if it is left."""

    executor: str
    incarnation: int
    batch: int
    fence: int
    reason: LapseReason

    def row(self) -> tuple[object, ...]:
        """Return it as the digest takes it."""
        return (4, self.executor, self.incarnation, self.batch, self.fence, int(self.reason))


@dataclass(frozen=True, slots=True)
class Shed:
    """Rows of an assigned batch that need not run: their requests have ended."""

    executor: str
    incarnation: int
    batch: int
    fence: int
    numbers: tuple[int, ...]

    def row(self) -> tuple[object, ...]:
        """Return it as the digest takes it."""
        return (5, self.executor, self.incarnation, self.batch, self.fence, self.numbers)


@dataclass(frozen=True, slots=True)
class Finished:
    """An executor's report of a batch is complete: it holds the batch no more."""

    executor: str
    incarnation: int
    batch: int
    fence: int

    def row(self) -> tuple[object, ...]:
        """Return it as the digest takes it."""
        return (6, self.executor, self.incarnation, self.batch, self.fence)


@dataclass(frozen=True, slots=True)
class BatchGone:
    """A batch that was not assigned is no more."""

    batch: int

    def row(self) -> tuple[object, ...]:
        """Return it as the digest takes it."""
        return (7, self.batch)


@dataclass(frozen=True, slots=True)
class BatchWaits:
    """A batch is there that is not assigned: sealed, or half of one."""

    batch: int

    def row(self) -> tuple[object, ...]:
        """Return it as the digest takes it."""
        return (8, self.batch)


class Change(IntEnum):
    """What happened to an executor."""

    JOINED = 1
    READY = 2
    DRAINING = 3
    RESUMED = 4
    SUSPENDED = 5
    PROBED = 6
    FREED = 7
    GONE = 8
    LOST = 9


@dataclass(frozen=True, slots=True)
class ExecutorChanged:
    """See `Change`."""

    executor: str
    incarnation: int
    change: Change

    def row(self) -> tuple[object, ...]:
        """Return it as the digest takes it."""
        return (9, self.executor, self.incarnation, int(self.change))


@dataclass(frozen=True, slots=True)
class ModelChanged:
    """A model version was put, or is being deleted, or is gone."""

    name: str
    version: str

    def row(self) -> tuple[object, ...]:
        """Return it as the digest takes it."""
        return (10, self.name, self.version)


@dataclass(frozen=True, slots=True)
class PolicyChanged:
    """The cluster's limits are other ones."""

    def row(self) -> tuple[object, ...]:
        """Return it as the digest takes it."""
        return (11,)


Effect = (
    Led
    | Ended
    | Placed
    | Revoked
    | Shed
    | Finished
    | BatchGone
    | BatchWaits
    | ExecutorChanged
    | ModelChanged
    | PolicyChanged
)


@dataclass(frozen=True, slots=True)
class Applied:
    """What an entry did.

    Attributes:
        replies: one to each record, in order.
        effects: in order; those of time come first.
    """

    replies: tuple[Reply | Verdicts, ...]
    effects: tuple[Effect, ...]
