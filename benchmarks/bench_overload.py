"""Three times as much as a cluster can do: what it still does, and how it refuses the rest.

`python -m benchmarks.bench_overload [--seconds N] [--json FILE] [--directory DIR] [--quick]`
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from rich.console import Console

from benchmarks.machine import look, scratch
from benchmarks.serving.overload import TIMES, line, overloaded, row
from benchmarks.serving.tables import columns, table


def main() -> None:
    """Load, print, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="of overload")
    parser.add_argument("--json", type=Path, help="write the figures there")
    parser.add_argument("--directory", type=Path, default=Path(), help="on a disk; default: here")
    parser.add_argument("--quick", action="store_true", help="a few seconds")
    given = parser.parse_args()
    console = Console()
    with scratch(given.directory) as directory:
        machine = look(directory, "uvloop")
        console.print(machine.facts())
        loads = overloaded(directory, 6.0 if given.quick else given.seconds)
    names = ("capacity", f"{TIMES} times that", "capacity again")
    rows = [row(name, found) for name, found in zip(names, loads, strict=True)]
    bounds = line(*loads)
    console.print(columns("Three nodes, fsync on, one executor", rows))
    console.print(table("Held to", bounds))
    if given.json:
        figures = {"machine": machine.facts(), "loads": rows, "line": bounds}
        given.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
