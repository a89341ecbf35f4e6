"""`python -m chaos run`: one run over real processes, from its arguments to its exit code.

What lives here: arguments, the world that nemeses need, the folder of results. What must never
live here: the command line itself (`chaos.__main__`), a run (`chaos.running`). Called by those.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from chaos.history import History
from chaos.limits import Limits
from chaos.models import RUNS
from chaos.nemeses import NEMESES, schedule
from chaos.results import CLUSTER, HISTORY, RAN, write
from chaos.running import Plan, Run, Verdict
from chaos.workloads import WORKLOADS
from chaos.worlds import namespaces
from chaos.worlds.processes import Disks, ProcessWorld

CONFIG = Path(__file__).parents[1] / "cluster_configs" / "chaos-3.toml"
WIDTH = 16
RESULTS = Path("chaos-results")

_HARMFUL = ("pause-executor", "low-memory-executor")
"""Nemeses after which an executor may report that a batch failed which is well: it took too long,
or had no memory. One that is killed, or not heard, has its batches taken back, and no more."""

_STOPPING = ("fail-fsync", "read-only-disk", "kill-in-fsync")
"""Nemeses after which a node stops by itself, as it has to."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be run.

    Attributes:
        workload: its name.
        nemeses: their names.
        time_s: of the safety phase.
        seed: draws the rest.
        config: of the cluster.
        folder: of results; made anew.
        width: requests under way at one time.
        disks: see `ProcessWorld`; empty: as nemeses need.
        network: whether each process has a namespace; None: where this machine can.
        program: see `ProcessWorld`; empty: the product as it is.
        limits: how long it waits for what may never come.
    """

    workload: str
    nemeses: tuple[str, ...]
    time_s: float
    seed: int
    config: Path = CONFIG
    folder: Path | None = None
    width: int = WIDTH
    disks: str = ""
    network: bool | None = None
    program: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)

    def check(self) -> str:
        """Return what is wrong with it, and what to do; empty: nothing."""
        if self.workload not in WORKLOADS:
            return f"there is no workload {self.workload!r}: {', '.join(WORKLOADS)}"
        for name in self.nemeses:
            if name not in NEMESES:
                return f"there is no nemesis {name!r}: see `python -m chaos list`"
        if not self.time_s > 0:
            return "the time must be above 0"
        needs = self.needs()
        missing = namespaces.missing()
        if missing and (needs or self.network):
            return f"{', '.join(sorted(needs)) or 'a network'} cannot be broken here: {missing}"
        return ""

    def needs(self) -> frozenset[str]:
        """Return what its nemeses need of a world."""
        return frozenset(need for name in self.nemeses for need in NEMESES[name].needs)

    def results(self) -> Path:
        """Return the folder of its results."""
        name = "-".join((self.workload, *self.nemeses, str(self.seed)))
        return self.folder or RESULTS / name

    def again(self) -> str:
        """Return the command that runs it again."""
        parts = ["python", "-m", "chaos", "run", "--workload", self.workload]
        if self.nemeses:
            parts += ["--nemesis", ",".join(self.nemeses)]
        parts += ["--time", f"{self.time_s:g}", "--seed", str(self.seed)]
        parts += ["--width", str(self.width)] if self.width != WIDTH else []
        parts += ["--broken", self.program[1]] if self.program else []
        return shlex.join(parts)


def run(asked: Asked, say: Callable[[str], None]) -> Verdict:
    """Run it; return the verdict, which is in the folder too.

    Raises:
        CannotStart: the cluster could not be founded.
        OSError: the world could not be made.
    """
    folder = asked.results()
    _emptied(folder)
    (folder / RAN).mkdir(parents=True)
    os.environ[RUNS] = str((folder / RAN).absolute())
    workload = WORKLOADS[asked.workload]
    strikes = schedule(asked.nemeses, Random(asked.seed), asked.time_s)
    for each in strikes:
        say(f"plan: at {each.at_s:.1f} s {each.name} for {each.for_s:.1f} s")
    plan = Plan(
        workload,
        strikes,
        asked.time_s,
        asked.seed,
        asked.width,
        any(each in _HARMFUL for each in asked.nemeses),
        any(each in _STOPPING for each in asked.nemeses),
        asked.limits,
    )
    more: dict[str, Any] = {"program": asked.program} if asked.program else {}
    with (
        History(folder / HISTORY) as history,
        ProcessWorld(
            folder / CLUSTER,
            asked.config,
            seed=asked.seed,
            network=_has_network(asked),
            disks=_disks(asked),
            spare_nodes=workload.spare_nodes,
            spare_executors=workload.spare_executors,
            **more,
        ) as world,
    ):
        if lacking := asked.needs() - world.has:
            raise OSError(f"this world has no {', '.join(sorted(lacking))}")
        verdict = Run(plan, world, history, folder / RAN, say).play()
        told = {
            "workload": asked.workload,
            "nemeses": list(asked.nemeses),
            "seed": asked.seed,
            "time_s": asked.time_s,
        }
        write(folder, history.events, verdict, told, asked.again())
        if _disks(asked) != "none":
            _keep_data(world)
    return verdict


def _has_network(asked: Asked) -> bool:
    return asked.network if asked.network is not None else not namespaces.missing()


def _disks(asked: Asked) -> Disks:
    if asked.disks in ("none", "loop", "tmpfs"):
        return asked.disks  # type: ignore[return-value]  # it is one of these
    needs = asked.needs()
    if "power" in needs:
        return "loop"
    return "tmpfs" if "disk" in needs else "none"


def _keep_data(world: ProcessWorld) -> None:
    """Copy the nodes' data out of disks that go with the world."""
    for node in world.nodes:
        kept = world.directory / "kept" / node
        shutil.copytree(world.data_dir(node), kept, dirs_exist_ok=True)


def _emptied(folder: Path) -> None:
    """Remove an earlier run's results; never a folder that is none.

    Raises:
        OSError: it is something else.
    """
    if not folder.exists():
        return
    if any(folder.iterdir()) and not (folder / HISTORY).exists():
        raise OSError(f"{folder} holds something else than results: name another folder")
    shutil.rmtree(folder)


def listed() -> Sequence[tuple[str, str, str]]:
    """Return kind, name and description of all workloads and nemeses."""
    found = [("workload", each.name, each.description) for each in WORKLOADS.values()]
    for nemesis in NEMESES.values():
        needs = f" (needs {', '.join(sorted(nemesis.needs))})" if nemesis.needs else ""
        found.append(("nemesis", nemesis.name, nemesis.description + needs))
    return found
