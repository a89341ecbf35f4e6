"""Batches: sealed, assigned, taken back, halved, set aside.

A batch that is assigned is fenced by the index of the entry that assigned it.
Two counters tell how it fared: `assigned` counts attempts, `failed` those that
were seen to fail; either exhausts it. What lives here: these records. What must
never live here: reports (`reports`), and when to do what (`decide`). Called by:
`apply`, `executors`. Total. Deterministic.
"""

from __future__ import annotations

from dataclasses import replace

from coordinator.core.effects import (
    DONE,
    BatchGone,
    BatchWaits,
    Effect,
    Ended,
    Placed,
    Reply,
    Revoked,
    Verdict,
    void,
)
from coordinator.core.ending import drop_batch, end, end_early
from coordinator.core.slots import note_failure, release_slot, take_slot
from coordinator.core.state import State
from coordinator.core.values import Batch, Quarantined, Request
from raftbatch.kinds import LapseReason, OutcomeKind, Ran
from raftbatch.records import Assign, Bisect, Lapse, Quarantine, ReleaseQuarantined, Seal

NUMBERS_SKIPPED_MAX = 1 << 32
_FAILURES = (LapseReason.FAILED, LapseReason.TIMED_OUT, LapseReason.EXECUTOR_LOST)
_BACKOFF_DOUBLINGS_MAX = 64
_EMPTY = Reply(Verdict.EMPTY, "all its requests have ended")


def seal(state: State, record: Seal, effects: list[Effect]) -> Reply:
    """Make a batch of those named requests that still wait and are not past their deadline."""
    model = state.models.get(record.key[:2])
    if not _is_next(state, record.batch):
        return void(f"batch {record.batch} is not the next")
    if model is None or record.key[:2] in state.deleting:
        return void("there is no such model version")
    now_ms = state.now_ms
    members, late = _named(state, record)
    rows = sum([each.rows for each in members])
    size = sum([each.size for each in members])
    if rows > model.rows_max or size > model.max_batch_bytes:
        return void(f"{rows} rows and {size} bytes are more than a batch may have")
    state.next_batch = record.batch + 1
    end_early(state, late, OutcomeKind.EXPIRED, effects)
    if not members:
        return _EMPTY
    state.take_from_windows(members)
    numbers = tuple([each.number for each in members])
    state.batch_of.update(dict.fromkeys(numbers, record.batch))
    state.counters.sealed += 1
    _add(
        state,
        Batch(
            record.batch,
            record.batch,
            record.key,
            numbers,
            len(members),
            rows,
            size,
            record.reason,
            now_ms,
            model.attempts_max,
            model.attempts_max,
            model.assigned_max,
        ),
        effects,
    )
    return Reply(Verdict.OK, "", len(members))


def _named(state: State, record: Seal) -> tuple[list[Request], list[Request]]:
    """Return those of the named requests that wait in the window, and those that are late."""
    key, now_ms, batch_of = record.key, state.now_ms, state.batch_of
    found = [
        request
        for request in map(state.requests.get, record.numbers)
        if request is not None and request.key == key and request.number not in batch_of
    ]
    late = [request for request in found if 0 < request.deadline_ms <= now_ms]
    if late:
        found = [request for request in found if not 0 < request.deadline_ms <= now_ms]
    return found, late


def assign(state: State, record: Assign, effects: list[Effect]) -> Reply:
    """Bind a batch to a slot, unless anything has changed since this was decided."""
    batch = state.batches.get(record.batch)
    executor = state.executors.get(record.executor)
    if batch is None and record.batch < state.next_batch:
        return _EMPTY
    if batch is None or batch.executor or batch.is_exhausted:
        return void("no such batch waits")
    if batch.assigned + 1 != record.attempt:
        return void(f"the next attempt is {batch.assigned + 1}")
    if batch.not_before_ms > state.now_ms:
        return void(f"the batch is in backoff until {batch.not_before_ms}")
    if executor is None or executor.incarnation != record.incarnation:
        return Reply(Verdict.STALE_INCARNATION, "that executor is no more")
    if not executor.takes_new or executor.free_slots <= 0:
        return void("the executor takes nothing")
    if any(held[:2] == (batch.number, state.index) for held in executor.held):
        return void("it was assigned there by this very entry: the fence would be the same")
    if batch.key[:2] not in executor.models or batch.key[:2] in state.deleting:
        return void("the model is not ready there")
    late = [
        request
        for number in batch.members
        if (request := state.requests.get(number)) is not None
        and 0 < request.deadline_ms <= state.now_ms
    ]
    end_early(state, late, OutcomeKind.EXPIRED, effects)
    batch = state.batches.get(record.batch)
    if batch is None:
        return _EMPTY
    fence = state.index
    state.batches[batch.number] = replace(
        batch,
        assigned=record.attempt,
        executor=record.executor,
        incarnation=record.incarnation,
        fence=fence,
        has_success=False,
    )
    take_slot(state, executor, batch.number, fence)
    effects.append(Placed(record.executor, record.incarnation, batch.number, record.attempt, fence))
    return Reply(Verdict.OK, "", fence)


def lapse(state: State, record: Lapse, effects: list[Effect]) -> Reply:
    """Take an assignment back, if it is still the one."""
    batch = state.batches.get(record.batch)
    if batch is None or not is_current(batch, record.attempt, record.fence):
        return Reply(Verdict.STALE_FENCE, "that is not the current attempt")
    take_back(
        state,
        batch,
        record.reason,
        record.ran,
        record.stopped,
        effects,
        code=record.code,
        message=record.message,
    )
    return DONE


def is_current(batch: Batch, attempt: int, fence: int) -> bool:
    """Return whether this is the batch's current assignment."""
    return bool(batch.executor) and batch.fence == fence and batch.assigned == attempt


def take_back(
    state: State,
    batch: Batch,
    reason: LapseReason,
    ran: Ran,
    stopped: bool,
    effects: list[Effect],
    *,
    code: str = "",
    message: str = "",
) -> None:
    """End an assignment without a report."""
    has_failed = ran is Ran.YES and reason in _FAILURES
    failed = batch.failed + has_failed
    excluded = batch.excluded
    if has_failed and batch.executor not in excluded:
        excluded = (*excluded, batch.executor)
    executor = state.executors.get(batch.executor)
    if executor is not None and executor.incarnation == batch.incarnation:
        release_slot(state, executor, batch.number, batch.fence, stopped)
        if has_failed:
            note_failure(state, executor.executor, batch.root, effects)
    state.counters.lapsed += 1
    effects.append(Revoked(batch.executor, batch.incarnation, batch.number, batch.fence, reason))
    if not batch.open_requests:
        drop_batch(state, batch)
        effects.append(BatchGone(batch.number))
        return
    # Not after a death that was not the batch's doing, nor when it was given back: it can go
    # to another executor at once.
    waits = has_failed or reason is LapseReason.REFUSED
    delay_ms = _backoff_ms(state, batch, failed if has_failed else batch.assigned) if waits else 0
    state.batches[batch.number] = replace(
        batch,
        failed=failed,
        excluded=excluded,
        not_before_ms=state.now_ms + delay_ms if delay_ms else 0,
        executor="",
        incarnation=0,
        fence=0,
        has_success=False,
        code=code or batch.code,
        message=message or batch.message,
    )


def bisect(state: State, record: Bisect, effects: list[Effect]) -> Reply:
    """Halve an exhausted batch, so that the culprit is alone in the end."""
    batch = state.batches.get(record.batch)
    if batch is None and record.batch < state.next_batch:
        return _EMPTY
    if batch is None or not batch.is_exhausted or len(batch.members) < 2:
        return void("no such batch is to be halved")
    if not _is_next(state, record.left) or record.right <= record.left:
        return void("the numbers of the halves are not the next")
    if record.right > record.left + NUMBERS_SKIPPED_MAX:
        return void("the numbers of the halves are far apart")
    state.next_batch = record.right + 1
    left = sorted([number for number in batch.members if number in state.requests])
    middle = (len(left) + 1) // 2
    drop_batch(state, batch)
    effects.append(BatchGone(batch.number))
    state.counters.bisected += 1
    for number, members in ((record.left, left[:middle]), (record.right, left[middle:])):
        if members:
            requests = [state.requests[each] for each in members]
            for each in members:
                state.batch_of[each] = number
            single = len(members) == 1
            half = replace(
                batch,
                number=number,
                members=tuple(members),
                open_requests=len(members),
                rows=sum([each.rows for each in requests]),
                size=sum([each.size for each in requests]),
                # Several split again at their first failure; one alone has all its attempts.
                attempts_max=batch.attempts_single_max if single else 1,
                assigned=0,
                failed=0,
                excluded=(),
                not_before_ms=0,
            )
            _add(state, half, effects)
    return DONE


def quarantine(state: State, record: Quarantine, effects: list[Effect]) -> Reply:
    """Set the one request of an exhausted batch aside."""
    batch = state.batches.get(record.batch)
    if batch is None and record.batch < state.next_batch:
        return _EMPTY
    if batch is None or not batch.is_exhausted or len(batch.members) != 1:
        return void("no such batch is to be set aside")
    request = state.requests[batch.members[0]]
    del state.batch_of[request.number]
    code = batch.code or "attempts_exhausted"
    message = batch.message or f"{batch.assigned} attempts, of which {batch.failed} failed"
    end(state, request, OutcomeKind.FAILED, code, message)
    effects.append(Ended((request,), batch.number))
    drop_batch(state, batch)
    effects.append(BatchGone(batch.number))
    state.quarantine[request.number] = Quarantined(
        request, batch.number, code, message, state.now_ms
    )
    state.quarantine_bytes += request.size
    state.counters.quarantined += 1
    trim_quarantine(state)
    return DONE


def trim_quarantine(state: State) -> None:
    """Drop the oldest requests in quarantine while there are too many."""
    policy = state.policy
    while (
        len(state.quarantine) > policy.quarantine_requests_max
        or state.quarantine_bytes > policy.quarantine_bytes_max
    ):
        _drop_quarantined(state, min(state.quarantine))
        state.counters.quarantine_dropped += 1


def release_quarantined(state: State, record: ReleaseQuarantined) -> Reply:
    """Drop requests from quarantine; those that are not there are no error."""
    dropped = 0
    for number in record.numbers:
        if number in state.quarantine:
            _drop_quarantined(state, number)
            dropped += 1
    return Reply(Verdict.OK, "", dropped)


def _drop_quarantined(state: State, number: int) -> None:
    state.quarantine_bytes -= state.quarantine[number].request.size
    del state.quarantine[number]


def _add(state: State, batch: Batch, effects: list[Effect]) -> None:
    state.batches[batch.number] = batch
    state.model_use[batch.key[:2]].batches[batch.number] = None
    effects.append(BatchWaits(batch.number))


def _is_next(state: State, number: int) -> bool:
    return state.next_batch <= number <= state.next_batch + NUMBERS_SKIPPED_MAX


def _backoff_ms(state: State, batch: Batch, failures: int) -> int:
    """Return initial * coefficient ** (failures - 1), at most the maximum. Integers only."""
    model = state.models.get(batch.key[:2])
    if model is None:
        return 0
    delay_ms = model.backoff_initial_ms
    for _ in range(min(failures - 1, _BACKOFF_DOUBLINGS_MAX)):
        if delay_ms >= model.backoff_max_ms:
            break
        delay_ms = delay_ms * model.backoff_permille // 1000
    return min(delay_ms, model.backoff_max_ms)
