"""What a nemesis is: a fault that can be done to a world of real processes, and undone.

What lives here: that, as a value, and choices that several families make. What must never live
here: a fault (the families beside this module), or when it is done (`chaos.nemeses.schedules`).
Called by: those, `chaos.running`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from chaos.worlds.processes import ProcessWorld

Heal = Callable[[], None]
"""Undoes what was done, and that alone. Called again, it does no harm."""

Act = Callable[[ProcessWorld, Random], Heal]
"""Does a fault to a world, as it is drawn; returns what heals it.

It takes as long as the fault needs to hold, which for some is seconds. It waits for nothing that
only a healthy cluster brings about.
"""


@dataclass(frozen=True, slots=True)
class Nemesis:
    """A fault, by its name.

    Attributes:
        name: what it is called by.
        description: what it does, in a line.
        act: does it.
        needs: what a world must have for it, of `ProcessWorld.has`.
    """

    name: str
    description: str
    act: Act
    needs: frozenset[str] = field(default_factory=frozenset)


def leader_or_any(world: ProcessWorld, rng: Random) -> str:
    """Return who leads; where nobody does, a node that is drawn."""
    drawn = rng.choice(world.nodes)  # in any case: what is drawn next hangs on the seed alone
    return world.leader() or drawn


def follower(world: ProcessWorld, rng: Random) -> str:
    """Return a node that does not lead."""
    order = rng.sample(world.nodes, len(world.nodes))
    leader = world.leader()
    return next((node for node in order if node != leader), order[0])


def restarting(world: ProcessWorld, names: Sequence[str]) -> Heal:
    """Return what starts these again, those that do not run."""

    def heal() -> None:
        for name in names:
            world.restart(name)

    return heal
