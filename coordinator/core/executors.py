"""Executors: they appear, change, and end, and what they held lapses with them.

An incarnation is one life of a process, named by the index of its Join. What it
says under another's name is stale. What lives here: these records. What must
never live here: who is alive (the leader's own knowledge). Called by: `apply`.
Total. Deterministic.
"""

from __future__ import annotations

from dataclasses import replace

from coordinator.core.batches import take_back
from coordinator.core.effects import (
    DONE,
    Change,
    Effect,
    ExecutorChanged,
    Reply,
    Verdict,
    void,
)
from coordinator.core.slots import release_slot
from coordinator.core.state import State
from coordinator.core.values import Executor
from raftbatch.kinds import LapseReason, Ran
from raftbatch.records import Drain, Free, Join, Leave, Probe, Ready


def join(state: State, record: Join, effects: list[Effect]) -> Reply:
    """Begin an incarnation; the one that it replaces ends."""
    live = state.executors.get(record.executor)
    if live is not None:
        if live.incarnation != record.replaces or live.incarnation == state.index:
            return Reply(Verdict.EXECUTOR_ID_IN_USE, f"incarnation {live.incarnation} is live")
        _end_incarnation(state, live, True, (), effects)
    elif len(state.executors) >= state.policy.executors_max:
        return Reply(Verdict.OVERLOADED, f"there are executors_max = {state.policy.executors_max}")
    state.executors[record.executor] = Executor(
        record.executor,
        state.index,
        record.slots,
        tuple(sorted(set(record.models))),
        record.attributes,
    )
    effects.append(ExecutorChanged(record.executor, state.index, Change.JOINED))
    return Reply(Verdict.OK, "", state.index)


def leave(state: State, record: Leave, effects: list[Effect]) -> Reply:
    """End an incarnation."""
    executor = state.executors.get(record.executor)
    if executor is None or executor.incarnation != record.incarnation:
        return _STALE
    if executor.incarnation == state.index:
        return void("it joined with this very entry: its next life would have the same name")
    _end_incarnation(state, executor, record.lost, record.running, effects)
    return DONE


def ready(state: State, record: Ready, effects: list[Effect]) -> Reply:
    """Note which model versions an executor has ready."""
    executor = state.executors.get(record.executor)
    if executor is None or executor.incarnation != record.incarnation:
        return _STALE
    models = tuple(sorted(set(record.models)))
    return _change(state, replace(executor, models=models), Change.READY, effects)


def drain(state: State, record: Drain, effects: list[Effect]) -> Reply:
    """Let an executor get nothing new, or get something again."""
    executor = state.executors.get(record.executor)
    if executor is None or executor.incarnation != record.incarnation:
        return _STALE
    change = Change.DRAINING if record.on else Change.RESUMED
    return _change(state, replace(executor, is_draining=record.on), change, effects)


def probe(state: State, record: Probe, effects: list[Effect]) -> Reply:
    """End a suspension, if the probe succeeded."""
    executor = state.executors.get(record.executor)
    if executor is None or executor.incarnation != record.incarnation:
        return _STALE
    if not executor.is_suspended:
        return void("it is not suspended")
    if not record.succeeded:
        return DONE
    proven = replace(executor, is_suspended=False, failures=())
    return _change(state, proven, Change.PROBED, effects)


def free(state: State, record: Free, effects: list[Effect]) -> Reply:
    """Return the slots of lapsed assignments that an executor has stopped."""
    executor = state.executors.get(record.executor)
    if executor is None or executor.incarnation != record.incarnation:
        return _STALE
    stopped = tuple(zip(record.batches, record.fences, strict=True))
    freed = 0
    for held in executor.held:
        if held.is_lapsed and (held.batch, held.fence) in stopped:
            release_slot(state, state.executors[record.executor], held.batch, held.fence)
            freed += 1
    if freed:
        effects.append(ExecutorChanged(record.executor, record.incarnation, Change.FREED))
    return Reply(Verdict.OK, "", freed)


_STALE = Reply(Verdict.STALE_INCARNATION, "that is not the live incarnation")


def _change(state: State, executor: Executor, change: Change, effects: list[Effect]) -> Reply:
    state.executors[executor.executor] = executor
    effects.append(ExecutorChanged(executor.executor, executor.incarnation, change))
    return DONE


def _end_incarnation(
    state: State,
    executor: Executor,
    lost: bool,
    running: tuple[int, ...],
    effects: list[Effect],
) -> None:
    """Remove an executor, and take back what it held."""
    del state.executors[executor.executor]
    reason = LapseReason.EXECUTOR_LOST if lost else LapseReason.DRAINED
    for held in executor.held:
        if not held.is_lapsed:
            ran = Ran.YES if held.batch in running else Ran.UNKNOWN
            take_back(
                state,
                state.batches[held.batch],
                reason,
                ran,
                True,
                effects,
                code="executor_lost" if lost else "",
                message=f"{executor.executor} was lost" if lost else "",
            )
    change = Change.LOST if lost else Change.GONE
    effects.append(ExecutorChanged(executor.executor, executor.incarnation, change))
