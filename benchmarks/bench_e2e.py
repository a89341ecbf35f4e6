"""Requests through a whole cluster: durable admission, a batch, a model, a durable outcome.

`python -m benchmarks.bench_e2e [--json FILE] [--directory DIR] [--quick]`
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from rich.console import Console

from benchmarks.machine import look, scratch
from benchmarks.serving.speed import CASES, loads
from benchmarks.serving.tables import Figures, bound, columns, table

_RATE, _SINGLE_MS = 5_000, 10
_COSTS = ("client", "leader", "followers", "executor", "child")


def main() -> None:
    """Measure, print, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write the figures there")
    parser.add_argument("--directory", type=Path, default=Path(), help="on a disk; default: here")
    parser.add_argument("--quick", action="store_true", help="half a minute in place of two")
    given = parser.parse_args()
    console = Console()
    with scratch(given.directory) as directory:
        machine = look(directory, "uvloop")
        console.print(machine.facts())
        found = loads(directory, *((2.0, 1) if given.quick else (5.0, 3)))
    costs = [{"case": row["case"], **_costs(row)} for row in found]
    rates = [{name: row[name] for name in row if not name.startswith("cpu_us")} for row in found]
    console.print(columns("Three nodes, fsync on, one executor", rates))
    console.print(columns("us of processor time a request", costs))
    bounds = line(found)
    console.print(table("Held to", bounds))
    if given.json:
        figures = {"machine": machine.facts(), "cases": found, "line": bounds}
        given.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


def line(found: list[Figures]) -> list[Figures]:
    """Return what the cluster is held to, what was found, and whether it holds."""
    rows = {row["case"]: row for row in found}
    many, one = rows[CASES[0].name], rows[CASES[2].name]
    return [
        bound(f"{many['case']}: requests a second", many["requests_per_second"], least=_RATE),
        bound(f"{one['case']}: p50 ms", one["p50_ms"], most=_SINGLE_MS),
    ]


def _costs(row: Figures) -> Figures:
    return {part: row[f"cpu_us_{part}"] for part in _COSTS} | {"in all": row["cpu_us"]}


if __name__ == "__main__":
    main()
