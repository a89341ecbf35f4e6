"""What simulated clients ask for, and what a simulated model makes of it.

A payload says itself what becomes of it: a word, a bar, and noise that makes it one
of a kind. The result is a pure function of it, so that whoever sees an outcome can
say whether it is right, whatever ran it, and how often.

What lives here: payloads and the model. What must never live here: who sends or runs
them. Called by: clients and executors of the scheduler suite, and its checker. Total.
Deterministic.
"""

from __future__ import annotations

import hashlib
from enum import Enum


class Kind(Enum):
    """What becomes of a payload, wherever it runs."""

    WELL = b"well"
    FAILS = b"fails"
    """The model says that this one row is bad; its batchmates are fine."""
    LARGE = b"large"
    """Its result is larger than any may be: the executor says so."""
    RAISES = b"raises"
    """The model raises, and with it the whole batch."""
    HANGS = b"hangs"
    """The model never returns."""
    KILLS = b"kills"
    """The process dies of it."""


POISON = (Kind.RAISES, Kind.HANGS, Kind.KILLS)
"""What takes a whole batch along."""

_RESULT_BYTES = 12


def payload(kind: Kind, noise: str, size: int) -> bytes:
    """Return a payload of about a size, in bytes."""
    return (kind.value + b"|" + noise.encode() + b"|").ljust(size, b".")


def kind_of(content: bytes) -> Kind:
    """Return what becomes of a payload."""
    return Kind(content.partition(b"|")[0])


def answer(content: bytes) -> bytes | None:
    """Return what the model makes of a payload; None: it fails wherever it runs."""
    if kind_of(content) is not Kind.WELL:
        return None
    return hashlib.sha256(content).digest()[:_RESULT_BYTES]
