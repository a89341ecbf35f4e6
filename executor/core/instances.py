"""The instances of models, as the machine knows them.

What lives here: what one does. What must never live here: a decision, a process. Called by:
`executor.core.machine`, and the shell, which asks what an instance does. Total. Deterministic.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from executor.core.values import Failure, Held, ModelId, Outcome


class At(Enum):
    """What an instance does."""

    DOWN = 1
    IDLE = 2
    RUNNING = 3
    WARMING = 4
    KILLED = 5
    """It is being killed, and is not dead yet."""


@dataclass(eq=False, slots=True)
class Instance:
    """A child process that runs a model.

    Attributes:
        number: its place.
        model: which it runs.
        at: what it does.
        held: what it runs, or ran when it was killed.
        places: in that assignment's columns: which requests run.
        run: names the run.
        out: why it takes nothing, and will not soon; None: it does, or will.
    """

    number: int
    model: ModelId
    at: At = At.DOWN
    held: Held | None = None
    places: tuple[int, ...] = ()
    run: int = 0
    out: Failure | None = None

    def does(self, run: int, outcome: Outcome | Failure | None) -> bool:
        """Return whether it does this run now, and such an outcome can come of it."""
        if self.run != run or self.at not in (At.RUNNING, At.WARMING):
            return False
        return isinstance(outcome, Failure) or (outcome is None) == (self.at is At.WARMING)
