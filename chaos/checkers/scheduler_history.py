"""What clients saw of the scheduler, held against what was committed.

A ticket names an entry that admitted the request, for good. An outcome is the one
that the log gave, whichever replica tells it, and whenever. A call that failed
definitely has changed nothing; of one that was lost nothing is known. What lives
here: the history, and its judgement. What must never live here: the clients.
Called by: `chaos.suites.scheduler`, `chaos.checkers.scheduler`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

from chaos.checkers.scheduler_model import Model
from chaos.checkers.scheduler_stories import Complain, Story
from raftbatch.errors import RaftbatchError
from raftbatch.kinds import OutcomeKind

Kind = Literal["submit", "outcome", "cancel", "acknowledge"]


@dataclass(frozen=True, slots=True)
class Answer:
    """An outcome as a client was told it.

    Attributes:
        ticket: index of the entry that admitted the request; 0: it never was.
        kind, code, message, result: as in `core.values.Outcome`.
    """

    ticket: int
    kind: OutcomeKind
    code: str
    message: str
    result: bytes


@dataclass(slots=True, eq=False)
class Operation:
    """One call of a client, with all its tries at all nodes, from its invocation on.

    Attributes:
        kind: what was called.
        tenant, request_id: about which request.
        content: the payload that was to be submitted; empty otherwise.
        traceparent: of the last try of a submit, to be sent with it: see `tries`.
        outcome: `ok`, `fail` (definitely not), or `info` (perhaps).
        known: what was known of the id when it was called.
    """

    kind: Kind
    tenant: str
    request_id: str
    content: bytes
    traceparent: str
    outcome: str = "info"
    known: Story | None = None

    @property
    def name(self) -> str:
        """Tenant, NUL, request id."""
        return f"{self.tenant}\0{self.request_id}"


class ClientHistory:
    """See the module's docstring.

    Args:
        complain: takes a broken promise.
        counts: what was seen.
        model: what was committed.

    Attributes:
        operations: all calls.
    """

    def __init__(self, complain: Complain, counts: Counter[str], model: Model) -> None:
        self.operations: list[Operation] = []
        self._complain = complain
        self._counts = counts
        self._model = model
        self._told: dict[tuple[str, int], Answer] = {}
        self._tries: dict[str, Operation] = {}
        self._refused: dict[str, RaftbatchError] = {}

    def invoke(self, kind: Kind, tenant: str, request_id: str, content: bytes = b"") -> Operation:
        """Note that a client calls. A call that tries again, anywhere, is the same operation."""
        operation = Operation(kind, tenant, request_id, content, "")
        operation.known = self._model.names.get(operation.name)
        self.operations.append(operation)
        self._counts[f"{kind}_calls"] += 1
        return operation

    def tries(self, operation: Operation) -> str:
        """Note that a submit is sent, or sent again; return the `traceparent` to send with it.

        It tells which try came through, should one that was refused have done so.
        """
        number = len(self._tries) + 1
        operation.traceparent = f"00-{number:032x}-{number:016x}-00"
        self._tries[operation.traceparent] = operation
        return operation.traceparent

    def refused(self, operation: Operation, error: RaftbatchError) -> None:
        """Note that the last try of a submit failed, whatever becomes of the next one.

        If it failed definitely, the request that it asked for is never admitted by it.
        """
        if error.definite:
            self._refused[operation.traceparent] = error

    def ok(self, operation: Operation, value: int | Answer | bool) -> None:
        """Note an answer: it must be true of what is committed by now.

        Args:
            operation: what was called.
            value: of a submit: the ticket's index (0: it was cancelled before it came), or,
                where the id was known and had ended, the `Answer`; of an outcome: the
                `Answer`; of a cancel: whether it is cancelled (also an id that was unknown,
                and is remembered), or False: it had an outcome already; of an acknowledge:
                True.
        """
        operation.outcome = "ok"
        self._counts[f"{operation.kind}_ok"] += 1
        if isinstance(value, Answer):
            self._told_outcome(operation, value)
        elif operation.kind == "submit":
            self._ticketed(operation, value)
        else:
            self._ended(operation, is_cancelled=operation.kind == "cancel" and bool(value))

    def _ticketed(self, operation: Operation, ticket: int) -> None:
        story = self._model.tickets.get((operation.name, ticket))
        if story is None:
            self._complain(f"{operation} got the ticket {ticket}, which admitted nothing of it")
        elif story.number and story.payload != operation.content:
            self._complain(f"{operation} got the ticket {ticket} of other content")

    def _told_outcome(self, operation: Operation, answer: Answer) -> None:
        """Judge an outcome that was told: it is the log's, and what others were told."""
        story = self._model.tickets.get((operation.name, answer.ticket))
        ended = story.ended if story is not None else None
        if story is None or ended is None:
            self._complain(f"{operation} was told {answer}, which nothing gave")
            return
        given = Answer(answer.ticket, ended.kind, ended.code, ended.message, ended.result)
        if not ended.is_kept:  # it was acknowledged with the very entry that gave it
            given = Answer(answer.ticket, ended.kind, ended.code, answer.message, answer.result)
        if answer != given:
            self._complain(f"{operation} was told {answer}, and it is {given}")
        first = self._told.setdefault((operation.name, answer.ticket), answer)
        if answer != first:
            self._complain(f"{operation} was told {answer}, another {first}")
        if operation.kind == "submit" and story.number and story.payload != operation.content:
            self._complain(f"{operation} was told {answer}, of other content")

    def _ended(self, operation: Operation, *, is_cancelled: bool) -> None:
        """Judge that a cancel or an acknowledgement was answered: there is an outcome."""
        known = self._model.names.get(operation.name)
        if known is None or known.ended is None:
            self._complain(f"{operation} was answered, and there is no outcome: {known}")
        elif is_cancelled and known.ended.kind is not OutcomeKind.CANCELLED:
            self._complain(f"{operation} cancelled it, and it has {known.ended}")

    def fail(self, operation: Operation, error: RaftbatchError) -> None:
        """Note a definite failure: neither this nor any earlier try of it has had an effect.

        If any try was lost or answered `outcome_unknown`, the call is `info` instead, unless
        a later one was answered well.
        """
        operation.outcome = "fail"
        self._counts[f"{operation.kind}_failed"] += 1
        self._counts[f"failed_{error.slug}"] += 1
        if not error.definite:
            self._complain(f"{operation} failed, and not definitely: {error!r}")
        model, known = self._model, operation.known
        now = model.names.get(operation.name)
        match error.slug:
            case "unknown_request":
                if known is not None and known.must_be_known(model.policy, model.now_ms):
                    self._complain(f"{operation} is of no known request, and it was {known}")
            case "outcome_forgotten":
                if now is None or now.must_be_whole(model.policy, model.now_ms) or not now.ended:
                    self._complain(f"{operation} is of a forgotten outcome, and it is {now}")
            case "request_id_conflict":
                if now is None or not now.number or now.payload == operation.content:
                    self._complain(f"{operation} is in conflict with {now}")
            case "deadline_exceeded" if operation.kind == "outcome":
                ended = now.ended if now is not None else None
                if ended is None or ended.kind is not OutcomeKind.EXPIRED:
                    self._complain(f"{operation} is past its deadline, and it has {ended}")
            case _:
                pass

    def info(self, operation: Operation) -> None:
        """Note that the client gave up: perhaps it took effect."""
        operation.outcome = "info"
        self._counts[f"{operation.kind}_unknown"] += 1

    def judge(self) -> None:
        """Judge all calls, once nothing is under way any more."""
        cancels: dict[str, list[Operation]] = {}
        for each in self.operations:
            if each.kind == "cancel":
                cancels.setdefault(each.name, []).append(each)
        for (name, ticket), story in self._model.tickets.items():
            if ticket:
                self._is_asked_for(story, self._tries.get(story.traceparent))
            if story.ended is None:
                self._complain(f"{name!r} was admitted with {ticket}, and has no outcome")
            elif story.ended.kind is OutcomeKind.CANCELLED:
                asked = cancels.get(name, [])
                if all(each.outcome == "fail" for each in asked):
                    self._complain(f"{name!r} is cancelled, by {asked}")

    def _is_asked_for(self, story: Story, operation: Operation | None) -> None:
        """Judge that somebody asked for a request that was admitted, and was not refused."""
        if operation is None or (operation.name, operation.content) != (story.name, story.payload):
            self._complain(f"{story} was admitted, of {operation}")
        elif operation.outcome == "fail":
            self._complain(f"{operation} failed definitely, and was admitted as {story.number}")
        elif (error := self._refused.get(story.traceparent)) is not None:
            self._complain(f"a try of {operation} failed, {error!r}, and was admitted: {story}")
