"""Every error of the product, under two roots.

`RaftbatchError` is answered to a caller, who can act on it: each class carries
the slug, the gRPC and HTTP status and whether it is *definite*: a definite
failure never took effect, an indefinite one may have. `Fatal` stops the node:
it cannot trust its disk or its state, and does not guess. What must never live
here: an import of anything of ours. Called by: everything.

Source: docs/ARCHITECTURE.md, "Errors".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

TRAILER = "raftbatch-error-bin"
"""The trailer of a failed call that holds the error, as a `raftbatch.v1.Error`."""


NAMES_MAX = 10
"""Of what there is, in a message that says what is not there."""


def there_are(names: Iterable[str], what: str = "there are") -> str:
    """Return what there is, in a line, bounded; for a message that says what is not there."""
    known = sorted(set(names))
    if not known:
        return "there is none"
    more = len(known) - NAMES_MAX
    shown = ", ".join(known[:NAMES_MAX])
    return f"{what} {shown}{f' and {more} more' if more > 0 else ''}"


class RaftbatchError(Exception):
    """A failure answered to the caller.

    Args:
        message: one sentence for a person: what failed, and what to do next.
        leader: address of the leader to go to, where one is known.
        retry_after_ms: milliseconds to wait before a new attempt; 0 says nothing.
    """

    slug: ClassVar[str]
    grpc: ClassVar[str]
    http: ClassVar[int]
    definite: ClassVar[bool] = True

    def __init__(self, message: str, *, leader: str = "", retry_after_ms: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.leader = leader
        self.retry_after_ms = retry_after_ms


class InvalidRequest(RaftbatchError):
    """The request can never be accepted as it is."""

    slug, grpc, http = "invalid_request", "INVALID_ARGUMENT", 400


class PayloadTooLarge(RaftbatchError):
    """The request exceeds a limit on bytes, which the message names."""

    slug, grpc, http = "payload_too_large", "INVALID_ARGUMENT", 413


class UnknownModel(RaftbatchError):
    """No model of that name and version."""

    slug, grpc, http = "unknown_model", "NOT_FOUND", 404


class UnknownRequest(RaftbatchError):
    """No request of that id was ever admitted."""

    slug, grpc, http = "unknown_request", "NOT_FOUND", 404


class OutcomeForgotten(RaftbatchError):
    """The request had its outcome, but its retention is over."""

    slug, grpc, http = "outcome_forgotten", "OUT_OF_RANGE", 410


class Compacted(RaftbatchError):
    """That part of the log is gone: start from a snapshot."""

    slug, grpc, http = "compacted", "OUT_OF_RANGE", 410


class Overloaded(RaftbatchError):
    """A bound is reached; nothing was done."""

    slug, grpc, http = "overloaded", "RESOURCE_EXHAUSTED", 429


class QuotaExceeded(RaftbatchError):
    """The tenant's own bound is reached; nothing was done."""

    slug, grpc, http = "quota_exceeded", "RESOURCE_EXHAUSTED", 429


class NoSpace(RaftbatchError):
    """The disk is too full to accept more; nothing was done."""

    slug, grpc, http = "no_space", "RESOURCE_EXHAUSTED", 429


class NoLeader(RaftbatchError):
    """No leader is known yet; nothing was done."""

    slug, grpc, http = "no_leader", "UNAVAILABLE", 503


class Draining(RaftbatchError):
    """This node takes no new work; nothing was done."""

    slug, grpc, http = "draining", "UNAVAILABLE", 503


class NotLeader(RaftbatchError):
    """Another node leads: go to `leader`."""

    slug, grpc, http = "not_leader", "FAILED_PRECONDITION", 307


class StaleFence(RaftbatchError):
    """The report is for an attempt that is no longer the current one."""

    slug, grpc, http = "stale_fence", "FAILED_PRECONDITION", 409


class StaleIncarnation(RaftbatchError):
    """The executor was declared lost: it must join anew."""

    slug, grpc, http = "stale_incarnation", "FAILED_PRECONDITION", 409


class DeadlineExceeded(RaftbatchError):
    """The request expired, and that is committed, or it was never proposed."""

    slug, grpc, http = "deadline_exceeded", "DEADLINE_EXCEEDED", 504


class OutcomeUnknown(RaftbatchError):
    """It may or may not have happened: ask again with the same request id."""

    slug, grpc, http, definite = "outcome_unknown", "UNKNOWN", 500, False


class RequestIdConflict(RaftbatchError):
    """The id is taken by a request with other content."""

    slug, grpc, http = "request_id_conflict", "ALREADY_EXISTS", 409


class ExecutorIdInUse(RaftbatchError):
    """A live executor has that id."""

    slug, grpc, http = "executor_id_in_use", "ALREADY_EXISTS", 409


class Unauthenticated(RaftbatchError):
    """The caller has not said who it is."""

    slug, grpc, http = "unauthenticated", "UNAUTHENTICATED", 401


class PermissionDenied(RaftbatchError):
    """The caller's role does not allow this."""

    slug, grpc, http = "permission_denied", "PERMISSION_DENIED", 403


SURE = (InvalidRequest, PayloadTooLarge, RequestIdConflict, OutcomeForgotten)
"""What holds of an id, or of a content, whatever became of an earlier try that was lost."""


class Fatal(Exception):
    """The node must stop. Never caught to go on; answered to callers as indefinite."""

    slug: ClassVar[str]
    grpc: ClassVar[str]
    http: ClassVar[int] = 500
    definite: ClassVar[bool] = False


class Corrupt(Fatal):
    """Bytes on disk are not what was acknowledged.

    Args:
        path: the file.
        offset: where in it the damage begins, in bytes.
        reason: what is wrong, and what the operator can do.
    """

    slug, grpc = "corrupt", "DATA_LOSS"

    def __init__(self, path: str, offset: int, reason: str) -> None:
        super().__init__(f"{path} at offset {offset}: {reason}")
        self.path = path
        self.offset = offset
        self.reason = reason


class Undecodable(Fatal):
    """Committed bytes are of a version or a form that this program does not know.

    Going on would make this replica differ from the others.
    """

    slug, grpc = "corrupt", "DATA_LOSS"


class DiskFailed(Fatal):
    """A write or a sync failed in a way that leaves the disk's content unknown."""

    slug, grpc = "corrupt", "DATA_LOSS"


class Invariant(Fatal):
    """The program found itself in a state that must not exist."""

    slug, grpc = "invariant", "INTERNAL"


class Diverged(Fatal):
    """This node's replica is not what the others' are, or nobody can say which is right."""

    slug, grpc = "invariant", "INTERNAL"


class Removed(Fatal):
    """The node is a member of its cluster no more, and that is committed: it has nothing to do."""

    slug, grpc = "removed", "UNAVAILABLE"


class CannotStart(Fatal):
    """The node refuses to start, and says what to do about it."""

    slug, grpc = "invariant", "INTERNAL"
