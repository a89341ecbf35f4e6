"""What simulated executors ran, held against what was committed.

What lives here: that. What must never live here: the executors. Called by:
`chaos.suites.scheduler`, `chaos.checkers.scheduler`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from raftbatch.kinds import OutcomeKind


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
    """See the module's docstring."""

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
        raise NotImplementedError

    def ended(self, run: Run, results: Mapping[int, tuple[OutcomeKind, bytes]]) -> None:
        """Note what a run gave, before it is reported: OK and a result, or FAILED and nothing.

        A run that crashed, hung, or failed as a whole never ends.
        """
