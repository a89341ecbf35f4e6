"""The kinds of fields that records are made of: how each is packed, and checked when unpacked.

msgpack brings hostile bytes into plain values; here each value is held against
the one type, range and length that its field may have. Columns are checked as
wholes, at the speed of C, since a request must cost well under a microsecond. A
column whose values are all equal is packed as that one value. What lives here:
kinds. What must never live here: which record has which fields (`codec`).
Called by: `codec`, the core's snapshots. Deterministic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum

from raftbatch.settings import INT_MAX

Packed = object
"""What msgpack takes and gives: int, bool, str, bytes, or a tuple of these."""

Unpack = Callable[[Packed], object]
"""Checks a value and returns it as the record holds it. Raises ValueError."""

UnpackColumn = Callable[[Packed, int], tuple[object, ...]]
"""Checks a column of so many values."""

NAME_LENGTH_MAX = 256
TEXT_LENGTH_MAX = 4096
BLOB_BYTES_MAX = 64 << 20
PRIORITY_MAX = 1 << 16


def integer(least: int = 0, most: int = INT_MAX) -> Unpack:
    """Return the kind of an int in `least` .. `most`."""

    def unpack(value: Packed) -> object:
        if type(value) is not int or not least <= value <= most:
            raise ValueError(f"{_shown(value)} is no int in {least} .. {most}")
        return value

    return unpack


def flag(value: Packed) -> object:
    """Take a bool."""
    if type(value) is not bool:
        raise ValueError(f"{_shown(value)} is no bool")
    return value


def member(kind: type[IntEnum]) -> Unpack:
    """Return the kind of a member of an enumeration, packed as its number."""
    known = {int(each): each for each in kind}

    def unpack(value: Packed) -> object:
        if type(value) is not int or value not in known:
            raise ValueError(f"{_shown(value)} is no {kind.__name__}")
        return known[value]

    return unpack


def text(least: int = 0, most: int = NAME_LENGTH_MAX) -> Unpack:
    """Return the kind of a text of so many characters, without NUL."""

    def unpack(value: Packed) -> object:
        if type(value) is not str or not least <= len(value) <= most or "\0" in value:
            raise ValueError(f"{_shown(value)} is no text of {least} .. {most} characters")
        return value

    return unpack


def blob(most: int = BLOB_BYTES_MAX) -> Unpack:
    """Return the kind of bytes."""

    def unpack(value: Packed) -> object:
        if type(value) is not bytes or len(value) > most:
            raise ValueError(f"{_shown(value)} is not up to {most} bytes")
        return value

    return unpack


def each(kind: Unpack, most: int) -> Unpack:
    """Return the kind of a short tuple of values of one kind."""

    def unpack(value: Packed) -> object:
        if type(value) is not tuple or len(value) > most:
            raise ValueError(f"{_shown(value)} is not up to {most} values")
        return tuple(map(kind, value))

    return unpack


def fixed(*kinds: Unpack) -> Unpack:
    """Return the kind of a tuple of exactly these values."""

    def unpack(value: Packed) -> object:
        if type(value) is not tuple or len(value) != len(kinds):
            raise ValueError(f"{_shown(value)} has not {len(kinds)} values")
        return tuple([kind(one) for kind, one in zip(kinds, value, strict=True)])

    return unpack


def numbers(most: int) -> Unpack:
    """Return the kind of a tuple of different ints, each from 1."""

    def unpack(value: Packed) -> object:
        if type(value) is not tuple or len(value) > most:
            raise ValueError(f"{_shown(value)} is not up to {most} numbers")
        _check_integers(value, 1, INT_MAX)
        if len(set(value)) != len(value):
            raise ValueError("a number stands twice")
        return value

    return unpack


def integers(least: int = 0, most: int = INT_MAX) -> UnpackColumn:
    """Return the kind of a column of ints."""

    def unpack(value: Packed, count: int) -> tuple[object, ...]:
        if type(value) is not tuple:
            _check_integers((value,), least, most)
            return (value,) * count
        _check_length(value, count)
        _check_integers(value, least, most)
        return value

    return unpack


def texts(least: int = 0, most: int = NAME_LENGTH_MAX) -> UnpackColumn:
    """Return the kind of a column of texts."""

    def unpack(value: Packed, count: int) -> tuple[object, ...]:
        column = value if type(value) is tuple else (value,)
        if set(map(type, column)) - {str}:
            raise ValueError("a text is none")
        if column:
            lengths = set(map(len, column))
            if min(lengths) < least or max(lengths) > most or "\0" in "".join(column):
                raise ValueError(f"a text is not of {least} .. {most} characters without NUL")
        if column is not value:
            return column * count
        _check_length(column, count)
        return column

    return unpack


def blobs(most: int = BLOB_BYTES_MAX) -> UnpackColumn:
    """Return the kind of a column of bytes."""

    def unpack(value: Packed, count: int) -> tuple[object, ...]:
        column = value if type(value) is tuple else (value,)
        if set(map(type, column)) - {bytes}:
            raise ValueError("some bytes are none")
        if column and max(map(len, column)) > most:
            raise ValueError(f"bytes are more than {most}")
        if column is not value:
            return column * count
        _check_length(column, count)
        return column

    return unpack


def pack_column(column: Sequence[object]) -> Packed:
    """Return a column as it is packed: one value where all are equal. Total. Deterministic."""
    return column[0] if column and column.count(column[0]) == len(column) else column


def _check_integers(values: tuple[object, ...], least: int, most: int) -> None:
    if set(map(type, values)) - {int}:
        raise ValueError("an int is none")
    if values and not least <= min(values) <= max(values) <= most:  # type: ignore[type-var, operator]
        raise ValueError(f"an int is not in {least} .. {most}")


def _check_length(column: tuple[object, ...], count: int) -> None:
    if len(column) != count:
        raise ValueError(f"a column has {len(column)} values, not {count}")


def _shown(value: Packed) -> str:
    """Return a value for a message, cut short: it may be hostile."""
    if isinstance(value, int | str | bytes | bool):
        short = value if isinstance(value, int) else value[:20]
        return f"{short!r}"[:60]
    return type(value).__name__
