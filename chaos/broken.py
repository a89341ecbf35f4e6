"""`python -m chaos.broken NAME serve …`: `raftbatch` with a known bug, as a process of a world.

    python -m chaos run --workload submit --time 4 --seed 1 --broken fence-off

Each shows that a checker of real processes finds what it is there for. What lives here: their
table, and putting one in place: each is a mutant of the product's text. What must never live here:
a bug (`chaos.bugs`), or an import of the product at the top: the mutant has to be there before.
Called by: worlds, as a process; the command line, for the names.
"""

from __future__ import annotations

import sys

from chaos.bugs import Broken
from chaos.bugs.members import MEMBERS
from chaos.bugs.nodes import DISKS, NODES
from chaos.bugs.requests import REQUESTS
from chaos.mutation import install

BROKEN = {each.name: each for each in (*REQUESTS, *NODES, *MEMBERS)}
"""Those that a run of clients and nemeses finds."""

OF_DISKS = {each.name: each for each in DISKS}
"""Those that `chaos.disk_damage` and `chaos.disk_rounds` find."""


def known(name: str) -> Broken:
    """Return a bug by its name.

    Raises:
        LookupError: there is none.
    """
    return (BROKEN | OF_DISKS)[name]


def main() -> None:
    """Put the bug in place that the first argument names, then be `raftbatch`."""
    name = sys.argv.pop(1)
    if name not in BROKEN | OF_DISKS:
        sys.exit(f"there is no bug {name!r}: {', '.join(BROKEN | OF_DISKS)}")
    for mutant in known(name).mutants:
        install(mutant)
    from raftbatch.local.child import main as command

    command()


if __name__ == "__main__":
    main()
