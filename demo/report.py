"""What the demo prints: from numbers to lines. Pure.

What lives here: wording. What must never live here: a judgement (`audit`). Called by: `scenario`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from demo.audit import COSINE_MIN, Seen, Verdict
from demo.search import Hit
from demo.sentences import Sentence
from raftbatch.stories import Event, Story

_WIDTH = 100
_LABEL = 30


def counted(verdict: Verdict, seen: Seen, survivor: str) -> list[str]:
    """Return the table of what was counted.

    Args:
        verdict: to show.
        seen: by the client.
        survivor: whose log it was.
    """
    counts = verdict.counts
    sentences = len(seen.answers) + len(seen.errors)
    others = counts.requests - sentences
    least, compared = verdict.similarities
    before, between, after = [_rate(each) for each in verdict.rates]
    mean = verdict.rows / verdict.batches if verdict.batches else 0.0
    rows = [
        ("requests", f"{counts.requests:,}", f"{sentences:,} sentences, {others:,} others"),
        ("outcomes", f"{sum(counts.outcomes.values()):,}", _each(counts.outcomes)),
        ("lost", f"{verdict.lost:,}", "admitted, or asked for, and without an outcome"),
        ("doubled", f"{verdict.doubled:,}", "with more than one outcome"),
        ("run more than once", f"{counts.reruns:,}", _reruns(counts.reruns)),
        (
            "batches of sentences",
            f"{verdict.batches:,}",
            f"of {mean:.1f} on average; released by {_each(verdict.reasons)}",
        ),
        (
            "from the kill to a commit",
            "-" if verdict.failover_ms is None else f"{verdict.failover_ms} ms",
            "of the leader; the next one that the client was told of",
        ),
        ("sentences a second", before, f"before the kills; {between} meanwhile, {after} after"),
        (
            "vectors compared",
            f"{compared:,}",
            f"with the model run directly: cosine at least {_cosine(least)}",
        ),
    ]
    heading = f"Counted offline, in the log of {survivor}, which was not killed:"
    return [heading, *[f"  {label:<{_LABEL}}{value:>8}   {note}" for label, value, note in rows]]


def _cosine(value: float) -> str:
    """Return a cosine, cut off rather than rounded: 0.99999 is a limit."""
    return f"{int(value * 10_000_000) / 10_000_000:.7f} (wanted: {COSINE_MIN})"


def _rate(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:.0f}"


def _each(numbers: Mapping[str, int]) -> str:
    return ", ".join([f"{name} {count:,}" for name, count in numbers.items()]) or "none"


def _reruns(count: int) -> str:
    return "they were with the executor when it died" if count else "none was there when it died"


def story(shown: Story | None, verdict: Verdict, seen: Seen, text: str) -> list[str]:
    """Return the story of one request that was in flight when the leader was killed."""
    lead = verdict.lead
    if shown is None or lead is None:
        return ["No request was in flight when the leader was killed."]
    what = f"sentences in flight when {seen.leader} was killed"
    lines = [
        f"One of {len(seen.in_flight)} {what}: {shown.request_id}",
        f"  {clipped(text, _WIDTH - 4)}",
    ]
    is_told = False
    for event in shown.events:
        if event.index >= lead.at and not is_told:
            is_told = True
            lines.append(
                f"  {'':>12}{'':>9}   ---- {seen.leader} is dead; {lead.node} leads, from entry "
                f"{lead.at} on, term {lead.term}"
            )
        after = event.at_ms - shown.events[0].at_ms
        lines.append(f"  {f'entry {event.index}':<12}{f'+{after} ms':>9}   {_happened(event)}")
    return lines


def _happened(event: Event) -> str:
    parts = {
        "admitted": "admitted: durable on a majority",
        "sealed": f"sealed into batch {event.batch}, released by {event.note}",
        "assigned": f"batch {event.batch} assigned to {event.executor}, attempt {event.attempt}",
        "lapsed": f"taken back from {event.executor}: {event.note}",
        "ended": f"outcome: {event.note}, from {event.executor}",
        "acknowledged": "the client has read it",
    }
    return parts.get(event.kind, f"{event.kind} {event.note}".strip())


def found(question: str, hits: Sequence[Hit], corpus: Sequence[Sentence]) -> list[str]:
    """Return what a search found."""
    lines = [f'"{question}"']
    for hit in hits:
        sentence = corpus[hit.place]
        text = clipped(sentence.text, _WIDTH - 26)
        lines.append(f"  {hit.score:.2f}  {sentence.topic:<16.16}  {text}")
    return lines


def look_around(config: str, survivor: str, example: str, logs: str) -> list[str]:
    """Return commands for a cluster that is kept up."""
    raftbatch = ".venv/bin/raftbatch"
    return [
        "The cluster is up. In another terminal:",
        f"  {raftbatch} status --config {config}",
        f"  {raftbatch} log tail --config {config}",
        f"  {raftbatch} request show {example} --config {config}",
        f"  {raftbatch} infer embedder 'what is a closure?' --config {config}",
        f"What its processes say: {logs}; {survivor}'s log is the one that was counted.",
        "Ctrl-C stops it and removes everything.",
    ]


def last_line(verdict: Verdict) -> str:
    """Return the demo's last line."""
    figures = f"requests={verdict.counts.requests} lost={verdict.lost} doubled={verdict.doubled}"
    if verdict.problems:
        return f"demo FAILED: {figures} different={verdict.different}: {verdict.problems[0]}"
    return f"demo ok: {figures} failover_ms={verdict.failover_ms}"


def problems(verdict: Verdict) -> list[str]:
    """Return all that is wrong, a line each."""
    return [f"  wrong: {each}" for each in verdict.problems]


def clipped(text: str, characters: int) -> str:
    """Return a text that is no longer than that."""
    return text if len(text) <= characters else text[: characters - 1].rstrip() + "…"


def plural(count: int, what: str) -> str:
    """Return `1 request`, `2 requests`."""
    return f"{count:,} {what}" + ("" if count == 1 else "s")


def joined(names: Iterable[str]) -> str:
    """Return names as a text: `n1, n2 and n3`."""
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
