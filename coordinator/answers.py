"""What callers are told: values, and the error for each verdict of the state machine.

What lives here: that translation. What must never live here: who is told. Called
by: `api`. Total. Deterministic.
"""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.core.effects import Verdict
from coordinator.core.values import Outcome
from raftbatch.errors import (
    Draining,
    ExecutorIdInUse,
    InvalidRequest,
    NotLeader,
    OutcomeForgotten,
    Overloaded,
    PayloadTooLarge,
    QuotaExceeded,
    RaftbatchError,
    RequestIdConflict,
    StaleFence,
    StaleIncarnation,
    UnknownModel,
    UnknownRequest,
)

_REFUSALS: tuple[type[RaftbatchError], ...] = (
    InvalidRequest,
    PayloadTooLarge,
    UnknownModel,
    UnknownRequest,
    OutcomeForgotten,
    Overloaded,
    QuotaExceeded,
    Draining,
    NotLeader,
    StaleFence,
    StaleIncarnation,
    RequestIdConflict,
    ExecutorIdInUse,
)
_ERRORS = {kind.slug: kind for kind in _REFUSALS}
_SAID = {
    UnknownRequest.slug: "no request of that id is known: it was never admitted, or its "
    "retention is over",
    OutcomeForgotten.slug: "the request had its outcome, which was acknowledged, or its "
    "retention is over",
    Overloaded.slug: "too much waits",
    QuotaExceeded.slug: "too much of this tenant waits, or is kept until it is acknowledged",
    UnknownModel.slug: "there is no such model version",
    RequestIdConflict.slug: "the id is that of a request with another model, version or inputs",
    NotLeader.slug: "the entry was proposed by a node that led no more",
}


@dataclass(frozen=True, slots=True)
class Ticket:
    """The client's receipt.

    Attributes:
        request_id: the client's id.
        index: of the entry that admitted it; 0: it was cancelled before it came, and has
            its outcome.
    """

    request_id: str
    index: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """The request has no outcome yet; the wait for it is over, the request goes on.

    Attributes:
        ticket: to ask again with.
    """

    ticket: Ticket


def error_of(verdict: Verdict, message: str = "", retry_after_ms: int = 0) -> RaftbatchError:
    """Return the error that says why something was refused.

    A decision whose preconditions do not hold is an invalid request, where somebody asked
    for it from outside. Not for OK, KNOWN, ENDED and EMPTY, which refuse nothing.
    """
    kind = _ERRORS.get(verdict.slug, InvalidRequest)
    said = message or _SAID.get(verdict.slug) or verdict.slug.replace("_", " ")
    return kind(said, retry_after_ms=retry_after_ms)


def outcome_or_error(outcome: Outcome | None) -> Outcome | RaftbatchError:
    """Return an outcome that is whole, or that it is forgotten; None: the id is, too."""
    if outcome is None or not outcome.is_kept:
        return error_of(Verdict.OUTCOME_FORGOTTEN)
    return outcome
