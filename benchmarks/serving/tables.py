"""Figures as tables, and whether they are within their bounds.

What lives here: that. Called by: benchmarks of the whole cluster.
"""

from __future__ import annotations

from typing import Any

from rich.table import Table

Figures = dict[str, Any]


def table(title: str, rows: list[Figures]) -> Table:
    """Return rows of figures, with the columns of the first."""
    made = Table(title=title)
    for name in rows[0]:
        made.add_column(name.replace("_", " "), justify="right")
    for row in rows:
        made.add_row(*(_short(row.get(name, "")) for name in rows[0]))
    return made


def columns(title: str, rows: list[Figures]) -> Table:
    """Return rows of figures as columns: the first figure of each is its heading."""
    names = list(rows[0])
    made = Table(names[0], title=title)
    for row in rows:
        made.add_column(str(row[names[0]]), justify="right")
    for name in names[1:]:
        made.add_row(name.replace("_", " "), *(_short(row.get(name, "")) for row in rows))
    return made


def bound(name: str, found: float, least: float = 0, most: float = float("inf")) -> Figures:
    """Return a figure beside its bound."""
    wanted = f"at least {least:g}" if least else f"at most {most:g}"
    holds = "yes" if least <= found <= most else "no"
    return {"what": name, "found": found, "wanted": wanted, "holds": holds}


def _short(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.2f}" if value < 100 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
