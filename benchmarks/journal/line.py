"""The line that the journal's speed is held to, and whether the figures hold it.

What lives here: the bounds of docs/adr/0005-journal-speed.md, and their table.
What must never live here: a run. It ends nothing: a busy machine breaks any line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from benchmarks.journal.report import Case, Series

IN_GROUPS = 64
"""Appends waiting from which on they are in groups; one alone pays for all of its group."""

ATTAINABLE_MIN = 0.8


def loop_us_max(group_records: float) -> float:
    """Return the most CPU that the loop may need: 4.9 us an append at 64 waiting."""
    return 120 / group_records + 3


def worker_us_max(size: int, group_records: float) -> float:
    """Return the most CPU that the worker may need: for a group, a record, and its bytes."""
    return 250 / group_records + 2 + size / 1024


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one case was held to.

    Attributes:
        name: the case's.
        loop_us: CPU of the loop's thread, an append.
        loop_us_max: its bound.
        worker_us: CPU of the writing thread, an append.
        worker_us_max: its bound.
        attainable: part of the rate that disk and CPU time leave room for.
    """

    name: str
    loop_us: float
    loop_us_max: float
    worker_us: float
    worker_us_max: float
    attainable: float

    @property
    def holds(self) -> bool:
        """Whether every bound is kept."""
        return (
            self.loop_us <= self.loop_us_max
            and self.worker_us <= self.worker_us_max
            and self.attainable >= ATTAINABLE_MIN
        )


def judge(case: Case, series: Series) -> Verdict | None:
    """Hold a case's medians against the line; None where its appends are not in groups."""
    if case.waiting < IN_GROUPS:
        return None
    figures = {name: found.median for name, found in series.figures.items()}
    group_records = figures["group_records"]
    return Verdict(
        case.name,
        figures["loop_cpu_us"],
        loop_us_max(group_records),
        figures["worker_cpu_us"],
        worker_us_max(case.size, group_records),
        figures["ratio_attainable"],
    )


def show_verdicts(console: Console, verdicts: Sequence[Verdict]) -> None:
    """Show each number beside its bound."""
    table = Table("size x waiting", title="The line of docs/adr/0005-journal-speed.md: medians")
    for heading in (
        "loop CPU us (bound)",
        "worker CPU us (bound)",
        f"of attainable (>= {ATTAINABLE_MIN:.2f})",
        "holds",
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    for one in verdicts:
        table.add_row(
            one.name,
            f"{one.loop_us:.1f} ({one.loop_us_max:.1f})",
            f"{one.worker_us:.1f} ({one.worker_us_max:.1f})",
            f"{one.attainable:.2f}",
            "yes" if one.holds else "[bold red]no[/]",
        )
    console.print(table)
