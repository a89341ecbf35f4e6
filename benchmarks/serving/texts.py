"""What benchmarks of the whole cluster send.

What lives here: texts of 1.5 KB. Called by: `endurance`, `speed`. Total. Deterministic.
"""

from __future__ import annotations

TEXT_BYTES = 1_536

_REST = "x" * (TEXT_BYTES - 16)


def text(number: int) -> str:
    """Return the text of a number. No two are equal: equal ones would be one in an entry."""
    return f"{number:016x}{_REST}"
