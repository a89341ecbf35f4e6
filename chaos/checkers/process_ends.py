"""How nodes stand in the end, and what they said: equal, idle, bounded, and without a bug.

What lives here: the promises about the nodes themselves. What must never live here: a request's
story. Called by: `processes`. Deterministic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from chaos.checkers.process_logs import Tale
from chaos.checkers.process_values import End, Evidence, Finding
from chaos.history import Event

BUGS = ("leader_stale_total", "leader_voids_total", "leader_rejected_total")
"""Counters of a node, each of which is 0 as long as its leader does all as it should."""

_KINDS = {"data": "its data directory", "log": "its log file"}


def diverged(evidence: Evidence) -> Iterator[Finding]:
    """Yield nodes that had other digests at an index, at any time and in the end."""
    seen: dict[int, tuple[str, str]] = {}
    looks = [
        (node, at) for event in evidence.events if event.op == "look" for node, at in _at(event)
    ]
    looks += [(node, (end.applied, end.digest.hex())) for node, end in evidence.ends.items()]
    for node, (applied, digest) in looks:
        if not digest:
            continue
        other, known = seen.setdefault(applied, (node, digest))
        if known != digest:
            yield Finding(
                "diverged-digest",
                f"at index {applied} the digest of {other} is {known}, that of {node} {digest}",
            )
            return


def _at(event: Event) -> Iterator[tuple[str, tuple[int, str]]]:
    for node, each in event.value.get("nodes", {}).items():
        yield node, (int(each["applied"]), str(each["digest"]))


def leaders(events: Sequence[Event]) -> Iterator[Finding]:
    """Yield terms that two nodes said they lead."""
    seen: dict[int, str] = {}
    for event in events:
        for node, each in event.value.get("nodes", {}).items() if event.op == "look" else ():
            if each["role"] != "leader":
                continue
            other = seen.setdefault(int(each["term"]), node)
            if other != node:
                yield Finding("two-leaders", f"{other} and {node} both led term {each['term']}")
                return


def leaked(ends: Mapping[str, End]) -> Iterator[Finding]:
    """Yield slots that are taken, and work that is there, though all is answered."""
    for node, end in ends.items():
        for executor, held in end.held.items():
            if held:
                yield Finding(
                    "leaked-slot",
                    f"{node} says that {executor} holds {held} slots, and there is nothing to run",
                )
                return
        if end.batches or end.requests:
            yield Finding(
                "stuck-request",
                f"{node} has {end.requests} requests and {end.batches} batches, and "
                "all is answered",
            )
            return


def miscounted(tale: Tale, ends: Mapping[str, End], committed: int) -> Iterator[Finding]:
    """Yield that a node counts other requests without an outcome than its own log tells."""
    if not tale.stories.is_whole:
        return
    waiting = sum(story.outcome is None for story in tale.stories.requests.values())
    for node, end in ends.items():
        if end.applied == committed and end.requests != waiting:
            yield Finding(
                "miscounted",
                f"{node} has {end.requests} requests without an outcome at index {committed}, and "
                f"its log tells of {waiting}",
            )


def unbounded(events: Sequence[Event], bounds: Mapping[str, int]) -> Iterator[Finding]:
    """Yield files that grew beyond their bound; the largest sight of each node and kind."""
    most: dict[tuple[str, str], int] = {}
    for event in events:
        for name, sizes in event.value.items() if event.op == "sizes" else ():
            for kind, size in sizes.items():
                most[name, kind] = max(most.get((name, kind), 0), int(size))
    for (name, kind), size in most.items():
        bound = bounds.get(kind)
        if bound is not None and size > bound:
            yield Finding(
                "unbounded-file",
                f"{name}: {_KINDS.get(kind, kind)} had {size} bytes, of at most {bound}",
            )


def broken(evidence: Evidence) -> Iterator[Finding]:
    """Yield processes that ended by themselves, or told of a bug."""
    for name, how in evidence.died.items():
        yield Finding("died", f"{name} ended though nobody ended it: {how}")
    for name, lines in evidence.said.items():
        if lines:
            yield Finding("traceback", f"{name} tells of a bug", story=list(lines))
    for (node, bug), count in _bugs(evidence).items():
        yield Finding("leader-bug", f"{node} counts {count} of {bug}")


def _bugs(evidence: Evidence) -> dict[tuple[str, str], int]:
    """Return what nodes counted, at any time: one that starts again has forgotten it."""
    found: dict[tuple[str, str], int] = {}
    counted = [(node, end.counters) for node, end in evidence.ends.items()]
    for event in evidence.events:
        if event.op == "look":
            nodes = event.value.get("nodes", {})
            counted += [(node, each.get("bugs", {})) for node, each in nodes.items()]
    for node, counters in counted:
        for bug in BUGS:
            if count := int(counters.get(bug, 0)):
                found[node, bug] = max(found.get((node, bug), 0), count)
    return found
