"""What time ends: requests past their deadline, and outcomes past their retention.

Also what ends outcomes earlier: acknowledgements and an operator's purge, and
cancels, which make some. Each entry ends a bounded number of due things, in
order. What lives here: that. What must never live here: when an entry comes
(the leader sends Advance while something is due). Called by: `apply`. Total.
Deterministic.
"""

from __future__ import annotations

from functools import partial

from coordinator.core import texts
from coordinator.core.admission import FORGET_LATE_MS
from coordinator.core.effects import Effect, Verdict, Verdicts
from coordinator.core.ending import end_each, end_early
from coordinator.core.state import State
from coordinator.core.values import OUTCOME_BYTES, Outcome, Request
from raftbatch.kinds import OutcomeKind
from raftbatch.records import Acknowledge, Cancel, Forget

_outcome = partial(tuple.__new__, Outcome)
"""As the class itself, without the checks of a call by names: there are many."""

LOG_TIME_MS_MAX = 1 << 61
"""Far enough away that every deadline still fits into a record."""

_RATE_INTERVAL_MS = 1000


def advance_time(state: State, at_ms: int) -> None:
    """Let log time be what an entry says, and never go back.

    How far it may go at once is the proposer's to say: one that was cut short here
    would make up for it with the next entry, and requests would expire of that.
    """
    if not state.now_ms:
        state.rate_at_ms = at_ms
    state.now_ms = max(state.now_ms, min(at_ms, LOG_TIME_MS_MAX))
    # Also where no time has passed: what was due when a snapshot was taken is in its bucket again.
    state.timers.advance(state.now_ms)
    elapsed_ms = state.now_ms - state.rate_at_ms
    if elapsed_ms >= _RATE_INTERVAL_MS:
        state.drained_per_s = state.rate_ended * 1000 // elapsed_ms
        state.rate_at_ms = state.now_ms
        state.rate_ended = 0


def expire(state: State, budget: int, effects: list[Effect]) -> int:
    """End requests past their deadline; return how many more things may end."""
    due = state.timers.due
    expired: list[Request] = []
    while due and len(expired) < budget:
        request = state.requests.get(due.popleft())
        if request is not None:
            expired.append(request)
    if expired:
        end_early(state, expired, OutcomeKind.EXPIRED, effects)
    return budget - len(expired)


def forget_old(state: State, budget: int) -> int:
    """Drop outcomes, and then ids, whose retention is over, the oldest first.

    The budget may be overdrawn: a deleted model's batch ends as a whole.
    """
    policy = state.policy
    while budget > 0 and state.oldest_kept < state.next_ended:
        outcome = state.ended[state.oldest_kept]
        if outcome.at_ms + policy.outcome_retention_ms > state.now_ms:
            break
        if dropped := drop_content(state, state.oldest_kept, outcome):
            state.drop_outcomes(outcome.name.partition("\0")[0], dropped)
        state.oldest_kept += 1
        budget -= 1
    while budget > 0 and state.oldest_ended < state.oldest_kept:
        outcome = state.ended[state.oldest_ended]
        if outcome.at_ms + policy.dedupe_retention_ms > state.now_ms:
            break
        del state.ended[state.oldest_ended]
        del state.dedupe[outcome.name]
        if state.id_texts:
            state.id_texts -= texts.of_name(outcome.name) + texts.of_code(outcome.code)
        if not outcome.number:
            _forget_cancel(state, outcome.name)
        state.oldest_ended += 1
        budget -= 1
    return budget


def next_due_ms(state: State) -> int | None:
    """Return the log time at which something ends by itself next; None: nothing will.

    Outcomes may stay a little longer than they must, so that an idle cluster does
    not write an entry for each.
    """
    if state.timers.due or state.deleting:
        return state.now_ms
    policy = state.policy
    found = [] if (deadline_ms := state.timers.next_ms()) is None else [deadline_ms]
    if state.oldest_kept < state.next_ended:
        at_ms = state.ended[state.oldest_kept].at_ms
        found.append(at_ms + policy.outcome_retention_ms + FORGET_LATE_MS)
    if state.oldest_ended < state.oldest_kept:
        at_ms = state.ended[state.oldest_ended].at_ms
        found.append(at_ms + policy.dedupe_retention_ms + FORGET_LATE_MS)
    return min(found, default=None)


def drop_content(state: State, order: int, outcome: Outcome) -> int:
    """Drop message and result of an outcome; return how many bytes are to be counted no more."""
    if not outcome.is_kept:
        return 0
    if state.outcome_texts:
        state.outcome_texts -= texts.of_outcome(outcome)
    *kept, _message, _result, at_ms, ended_index, _run, _is_kept = outcome
    # As `_replace` would: this is done for each request.
    state.ended[order] = _outcome((*kept, "", b"", at_ms, ended_index, None, False))
    return outcome.size


def acknowledge(state: State, record: Acknowledge | Forget) -> Verdicts:
    """Drop what outcomes hold; the ids stay known."""
    answers = bytearray(len(record.tenant))
    look, table = state.dedupe.get, state.ended
    of, dropped = "", 0  # mostly all are of one tenant
    for place, (tenant, request_id) in enumerate(
        zip(record.tenant, record.request_id, strict=True)
    ):
        known = look(f"{tenant}\0{request_id}")
        if known is None or known >= 0:
            # Nothing is dropped that has not ended: a client cannot have read it.
            answers[place] = Verdict.UNKNOWN_REQUEST if known is None else Verdict.VOID
        else:
            if tenant != of and dropped:
                state.drop_outcomes(of, dropped)
                dropped = 0
            of = tenant
            dropped += drop_content(state, ~known, table[~known])
    if dropped:
        state.drop_outcomes(of, dropped)
    return Verdicts(bytes(answers))


def cancel(state: State, record: Cancel, effects: list[Effect]) -> Verdicts:
    """Give requests the outcome `cancelled`, unless they have one; remember unknown ids."""
    answers = bytearray(len(record.tenant))
    tickets = []
    ending: dict[int, Request] = {}  # together: that takes a third of the time
    for place, (tenant, request_id) in enumerate(
        zip(record.tenant, record.request_id, strict=True)
    ):
        name = f"{tenant}\0{request_id}"
        known = state.dedupe.get(name)
        if known is not None and known >= 0 and known not in ending:
            ending[known] = state.requests[known]
            continue
        if ending:  # what comes now is answered by what those before it have left
            end_each(state, list(ending.values()), OutcomeKind.CANCELLED, effects)
            ending.clear()
            known = state.dedupe.get(name)
        if known is None:
            answers[place] = _remember(state, tenant, name)
        else:
            outcome = state.ended[~known]
            answers[place] = Verdict.ENDED if outcome.is_kept else Verdict.OUTCOME_FORGOTTEN
            tickets.append((place, outcome.ticket))
    if ending:
        end_each(state, list(ending.values()), OutcomeKind.CANCELLED, effects)
    return Verdicts(bytes(answers), tuple(tickets))


def _remember(state: State, tenant: str, name: str) -> Verdict:
    """Remember the cancel of an id that may still come, as its outcome."""
    policy = state.policy
    use = state.use_of_tenant(tenant)
    if (
        use is None
        or len(state.dedupe) >= policy.dedupe_entries_max
        or state.outcome_bytes + OUTCOME_BYTES > policy.outcome_bytes_max
    ):
        state.forget_idle_tenant(tenant)
        return Verdict.OVERLOADED
    share = use.outcomes_max
    is_full = share and state.tenant_outcomes.get(tenant, 0) + OUTCOME_BYTES > share
    if is_full or use.cancels >= policy.cancels_remembered_max:
        state.forget_idle_tenant(tenant)
        return Verdict.QUOTA_EXCEEDED
    beyond = texts.of_name(name)
    use.cancels += 1
    use.cancel_names += beyond
    state.id_texts += beyond
    order = state.next_ended
    state.next_ended = order + 1
    state.ended[order] = Outcome(
        name,
        0,
        0,
        b"",
        OutcomeKind.CANCELLED,
        "",
        "",
        b"",
        state.now_ms,
        state.index,
        None,
        True,
    )
    state.dedupe[name] = ~order
    state.keep_outcomes(tenant, OUTCOME_BYTES)
    return Verdict.UNKNOWN_REQUEST


def _forget_cancel(state: State, name: str) -> None:
    tenant = name.partition("\0")[0]
    state.tenant_use[tenant].cancels -= 1
    state.tenant_use[tenant].cancel_names -= texts.of_name(name)
    state.forget_idle_tenant(tenant)
