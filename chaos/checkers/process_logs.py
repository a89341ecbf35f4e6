"""The nodes' logs, read from their files: whether they agree, and what they come to.

    merged   one log of all nodes' logs, as far as it is committed
    tale     the stories that it tells, and the texts that went in and came out

What lives here: reading, merging, the promises about logs alone. What must never live here: a
client's view (`process_clients`). Called by: `processes`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from chaos.checkers.process_values import Finding, LogEntry, NodeLog
from coordinator.offline import read_directory
from raftbatch import records as r
from raftbatch.codec import decode_entry
from raftbatch.errors import InvalidRequest, RaftbatchError, Undecodable
from raftbatch.stories import Stories, Story
from raftbatch.tensors import decode, elements
from raftbatch.world import World


@dataclass(slots=True)
class Tale:
    """What a log tells.

    Attributes:
        stories: its fold.
        texts: what was asked for, by number of the request.
        results: what runs gave, by batch, attempt and fence, and by number.
        leaders: who led each term that wrote anything, by its Lead.
    """

    stories: Stories
    texts: dict[int, str] = field(default_factory=dict)
    results: dict[tuple[int, int, int], dict[int, bytes]] = field(default_factory=dict)
    leaders: dict[int, str] = field(default_factory=dict)

    def named(self) -> dict[tuple[str, str], list[Story]]:
        """Return the stories of all that was admitted by tenant and id, in log order."""
        found: dict[tuple[str, str], list[Story]] = {}
        for story in self.stories.requests.values():
            found.setdefault(story.name, []).append(story)
        return found

    def result(self, story: Story) -> str | None:
        """Return the text that a request's run gave; None: none did."""
        if story.outcome is None:
            return None
        given = self.results.get(story.outcome.run, {}).get(story.number)
        return text_of(given) if given is not None else None


def read_log(world: World, directory: str) -> NodeLog:
    """Return what a node's files hold; damage is told in `refusal`. Blocking."""
    try:
        log = read_directory(world, directory)
        entries = {
            each.index: LogEntry(each.term, bytes(each.data), each.is_config) for each in log.raw()
        }
    except InvalidRequest as error:
        return NodeLog(refusal=error.message)
    return NodeLog(log.first_index, entries)


def disagreements(logs: Mapping[str, NodeLog], committed: int) -> Iterator[Finding]:
    """Yield where two logs break log matching, and where they differ in what is committed."""
    for node, log in logs.items():
        if log.refusal:
            yield Finding("unreadable-log", f"the files of {node} cannot be read: {log.refusal}")
    yield from islice(_unmatched(logs), 1)
    yield from islice(_unsettled(logs, committed), 1)


def _unmatched(logs: Mapping[str, NodeLog]) -> Iterator[Finding]:
    seen: dict[tuple[int, int], tuple[str, bytes]] = {}
    for node, log in logs.items():
        for index, entry in log.entries.items():
            first, data = seen.setdefault((index, entry.term), (node, entry.data))
            if data != entry.data:
                yield Finding(
                    "two-leaders",
                    f"index {index} of term {entry.term} is one entry on {first}, "
                    f"another on {node}",
                )


def _unsettled(logs: Mapping[str, NodeLog], committed: int) -> Iterator[Finding]:
    settled: dict[int, tuple[str, LogEntry]] = {}
    for node, log in logs.items():
        for index, entry in log.entries.items():
            if index > committed:
                continue
            other, known = settled.setdefault(index, (node, entry))
            if known.term != entry.term:
                yield Finding(
                    "diverged-log",
                    f"index {index} is committed, and of term {known.term} on {other}, "
                    f"of {entry.term} on {node}",
                )


def merged(logs: Mapping[str, NodeLog], committed: int) -> dict[int, LogEntry]:
    """Return all committed entries that any node has, by index."""
    found: dict[int, LogEntry] = {}
    for log in logs.values():
        for index, entry in log.entries.items():
            if index <= committed:
                found.setdefault(index, entry)
    return found


def gaps(entries: Mapping[int, LogEntry], committed: int) -> Iterator[Finding]:
    """Yield that a committed entry is in nobody's files."""
    first = min(entries, default=1)
    missing = [index for index in range(first, committed + 1) if index not in entries]
    if missing:
        yield Finding(
            "lost-entry",
            f"index {missing[0]} was committed, and is in no node's files ({len(missing)} such)",
        )


def tale(entries: Mapping[int, LogEntry]) -> Tale:
    """Return what a log tells, as far as it has no gap.

    Raises:
        InvalidRequest: an entry holds no records.
    """
    first = min(entries, default=1)
    found = Tale(Stories(first))
    for index in range(first, first + len(entries)):
        entry = entries.get(index)
        if entry is None:
            break
        if not entry.data or entry.is_config:
            continue
        try:
            decoded = decode_entry(entry.data)
        except Undecodable as error:
            raise InvalidRequest(f"entry {index} holds no records: {error}") from None
        found.stories.feed(index, entry.term, decoded)
        for record in decoded.records:
            _note(found, entry.term, record)
    return found


def _note(found: Tale, term: int, record: object) -> None:
    match record:
        case r.Admit():
            for number, payload in enumerate(record.payload, record.first):
                found.texts[number] = text_of(payload)
        case r.Complete():
            run = (record.batch, record.attempt, record.fence)
            results = found.results.setdefault(run, {})
            results.update(zip(record.numbers, record.result, strict=True))
        case r.Lead():
            found.leaders.setdefault(term, record.node)
        case _:
            pass


def text_of(payload: bytes) -> str:
    """Return the one text of an envelope; a word for what is none."""
    try:
        [tensor] = decode(payload)
        return b"".join(bytes(each) for each in elements(tensor)).decode()
    except (RaftbatchError, ValueError):
        return f"no text, {len(payload)} bytes"
