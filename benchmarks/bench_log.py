"""The replicated log on three processes, loopback and real disks: speed, failover, catching up.

`python -m benchmarks.bench_log [--json FILE] [--directory DIR] [--quick]`
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.machine import look, scratch
from benchmarks.replication.measures import Figures, catching_up, elections, line, loads


def main() -> None:
    """Measure, print, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write the figures there")
    parser.add_argument("--directory", type=Path, default=Path(), help="on a disk; default: here")
    parser.add_argument("--quick", action="store_true", help="a minute in place of several")
    given = parser.parse_args()
    console = Console()
    with scratch(given.directory) as directory:
        machine = look(directory, "uvloop")
        console.print(machine.facts())
        rates = loads(_below(directory, "loads"), *((1.0, 1) if given.quick else (3.0, 5)))
        console.print(_table("Loads: three nodes, fsync on", rates))
        failovers = elections(_below(directory, "elections"), 5 if given.quick else 50)
        console.print(_table("SIGKILL of the leader until another has committed", [failovers]))
        size = 0.1 if given.quick else 1.0
        caught_up, restart = catching_up(_below(directory, "catching-up"), size)
        console.print(_table("A follower that was away", [caught_up]))
        console.print(_table("Restart", [restart]))
        bounds = line(rates, failovers, caught_up, restart)
        console.print(_table("Held to", bounds))
    if given.json:
        figures = {
            "machine": machine.facts(),
            "loads": rates,
            "elections": failovers,
            "catching_up": caught_up,
            "restart": restart,
            "line": bounds,
        }
        given.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


def _below(directory: Path, name: str) -> Path:
    made = directory / name
    made.mkdir()
    return made


def _table(title: str, rows: list[Figures]) -> Table:
    table = Table(title=title)
    for name in rows[0]:
        table.add_column(name.replace("_", " "), justify="right")
    for row in rows:
        table.add_row(*(_short(row.get(name, "")) for name in rows[0]))
    return table


def _short(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.2f}" if value < 100 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


if __name__ == "__main__":
    main()
