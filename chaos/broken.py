"""`python -m chaos.broken NAME serve …`: `raftbatch` with a known bug, as a process of a world.

    python -m chaos run --workload submit --nemesis pause-executor --broken fence-off

Each shows that a checker of real processes finds what it is there for. What lives here: the bugs,
each a mutant of the product's text, and putting one in place. What must never live here: an import
of the product at the top: the mutant has to be there before. Called by: worlds, as a process; the
command line, for the names.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from chaos.mutation import Mutant, install

_CORE = "coordinator.core."


@dataclass(frozen=True, slots=True)
class Broken:
    """A bug.

    Attributes:
        name: of it.
        description: in a line.
        mutants: that make it.
        found_by: a run that finds it: workload, nemeses, seconds, seed.
        rules: of which at least one is among the findings.
    """

    name: str
    description: str
    mutants: tuple[Mutant, ...]
    found_by: tuple[str, tuple[str, ...], float, int]
    rules: tuple[str, ...]


def _mutant(name: str, module: str, old: str, new: str) -> Mutant:
    return Mutant(name, module, old, new, "tests/e2e/test_broken.py")


_ALL = (
    Broken(
        "dedupe-off",
        "a request id that is known is admitted again",
        (
            _mutant(
                "dedupe-off",
                _CORE + "admission",
                "        if len(set(self._names)) < count or not",
                "        if False and not",
            ),
        ),
        ("submit", (), 5.0, 1),
        ("lost-ticket", "doubled-outcome", "miscounted"),
    ),
)

BROKEN = {each.name: each for each in _ALL}


def main() -> None:
    """Put the bug in place that the first argument names, then be `raftbatch`."""
    name = sys.argv.pop(1)
    if name not in BROKEN:
        sys.exit(f"there is no bug {name!r}: {', '.join(BROKEN)}")
    for mutant in BROKEN[name].mutants:
        install(mutant)
    from raftbatch.local.child import main as command

    command()


if __name__ == "__main__":
    main()
