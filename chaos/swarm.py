"""A swarm of runs over real processes: each seed draws its workload and its nemeses.

    python -m chaos swarm --seeds 1..100 --time 15

Most nemeses are left out of most runs, so that what one hides another seed shows. The first run
that finds something ends it, and its folder is kept; those of the others go. A row for each seed is
printed, and stands in `table.md` beside the folders.

What lives here: what a seed draws, and going through seeds. What must never live here: a run
(`chaos.running`). Called by: `chaos.__main__`.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from random import Random

from chaos.nemeses import NEMESES
from chaos.real import RESULTS, Asked, run
from chaos.running import Verdict
from chaos.workloads import WORKLOADS
from chaos.worlds import groups, namespaces
from chaos.worlds.preloaded import compiler
from raftbatch.errors import CannotStart

TIME_S = 15.0
"""Of faults in each run: two or three of them."""

FOLDER = RESULTS / "swarm"

_NEMESES_MAX = 4
_WIDTHS = (4, 16, 16, 32)
_NOTHING = frozenset[str]()

HEAD = (
    "| seed | workload | nemeses | width | faults | outcomes | entries | terms | heal s | all s |",
    "|---:|---|---|---:|---:|---:|---:|---:|---:|---:|",
)


def able() -> frozenset[str]:
    """Return what nemeses may need on this machine: see `ProcessWorld.has`."""
    if namespaces.missing():
        return _NOTHING
    found = {"network", "disk", "power"}
    if not groups.missing():
        found.add("memory")
    if compiler() is not None:
        found.add("preload")
    return frozenset(found)


def drawn(seed: int, time_s: float, has: Collection[str], folder: Path = FOLDER) -> Asked:
    """Return the run of a seed. Deterministic.

    Args:
        seed: draws it; the same where nothing was added to nemeses and workloads.
        time_s: of faults.
        has: what nemeses may need.
        folder: beneath which its results are.
    """
    rng = Random(f"swarm {seed}")
    possible = sorted(name for name, each in NEMESES.items() if each.needs <= set(has))
    nemeses = rng.sample(possible, rng.randint(1, _NEMESES_MAX))
    workload = rng.choice(sorted(name for name, each in WORKLOADS.items() if each.is_drawn))
    width = rng.choice(_WIDTHS)
    return Asked(workload, tuple(nemeses), time_s, seed, folder=folder / str(seed), width=width)


def run_all(
    seeds: Iterable[int],
    time_s: float,
    say: Callable[[str], None],
    play: Callable[[Asked, Callable[[str], None]], Verdict] = run,
    folder: Path = FOLDER,
) -> Counter[str]:
    """Go through seeds until one finds something; return counts, as `selection.run_all`.

    Args:
        seeds: in their order.
        time_s: of faults in each run.
        say: told the rows, and all of what a run finds.
        play: does a run.
        folder: of all results.
    """
    total: Counter[str] = Counter(runs=0, violations=0)
    has = able()
    for line in HEAD:
        say(line)
    for seed in seeds:
        asked, lines = drawn(seed, time_s, has, folder), list[str]()
        began = time.monotonic()
        try:
            verdict = play(asked, lines.append)
        except (CannotStart, OSError) as error:
            for line in (*lines, f"it could not run: {error}", f"again: {asked.again()}"):
                say(line)
            total["violations"] += 1
            return total
        row = _row(asked, verdict, time.monotonic() - began)
        say(row)
        _keep(row, folder)
        total["runs"] += 1
        total["faults"] += verdict.counts["faults"]
        total["outcomes"] += int(verdict.figures["outcomes"])
        total["violations"] += len(verdict.findings)
        if verdict.findings:
            for line in (*lines, *(f"\n{each}" for each in verdict.findings)):
                say(line)
            say(f"\nagain: {asked.again()}")
            say(f"all of it is in {asked.results()}: begin with README.md and timeline.html")
            return total
        shutil.rmtree(asked.results(), ignore_errors=True)
    return total


def _row(asked: Asked, verdict: Verdict, whole_s: float) -> str:
    figures, counts = verdict.figures, verdict.counts
    cells: Sequence[object] = (
        asked.seed,
        asked.workload,
        ", ".join(asked.nemeses),
        asked.width,
        counts["faults"],
        int(figures["outcomes"]),
        int(figures["entries"]),
        int(figures["terms"]),
        f"{figures['heal_s']:.1f}",
        f"{whole_s:.0f}",
    )
    return f"| {' | '.join(map(str, cells))} |"


def _keep(row: str, folder: Path) -> None:
    """Write a row into the table, which goes on where an earlier swarm has ended."""
    folder.mkdir(parents=True, exist_ok=True)
    table = folder / "table.md"
    is_new = not table.exists()
    with table.open("a", encoding="utf-8") as out:
        out.write("".join(f"{line}\n" for line in ((*HEAD, row) if is_new else (row,))))
