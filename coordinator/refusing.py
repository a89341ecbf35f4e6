"""What a leader refuses before it proposes anything: definite, and nothing was done.

What lives here: refusals, as errors. What must never live here: an
answer that admits. Called by: `leader`. Total. Deterministic.
"""

from __future__ import annotations

from coordinator.core import texts
from coordinator.core.admission import is_never, why_never
from coordinator.core.effects import Verdict
from coordinator.core.outlook import Outlook
from coordinator.core.room import has_ids, outcomes_fill, share_is_filled
from coordinator.core.state import State
from coordinator.core.usage import Usage
from coordinator.leader_parts import LeaderConfig, Log
from coordinator.proposer import Admission, Inbox, copy_of
from coordinator.raft.segments.limits import Space
from coordinator.raft.segments.reader import RETRY_AFTER_MS
from coordinator.raft.standing import Role
from raftbatch.errors import (
    InvalidRequest,
    NoLeader,
    NoSpace,
    NotLeader,
    Overloaded,
    PayloadTooLarge,
    QuotaExceeded,
    RaftbatchError,
    UnknownModel,
    there_are,
)
from raftbatch.settings import Policy

_LISTED_MAX = 32


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
        raise _unknown(state, admission)
    admission.check()
    if not is_never(state, model, admission.rows, admission.priority, size):
        return
    said = why_never(state, model, admission.rows, admission.priority, size)
    assert said is not None
    verdict, message = said
    if verdict is Verdict.PAYLOAD_TOO_LARGE:
        raise PayloadTooLarge(message)
    raise InvalidRequest(message)


def check_load(
    outlook: Outlook, inbox: Inbox, admission: Admission, size: int, now_ms: int
) -> None:
    """Refuse a request where too much waits, or is known, with what is about to.

    Args:
        outlook: the leader's.
        inbox: what waits for an entry.
        admission: checked.
        size: bytes of its payload and parameters.
        now_ms: log time.

    Raises:
        Overloaded, QuotaExceeded, UnknownModel: definite.
    """
    names = texts.of_name(f"{admission.tenant}\0{admission.request_id}")
    held = size + texts.of_request(admission.key, admission.traceparent), inbox.uses, 1, names
    verdict, retry_ms = outlook.overload(admission.key, admission.tenant, admission.rows, *held)
    if verdict:
        state, (coming, of_coming) = outlook.state, outlook.coming(inbox.uses)
        names += of_coming
        about = coming + 1, names
        tenant = admission.tenant
        retry_ms = outlook.drained.retry_ms(state, verdict, now_ms, tenant, about) or retry_ms
        raise refused_for_load(state, verdict, admission, retry_ms, coming, names)


def refused_for_load(
    state: State,
    verdict: Verdict,
    admission: Admission,
    retry_ms: int,
    coming: int = 0,
    names: int = 0,
) -> RaftbatchError:
    """Return the error for what `Outlook.overload` says.

    Args:
        state: the applied one.
        verdict: not OK.
        admission: that is refused.
        retry_ms: when to come back.
        coming: requests that are about to wait.
        names: what their names, and this one's, take beyond what is allowed for them.
    """
    if verdict is Verdict.UNKNOWN_MODEL:
        return _unknown(state, admission)
    if verdict is Verdict.QUOTA_EXCEEDED:
        return QuotaExceeded(_why_no_share(state, admission.tenant), retry_after_ms=retry_ms)
    return Overloaded(_why_no_room(state, coming, names), retry_after_ms=retry_ms)


def check_room(config: LeaderConfig, inbox: Inbox, held: RaftbatchError | None, size: int) -> None:
    """Refuse what would make too much wait, or wait for a log that takes nothing.

    Args:
        config: with the bounds.
        inbox: what waits.
        held: why the log takes nothing; None: it does.
        size: of what comes, in bytes.

    Raises:
        PayloadTooLarge, Overloaded, or what is held, a copy. Definite.
    """
    if held is not None:
        raise copy_of(held)
    if size > config.record_bytes_max:
        most = config.record_bytes_max
        raise PayloadTooLarge(f"{size} bytes are more than record_bytes_max = {most}")
    if inbox.items >= config.pending_items_max or inbox.size + size > config.pending_bytes_max:
        raise Overloaded(
            f"{inbox.items} things of {inbox.size} bytes wait for an entry already",
            retry_after_ms=config.retry_ms,
        )


def why_no_ids(policy: Policy) -> str:
    """Return what is to be said where as many ids are known as may."""
    return (
        f"as many ids are known as may (dedupe_entries_max = {policy.dedupe_entries_max}): "
        f"each goes dedupe_retention_ms = {policy.dedupe_retention_ms} after its outcome"
    )


def _why_no_share(state: State, tenant: str) -> str:
    """Return what of a tenant's is full: what it left behind, or what it has waiting."""
    if share_is_filled(state, tenant):
        own = Usage()
        own.limit_by_tenant(state.policy, tenant)
        return (
            f"outcomes that {tenant} has not acknowledged fill what is kept of them for one tenant "
            f"(tenant_outcome_bytes_max = {own.outcomes_max}): it should acknowledge them; else "
            f"each goes after outcome_retention_ms = {state.policy.outcome_retention_ms}"
        )
    return f"{tenant} has as much waiting as it may"


def _why_no_room(state: State, coming: int, names: int) -> str:
    """Return what is full, and when it is so no more; perhaps nothing that waits."""
    policy = state.policy
    if not has_ids(state, coming + 1, names):
        return why_no_ids(policy)
    if outcomes_fill(state, coming + 1):
        return (
            "outcomes that nobody has acknowledged fill what is kept of them (outcome_bytes_max = "
            f"{policy.outcome_bytes_max}): whoever asked for them should acknowledge them; else "
            f"each goes after outcome_retention_ms = {policy.outcome_retention_ms}"
        )
    return "as much is waiting as may"


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


def why_full(log: Log | None) -> NoSpace | None:
    """Return why nobody leads where it is for want of room; None: it is not known to be.

    A node whose disk is at its reserve leads no more, and never stands. If others have room one
    of them leads soon, so whoever asked may ask again; if none has, this is what is to be mended.

    Args:
        log: this node's; None: it has none yet.
    """
    if log is None or log.space is not Space.RESERVE or log.leader or log.failure is not None:
        return None
    said = "no leader is known, and this node's disk is full: free some space there"
    return NoSpace(said, retry_after_ms=RETRY_AFTER_MS)


def told_leader(log: Log | None) -> str:
    """Return whom a node calls the leader to clients and executors that look; empty: nobody.

    One whose disk is full follows nobody: it appends, and applies, nothing more. So whoever waits
    here, for outcomes or at a feed, waits elsewhere. Where it refuses what is asked of a leader it
    names the leader all the same.

    Args:
        log: the node's; None: it has none yet.
    """
    if log is None or (log.space is Space.RESERVE and log.role is not Role.LEADER):
        return ""
    return log.leader or ""


def _unknown(state: State, admission: Admission) -> UnknownModel:
    said = f"there is no model {admission.key[0]}, version {admission.key[1]}"
    if len(state.models) > _LISTED_MAX:  # thousands of requests may be refused in a turn
        return UnknownModel(f"{said}: `raftbatch status` shows the {len(state.models)} there are")
    return UnknownModel(f"{said}: {there_are(each[0] for each in state.models)}")
