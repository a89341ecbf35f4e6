"""Counts of what happened on the way between coordinators, by name.

What lives here: a dictionary that only grows. What must never live here: how it
is shown. Called by: `door`, `transport`; read by whoever shows metrics. Total.
Deterministic.
"""

from __future__ import annotations


class Counters:
    """Numbers that only grow, from 0, by name.

    Attributes:
        values: what has been counted so far; names that never came up are missing.
    """

    def __init__(self) -> None:
        self.values: dict[str, int] = {}

    def add(self, name: str, amount: int = 1) -> None:
        """Count something."""
        self.values[name] = self.values.get(name, 0) + amount

    def __getitem__(self, name: str) -> int:
        """Return a count; 0 for what never came up."""
        return self.values.get(name, 0)
