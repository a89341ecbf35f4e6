"""What the log tells by itself: one outcome for each request, nothing run that may not be.

What lives here: the promises that need no client. What must never live here: a client's view
(`process_clients`), a node's state (`process_ends`). Called by: `processes`. Deterministic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from chaos.checkers.process_logs import Tale
from chaos.checkers.process_values import Finding, Ran
from raftbatch.kinds import OutcomeKind
from raftbatch.stories import Story

_WELL = ("ok", "other")
_INNOCENT_CODES = ("unknown_model",)


def doubled(tale: Tale) -> Iterator[Finding]:
    """Yield requests with several outcomes, and ids that were taken in while they were known."""
    for story in tale.stories.requests.values():
        if story.others:
            yield Finding(
                "doubled-outcome", f"{story.request_id} has {1 + len(story.others)}", story.name
            )
    for name, stories in tale.named().items():
        if len([each for each in stories if each.is_whole]) > 1:
            indexes = ", ".join(str(each.admitted_index) for each in stories)
            yield Finding("doubled-admission", f"{name[1]} was admitted with {indexes}", name)


def stuck(tale: Tale) -> Iterator[Finding]:
    """Yield requests without an outcome."""
    for story in tale.stories.requests.values():
        if story.outcome is None:
            yield Finding("stuck-request", f"{story.request_id} has no outcome", story.name)


def isolated(tale: Tale) -> Iterator[Finding]:
    """Yield requests that failed though nothing is wrong with them.

    True of runs in which no fault makes executors report failures of their own.
    """
    for story in tale.stories.requests.values():
        outcome = story.outcome
        if outcome is None or outcome.kind is not OutcomeKind.FAILED:
            continue
        what = tale.texts.get(story.number, "").split("|")[1:2]
        is_well = bool(what) and (what[0] in _WELL or what[0].startswith("wait="))
        if is_well and outcome.code not in _INNOCENT_CODES:
            yield Finding(
                "not-isolated",
                f"{story.request_id} failed ({outcome.code}: {outcome.message}), and is well",
                story.name,
            )


def ran(tale: Tale, runs: Sequence[Ran]) -> Iterator[Finding]:
    """Yield what a model was given and was not assigned, or not so often."""
    if not tale.stories.is_whole:
        return
    times = Counter(each for run in runs for each in run.ids)
    by_id: dict[str, list[Story]] = {}
    for story in tale.stories.requests.values():
        by_id.setdefault(story.request_id, []).append(story)
    for request_id, count in times.items():
        stories = by_id.get(request_id, [])
        assigned = sum(story.assigned for story in stories)
        if count > assigned:
            name = stories[0].name if stories else None
            rule = "ran-too-often" if assigned else "ran-unassigned"
            yield Finding(rule, f"{request_id} ran {count} times, of {assigned} assigned", name)
