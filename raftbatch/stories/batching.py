"""What the fold makes of batches: sealed, assigned, taken back, reported, halved, set aside.

A report counts only if its batch, attempt and fence are those of the live assignment. What
lives here: these records. What must never live here: who may be admitted (`admitting`).
Called by: `fold`. Total. Deterministic.
"""

from __future__ import annotations

from raftbatch import records as r
from raftbatch.kinds import OutcomeKind, Ran
from raftbatch.stories.ledger import Holder, Ledger, ModelId
from raftbatch.stories.values import Attempt, BatchStory, Outcome, Story

_SKIPPED_MAX = 1 << 32
NO_OUTCOME = "no_outcome"
RESULT_TOO_LARGE = "result_too_large"


def seal(ledger: Ledger, record: r.Seal) -> None:
    """Make a batch of those named requests that wait, and are not past their deadline."""
    key = record.key
    model = ledger.models.get(key[:2])
    if not _is_next(ledger, record.batch) or key[:2] in ledger.deleting:
        return
    if model is None and not ledger.is_partial:
        return
    window = ledger.windows.get(key, {})
    if ledger.is_partial:
        window = _with_strangers(ledger, record)
    named = [window[number] for number in record.numbers if number in window]
    late = [story for story in named if 0 < story.deadline_ms <= ledger.now_ms]
    members = [story for story in named if not 0 < story.deadline_ms <= ledger.now_ms]
    rows, size = sum(story.rows for story in members), sum(story.size for story in members)
    if model is not None and (rows > model.rows_max or size > model.max_batch_bytes):
        return
    ledger.next_batch = record.batch + 1
    ledger.end_early(late, OutcomeKind.EXPIRED)
    if not members:
        return
    opened = ledger.window_id(key)
    for story in members:
        ledger.leave_window(story)
    numbers = tuple(story.number for story in members)
    batch = BatchStory(
        record.batch,
        0,
        record.batch,
        key,
        record.reason,
        ledger.index,
        ledger.now_ms,
        numbers,
        rows,
        size,
        model.attempts_max if model is not None else 0,
        model.attempts_max if model is not None else 0,
        model.assigned_max if model is not None else 0,
        dict.fromkeys(numbers),
        window=opened,
    )
    ledger.add_batch(batch)
    reason = record.reason.name.lower()
    sealed = ledger.event("sealed", batch=record.batch, note=reason)
    for story in members:
        story.events.append(sealed)
    counts = ledger.counts
    counts.batches += 1
    counts.rows += rows
    counts.reasons[reason] = counts.reasons.get(reason, 0) + 1


def _with_strangers(ledger: Ledger, record: r.Seal) -> dict[int, Story]:
    """Return the window, with those requests in it whose admission this log lacks."""
    for number in record.numbers:
        if number not in ledger.stories and number not in ledger.repeats:
            stranger = Story(number, "", f"#{number}", record.key, is_whole=False)
            ledger.admit(stranger, 0)
    return ledger.windows.get(record.key, {})


def assign(ledger: Ledger, record: r.Assign) -> None:
    """Bind a batch to a slot, unless anything has changed since this was decided."""
    batch = ledger.batches.get(record.batch)
    if batch is None or batch.live is not None or batch.is_exhausted:
        return
    if batch.assigned + 1 != record.attempt or batch.not_before_ms > ledger.now_ms:
        return
    holder = ledger.holder(record.executor, record.incarnation)
    slot = (batch.number, ledger.index)
    if holder is None or slot in holder.held or not _takes(ledger, holder, batch.key[:2]):
        return
    late = [
        ledger.open[number]
        for number in batch.members
        if number in batch.open and 0 < ledger.open[number].deadline_ms <= ledger.now_ms
    ]
    ledger.end_early(late, OutcomeKind.EXPIRED)
    if record.batch not in ledger.batches:
        return
    attempt = Attempt(
        record.attempt,
        record.executor,
        record.incarnation,
        ledger.index,
        ledger.now_ms,
        tuple(batch.open),
    )
    batch.attempts.append(attempt)
    batch.assigned, batch.has_success = record.attempt, False
    holder.held[slot] = False
    assigned = ledger.event(
        "assigned", batch=batch.number, attempt=record.attempt, executor=record.executor
    )
    for number in batch.open:
        story = ledger.stories[number]
        story.events.append(assigned)
        story.assigned += 1
        story.runs += 1


def _takes(ledger: Ledger, holder: Holder, model: ModelId) -> bool:
    """Return whether an executor takes a batch; on trust where the log lacks its beginning."""
    if ledger.is_partial:
        return True
    if holder.is_draining or holder.is_suspended or len(holder.held) >= holder.slots:
        return False
    return model not in ledger.deleting and model in holder.models


def lapse(ledger: Ledger, record: r.Lapse) -> None:
    """Take an assignment back, if it is the live one."""
    batch = ledger.batches.get(record.batch)
    if batch is None or not batch.is_at(record.attempt, record.fence):
        return
    ledger.take_back(
        batch,
        record.reason,
        record.ran,
        stopped=record.stopped,
        code=record.code,
        message=record.message,
    )


def complete(ledger: Ledger, record: r.Complete) -> None:
    """Give requests the outcomes that the live assignment reports."""
    batch = ledger.batches.get(record.batch)
    live = batch.live if batch is not None else None
    if (
        batch is None
        or live is None
        or not batch.is_at(record.attempt, record.fence)
        or (live.executor, live.incarnation) != (record.executor, record.incarnation)
    ):
        _dismiss(ledger, record)
        return
    _look_for_doubles(ledger, batch, record)
    if not set(record.numbers) <= set(batch.members):
        return
    _end_reported(ledger, batch, record)
    batch.has_success = batch.has_success or OutcomeKind.OK in record.kind
    if not record.last:
        return
    for number in [number for number in batch.members if number in batch.open]:
        del batch.open[number]
        ledger.end(
            ledger.open[number], OutcomeKind.FAILED, NO_OUTCOME, "the report does not name it"
        )
    holder = ledger.executors[record.executor]
    holder.held.pop((batch.number, live.fence), None)
    if batch.has_success:
        holder.failures.clear()
    elif record.kind:
        ledger.note_failure(holder, batch.root)
    live.how, live.ran = "completed", Ran.YES
    live.ended_index, live.ended_ms = ledger.index, ledger.now_ms
    live.queue_ns, live.compute_input_ns = record.queue_ns, record.compute_input_ns
    live.infer_ns, live.output_ns, live.padded = record.infer_ns, record.output_ns, record.padded
    ledger.drop_batch(batch, "completed")


def _end_reported(ledger: Ledger, batch: BatchStory, record: r.Complete) -> None:
    """End those that have no outcome yet: a cancelled one keeps the one it has."""
    most = ledger.policy.result_bytes_max
    run = (record.batch, record.attempt, record.fence, record.executor)
    columns = zip(
        record.numbers, record.kind, record.code, record.message, record.result, strict=True
    )
    for number, kind, code, message, result in columns:
        if number not in batch.open:
            continue
        del batch.open[number]
        story, size = ledger.open[number], len(result)
        if size > most and not ledger.is_partial:
            said = f"the result is more than result_bytes_max = {most} bytes"
            ledger.end(story, OutcomeKind.FAILED, RESULT_TOO_LARGE, said, run=run)
        else:
            ledger.end(story, OutcomeKind(kind), code, message, result_bytes=size, run=run)


def _dismiss(ledger: Ledger, record: r.Complete) -> None:
    """Note a report that is not of the live assignment: it changes nothing."""
    if ledger.is_partial and record.batch not in ledger.batch_stories:
        return  # it may be the live one of a batch that this log lacks
    ledger.counts.dismissed += 1
    dismissed = ledger.event(
        "dismissed",
        batch=record.batch,
        attempt=record.attempt,
        executor=record.executor,
        note="not of the live assignment",
    )
    for number in record.numbers:
        story = ledger.stories.get(number)
        if story is not None:
            story.events.append(dismissed)


def _look_for_doubles(ledger: Ledger, batch: BatchStory, record: r.Complete) -> None:
    """Note outcomes that a live assignment reports of requests which another run has ended.

    Executors are given what has no outcome by the coordinators' books: so such a report says
    that those books are not the log's. Likewise where it names an admission of a known id,
    which was not to be taken. What the same run says twice is one outcome.
    """
    run = (record.batch, record.attempt, record.fence)
    members = frozenset(batch.members)
    for place, number in enumerate(record.numbers):
        story = ledger.stories.get(number) if number in members else ledger.repeats.get(number)
        if story is None or story.outcome is None:
            continue
        before = story.outcome
        if number in members and (not before.batch or before.run == run):
            continue
        kind, size = OutcomeKind(record.kind[place]), len(record.result[place])
        story.others.append(
            Outcome(
                kind,
                record.code[place],
                record.message[place],
                size,
                ledger.index,
                ledger.now_ms,
                *run,
                record.executor,
            )
        )
        story.events.append(
            ledger.event(
                "ended",
                batch=record.batch,
                attempt=record.attempt,
                executor=record.executor,
                note=f"a second time: {kind.name.lower()}",
            )
        )


def bisect(ledger: Ledger, record: r.Bisect) -> None:
    """Halve an exhausted batch, in log order."""
    batch = ledger.batches.get(record.batch)
    if batch is None or not _may_be_cut(batch) or len(batch.members) < 2:
        return
    if not _is_next(ledger, record.left):
        return
    if not record.left < record.right <= record.left + _SKIPPED_MAX:
        return
    ledger.next_batch = record.right + 1
    left = sorted(batch.open)
    middle = (len(left) + 1) // 2
    ledger.drop_batch(batch, "bisected")
    ledger.counts.bisected += 1
    for number, members in ((record.left, left[:middle]), (record.right, left[middle:])):
        if not members:
            continue
        batch.halves += (number,)
        stories = [ledger.stories[each] for each in members]
        single, most = batch.attempts_single_max, 1 if batch.assigned_max else 0
        half = BatchStory(
            number,
            batch.number,
            batch.root,
            batch.key,
            batch.reason,
            ledger.index,
            ledger.now_ms,
            tuple(members),
            sum(story.rows for story in stories),
            sum(story.size for story in stories),
            single if len(members) == 1 else most,
            single,
            batch.assigned_max,
            dict.fromkeys(members),
            window=batch.window,
            code=batch.code,
            message=batch.message,
        )
        ledger.add_batch(half)
        moved = ledger.event("bisected", batch=number, note=f"out of batch {batch.number}")
        for story in stories:
            story.events.append(moved)


def quarantine(ledger: Ledger, record: r.Quarantine) -> None:
    """Set the one request of an exhausted batch aside."""
    batch = ledger.batches.get(record.batch)
    if batch is None or not _may_be_cut(batch) or len(batch.members) != 1:
        return
    [number] = batch.members
    story = ledger.open[number]
    batch.open.clear()
    code = batch.code or "attempts_exhausted"
    message = batch.message or f"{batch.assigned} attempts, of which {batch.failed} failed"
    story.events.append(ledger.event("quarantined", batch=batch.number, note=code))
    ledger.end(story, OutcomeKind.FAILED, code, message)
    ledger.drop_batch(batch, "quarantined")
    ledger.counts.quarantined += 1


def release_quarantined(ledger: Ledger, record: r.ReleaseQuarantined) -> None:
    """Drop requests from quarantine; their outcomes stay what they are."""
    for number in record.numbers:
        story = ledger.stories.get(number)
        if story is not None and any(event.kind == "quarantined" for event in story.events):
            story.events.append(ledger.event("released"))


def _may_be_cut(batch: BatchStory) -> bool:
    """Return whether a batch has had all its attempts; taken on trust where nothing says so."""
    return batch.is_exhausted or (not batch.assigned_max and batch.live is None)


def _is_next(ledger: Ledger, number: int) -> bool:
    if ledger.is_partial:  # what was refused of what came before is not known
        return number not in ledger.batch_stories
    least = ledger.next_batch or number
    return least <= number <= least + _SKIPPED_MAX
