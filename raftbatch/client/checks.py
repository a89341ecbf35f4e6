"""What a caller hands over is looked at before it is asked for.

What Protobuf cannot carry must end the call that brought it, and no other: many share a stream.
What lives here: those checks. What must never live here: what a cluster's settings allow, which
the nodes say. Called by: `aio`, `heads`. Total but for InvalidRequest. Deterministic.
"""

from __future__ import annotations

from math import isfinite

from raftbatch.errors import InvalidRequest
from raftbatch.fields import NAME_LENGTH_MAX

TIMEOUT_S_MAX = float(1 << 30)
"""34 years; nodes allow 2 ** 40 ms, which is a little more."""

PRIORITY_MAX = (1 << 32) - 1
INDEX_MAX = (1 << 64) - 1


def text(what: str, value: object) -> None:
    """Make sure that it is text which can be sent.

    Raises:
        InvalidRequest: definite; it is none.
    """
    if isinstance(value, str):
        if value.isascii():
            return
        try:
            value.encode()
        except UnicodeEncodeError:
            pass
        else:
            return
    raise InvalidRequest(f"the {what} {value!r} is no text")


def request_id(value: object) -> None:
    """Make sure that it may be a request's id: a longer one could fill a message that many share.

    Raises:
        InvalidRequest: definite; it may not.
    """
    text("request id", value)
    assert isinstance(value, str)
    if len(value) > NAME_LENGTH_MAX:
        what = f"the request id {value[:20]!r}... has {len(value)} characters"
        raise InvalidRequest(f"{what}: at most {NAME_LENGTH_MAX}")


def number(what: str, value: object, most: int) -> None:
    """Make sure that it is a number from 0.

    Raises:
        InvalidRequest: definite; it is none, or beyond `most`.
    """
    if not isinstance(value, int) or not 0 <= value <= most:
        raise InvalidRequest(f"the {what} is {value!r}: it must be from 0 to {most}")


def timeout(value: object, least: str = "above 0") -> None:
    """Make sure that it is a time in seconds, or None: as long as it takes.

    Args:
        value: the time.
        least: `above 0`, or `from 0`.

    Raises:
        InvalidRequest: definite; it is no number, or not in the range.
    """
    if value is not None and (
        not isinstance(value, int | float)
        or not isfinite(value)
        or not 0 <= value <= TIMEOUT_S_MAX
        or (value == 0 and least == "above 0")
    ):
        most = f"{TIMEOUT_S_MAX:.0f}"
        raise InvalidRequest(f"timeout_s is {value}: it must be {least}, and at most {most}")
