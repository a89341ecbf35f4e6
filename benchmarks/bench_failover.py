"""The leader's process is killed, again and again: how long until a client's next request is done.

`python -m benchmarks.bench_failover [--json FILE] [--directory DIR] [--kills N] [--rate N]`
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from rich.console import Console

from benchmarks.machine import look, scratch
from benchmarks.serving.failover import failovers
from benchmarks.serving.tables import Figures, bound, table

_MEDIAN_MS, _WORST_MS = 300, 1000


def main() -> None:
    """Measure, print, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write the figures there")
    parser.add_argument("--directory", type=Path, default=Path(), help="on a disk; default: here")
    parser.add_argument("--kills", type=int, default=20, help="in a row; default: 20")
    parser.add_argument("--rate", type=float, default=200.0, help="requests/s; default: 200")
    given = parser.parse_args()
    console = Console()
    with scratch(given.directory) as directory:
        machine = look(directory, "uvloop")
        console.print(machine.facts())
        found = failovers(directory, given.kills, given.rate)
    bounds = line(found)
    console.print(table("From SIGKILL of the leader to the next request's", found["each"]))
    console.print(table("In all", found["spread"]))
    console.print(table("As the client saw it", [found["client"]]))
    console.print(table("As a node's log tells it", [found["log"]]))
    console.print(table("Held to", bounds))
    if given.json:
        figures = {"machine": machine.facts(), **found, "line": bounds}
        given.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


def line(found: Figures) -> list[Figures]:
    """Return what failing over is held to, what was found, and whether it holds."""
    ticket = found["spread"][0]
    return [
        bound("kill to next ticket: median ms", ticket["median_ms"], most=_MEDIAN_MS),
        bound("kill to next ticket: worst ms", ticket["worst_ms"], most=_WORST_MS),
        *[
            bound(f"{what}, by the {whose}", found[whose][what], most=0)
            for whose in ("client", "log")
            for what in ("lost", "doubled")
        ],
    ]


if __name__ == "__main__":
    main()
