"""The whole story of one request: what clients saw of it, and what each node's log tells.

What lives here: that, as lines. What must never live here: a judgement. Called by: `processes`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from chaos.checkers.process_logs import tale
from chaos.checkers.process_values import LogEntry, Name, NodeLog
from chaos.history import Event
from raftbatch.errors import InvalidRequest
from raftbatch.stories import Stories, Story

_SHOWN = 90


class Telling:
    """Tells the story of one request after the other. Each log is read once, alike ones together.

    Args:
        events: the history.
        logs: of each node.
        committed: up to which index they are told.
    """

    def __init__(
        self, events: Sequence[Event], logs: Mapping[str, NodeLog], committed: int
    ) -> None:
        self._begin = events[0].ns if events else 0
        self._rows: dict[Name, list[Event]] = {}
        for event in events:
            if event.call:
                self._rows.setdefault((event.tenant, event.id), []).append(event)
        self._logs = logs
        self._committed = committed
        self._folded: list[tuple[dict[int, LogEntry], Stories | str]] = []

    def told(self, name: Name) -> Iterator[str]:
        """Yield lines: the clients' calls, then what each node's log has; alike ones together."""
        for event in self._rows.get(name, ()):
            yield _row(event, self._begin)
        by_lines: dict[tuple[str, ...], list[str]] = {}
        for node, log in self._logs.items():
            by_lines.setdefault(tuple(self._in_log(name, log)), []).append(node)
        for lines, nodes in by_lines.items():
            yield f"in the log of {', '.join(nodes)}:"
            yield from (f"  {line}" for line in lines)

    def _in_log(self, name: Name, log: NodeLog) -> Iterator[str]:
        if log.refusal:
            yield f"it cannot be read: {log.refusal}"
            return
        if log.first_index > 1:
            yield f"it begins with index {log.first_index}"
        found = self._stories(log)
        if isinstance(found, str):
            yield found
            return
        stories = found.find(name[1], name[0])
        if not stories:
            yield f"nothing of it, up to index {log.last_index}"
        for story in stories:
            yield from _of(story)

    def _stories(self, log: NodeLog) -> Stories | str:
        """Return what a log tells, or why it tells nothing."""
        entries = {at: each for at, each in log.entries.items() if at <= self._committed}
        for known, found in self._folded:
            if known == entries:
                return found
        try:
            told: Stories | str = tale(entries).stories
        except InvalidRequest as error:
            told = error.message
        self._folded.append((entries, told))
        return told


def _row(event: Event, begin: int) -> str:
    said = ", ".join(
        f"{key} {_short(value)}" for key, value in event.value.items() if value not in (None, "")
    )
    at_s = (event.ns - begin) / 1e9
    return f"{at_s:9.3f} s  {event.process} {event.op} #{event.call} {event.kind}: {said}"


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _of(story: Story) -> Iterator[str]:
    yield f"request {story.number}, deadline {story.deadline_ms or 'none'}"
    for event in story.events:
        where = f" batch {event.batch}" if event.batch else ""
        where += f" attempt {event.attempt}" if event.attempt else ""
        where += f" on {event.executor}" if event.executor else ""
        note = f" ({event.note})" if event.note else ""
        yield f"index {event.index} at {event.at_ms} ms: {event.kind}{where}{note}"
    if story.outcome is None:
        yield "no outcome"
    for other in story.others:
        yield f"index {other.index}: another outcome, {other.kind.name.lower()}"
