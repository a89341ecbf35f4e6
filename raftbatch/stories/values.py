"""What a log tells of its requests and batches: the values that the fold fills in.

What lives here: a request's story, a batch's, and the counts over all of them. What must
never live here: a rule of what counts (`rules`, `ledger`). Called by: `fold`, the command
line, whoever counts offline.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from raftbatch.kinds import Key, OutcomeKind, Ran, Release


class Event(NamedTuple):
    """Something that an entry did to a request or a batch.

    Attributes:
        index: of the entry.
        at_ms: its log time.
        kind: `admitted`; `repeated`, the same id came again and was not taken; `sealed`;
            `assigned`; `lapsed`; `bisected`, moved to another batch; `quarantined`; `ended`;
            `dismissed`, a report that was not of the live assignment; `acknowledged`;
            `forgotten`, its outcome's content; `released`, from quarantine.
        batch: where it happened; 0: in no batch.
        attempt: of the batch; 0: none.
        executor: who; empty: none.
        note: why, or what became of it.
    """

    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody asks for
    at_ms: int
    kind: str
    batch: int = 0
    attempt: int = 0
    executor: str = ""
    note: str = ""


class Outcome(NamedTuple):
    """What became of a request.

    Attributes:
        kind: of the outcome.
        code: a slug; empty where there is nothing to say.
        message: for people.
        result_bytes: how large the outputs are.
        index: of the entry that gave it.
        at_ms: log time.
        batch, attempt, fence, executor: the run that gave it; 0 and empty: none did.
    """

    kind: OutcomeKind
    code: str
    message: str
    result_bytes: int
    index: int  # type: ignore[assignment]  # as above
    at_ms: int
    batch: int = 0
    attempt: int = 0
    fence: int = 0
    executor: str = ""

    @property
    def run(self) -> tuple[int, int, int]:
        """Which run gave it: batch, attempt, fence."""
        return self.batch, self.attempt, self.fence


@dataclass(slots=True, eq=False)
class Story:
    """One request, from the entry that admitted it on.

    Attributes:
        number: its place in log order; 0: an id that was cancelled before it came.
        tenant, request_id: its name.
        key: its batch key.
        rows: of the batch axis.
        size: bytes of payload and parameters.
        priority: 0 is the most urgent.
        at_ms: log time of its admission.
        deadline_ms: log time of its deadline; 0: none.
        admitted_index: index of the entry that admitted it.
        content_hash: of what was asked for.
        is_whole: whether the log that was read holds its admission; False for one that is
            only named in it.
        is_kept: whether its outcome's content is still known to the cluster.
        batch: where it is, or was last; 0: its window.
        events: in log order.
        outcome: the first, which is the one that counts; None: it has none.
        others: outcomes that the log gave it besides: there must be none.
        assigned: assignments of batches that it was in, and open.
        runs: those of them that ran, or may have.
    """

    number: int
    tenant: str
    request_id: str
    key: Key = ("", "", "")
    rows: int = 0
    size: int = 0
    priority: int = 0
    at_ms: int = 0
    deadline_ms: int = 0
    admitted_index: int = 0
    content_hash: bytes = b""
    is_whole: bool = True
    is_kept: bool = True
    batch: int = 0
    events: list[Event] = field(default_factory=list)
    outcome: Outcome | None = None
    others: list[Outcome] = field(default_factory=list)
    assigned: int = 0
    runs: int = 0

    @property
    def name(self) -> tuple[str, str]:
        """Tenant and request id."""
        return self.tenant, self.request_id


@dataclass(slots=True)
class Attempt:
    """One assignment of a batch.

    Attributes:
        attempt: from 1.
        executor, incarnation: where.
        fence: index of the entry that made it.
        at_ms: log time of that.
        open: numbers of the requests without an outcome then.
        ended_index, ended_ms: of the entry that ended it; 0: it is the live one.
        how: `completed`, `lapsed`; empty: it is the live one.
        why: of a lapse: its reason, and what the executor said.
        ran: whether it ran.
        queue_ns, compute_input_ns, infer_ns, output_ns: as the executor reports.
        padded: the shape that ran.
    """

    attempt: int
    executor: str
    incarnation: int
    fence: int
    at_ms: int
    open: tuple[int, ...]
    ended_index: int = 0
    ended_ms: int = 0
    how: str = ""
    why: str = ""
    ran: Ran = Ran.UNKNOWN
    queue_ns: int = 0
    compute_input_ns: int = 0
    infer_ns: int = 0
    output_ns: int = 0
    padded: tuple[int, ...] = ()


@dataclass(slots=True, eq=False)
class BatchStory:
    """A batch, from its Seal on, or from the Bisect that made it.

    Attributes:
        number: its name.
        parent: the batch that it is a half of; 0: it was sealed.
        root: the batch that was sealed.
        key: of all its requests.
        reason: why its window was sealed; of the root.
        index, at_ms: of the entry that made it.
        members: numbers of its requests, in order.
        rows: of them, when it was made.
        size: bytes of theirs, likewise.
        window: what its window was called by: log time of its opening, and the first index that
            admitted into it; zeros: the log that was read lacks its beginning, and does not say.
        halves: the batches it was cut into.
        attempts: its assignments.
        end: how it ended: `completed`, `bisected`, `quarantined`, `emptied`; empty: it lives.
        end_index, end_ms: of the entry that ended it.
        attempts_max, attempts_single_max, assigned_max: of its model when it was sealed; 0: this
            log does not say.
        open: numbers of its requests without an outcome.
        assigned: assignments so far.
        failed: those that failed.
        not_before_ms: log time before which it is not assigned again.
        has_success: whether the live attempt has reported an `ok`.
        code, message: of its last failure.
    """

    number: int
    parent: int
    root: int
    key: Key
    reason: Release
    index: int
    at_ms: int
    members: tuple[int, ...]
    rows: int
    size: int
    attempts_max: int
    attempts_single_max: int
    assigned_max: int
    open: dict[int, None]
    window: tuple[int, int] = (0, 0)
    halves: tuple[int, ...] = ()
    attempts: list[Attempt] = field(default_factory=list)
    end: str = ""
    end_index: int = 0
    end_ms: int = 0
    assigned: int = 0
    failed: int = 0
    not_before_ms: int = 0
    has_success: bool = False
    code: str = ""
    message: str = ""

    @property
    def live(self) -> Attempt | None:
        """The assignment that stands; None: it is assigned nowhere."""
        last = self.attempts[-1] if self.attempts else None
        return last if last is not None and not last.how else None

    def is_at(self, attempt: int, fence: int) -> bool:
        """Return whether this is the live assignment."""
        live = self.live
        return live is not None and (live.attempt, live.fence) == (attempt, fence)

    @property
    def is_exhausted(self) -> bool:
        """Whether it is assigned no more; False where this log does not say after how many."""
        if not self.assigned_max or self.live is not None:
            return False
        return self.failed >= self.attempts_max or self.assigned >= self.assigned_max


@dataclass(slots=True)
class Counts:
    """What a log comes to. Of requests only those whose admission it holds.

    Attributes:
        requests: admitted.
        outcomes: of them that have one, by kind: `ok`, `failed`, `expired`, `cancelled`.
        lost: without an outcome where the log ends. Of a cluster that still works: open.
        unsure: likewise, where the log that was read lacks its beginning: what it lacks may have
            decided about them, so that it can prove no loss.
        doubled: that were given more than one outcome.
        reruns: that ran, or may have run, more than once.
        repeated: admissions of an id that was known, and not taken.
        refused: admissions that were refused for any other reason.
        dismissed: reports that were not of the live assignment, and changed nothing.
        lapses: assignments taken back.
        batches: sealed.
        rows: in them.
        reasons: how many were sealed for which release reason.
        bisected: batches cut in half.
        quarantined: requests set aside.
    """

    requests: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)
    lost: int = 0
    unsure: int = 0
    doubled: int = 0
    reruns: int = 0
    repeated: int = 0
    refused: int = 0
    dismissed: int = 0
    lapses: int = 0
    batches: int = 0
    rows: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    bisected: int = 0
    quarantined: int = 0
