"""Kinds of things that records, replies and outcomes name by a number.

What lives here: enumerations, whose numbers are in the log and never change,
and the type of a batch key. Called by: everything.
"""

from __future__ import annotations

from enum import IntEnum

Key = tuple[str, str, str]
"""A batch key: model, version, input signature (dtypes, and shapes without the batch axis)."""


class Release(IntEnum):
    """Why a window was sealed: the release reason."""

    SIZE = 1
    AGE = 2
    BYTES = 3
    DEADLINE = 4
    IDLE = 5
    DRAIN = 6


class LapseReason(IntEnum):
    """Why an assignment was taken back."""

    EXECUTOR_LOST = 1
    TIMED_OUT = 2
    DRAINED = 3
    REFUSED = 4
    FAILED = 5
    """The executor ran it, and the batch failed as a whole."""


TOO_LONG = "it ran for longer than execution_timeout_microseconds allows"
"""What a lapse says that is `TIMED_OUT`, whoever found it so."""


class Ran(IntEnum):
    """Whether a batch was running when its assignment was taken back."""

    NO = 0
    YES = 1
    UNKNOWN = 2


class OutcomeKind(IntEnum):
    """What became of a request."""

    OK = 0
    FAILED = 1
    EXPIRED = 2
    CANCELLED = 3
