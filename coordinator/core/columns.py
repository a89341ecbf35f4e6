"""Columns: doing the same to many values at the speed of C.

What lives here: helpers without a meaning of their own. Called by: the core.
Total. Deterministic.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

_T = TypeVar("_T")


def is_uniform(column: Sequence[object]) -> bool:
    """Return whether all values of a column that is not empty are equal."""
    return column.count(column[0]) == len(column)


def places_of(column: Sequence[_T]) -> dict[_T, Sequence[int]]:
    """Return where each value of a column that is not empty stands, in order."""
    if is_uniform(column):
        return {column[0]: range(len(column))}
    found: dict[_T, list[int]] = {}
    for place, value in enumerate(column):
        found.setdefault(value, []).append(place)
    return dict(found)


def at(column: Sequence[_T], places: Sequence[int]) -> Sequence[_T]:
    """Return the values at these places."""
    if len(places) == len(column):
        return column
    return [column[place] for place in places]
