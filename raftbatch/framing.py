"""Parts of Protobuf messages, made once and laid behind each other as Protobuf itself does it.

A message that holds many others is their bytes in a row, each behind its tag and length: so what
is alike in many, or is sent again, need not be made anew, nor copied more than once. What lives
here: tags and lengths. What must never live here: what a message means. Called by: the SDK,
coordinators that hand on. Total. Deterministic.

Source: https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

from google.protobuf.message import Message

_VARINT, _BYTES = 0, 2  # wire types
_LAST = [bytes([number]) for number in range(0x80)]
_MORE = [bytes([number | 0x80]) for number in range(0x80)]


def tag_of(message: type[Message], field: str) -> bytes:
    """Return what stands before a field: a whole number, or whatever has a length."""
    found = message.DESCRIPTOR.fields_by_name[field]
    has_length = found.type in (found.TYPE_MESSAGE, found.TYPE_BYTES, found.TYPE_STRING)
    return varint(found.number << 3 | (_BYTES if has_length else _VARINT))


def varint(number: int) -> bytes:
    """Return a number from 0 as Protobuf writes it: seven bits a byte, the lowest first."""
    if number < 0x80:
        return _LAST[number]
    if number < 0x4000:
        return _MORE[number & 0x7F] + _LAST[number >> 7]
    found = b""
    while number > 0x7F:
        found += _MORE[number & 0x7F]
        number >>= 7
    return found + _LAST[number]
