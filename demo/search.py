"""Semantic search: which sentences are nearest to a question, by their vectors. Pure."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Hit(NamedTuple):
    """A sentence that was found.

    Attributes:
        place: in the rows.
        score: cosine of the two vectors: 1 is the same.
    """

    place: int
    score: float


def nearest(question: Any, rows: Any, count: int) -> list[Hit]:
    """Return the rows that are nearest, the best first.

    Args:
        question: a vector of length 1, `[width]`.
        rows: vectors of length 1, `[rows, width]`.
        count: how many.
    """
    scores = np.asarray(rows) @ np.asarray(question)
    best = np.argsort(-scores, kind="stable")[:count]
    return [Hit(int(place), float(scores[place])) for place in best]


def cosines(left: Any, right: Any) -> list[float]:
    """Return the cosine of each pair of rows, in double precision.

    Args:
        left, right: `[rows, width]`, of any length but 0.
    """
    one, other = np.asarray(left, np.float64), np.asarray(right, np.float64)
    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    found: list[float] = (np.sum(one * other, axis=1) / lengths).tolist()
    return found
