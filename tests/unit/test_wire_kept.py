"""The bytes of a message that goes to several followers are made once."""

from __future__ import annotations

from coordinator.raft import wire
from coordinator.raft.messages import AppendEntries
from coordinator.raft.segments.layout import Entry


def message(data: bytes, commit: int = 0) -> AppendEntries:
    """Return a message with one entry."""
    return AppendEntries(4, 0, 0, (Entry(1, 3, data),), commit, 0)


def test_wire_makes_the_bytes_of_a_message_to_several_followers_once() -> None:
    """Of that very message, and no other that comes between."""
    first, second = message(b"x"), message(b"x", commit=1)
    buffers = wire.encode(first)
    assert wire.encode(first) is buffers
    assert wire.decode(memoryview(b"".join(wire.encode(second)))) == second
    assert wire.encode(first) == buffers


def test_wire_does_not_keep_what_is_large() -> None:
    small, large = message(b"x"), message(b"x" * (80 << 10))
    buffers = wire.encode(small)
    assert wire.encode(large) is not wire.encode(large)
    assert wire.encode(small) is buffers
