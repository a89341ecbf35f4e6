"""What became of every request, by the log of a node that was not killed; and what is wrong.

    told = fold(entries, first_index)           the log, offline
    verdict = audit(told, seen, similarities)   against what the client was told
    verdict.problems                            empty, or the demo has failed

Nothing is taken from the client but the ids that it asked for, when it was answered, and which
entry it was told of: that is compared with the log. What lives here: the counting. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from raftbatch import records
from raftbatch.kinds import OutcomeKind
from raftbatch.stories import BatchStory, Counts, Stories, Story

COSINE_MIN = 0.99999
"""The same text in another batch differs in the last digits alone; 0.99999 are 0.26 degrees."""

_RATE_ANSWERS_MIN = 20  # fewer say little of a rate


class Lead(NamedTuple):
    """A term begins.

    Attributes:
        at: index of its first entry.
        term: of it.
        node: who leads.
    """

    at: int
    term: int
    node: str


@dataclass(frozen=True, slots=True)
class Told:
    """What a log tells.

    Attributes:
        stories: of its requests.
        leads: its terms, in their order.
    """

    stories: Stories
    leads: tuple[Lead, ...]


class Answer(NamedTuple):
    """What the client was told of one request.

    Attributes:
        at_s: when, by the client's clock.
        entry: index of the log entry that holds the outcome.
        executor: who ran it.
    """

    at_s: float
    entry: int
    executor: str


@dataclass(slots=True)
class Seen:
    """What the client saw, times by its own clock.

    Attributes:
        asked: ids of all that it asked for, whatever came of it.
        answers: of the sentences, by id.
        errors: of those that had none: what it was told instead.
        tickets: when, and with which index, requests were said to be durable.
        leader, executor: who was killed.
        begun_s, ended_s: the first sentence was asked for; the last was answered.
        leader_killed_s, executor_killed_s, restarted_s: when.
        in_flight: ids of sentences without an answer when the leader was killed.
        entry_known: the highest index that it had been told of by then.
    """

    asked: set[str] = field(default_factory=set)
    answers: dict[str, Answer] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    tickets: list[tuple[float, int]] = field(default_factory=list)
    leader: str = ""
    executor: str = ""
    begun_s: float = 0.0
    ended_s: float = 0.0
    leader_killed_s: float = 0.0
    executor_killed_s: float = 0.0
    restarted_s: float = 0.0
    in_flight: frozenset[str] = frozenset()
    entry_known: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the demo comes to.

    Attributes:
        counts: by the log.
        lost: requests without an outcome, or that the log does not know.
        doubled: requests with more than one outcome, or that ran as two.
        different: sentences whose vector is not the model's, or of whose outcome the client
            was told something else than the log holds.
        batches, rows: of sentences.
        reasons: of those batches: how many, by release reason.
        lead: the first term after the kill.
        failover_ms: from the kill to the first commit of which the client was told.
        rates: sentences a second: before the kills, between them and the restarts, and since
            the executor that was killed gives answers again; None: too few to tell.
        similarities: of the sample: the least cosine, and how many.
        shown: a request that was in flight at the kill.
        problems: what is wrong.
    """

    counts: Counts
    lost: int
    doubled: int
    different: int
    batches: int
    rows: int
    reasons: Mapping[str, int]
    lead: Lead | None
    failover_ms: int | None
    rates: tuple[float | None, float | None, float | None]
    similarities: tuple[float, int]
    shown: Story | None
    problems: tuple[str, ...]


def fold(entries: Iterable[tuple[int, int, records.Entry]], first_index: int) -> Told:
    """Return what a log tells: index, term and content of each entry, in their order."""
    stories = Stories(first_index)
    leads = []
    for index, term, entry in entries:
        stories.feed(index, term, entry)
        if entry.records and isinstance(entry.records[0], records.Lead) and entry.term == term:
            leads.append(Lead(index, term, entry.records[0].node))
    return Told(stories, tuple(leads))


def audit(told: Told, seen: Seen, similarities: Sequence[float], model: str) -> Verdict:
    """Return the verdict. Total. Deterministic.

    Args:
        told: by the log.
        seen: by the client.
        similarities: of a sample: cosine of what came back and of the model run directly.
        model: of the sentences.
    """
    counts = told.stories.counts
    names: dict[str, int] = {}
    for each in told.stories.requests.values():
        names[each.request_id] = names.get(each.request_id, 0) + 1
    unknown = sorted(seen.asked - names.keys())
    twice = [name for name, times in names.items() if times > 1]
    outcomes = {
        each.request_id: each.outcome.index if each.outcome is not None else 0
        for each in told.stories.requests.values()
    }
    contradicted = [name for name, each in seen.answers.items() if outcomes.get(name) != each.entry]
    unlike = [each for each in similarities if not each >= COSINE_MIN]
    lead = next((each for each in told.leads if each.at > seen.entry_known), None)
    failover_ms = _failover_ms(seen, lead)
    sealed = [
        each for each in told.stories.batches.values() if each.key[0] == model and not each.parent
    ]
    verdict = Verdict(
        counts,
        counts.lost + counts.unsure + len(unknown),
        counts.doubled + len(twice),
        len(unlike) + len(contradicted),
        len(sealed),
        sum(each.rows for each in sealed),
        _reasons(sealed),
        lead,
        failover_ms,
        _rates(seen),
        (min(similarities, default=0.0), len(similarities)),
        _shown(told.stories, seen.in_flight, lead),
        (),
    )
    return _judged(verdict, told, seen, unlike, contradicted)


def _judged(
    verdict: Verdict,
    told: Told,
    seen: Seen,
    unlike: Collection[float],
    contradicted: Collection[str],
) -> Verdict:
    """Return it with its problems."""
    problems = []
    if not told.stories.is_whole:
        problems.append(f"the log begins with entry {told.stories.since}: not all can be counted")
    if verdict.lost:
        problems.append(f"{verdict.lost} requests have no outcome")
    if verdict.doubled:
        problems.append(f"{verdict.doubled} requests have two outcomes, or ran as two")
    if unlike:
        problems.append(
            f"{len(unlike)} vectors are not the model's: the least cosine is {min(unlike):.6f}"
        )
    if contradicted:
        problems.append(
            f"of {len(contradicted)} requests the client was told of another entry than the log "
            f"has: {_some(contradicted)}"
        )
    for name, said in list(seen.errors.items())[:1]:
        problems.append(f"{len(seen.errors)} sentences were refused or failed: {name}: {said}")
    not_ok = verdict.counts.requests - verdict.counts.outcomes.get("ok", 0) - verdict.counts.lost
    if not_ok > 0 and not seen.errors:
        problems.append(f"{not_ok} requests have an outcome other than ok")
    if not seen.answers:
        problems.append("no sentence was answered")
    if not verdict.similarities[1]:
        problems.append("no vector was compared")
    if seen.leader and verdict.failover_ms is None:
        problems.append("nothing was committed after the leader was killed")
    return replace(verdict, problems=tuple(problems))


def _failover_ms(seen: Seen, lead: Lead | None) -> int | None:
    """Return how long after the kill the client was told of something the next leader committed."""
    if lead is None:
        return None
    told = [*seen.tickets, *[(each.at_s, each.entry) for each in seen.answers.values()]]
    times = [at_s for at_s, entry in told if entry >= lead.at and at_s > seen.leader_killed_s]
    return round((min(times) - seen.leader_killed_s) * 1000) if times else None


def _rates(seen: Seen) -> tuple[float | None, float | None, float | None]:
    times = sorted(each.at_s for each in seen.answers.values())
    again = [
        each.at_s
        for each in seen.answers.values()
        if each.executor == seen.executor and each.at_s > seen.restarted_s
    ]
    back_s = min(again, default=seen.ended_s)
    return (
        _rate(times, seen.begun_s, seen.leader_killed_s),
        _rate(times, seen.leader_killed_s, back_s),
        _rate(times, back_s, seen.ended_s),
    )


def _rate(times: Sequence[float], begin_s: float, end_s: float) -> float | None:
    """Return answers a second, from the first of the span on: what comes before is a start."""
    inside = [each for each in times if begin_s <= each <= end_s]
    if len(inside) < _RATE_ANSWERS_MIN or inside[-1] <= inside[0]:
        return None
    return (len(inside) - 1) / (inside[-1] - inside[0])


def _reasons(batches: Iterable[BatchStory]) -> dict[str, int]:
    found: dict[str, int] = {}
    for each in batches:
        reason = each.reason.name.lower()
        found[reason] = found.get(reason, 0) + 1
    return dict(sorted(found.items(), key=lambda pair: -pair[1]))


def _shown(stories: Stories, in_flight: Collection[str], lead: Lead | None) -> Story | None:
    """Return the request in flight at the kill to which the most happened, on both sides of it."""
    if lead is None:
        return None
    found = [
        each
        for each in stories.requests.values()
        if each.request_id in in_flight
        and each.admitted_index < lead.at
        and each.outcome is not None
        and each.outcome.kind is OutcomeKind.OK
        and each.outcome.index >= lead.at
    ]
    return max(
        found,
        key=lambda each: (sum(event.index < lead.at for event in each.events), -each.number),
        default=None,
    )


def _some(names: Collection[str]) -> str:
    return ", ".join(sorted(names)[:3]) + (", …" if len(names) > 3 else "")
