"""Stories in words, and as JSON: what `request show` and `batch show` print.

What lives here: the words. What must never live here: where they come from (`stories`).
Called by: `stories`. Total: whatever a log holds is made printable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from raftbatch.cli.records import duration, many, model, nanoseconds, size
from raftbatch.cli.text import Table, Write, log_time, printable
from raftbatch.kinds import Ran
from raftbatch.stories import Attempt, BatchStory, Event, Outcome, Stories, Story

if TYPE_CHECKING:
    from raftbatch.v1 import admin_pb2

_RAN = {Ran.NO: "no", Ran.YES: "yes", Ran.UNKNOWN: "perhaps"}


def window_name(window: tuple[int, int]) -> str:
    """Return what people call a window, as `raftbatch status` does: in log time, no date."""
    return f"{log_time(window[0])}/{window[1]}"


# A request.


def request_lines(write: Write, story: Story, stories: Stories) -> None:
    """Print a request's story."""
    name = f"request    {story.request_id}  tenant {story.tenant}"
    _line(write, f"{name}  #{story.number}" if story.number else name, "bold")
    if story.number:
        _line(
            write,
            f"model      {model(story.key)}  {many(story.rows, 'row')}  {size(story.size)}  "
            f"priority {story.priority}",
        )
    if story.deadline_ms:
        left = duration(story.deadline_ms - story.at_ms)
        _line(write, f"deadline   {log_time(story.deadline_ms)}, {left} after its admission")
    _line(write, f"outcome    {_outcome(story, stories)}", "" if story.outcome else "yellow")
    for other in story.others:
        _line(write, f"ANOTHER    {_ended(other)}: it must not be there", "bold red")
    window = stories.window_of(story)
    if window is not None:
        _line(write, f"window     {window_name(window)}")
    _line(write, "")
    table = Table("", [" index", " log time", " after", "what"], write)
    table.add(["index", "log time", "after", "what"], "dim")
    before = story.at_ms
    for event in story.events:
        gap = f"+{duration(max(0, event.at_ms - before))}"
        cells = [str(event.index), log_time(event.at_ms), gap, _event(event, stories)]
        table.add([printable(cell) for cell in cells], _style(event))
        before = event.at_ms
    table.flush()


def _outcome(story: Story, stories: Stories) -> str:
    if story.outcome is None:
        waited = duration(max(0, stories.at_ms - story.at_ms))
        where = f"in batch {story.batch}" if story.batch else "in its window"
        return f"none by entry {stories.index}; it has waited {waited}, {where}"
    if not story.number:
        return _ended(story.outcome, " before it came")
    after = duration(story.outcome.at_ms - story.at_ms)
    return f"{_ended(story.outcome)}, {after} after its admission"


def _ended(outcome: Outcome, when: str = "") -> str:
    said = outcome.kind.name.lower() + when
    said += f"  {size(outcome.result_bytes)}" if outcome.result_bytes else ""
    said += f"  {outcome.code}" if outcome.code else ""
    said += f": {outcome.message}" if outcome.message else ""
    return f"{said}  at {outcome.index}, {log_time(outcome.at_ms)}"


def _event(event: Event, stories: Stories) -> str:
    """Return what an event was, in a line."""
    batch = stories.batches.get(event.batch)
    match event.kind:
        case "sealed":
            said = f"sealed into batch {event.batch}: {event.note}"
            if batch is None:
                return said
            said += f"; {many(len(batch.members), 'request')}"
            return f"{said}, window {window_name(batch.window)}" if batch.window[1] else said
        case "assigned":
            return (
                f"assigned to {event.executor}: batch {event.batch}, attempt {event.attempt}, "
                f"fence {event.index}"
            )
        case "lapsed":
            return f"lapsed, attempt {event.attempt} on {event.executor}: {event.note}"
        case "bisected":
            return f"moved to batch {event.batch}, {event.note}"
        case "dismissed":
            return (
                f"dismissed: {event.executor} reported attempt {event.attempt} of batch "
                f"{event.batch}, {event.note}"
            )
        case "ended" if event.executor:
            ran = f" by {event.executor}, attempt {event.attempt} of batch {event.batch}"
            return f"{event.note}{ran}{_times(batch, event.attempt)}"
        case "ended":
            return event.note
        case "quarantined":
            return f"set aside, alone in batch {event.batch}: {event.note}"
        case "forgotten":
            return "its outcome was purged by an operator"
        case "acknowledged":
            return "its outcome was read: acknowledged"
        case "released":
            return "dropped from quarantine"
        case "repeated":
            return event.note
        case _:
            return f"{event.kind} {event.note}".strip()


def _times(batch: BatchStory | None, number: int) -> str:
    """Return how long a run took at the executor, where the log tells."""
    for attempt in batch.attempts if batch is not None else ():
        if attempt.attempt == number and attempt.how == "completed":
            return f"; waited {nanoseconds(attempt.queue_ns)}, ran {nanoseconds(attempt.infer_ns)}"
    return ""


def _style(event: Event) -> str:
    styles = {"lapsed": "yellow", "dismissed": "yellow", "quarantined": "red", "bisected": "yellow"}
    return "green" if event.note == "ok" else styles.get(event.kind, "")


def request_object(story: Story, stories: Stories) -> dict[str, Any]:
    """Return a request's story as JSON has it."""
    window = stories.window_of(story)
    return {
        "request_id": story.request_id,
        "tenant": story.tenant,
        "number": story.number,
        "model": story.key[0],
        "version": story.key[1],
        "rows": story.rows,
        "size": story.size,
        "priority": story.priority,
        "admitted_index": story.admitted_index,
        "admitted_ms": story.at_ms,
        "deadline_ms": story.deadline_ms,
        "is_whole": story.is_whole,
        "window": None if window is None else window_name(window),
        "batch": story.batch,
        "runs": story.runs,
        "outcome": None if story.outcome is None else _outcome_object(story.outcome),
        "others": [_outcome_object(each) for each in story.others],
        "events": [event._asdict() for event in story.events],
    }


def _outcome_object(outcome: Outcome) -> dict[str, Any]:
    return outcome._asdict() | {"kind": outcome.kind.name.lower()}


def known_request_lines(
    write: Write, known: admin_pb2.RequestReply, tenant: str, request_id: str, *, by: str
) -> None:
    """Print what a state holds of a request."""
    number = f"  #{known.number}" if known.number else ""
    _line(write, f"by the state of {by} at {known.applied}:", "bold")
    _line(write, f"request    {request_id}  tenant {tenant}{number}")
    if not known.HasField("outcome"):
        where = f"in batch {known.batch}" if known.batch else "in its window"
        _line(write, f"model      {known.model}/{known.version}  {many(known.rows, 'row')}")
        admitted = f"at {known.index}, {log_time(known.admitted_ms)}"
        _line(write, f"admitted   {admitted}; it waits {where}")
        return
    _line(write, f"admitted   at {known.index}" if known.index else "admitted   never")
    outcome = known.outcome
    said = outcome.kind + (f"  {outcome.code}" if outcome.code else "")
    said += f": {outcome.message}" if outcome.message else ""
    kept = size(outcome.result_bytes) if outcome.kept else "its content is there no more"
    _line(write, f"outcome    {said}  {kept}  at {outcome.index}, {log_time(outcome.at_ms)}")
    if outcome.executor:
        run = f"batch {outcome.batch}, attempt {outcome.attempt}, fence {outcome.fence}"
        _line(write, f"run        by {outcome.executor}: {run}")
    if known.quarantined:
        _line(write, "quarantine it is set aside there", "red")


def known_request_object(known: admin_pb2.RequestReply) -> dict[str, Any]:
    """Return what a state holds of a request, as JSON has it: the message, field by field."""
    found = _message(known, ("outcome",))
    found["outcome"] = _message(known.outcome) if known.HasField("outcome") else None
    return found


# A batch.


def batch_lines(write: Write, batch: BatchStory, stories: Stories) -> None:
    """Print a batch's story."""
    _line(write, f"batch      {batch.number}  {model(batch.key)}", "bold")
    made = f"at {batch.index}, {log_time(batch.at_ms)}"
    if batch.parent:
        _line(write, f"made       out of batch {batch.parent}, {made}; sealed as {batch.root}")
    else:
        reason = batch.reason.name.lower()
        window = f"; window {window_name(batch.window)}" if batch.window[1] else ""
        _line(write, f"sealed     by {reason}, {made}{window}")
    held = f"{many(len(batch.members), 'request')}, {many(batch.rows, 'row')}, {size(batch.size)}"
    _line(write, f"holds      {held}")
    if batch.end:
        after = duration(batch.end_ms - batch.at_ms)
        halves = " and ".join(f"batch {half}" for half in batch.halves)
        into = f" into {halves}" if halves else ""
        ended = f"{batch.end}{into} at {batch.end_index}, {log_time(batch.end_ms)}, after {after}"
        _line(write, f"ended      {ended}")
    else:
        left = f"{many(len(batch.open), 'request')} without an outcome"
        _line(write, f"ended      not by entry {stories.index}: {left}", "yellow")
    _line(write, "")
    columns = ["attempt", "executor", " fence", " assigned", " took", "ran", "what came of it"]
    table = Table("attempts", columns, write)
    for attempt in batch.attempts:
        style = "" if attempt.how == "completed" else "yellow"
        table.add([printable(cell) for cell in _attempt(attempt)], style)
    table.flush()
    _line(write, "")
    table = Table("requests", ["number", "tenant", "request", " rows", "outcome"], write)
    for number in batch.members:
        story = stories.requests[number]
        ended = story.outcome.kind.name.lower() if story.outcome is not None else "-"
        cells = [f"#{number}", story.tenant, story.request_id, str(story.rows), ended]
        table.add([printable(cell) for cell in cells], "")
    table.flush()


def _attempt(attempt: Attempt) -> list[str]:
    took, ran, came = "-", "-", "it is the live one"
    if attempt.how:
        took, ran = duration(attempt.ended_ms - attempt.at_ms), _RAN[attempt.ran]
        came = f"lapsed at {attempt.ended_index}: {attempt.why}"
    if attempt.how == "completed":
        shape = "x".join(map(str, attempt.padded))
        came = (
            f"completed at {attempt.ended_index}: waited {nanoseconds(attempt.queue_ns)}, ran "
            f"{nanoseconds(attempt.infer_ns)}" + (f", as {shape}" if shape else "")
        )
    where = f"{attempt.executor} (incarnation {attempt.incarnation})"
    at = log_time(attempt.at_ms)
    return [str(attempt.attempt), where, str(attempt.fence), at, took, ran, came]


def batch_object(batch: BatchStory, stories: Stories) -> dict[str, Any]:
    """Return a batch's story as JSON has it."""
    fields = (
        "attempt",
        "executor",
        "incarnation",
        "fence",
        "at_ms",
        "ended_index",
        "ended_ms",
        "how",
        "why",
        "queue_ns",
        "compute_input_ns",
        "infer_ns",
        "output_ns",
        "padded",
        "open",
    )
    members = [stories.requests[number] for number in batch.members]
    return {
        "batch": batch.number,
        "parent": batch.parent,
        "root": batch.root,
        "model": batch.key[0],
        "version": batch.key[1],
        "reason": batch.reason.name.lower(),
        "window": window_name(batch.window) if batch.window[1] else None,
        "index": batch.index,
        "at_ms": batch.at_ms,
        "rows": batch.rows,
        "size": batch.size,
        "end": batch.end,
        "end_index": batch.end_index,
        "end_ms": batch.end_ms,
        "halves": list(batch.halves),
        "attempts": [
            {field: getattr(each, field) for field in fields} | {"ran": _RAN[each.ran]}
            for each in batch.attempts
        ],
        "requests": [
            {
                "number": story.number,
                "tenant": story.tenant,
                "request_id": story.request_id,
                "rows": story.rows,
                "outcome": None if story.outcome is None else story.outcome.kind.name.lower(),
            }
            for story in members
        ],
    }


def known_batch_lines(write: Write, known: admin_pb2.BatchReply, *, by: str) -> None:
    """Print what a state holds of a batch that is not done with."""
    _line(write, f"by the state of {by} at {known.applied}:", "bold")
    _line(write, f"batch      {known.batch}  {known.model}/{known.version}")
    _line(write, f"sealed     by {known.reason}, {log_time(known.sealed_ms)}")
    open_requests = many(known.requests, "request")
    _line(write, f"holds      {open_requests} without an outcome, {many(known.rows, 'row')}")
    attempts = f"{many(known.assigned, 'attempt')}, of which {known.failed} failed"
    where = f"assigned to {known.executor}, fence {known.fence}" if known.executor else "it waits"
    _line(write, f"attempts   {attempts}; {where}")
    for member in known.members:
        _line(write, f"           #{member.number}  {member.request_id}  tenant {member.tenant}")


def known_batch_object(known: admin_pb2.BatchReply) -> dict[str, Any]:
    """Return what a state holds of a batch, as JSON has it: the message, field by field."""
    found = _message(known, ("members",))
    found["members"] = [_message(each) for each in known.members]
    return found


def _message(message: Any, without: tuple[str, ...] = ()) -> dict[str, Any]:
    names = [field.name for field in message.DESCRIPTOR.fields if field.name not in without]
    return {name: getattr(message, name) for name in names}


def _line(write: Write, text: str, style: str = "") -> None:
    write(printable(text), style)
