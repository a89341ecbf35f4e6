"""How messages share a connection: two lanes, so that a heartbeat never waits for a snapshot.

A frame is a length (4 bytes, big-endian), a kind, and so many bytes:

    PING    nothing: the sender lives
    URGENT  a whole message
    BULK    how many bytes of its message are still to come behind this frame (4
            bytes, big-endian), and the next at most `CHUNK_BYTES_MAX` of it

Bulk messages are sent one after the other, urgent frames go between their
chunks. Each lane keeps its order. What lives here: the queue of what is to be
sent, and the room for what comes, both in frames, both bounded. What must never
live here: a connection, what a message says. Called by: `link`. Total, but that
`Inbox.received` raises `Malformed`. Deterministic.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable

from coordinator.raft.greeting import Malformed
from raftbatch.world import Buffer

PING, URGENT, BULK = 0, 1, 2

CHUNK_BYTES_MAX = 64 << 10
"""At 1 Gbit/s half a millisecond: so long an urgent frame waits for a chunk, at most."""

URGENT_BYTES_MAX = 64 << 10
"""No message of the urgent lane is longer; a hundred bytes are usual."""

_HEAD = struct.Struct(">IB")
_BULK_HEAD = struct.Struct(">IBI")
_REST_BYTES = _BULK_HEAD.size - _HEAD.size
_COPIED_BYTES_MAX = 4096  # smaller buffers are joined: a copy costs less than a buffer of its own
_ROOM_BYTES = 512 << 10  # what is read at once, at most
_KEPT_BYTES = 2 << 20  # groups of entries and pieces of snapshots are about 1 MiB
_FRAME_BYTES_MAX = _BULK_HEAD.size + CHUNK_BYTES_MAX
_LENGTHS_MAX = {PING: 0, URGENT: URGENT_BYTES_MAX, BULK: _REST_BYTES + CHUNK_BYTES_MAX}

PING_FRAME = _HEAD.pack(0, PING)


class Outbox:
    """What is to be sent on one connection, in frames.

    Attributes:
        urgent_bytes: what waits in the urgent lane.
        bulk_bytes: what waits in the other.
        bulk_messages: how many messages that is.
    """

    def __init__(self) -> None:
        self.urgent_bytes = 0
        self.bulk_bytes = 0
        self._urgent: list[bytes] = []
        self._bulk: deque[tuple[int, list[bytes]]] = deque()
        # Of the message that is being sent: its buffers from the next byte on, and their length.
        self._parts: deque[Buffer] = deque()
        self._rest = 0

    def __bool__(self) -> bool:
        """Return whether there is something to send."""
        return bool(self._urgent or self._rest or self._bulk)

    @property
    def bulk_messages(self) -> int:
        """How many messages wait in the bulk lane, wholly or in part."""
        return len(self._bulk) + bool(self._rest)

    def add_urgent(self, message: list[bytes]) -> None:
        """Queue a message, given as buffers, that goes before all bulk."""
        length = sum(map(len, message))
        assert length <= URGENT_BYTES_MAX, "urgent messages are short"
        self._urgent += (_HEAD.pack(length, URGENT), *message)
        self.urgent_bytes += _HEAD.size + length

    def add_ping(self) -> None:
        """Queue a sign of life."""
        self._urgent.append(PING_FRAME)
        self.urgent_bytes += len(PING_FRAME)

    def add_bulk(self, message: list[bytes]) -> None:
        """Queue a message, given as buffers, that may be long."""
        length = sum(map(len, message))
        self._bulk.append((length, message))
        self.bulk_bytes += length

    def take(self, bytes_max: int) -> list[Buffer]:
        """Return what is to be written next: all that is urgent, then chunks of bulk.

        Chunks are taken until `bytes_max` is reached or passed; so there is progress
        whatever it is.
        """
        buffers: list[Buffer] = [b"".join(self._urgent)] if self._urgent else []
        self._urgent.clear()
        self.urgent_bytes = 0
        taken = 0
        while taken < bytes_max and (self._rest or self._bulk):
            taken += self._chunk(buffers)
        return buffers

    def _chunk(self, buffers: list[Buffer]) -> int:
        """Add the next chunk; return its length."""
        if not self._rest:
            self._rest, parts = self._bulk.popleft()
            self._parts.extend(parts)
        length = min(self._rest, CHUNK_BYTES_MAX)
        self._rest -= length
        self.bulk_bytes -= length
        small: list[Buffer] = [_BULK_HEAD.pack(_REST_BYTES + length, BULK, self._rest)]
        left = length
        while left:
            part = self._parts.popleft()
            if len(part) > left:
                view = memoryview(part)
                self._parts.appendleft(view[left:])
                part = view[:left]
            left -= len(part)
            if len(part) <= _COPIED_BYTES_MAX:
                small.append(part)
            else:
                buffers += (b"".join(small), part) if small else (part,)
                small = []
        if small:
            buffers.append(b"".join(small))
        return length


class Inbox:
    """What has come on one connection: bytes in, whole messages out.

    Args:
        message_bytes_max: longest message that is put together.
        take: given each message in turn, a view that is valid during the call;
            returns whether to go on.
    """

    def __init__(self, message_bytes_max: int, take: Callable[[memoryview], bool]) -> None:
        self._message_bytes_max = message_bytes_max
        self._take = take
        self._room = memoryview(bytearray(_ROOM_BYTES))
        self._start = 0  # of what has come and is not taken in yet
        self._end = 0
        self._message: memoryview | None = None  # the bulk message that is being put together
        self._filled = 0
        self._rest = 0
        self._kept = memoryview(b"")

    def buffer(self) -> memoryview:
        """Return where to put the next bytes; `received` must follow before it is asked again."""
        if self._start == self._end:
            self._start = self._end = 0
        elif len(self._room) - self._end < _FRAME_BYTES_MAX:
            length = self._end - self._start
            self._room[:length] = bytes(self._room[self._start : self._end])
            self._start, self._end = 0, length
        return self._room[self._end :]

    def received(self, length: int) -> None:
        """Take in so many bytes at the start of the last buffer.

        Raises:
            Malformed: they are no frames. Nothing may be asked of this any more.
        """
        self._end += length
        while self._end - self._start >= _HEAD.size:
            length, kind = _HEAD.unpack_from(self._room, self._start)
            if length > _LENGTHS_MAX.get(kind, -1):
                reason = "long_frame" if kind in _LENGTHS_MAX else "unknown_frame"
                raise Malformed(reason, f"a frame of kind {kind} with {length} bytes")
            start = self._start + _HEAD.size
            if self._end - start < length:
                break
            self._start = start + length
            if not self._frame(kind, self._room[start : self._start]):
                break

    def _frame(self, kind: int, content: memoryview) -> bool:
        """Take in a frame; return whether to go on."""
        if kind == URGENT:
            return self._take(content)
        return self._bulk(content) if kind == BULK else True

    def _bulk(self, content: memoryview) -> bool:
        if len(content) <= _REST_BYTES:
            raise Malformed("short_frame", "a chunk without a byte")
        rest = int.from_bytes(content[:_REST_BYTES], "big")
        chunk = content[_REST_BYTES:]
        if self._message is None:
            if len(chunk) + rest > self._message_bytes_max:
                raise Malformed("long_message", f"a message of {len(chunk) + rest} bytes")
            if not rest:
                return self._take(chunk)
            self._message = self._space(len(chunk) + rest)
            self._filled = 0
        elif len(chunk) + rest != self._rest:
            raise Malformed("other_chunk", f"{rest} bytes behind a chunk, not {self._rest}")
        self._rest = rest
        self._message[self._filled : self._filled + len(chunk)] = chunk
        self._filled += len(chunk)
        if rest:
            return True
        message, self._message = self._message, None
        return self._take(message)

    def _space(self, length: int) -> memoryview:
        """Return room for a message: the same again where it is of the usual length.

        Fresh memory costs the kernel more than filling it costs us.
        """
        if length > _KEPT_BYTES:
            return memoryview(bytearray(length))
        if not self._kept:
            self._kept = memoryview(bytearray(_KEPT_BYTES))
        return self._kept[:length]
