"""`apply`: what an entry of the log does to the state.

Total: any sequence of records that can be decoded, from anyone, in any order,
leaves a state whose invariants hold; what is invalid or stale is refused as a
value. Deterministic: no clock, no chance, no order of a set or a dict. An entry
is applied so: log time advances; a bounded number of due things ends; the
records are applied in order; the digest rolls on. What lives here: that order,
and who handles which record. Called by: the replica, and the replay tool.
"""

from __future__ import annotations

from typing import assert_never

from coordinator.core import batches, executors, models, retention
from coordinator.core.admission import admit
from coordinator.core.digest import roll
from coordinator.core.effects import DONE, Applied, Effect, Led, Reply, Verdict, Verdicts, void
from coordinator.core.reports import complete
from coordinator.core.state import State
from raftbatch import records as r
from raftbatch.errors import Invariant


def apply(state: State, index: int, term: int, entry: r.Entry) -> Applied:
    """Apply the entry at an index of the log.

    Args:
        state: changed in place.
        index: of the entry; above the last one's.
        term: Raft's, of the entry. Where its proposer led another, or never led
            this one, all of it is refused.
        entry: decoded.

    Raises:
        Invariant: the index is not above the last: a bug of the caller's.
    """
    if index <= state.index:
        raise Invariant(f"entry {index} is given to a replica that has applied {state.index}")
    state.index = index
    effects: list[Effect] = []
    replies: list[Reply | Verdicts]
    begins = bool(entry.records) and type(entry.records[0]) is r.Lead and term > state.term
    if entry.term != term or (term != state.term and not begins):
        replies = [Reply(Verdict.NOT_LEADER)] * len(entry.records)
    else:
        retention.advance_time(state, entry.at_ms)
        budget = state.policy.expire_per_entry_max
        budget = retention.expire(state, budget, effects)
        if state.deleting:
            budget = models.end_deleted(state, budget, effects)
        retention.forget_old(state, budget)
        if begins:
            state.term = term
        replies = [
            _lead(state, record, effects)
            if begins and place == 0
            else _apply_record(state, record, effects)
            for place, record in enumerate(entry.records)
        ]
        if state.deleting:
            models.finish_deleted(state, effects)
    state.digest = roll(state, entry.checksum, replies, effects)
    state.settle()
    return Applied(tuple(replies), tuple(effects))


def _apply_record(state: State, record: r.Record, effects: list[Effect]) -> Reply | Verdicts:
    match record:
        case r.Admit():
            return admit(state, record)
        case r.Seal():
            return batches.seal(state, record, effects)
        case r.Assign():
            return batches.assign(state, record, effects)
        case r.Complete():
            return complete(state, record, effects)
        case r.Cancel():
            return retention.cancel(state, record, effects)
        case r.Acknowledge() | r.Forget():
            return retention.acknowledge(state, record)
        case r.Lapse():
            return batches.lapse(state, record, effects)
        case r.Bisect():
            return batches.bisect(state, record, effects)
        case r.Quarantine():
            return batches.quarantine(state, record, effects)
        case r.ReleaseQuarantined():
            return batches.release_quarantined(state, record)
        case r.Advance():
            return DONE
        case r.Lead():
            return void("this term has begun already")
        case r.Join() | r.Ready() | r.Drain() | r.Leave() | r.Free() | r.Probe():
            return _apply_to_executor(state, record, effects)
        case r.PutModel():
            return models.put_model(state, record, effects)
        case r.DeleteModel():
            return models.delete_model(state, record, effects)
        case r.PutPolicy():
            return models.put_policy(state, record, effects)
        case _:
            assert_never(record)


def _apply_to_executor(
    state: State,
    record: r.Join | r.Ready | r.Drain | r.Leave | r.Free | r.Probe,
    effects: list[Effect],
) -> Reply:
    match record:
        case r.Join():
            return executors.join(state, record, effects)
        case r.Ready():
            return executors.ready(state, record, effects)
        case r.Drain():
            return executors.drain(state, record, effects)
        case r.Leave():
            return executors.leave(state, record, effects)
        case r.Free():
            return executors.free(state, record, effects)
        case r.Probe():
            return executors.probe(state, record, effects)
        case _:
            assert_never(record)


def _lead(state: State, record: r.Record, effects: list[Effect]) -> Reply:
    assert isinstance(record, r.Lead)
    state.leader = record.node
    state.feature_level = max(state.feature_level, record.feature_level)
    effects.append(Led(state.term, record.node))
    return DONE
