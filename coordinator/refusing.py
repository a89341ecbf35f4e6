"""What a leader refuses before it proposes anything: definite, and nothing was done.

What lives here: refusals, as errors. What must never live here: an
answer that admits. Called by: `leader`. Total. Deterministic.
"""

from __future__ import annotations

from coordinator.core.admission import is_never, why_never
from coordinator.core.effects import Verdict
from coordinator.core.state import State
from coordinator.leader_parts import Log
from coordinator.proposer import Admission
from coordinator.raft.standing import Role
from raftbatch.errors import (
    InvalidRequest,
    NoLeader,
    NotLeader,
    Overloaded,
    PayloadTooLarge,
    QuotaExceeded,
    RaftbatchError,
    UnknownModel,
)


def check_admission(state: State, admission: Admission, size: int) -> None:
    """Refuse a request that can never be taken, or read.

    Args:
        state: the applied one.
        admission: from outside.
        size: bytes of its payload and parameters.

    Raises:
        UnknownModel: there is no such model version. Definite, as are the others.
        InvalidRequest: a field is not of its kind, or beyond a limit of the model.
        PayloadTooLarge: it is more than one request may have.
    """
    model_id = admission.key[:2]
    model = state.models.get(model_id)
    if model is None or model_id in state.deleting:
        raise _unknown(admission)
    admission.check()
    if not is_never(state, model, admission.rows, admission.priority, size):
        return
    said = why_never(state, model, admission.rows, admission.priority, size)
    assert said is not None
    verdict, message = said
    if verdict is Verdict.PAYLOAD_TOO_LARGE:
        raise PayloadTooLarge(message)
    raise InvalidRequest(message)


def refused_for_load(verdict: Verdict, admission: Admission, retry_ms: int) -> RaftbatchError:
    """Return the error for what `Outlook.overload` says.

    Args:
        verdict: not OK.
        admission: that is refused.
        retry_ms: when to come back.
    """
    if verdict is Verdict.UNKNOWN_MODEL:
        return _unknown(admission)
    if verdict is Verdict.QUOTA_EXCEEDED:
        said = f"{admission.tenant} has as much waiting as it may"
        return QuotaExceeded(said, retry_after_ms=retry_ms)
    return Overloaded("as much is waiting as may", retry_after_ms=retry_ms)


def why_not_ready(log: Log, retry_ms: int, *, is_closed: bool) -> NotLeader | NoLeader:
    """Return why nothing can be asked of this node's leader part now.

    Args:
        log: this node's.
        retry_ms: when to come back.
        is_closed: whether the node stops.
    """
    if is_closed or log.failure is not None:
        return NoLeader("this node stops", retry_after_ms=retry_ms)
    if log.role is Role.LEADER:
        return NoLeader("this leader is not ready yet", retry_after_ms=retry_ms)
    if log.leader is not None and log.leader != log.identity.node_id:
        return NotLeader(f"{log.leader} leads", leader=str(log.leader))
    return NoLeader("no leader is known", retry_after_ms=retry_ms)


def _unknown(admission: Admission) -> UnknownModel:
    return UnknownModel(f"there is no model {admission.key[0]}, version {admission.key[1]}")
