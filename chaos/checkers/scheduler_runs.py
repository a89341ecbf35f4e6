"""What simulated executors ran, held against what was committed.

A batch may run more than once; one assignment runs at most once, where it was
committed to run, and only its requests that had no outcome by then. An outcome
that a report brings must be what a run under that very fence gave. What lives
here: that. What must never live here: the executors. Called by:
`chaos.suites.scheduler`, `chaos.checkers.scheduler`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chaos.checkers.scheduler_stories import Complain, Placement
from raftbatch.kinds import OutcomeKind
from raftbatch.records import Complete


@dataclass(slots=True)
class Run:
    """A batch that an executor began to run, under one fence.

    Attributes:
        executor, incarnation: who.
        batch, attempt, fence: what.
        numbers: the rows that it ran: members less those that were shed before.
        results: kind and result of each, once it has ended; None: it did not, or crashed.
    """

    executor: str
    incarnation: int
    batch: int
    attempt: int
    fence: int
    numbers: tuple[int, ...]
    results: Mapping[int, tuple[OutcomeKind, bytes]] | None = None


class RunHistory:
    """See the module's docstring.

    Args:
        complain: takes a broken promise.
        counts: what was seen.

    Attributes:
        placed: every assignment that was committed, by batch and fence.
        runs: all that began, by batch and fence.
    """

    def __init__(self, complain: Complain, counts: Counter[str]) -> None:
        self.placed: dict[tuple[int, int], Placement] = {}
        self.runs: dict[tuple[int, int], Run] = {}
        self._complain = complain
        self._counts = counts
        self._ran: Counter[int] = Counter()

    def started(
        self,
        executor: str,
        incarnation: int,
        batch: int,
        attempt: int,
        fence: int,
        numbers: Sequence[int],
    ) -> Run:
        """Note that an executor begins to run a batch. It must have been assigned there by then."""
        run = Run(executor, incarnation, batch, attempt, fence, tuple(numbers))
        placed = self.placed.get((batch, fence))
        if placed is None:
            self._complain(f"{run} begins, which was never assigned")
        elif (placed.executor, placed.incarnation, placed.attempt) != (
            executor,
            incarnation,
            attempt,
        ):
            self._complain(f"{run} begins, and was assigned as {placed}")
        elif not placed.open.issuperset(numbers) or len(set(numbers)) < len(numbers):
            self._complain(f"{run} begins, with others than {sorted(placed.open)}")
        if (batch, fence) in self.runs:
            self._complain(f"{run} begins a second time")
        self.runs[batch, fence] = run
        self._counts["runs"] += 1
        self._counts["reruns"] += any(self._ran[number] for number in numbers)
        self._ran.update(numbers)
        return run

    def ended(self, run: Run, results: Mapping[int, tuple[OutcomeKind, bytes]]) -> None:
        """Note what a run gave, before it is reported: OK and a result, or FAILED and nothing.

        A run that crashed, hung, or failed as a whole never ends.
        """
        if run.results is not None or not set(results) <= set(run.numbers):
            self._complain(f"{run} ends with {sorted(results)}")
        run.results = dict(results)

    def reported(self, report: Complete, number: int, kind: OutcomeKind, result: bytes) -> None:
        """Judge a report of one request that was taken: some run gave this, under this fence."""
        run = self.runs.get((report.batch, report.fence))
        given = run.results.get(number) if run is not None and run.results is not None else None
        if given != (kind, result):
            self._complain(
                f"request {number} is reported {kind.name} of batch {report.batch}, fence "
                f"{report.fence}, of which {run} gave {given}"
            )
