"""What clients saw of the scheduler, held against what was committed.

What lives here: the history, and its judgement. What must never live here: the
clients. Called by: `chaos.suites.scheduler`, `chaos.checkers.scheduler`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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


@dataclass(slots=True)
class Operation:
    """One call of a client, with all its tries at all nodes, from its invocation on.

    Attributes:
        kind: what was called.
        tenant, request_id: about which request.
        content: the payload that was to be submitted; empty otherwise.
        traceparent: to be submitted with it, so that it is known whose Admit came through.
        outcome: `ok`, `fail` (definitely not), or `info` (perhaps).
    """

    kind: Kind
    tenant: str
    request_id: str
    content: bytes
    traceparent: str
    outcome: str = "info"


class ClientHistory:
    """See the module's docstring."""

    def invoke(self, kind: Kind, tenant: str, request_id: str, content: bytes = b"") -> Operation:
        """Note that a client calls.

        A submit is to carry the operation's `traceparent`. A call that tries again, at
        this node or another, is the same operation.
        """
        raise NotImplementedError

    def ok(self, operation: Operation, value: int | Answer | bool) -> None:
        """Note an answer: it must be true of what is committed by now.

        Args:
            operation: what was called.
            value: of a submit: the ticket's index, or, where the id was known and had ended,
                the `Answer`; of an outcome: the `Answer`; of a cancel: whether it is
                cancelled (also an id that was unknown, and is remembered), or False: it had
                an outcome already; of an acknowledge: True.
        """

    def fail(self, operation: Operation, error: RaftbatchError) -> None:
        """Note a definite failure: neither this nor any earlier try of it has had an effect.

        If any try was lost or answered `outcome_unknown`, the call is `info` instead, unless
        a later one was answered well.
        """

    def info(self, operation: Operation) -> None:
        """Note that the client gave up: perhaps it took effect."""
