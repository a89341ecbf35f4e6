"""Nemeses: the faults that are done to clusters of real processes, by their names.

    heal = NEMESES["kill-leader"].act(world, Random(7))
    ...
    heal()

What lives here: the table of them. What must never live here: a fault itself. Called by:
`chaos.running`, tests.
"""

from __future__ import annotations

from chaos.nemeses.disks import DISKS
from chaos.nemeses.dying import DYING
from chaos.nemeses.kinds import Heal, Nemesis
from chaos.nemeses.machines import MACHINES
from chaos.nemeses.networks import NETWORKS
from chaos.nemeses.schedules import Planned, schedule

__all__ = ["NEMESES", "Heal", "Nemesis", "Planned", "schedule"]

NEMESES: dict[str, Nemesis] = {each.name: each for each in (*DYING, *NETWORKS, *DISKS, *MACHINES)}
