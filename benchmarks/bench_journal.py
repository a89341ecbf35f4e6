"""How fast the journal is, against the bare system calls on the same disk in the same run.

`python -m benchmarks.bench_journal [--json FILE] [--directory DIR] [--quick]`.
What is measured and how: benchmarks/README.md. It says whether the line of
docs/adr/0005-journal-speed.md holds, and exits with 0 whatever it finds. What lives
here: the order of the runs.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from benchmarks.journal.appends import Arrival, JournalRun, run_journal
from benchmarks.journal.bare import BareRun, Form, Payloads, make_payloads, run_bare
from benchmarks.journal.line import judge, show_verdicts
from benchmarks.journal.opening import open_apart
from benchmarks.journal.report import (
    Case,
    Opening,
    Series,
    append_series,
    opening_series,
    show_appends,
    show_machine,
    show_openings,
    write_json,
)
from benchmarks.machine import look, scratch

LoopFactory = Callable[[], asyncio.AbstractEventLoop]

KIB = 1024
_FILE_WIDTH = 110  # columns of output that goes to a file: the tables need 105


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is done.

    Attributes:
        rounds: of every case, the two sides in alternating order.
        cases: what is appended.
        openings: which journals are opened.
        opening_rounds: how often each is opened, warm and cold.
    """

    rounds: int
    cases: tuple[Case, ...]
    openings: tuple[Opening, ...]
    opening_rounds: int


FULL = Plan(
    rounds=5,
    cases=(
        Case(200, 1, 400),
        Case(200, 64, 200 * 64),
        Case(200, 64, 100 * 64, Arrival.STAGGERED),
        Case(200, 1000, 100 * 1000),
        Case(200, 1000, 50 * 1000, Arrival.STAGGERED),
        Case(48 * KIB, 1, 400),
        Case(48 * KIB, 64, 60 * 64),
        Case(48 * KIB, 64, 60 * 64, Arrival.STAGGERED),
        Case(48 * KIB, 1000, 6000),
    ),
    openings=(
        Opening("1 GiB of 48 KiB", 48 * KIB, 2**30 // (48 * KIB)),
        Opening("200,000 of 200 B", 200, 200_000),
    ),
    opening_rounds=3,
)
QUICK = Plan(
    rounds=3,
    cases=(
        Case(200, 1, 100),
        Case(200, 64, 50 * 64),
        Case(200, 64, 25 * 64, Arrival.STAGGERED),
        Case(200, 1000, 25 * 1000),
        Case(200, 1000, 12 * 1000, Arrival.STAGGERED),
        Case(48 * KIB, 1, 100),
        Case(48 * KIB, 64, 20 * 64),
        Case(48 * KIB, 64, 20 * 64, Arrival.STAGGERED),
        Case(48 * KIB, 1000, 2000),
    ),
    openings=(
        Opening("128 MiB of 48 KiB", 48 * KIB, 2**27 // (48 * KIB)),
        Opening("20,000 of 200 B", 200, 20_000),
    ),
    opening_rounds=1,
)


def loop_factory() -> tuple[str, LoopFactory]:
    """Return the event loop that the product would use, and its name."""
    try:
        import uvloop
    except ImportError:
        return "asyncio", asyncio.new_event_loop
    return "uvloop", uvloop.new_event_loop


def once(
    factory: LoopFactory, directory: Path, payloads: Payloads, case: Case, *, keep: bool = False
) -> JournalRun:
    """Run a case's appends through a fresh journal on a loop of its own."""
    run_it = run_journal(
        directory, payloads, case.waiting, case.total, arrival=case.arrival, keep=keep
    )
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(run_it)


def measure_case(case: Case, rounds: int, factory: LoopFactory, directory: Path) -> Series:
    """Alternate the journal and every bare form, beginning with another one each round.

    The bare side writes in the groups that the journal made last, so both sync as
    often; a first round of the journal is run for them, and warms up.
    """
    payloads = make_payloads(case.size)
    pairs: list[tuple[JournalRun, dict[Form, BareRun]]] = []
    groups = once(factory, directory / "journal", payloads, case).groups
    for number in range(rounds):
        journal: JournalRun | None = None
        bare: dict[Form, BareRun] = {}
        sides: list[Form | None] = [None, *Form]
        turn = number % len(sides)
        for side in (*sides[turn:], *sides[:turn]):
            if side is None:
                journal = once(factory, directory / "journal", payloads, case)
                groups = journal.groups
            else:
                bare[side] = run_bare(directory / "bare", groups, payloads, side)
        assert journal is not None
        pairs.append((journal, bare))
    return append_series(case, pairs)


def measure_opening(opening: Opening, rounds: int, factory: LoopFactory, directory: Path) -> Series:
    """Write a journal, then open it again and again, each time in a process of its own."""
    place = directory / "opening"
    payloads = make_payloads(opening.size)
    try:
        once(factory, place, payloads, Case(opening.size, 1000, opening.total), keep=True)
        cold = [open_apart(place, cold=True) for _ in range(rounds)]
        warm = [open_apart(place, cold=False, mode="read") for _ in range(rounds)]
        traced = open_apart(place, cold=False, mode="trace")
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return opening_series(opening, cold, warm, traced)


def run(plan: Plan, beside: Path, json_path: Path | None, console: Console) -> None:
    """Measure everything, show it, and write it down."""
    name, factory = loop_factory()
    with scratch(beside) as directory:
        machine = look(directory, name)
        show_machine(console, machine)
        appends, openings = [], []
        with console.status("") as status:
            for case in plan.cases:
                status.update(f"appends: {case.name}")
                appends.append(measure_case(case, plan.rounds, factory, directory))
            for opening in plan.openings:
                status.update(f"opening: {opening.name}")
                openings.append(measure_opening(opening, plan.opening_rounds, factory, directory))
    judged = [judge(case, series) for case, series in zip(plan.cases, appends, strict=True)]
    verdicts = [verdict for verdict in judged if verdict is not None]
    show_appends(console, appends)
    show_verdicts(console, verdicts)
    show_openings(console, openings)
    if json_path is not None:
        holds = {verdict.name: verdict.holds for verdict in verdicts}
        write_json(json_path, machine, itertools.chain(appends, openings), holds)


def main() -> None:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    parser.add_argument(
        "--directory",
        type=Path,
        default=Path.cwd(),
        metavar="DIR",
        help="measure the disk that holds it, in a directory made there and removed again",
    )
    parser.add_argument("--quick", action="store_true", help="a quarter as much: a rough look")
    arguments = parser.parse_args()
    plan = QUICK if arguments.quick else FULL
    console = Console()
    if not console.is_terminal:
        console.width = max(console.width, _FILE_WIDTH)
    run(plan, arguments.directory, arguments.json, console)


if __name__ == "__main__":
    main()
