"""A million requests through a whole cluster: it must be then as it was in the beginning.

`python -m benchmarks.bench_endurance [--requests N] [--json FILE] [--directory DIR]`
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from benchmarks.machine import look, scratch
from benchmarks.serving.endurance import STRETCHES_MIN, Sample, endured, line
from benchmarks.serving.tables import table

_STRETCHES = 20


def main() -> None:
    """Serve, print a line for each stretch, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=1_000_000, help="how many, in all")
    parser.add_argument("--stretch", type=int, help="requests between two samples")
    parser.add_argument("--json", type=Path, help="write the figures there; default: print them")
    parser.add_argument("--directory", type=Path, default=Path(), help="on a disk; default: here")
    given = parser.parse_args()
    stretch = given.stretch or max(1, given.requests // _STRETCHES)
    if given.requests < STRETCHES_MIN * stretch:
        parser.error(f"--requests is less than {STRETCHES_MIN} stretches of {stretch}")
    console = Console()

    def told(sample: Sample) -> None:
        row = sample.row()
        if sample.requests == stretch:
            print(" ".join(f"{name:>11}" for name in row))
        print(" ".join(f"{value:>11,.6g}" for value in row.values()), flush=True)

    with scratch(given.directory) as directory:
        machine = look(directory, "uvloop")
        console.print(machine.facts())
        samples = endured(directory, given.requests // stretch * stretch, stretch, told)
    bounds = line(samples)
    console.print(table("Held to", bounds))
    figures = {
        "machine": machine.facts(),
        "samples": [asdict(each) for each in samples],
        "line": bounds,
    }
    text = json.dumps(figures, indent=None if given.json is None else 2)
    if given.json is None:
        print(text)
    else:
        given.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
