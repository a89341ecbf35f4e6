"""Over whole simulated clusters, under faults, the fold of the log says what the replicas say.

It shares no code with them. Outcomes are compared by id, kind and index, and all totals since
the cluster began: also of what has been forgotten since.
"""

from __future__ import annotations

import pytest

from chaos.suites.scheduler import SchedulerRun
from raftbatch.stories import Stories
from tests.unit.test_stories_drawn import differs

QUICK = (3, 11)
MORE = range(100, 124)


def run_and_fold(seed: int) -> tuple[SchedulerRun, Stories]:
    """Run a seed, and fold the log that all replicas have applied."""
    run = SchedulerRun(seed, None)
    run.run()
    stories = Stories()
    for known in run._checker.chain:
        stories.feed(known.index, known.term, known.entry)
    return run, stories


def check(seed: int) -> Stories:
    """Compare the fold of a run with each replica's state at its end."""
    run, stories = run_and_fold(seed)
    assert run._nodes
    for name, node in run._nodes.items():
        assert differs(stories, node.replica.state) is None, (seed, name)
    counts = stories.counts
    assert counts.lost == counts.doubled == counts.unsure == 0, (seed, counts)
    return stories


@pytest.mark.parametrize("seed", QUICK)
def test_fold_agrees_with_every_replica(seed: int) -> None:
    counts = check(seed).counts
    assert counts.requests > 50
    assert sum(counts.outcomes.values()) == counts.requests


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_fold_agrees_with_every_replica_over_many_seeds() -> None:
    seen = {"reruns": 0, "dismissed": 0, "repeated": 0, "bisected": 0, "quarantined": 0}
    kinds: set[str] = set()
    for seed in MORE:
        counts = check(seed).counts
        kinds |= counts.outcomes.keys()
        for what in seen:
            seen[what] += getattr(counts, what)
    assert kinds == {"ok", "failed", "expired", "cancelled"}
    assert min(seen.values()) > 0, f"the runs have become blind: {seen}"


@pytest.mark.parametrize("seed", QUICK)
def test_fold_that_begins_later_tells_the_same_of_each_run(seed: int) -> None:
    """As `request show` does on a node that keeps the newest part of its log alone."""
    run, whole = run_and_fold(seed)
    chain = run._checker.chain
    compared = 0
    for begin in range(1, len(chain), max(1, len(chain) // 16)):
        later = Stories(chain[begin].index)
        for known in chain[begin:]:
            later.feed(known.index, known.term, known.entry)
        counts = later.counts
        assert counts.lost == counts.doubled == 0, (begin, counts)
        for number, story in later.requests.items():
            if story.is_whole and story.outcome is not None and story.outcome.batch:
                told = whole.requests[number]
                assert (story.name, story.outcome) == (told.name, told.outcome), begin
                assert story.events == told.events, begin
                compared += 1
    assert compared > 100
