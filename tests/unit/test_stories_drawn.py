"""The fold and the core, which share no code, make the same of whatever records come."""

from __future__ import annotations

import random

import pytest

from coordinator.core.state import State
from raftbatch.codec import decode_entry
from raftbatch.cut import cut_entry, read_cut
from raftbatch.stories import Counts, Stories, Story
from tests.unit.core.drawing import Drawing

SEEDS = range(12)
STEPS = 300


def differs(stories: Stories, state: State) -> str | None:
    """Return in what the fold and a state differ; None: in nothing that clients could see."""
    by_name: dict[str, Story] = {}
    for story in sorted([*stories._ledger.cancelled, *stories.requests.values()], key=_begun):
        by_name[f"{story.tenant}\0{story.request_id}"] = story  # of an id the newest
    open_requests = {number for number, story in stories.requests.items() if not story.outcome}
    if open_requests != set(state.requests):
        return f"open requests: {open_requests ^ set(state.requests)}"
    for outcome in state.ended.values():
        found = by_name[outcome.name].outcome
        if found is None or found[:2] != (outcome.kind, found.code):
            return f"{outcome.name!r}: {found} is not {outcome}"
        if (found.index, found.at_ms) != (outcome.ended_index, outcome.at_ms):
            return f"{outcome.name!r}: {found} came when {outcome} did not"
        if outcome.is_kept and (found.code, found.message, found.result_bytes) != (
            outcome.code,
            outcome.message,
            len(outcome.result),
        ):
            return f"{outcome.name!r}: {found} says other than {outcome}"
    batches = {number: batch for number, batch in stories.batches.items() if not batch.end}
    if set(batches) != set(state.batches):
        return f"batches: {set(batches) ^ set(state.batches)}"
    for number, batch in state.batches.items():
        told = batches[number]
        live = told.live
        fence = live.fence if live is not None else 0
        if (told.members, len(told.open), told.assigned, told.failed, fence) != (
            batch.members,
            batch.open_requests,
            batch.assigned,
            batch.failed,
            batch.fence,
        ):
            return f"batch {number}: {told} is not {batch}"
    return differing_totals(stories.counts, state)


def _begun(story: Story) -> int:
    """Return where a story begins: an id that was cancelled before it came was never admitted."""
    return story.admitted_index or (story.outcome.index if story.outcome is not None else 0)


def differing_totals(counts: Counts, state: State) -> str | None:
    """Return in what the totals since the cluster began differ."""
    theirs = state.counters
    kinds = ("ok", theirs.succeeded), ("failed", theirs.failed), ("expired", theirs.expired)
    for kind, total in (*kinds, ("cancelled", theirs.cancelled)):
        if counts.outcomes.get(kind, 0) != total:
            return f"{counts.outcomes.get(kind, 0)} {kind}, of {total}"
    pairs = {
        "admitted": (counts.requests, theirs.admitted),
        "sealed": (counts.batches, theirs.sealed),
        "lapsed": (counts.lapses, theirs.lapsed),
        "bisected": (counts.bisected, theirs.bisected),
        "quarantined": (counts.quarantined, theirs.quarantined),
        "lost": (counts.lost, len(state.requests)),
    }
    for what, (ours, total) in pairs.items():
        if ours != total:
            return f"{ours} {what}, of {total}"
    return None


@pytest.mark.parametrize("seed", SEEDS)
def test_fold_says_what_the_core_says(seed: int) -> None:
    drawing, stories = Drawing(seed), Stories()
    for _ in range(STEPS):
        drawing.step()
        index, term, data = drawing.entries[-1]
        stories.feed(index, term, decode_entry(data))
        if index % 7 == 0:
            assert differs(stories, drawing.state) is None, f"at {index}"
    assert differs(stories, drawing.state) is None
    assert stories.counts.dismissed > 10


def test_fold_of_cut_entries_is_the_same() -> None:
    drawing, stories, whole = Drawing(3), Stories(), Stories()
    for _ in range(STEPS):
        drawing.step()
        index, term, data = drawing.entries[-1]
        whole.feed(index, term, decode_entry(data))
        stories.feed(index, term, read_cut(cut_entry(data)))
    assert stories.counts == whole.counts
    assert differs(stories, drawing.state) is None


@pytest.mark.parametrize("seed", SEEDS)
def test_fold_that_begins_later_takes_any_beginning(seed: int) -> None:
    """Drawn records are mostly refused, so it knows little: but it never fails."""
    drawing = Drawing(seed)
    for _ in range(STEPS):
        drawing.step()
    begin = random.Random(seed).randrange(1, STEPS)
    stories = Stories(drawing.entries[begin][0])
    for index, term, data in drawing.entries[begin:]:
        stories.feed(index, term, decode_entry(data))
    assert not stories.is_whole
    counts = stories.counts
    assert sum(counts.outcomes.values()) + counts.lost + counts.unsure == counts.requests


def test_difference_is_seen() -> None:
    """A core that forgot one Complete, or took one that was stale, is contradicted."""
    drawing, stories = Drawing(5), Stories()
    for _ in range(STEPS):
        drawing.step()
        index, term, data = drawing.entries[-1]
        stories.feed(index, term, decode_entry(data))
    told = next(story for story in stories.requests.values() if story.outcome is not None)
    outcome, told.outcome = told.outcome, None
    assert differs(stories, drawing.state) is not None
    assert stories.counts.lost == len(drawing.state.requests) + 1
    told.outcome = outcome
    assert differs(stories, drawing.state) is None
