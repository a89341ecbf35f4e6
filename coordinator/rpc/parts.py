"""How many parts a message has, counted before anything is made of it.

A part of two bytes becomes an object of nearly two hundred: so a message that is within its
bytes may take gigabytes, and the loop for as long as that takes. Requests, ids and numbers that are
asked for at once are few, and whoever sends more is refused while they are bytes.

What lives here: that count, by the kind of message. What must never live here: what a part
means, or how many of a kind there may be (`asks`). Called by: `legible`. Total. Deterministic.

Source: https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor

PARTS_MAX: Final = 1 << 17
"""In one message: twice as many as the requests of the largest batch, each with its result."""

FIELDS_MAX: Final = 4 * PARTS_MAX
"""Those that are no parts, too: to look at one here takes ten times as long as to read it."""

SMALL_BYTES: Final = 1 << 16
"""A message up to this long cannot have parts enough to matter."""

_ROW = 16  # numbers without tags take eight bytes each, another part more than a hundred
_VARINT, _FIXED64, _BYTES, _GROUP, _GROUP_END, _FIXED32 = range(6)
_CONTINUED = bytes(range(0x80, 0x100))  # bytes of a number that are not its last
_FIXED = (
    FieldDescriptor.TYPE_DOUBLE,
    FieldDescriptor.TYPE_FIXED64,
    FieldDescriptor.TYPE_SFIXED64,
    FieldDescriptor.TYPE_FLOAT,
    FieldDescriptor.TYPE_FIXED32,
    FieldDescriptor.TYPE_SFIXED32,
)


def is_within(data: bytes, kind: Descriptor, most: int = PARTS_MAX) -> bool:
    """Return whether a message has few parts; one that is damaged has those before the damage.

    Args:
        data: the message as it came.
        kind: of message.
        most: how many parts it may have: messages within it, however deep, and elements of lists.
            Of numbers in a row sixteen are one: that is what they take. Of fields of all kinds
            it may have `FIELDS_MAX`.
    """
    if len(data) <= SMALL_BYTES:
        return True
    return _left(data, 0, len(data), kind, most, iter(range(FIELDS_MAX))) >= 0


@cache
def _fields(kind: Descriptor) -> dict[int, FieldDescriptor]:
    """Return the fields that are parts, by number."""
    return {
        each.number: each for each in kind.fields if _is_list(each) or each.message_type is not None
    }


def _is_list(field: FieldDescriptor) -> bool:
    """Return whether a field may stand more than once: Protobuf 6.30 says it in another word."""
    said: bool | None = getattr(field, "is_repeated", None)
    return field.label == FieldDescriptor.LABEL_REPEATED if said is None else said


def _left(data: bytes, at: int, end: int, kind: Descriptor, left: int, looks: Iterator[int]) -> int:
    """Return how many more parts there may be behind a stretch of bytes; below 0: too many.

    Args:
        data, at, end: the stretch.
        kind: of message.
        left: how many there may be before it.
        looks: one for each field that may be looked at yet.
    """
    fields = _fields(kind)
    for _ in looks:
        if at >= end or left < 0:
            return left
        tag, at = (data[at], at + 1) if data[at] < 0x80 else _number(data, at)
        wire = tag & 7
        stop = at
        if wire == _BYTES:
            if at < end and data[at] < 0x80:
                length, at = data[at], at + 1
            else:
                length, at = _number(data, at)
            stop = min(at + length, end)
        elif wire == _VARINT:
            _, stop = _number(data, at)
        elif wire == _FIXED64:
            stop = at + 8
        elif wire == _FIXED32:
            stop = at + 4
        elif wire not in (_GROUP, _GROUP_END):  # what is in one is counted as if it stood here
            return left  # no message: nothing is made of what follows
        field = fields.get(tag >> 3)
        if field is not None:
            if wire != _BYTES or field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
                left -= 1
            elif field.message_type is None:
                left -= _in_a_row(data[at:stop], field)
            else:
                left -= 1
                if at < stop and _fields(field.message_type):
                    left = _left(data, at, stop, field.message_type, left, looks)
        at = stop
    return -1


def _in_a_row(numbers: bytes, field: FieldDescriptor) -> int:
    """Return for how many parts numbers count that stand in a row, without tags."""
    if field.type in _FIXED:
        return len(numbers) // (4 * _ROW)
    return len(numbers.translate(None, _CONTINUED)) // _ROW


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Return a number and where it ends; what is cut off, or longer than any, is as it stands."""
    found = shift = 0
    for byte in data[at : at + 10]:
        found |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    return found, at + shift // 7
