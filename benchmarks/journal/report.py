"""From runs to named figures, and to tables.

What lives here: medians, spreads, and how they are shown. What must never live
here: a run, or a verdict.
"""

from __future__ import annotations

import json
import time
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from benchmarks.journal.appends import Arrival, JournalRun
from benchmarks.journal.bare import BareRun, Form
from benchmarks.machine import Machine

_MIB = 1 << 20
_ARRIVAL_SIGNS = {Arrival.TOGETHER: "", Arrival.STAGGERED: " in 2"}


@dataclass(frozen=True, slots=True)
class Case:
    """What is appended: records of `size` bytes, `waiting` at a time, `total` in all."""

    size: int
    waiting: int
    total: int
    arrival: Arrival = Arrival.TOGETHER

    @property
    def name(self) -> str:
        """As in `48 KiB x 64`, and `48 KiB x 64 in 2` where they are staggered."""
        size = f"{self.size // 1024} KiB" if self.size % 1024 == 0 else f"{self.size} B"
        return f"{size} x {self.waiting}{_ARRIVAL_SIGNS[self.arrival]}"


@dataclass(frozen=True, slots=True)
class Opening:
    """A journal to be opened: `total` records of `size` bytes."""

    name: str
    size: int
    total: int


@dataclass(frozen=True, slots=True)
class Spread:
    """A figure over the rounds."""

    median: float
    low: float
    high: float

    def __format__(self, spec: str) -> str:
        """Show the median, and least and most behind it."""
        return f"{self.median:{spec}} [dim]({self.low:{spec}}–{self.high:{spec}})[/dim]"


@dataclass(frozen=True, slots=True)
class Series:
    """The figures of a case or an opening, by name."""

    name: str
    figures: dict[str, Spread]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: which figure it shows, and whether with its range."""

    heading: str
    figure: str
    spec: str
    ranged: bool = False

    def show(self, found: Spread) -> str:
        """Return the cell."""
        return format(found, self.spec) if self.ranged else format(found.median, self.spec)


_RATES = (
    Column("appends/s", "appends_per_s", ",.0f"),
    Column("bare/s", "bare_preallocated_per_s", ",.0f"),
    Column("ratio (least–most)", "ratio_preallocated", ".2f", ranged=True),
    Column("best/best", "ratio_best", ".2f"),
    Column("/each", "ratio_each", ".2f"),
    Column("/growing", "ratio_growing", ".2f"),
    Column("/overwr.", "ratio_overwriting", ".2f"),
)
_COSTS = (
    Column("loop us", "loop_us", ".1f", ranged=True),
    Column("loop CPU us", "loop_cpu_us", ".1f"),
    Column("worker CPU us", "worker_cpu_us", ".1f", ranged=True),
    Column("added us", "added_us", ",.1f"),
    Column("p50 ms", "p50_ms", ".2f"),
    Column("p99 ms", "p99_ms", ".2f"),
)


def spread(values: Iterable[float]) -> Spread:
    """Return median, least and most."""
    numbers = list(values)
    return Spread(median(numbers), min(numbers), max(numbers))


def percentile(values: Sequence[float], per_cent: float) -> float:
    """Return the value that so many per cent do not exceed."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * per_cent / 100), len(ordered) - 1)]


def append_series(case: Case, rounds: Sequence[tuple[JournalRun, dict[Form, BareRun]]]) -> Series:
    """Return the figures of an append case.

    A ratio is of two runs of one round, never of medians of different rounds.
    """
    total = case.total
    journals = [journal for journal, _ in rounds]
    figures = {
        "appends_per_s": spread(total / run.seconds for run in journals),
        "group_records": spread(total / len(run.groups) for run in journals),
        "p50_ms": spread(_latency(run.latencies_s, 50) for run in journals),
        "p99_ms": spread(_latency(run.latencies_s, 99) for run in journals),
        "loop_us": spread(run.loop_s / total * 1e6 for run in journals),
        "loop_cpu_us": spread(run.loop_cpu_s / total * 1e6 for run in journals),
        "worker_us": spread(run.job_s / total * 1e6 for run in journals),
        "worker_cpu_us": spread(run.job_cpu_s / total * 1e6 for run in journals),
    }
    for form in Form:
        key = form.name.lower()
        runs = [bare[form] for _, bare in rounds]
        figures[f"bare_{key}_per_s"] = spread(total / run.seconds for run in runs)
        figures[f"bare_{key}_group_ms"] = spread(median(run.groups_s) * 1e3 for run in runs)
        figures[f"ratio_{key}"] = spread(
            bare[form].seconds / journal.seconds for journal, bare in rounds
        )
    # Others on the machine can only slow a run down: the best of each side met least of them.
    figures["ratio_best"] = spread(
        [figures["appends_per_s"].high / figures["bare_preallocated_per_s"].high]
    )
    figures["ratio_attainable"] = spread(
        _attainable_s(case, journal, bare[Form.PREALLOCATED]) / journal.seconds
        for journal, bare in rounds
    )
    # Beyond what the same calls take without the journal.
    figures["added_us"] = spread(
        (journal.seconds - bare[Form.PREALLOCATED].seconds) / total * 1e6
        for journal, bare in rounds
    )
    return Series(case.name, figures)


def _attainable_s(case: Case, journal: JournalRun, bare: BareRun) -> float:
    """Return the time for the same CPU work and the same syncs, nothing else being waited for.

    The worker encodes, then syncs. Beside a sync the loop can work for the appends that do
    not wait for it; beside the encoding it cannot: one interpreter, one lock. What CPU time
    the bare system calls take is in their time already.
    """
    encoding_s = max(journal.job_cpu_s - bare.cpu_s, 0.0)
    group = case.total / len(journal.groups)
    beside = min(max(case.waiting / group - 1, 0.0), 1.0)
    together_s = bare.seconds + journal.loop_cpu_s
    return encoding_s + together_s - beside * min(bare.seconds, journal.loop_cpu_s)


def _latency(values: array[float], per_cent: float) -> float:
    return percentile(values, per_cent) * 1e3


def opening_series(
    opening: Opening,
    cold: Sequence[dict[str, float]],
    warm: Sequence[dict[str, float]],
    traced: dict[str, float],
) -> Series:
    """Return the figures of an opening."""
    gib = opening.size * opening.total / 2**30
    figures = {
        "open_cold_s": spread(one["open_s"] for one in cold),
        "open_warm_s": spread(one["open_s"] for one in warm),
        "open_warm_mb_per_s": spread(
            opening.size * opening.total / one["open_s"] / 1e6 for one in warm
        ),
        "peak_mib": spread(one["peak_bytes"] / _MIB for one in cold),
        "read_mb_per_s": spread(one["read_bytes"] / one["read_s"] / 1e6 for one in warm),
        "kept_kib": spread([traced["kept_bytes"] / 1024]),
        "kept_kib_per_gib": spread([traced["kept_bytes"] / 1024 / gib]),
    }
    return Series(opening.name, figures)


def show_machine(console: Console, machine: Machine) -> None:
    """Show where this runs; warn where that is no disk."""
    facts = machine.facts()
    console.print(", ".join(f"{name} {value}" for name, value in facts.items()), style="dim")
    if machine.in_memory:
        console.print(
            "This file system is in memory: a sync costs nothing here, and all ratios are "
            "meaningless. Use --directory to name a disk.",
            style="bold red",
        )


def show_appends(console: Console, series: Sequence[Series]) -> None:
    """Show the append cases: rates and ratios, then where the time goes."""
    for title, columns in (("Appends: medians of the rounds", _RATES), ("An append costs", _COSTS)):
        table = Table("size x waiting", title=title)
        for column in columns:
            table.add_column(column.heading, justify="right", no_wrap=True)
        for one in series:
            table.add_row(
                one.name, *(column.show(one.figures[column.figure]) for column in columns)
            )
        console.print(table)


def show_openings(console: Console, series: Sequence[Series]) -> None:
    """Show the openings."""
    table = Table(title="Opening, and reading back in steps of 1 MiB")
    for column in ("journal", "warm s", "cold s", "peak MiB", "kept KiB", "per GiB", "read MB/s"):
        table.add_column(column, justify="right", no_wrap=True)
    for one in series:
        f = one.figures
        table.add_row(
            one.name,
            f"{f['open_warm_s']:.2f}",
            f"{f['open_cold_s']:.2f}",
            f"{f['peak_mib'].median:.0f}",
            f"{f['kept_kib'].median:.0f}",
            f"{f['kept_kib_per_gib'].median:.0f}",
            f"{f['read_mb_per_s']:.0f}",
        )
    console.print(table)


def write_json(
    path: Path, machine: Machine, series: Iterable[Series], holds: dict[str, bool]
) -> None:
    """Write every figure: median, least and most, by name; and which cases hold the line."""
    document = {
        "benchmark": "journal",
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": machine.facts(),
        "holds": holds,
        "figures": {
            one.name: {
                name: {"median": found.median, "low": found.low, "high": found.high}
                for name, found in one.figures.items()
            }
            for one in series
        },
    }
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
