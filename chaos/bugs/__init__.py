"""Known bugs of the product, each found by a checker of real processes.

What lives here: what such a bug is; its modules have them, by what they are about. What must
never live here: putting one in place, an import of the product. Called by: `chaos.broken`.
"""

from __future__ import annotations

from dataclasses import dataclass

from chaos.limits import Limits
from chaos.mutation import Mutant

SOON = Limits(answers_s=6.0, idle_s=1.0, calm_s=1.0)
"""Enough for what is answered at all."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A bug.

    Attributes:
        name: of it.
        description: in a line.
        mutants: that make it.
        found_by: a run that finds it: workload, nemeses, seconds, seed.
        rules: all of which are among the findings, of each such run.
        perhaps: what may be found beside them, and nothing else; None: whatever hangs together
            with it.
        is_one_enough: whether one of the rules may be all that is found: what is lost hangs on
            the moment.
        limits: how long that run waits for what may never come.
    """

    name: str
    description: str
    mutants: tuple[Mutant, ...]
    found_by: tuple[str, tuple[str, ...], float, int]
    rules: tuple[str, ...]
    perhaps: tuple[str, ...] | None = None
    is_one_enough: bool = False
    limits: Limits = SOON

    def is_found(self, found: set[str]) -> bool:
        """Return whether these rules are what a run of it has to find. Total."""
        due = set(self.rules)
        is_there = found >= due or (self.is_one_enough and bool(found & due))
        return is_there and (self.perhaps is None or found <= {*due, *self.perhaps})


def mutant(name: str, module: str, old: str, new: str) -> Mutant:
    """Return a part of a bug: see `Mutant`."""
    return Mutant(name, module, old, new, "tests/e2e/test_broken.py")
