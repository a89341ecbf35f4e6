"""A state machine that does not look into its entries: it only knows which there were.

Its state is a digest over the index, the length and the CRC-32 of every entry
applied, in order: replicas with equal digests have applied equal sequences, but for
a chance of one in four thousand millions. (SHA-256 over the bytes themselves took the
loop 63 us for 48 KiB, the checksum takes 10.) It stands where the scheduler's state
machine will.

What lives here: a `coordinator.raft.applying.Replica`. What must never live here:
a meaning of an entry. Called by: the replicated log. Deterministic.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import AsyncIterator, Iterable

import msgpack

from coordinator.raft.segments.layout import Entry
from coordinator.raft.snapshots import SnapshotMeta
from raftbatch.errors import Corrupt
from raftbatch.world import Buffer

_FORMAT = 2  # 1 was of a digest over the bytes themselves
_ENTRY = struct.Struct(">QQI")  # index, length, checksum
_DIGEST_BYTES = 32
_CONTENT_BYTES_MAX = 1 << 10


class OpaqueReplica:
    """See the module's docstring.

    Attributes:
        index: of the last entry applied.
        digest: SHA-256 over the digest before, the index, and the data's length and
            CRC-32; zeros at first.
            An entry without data is the log's own, and changes nothing but the index.
        entries: how many had data.
        bytes: how much that was.
    """

    def __init__(self) -> None:
        self.index = 0
        self.digest = bytes(_DIGEST_BYTES)
        self.entries = 0
        self.bytes = 0

    def apply(self, entry: Entry) -> None:
        """Take in the next entry."""
        self.index = entry.index
        if entry.data and not entry.is_config:
            size = len(entry.data)
            packed = _ENTRY.pack(entry.index, size, zlib.crc32(entry.data))
            self.digest = hashlib.sha256(self.digest + packed).digest()
            self.entries += 1
            self.bytes += size

    async def install(self, snapshot: SnapshotMeta, chunks: AsyncIterator[bytes]) -> None:
        """Take over a snapshot's state.

        Raises:
            Corrupt: it is none of this replica's.
        """
        content = b""
        async for chunk in chunks:
            content += chunk
            if len(content) > _CONTENT_BYTES_MAX:
                break
        try:
            version, index, digest, entries, size = msgpack.unpackb(content)
            if version != _FORMAT or index != snapshot.index or len(digest) != _DIGEST_BYTES:
                raise ValueError("of another form")
        except Exception as error:  # noqa: BLE001 - msgpack raises many kinds, all of which mean damage
            place = f"the snapshot at {snapshot.index}"
            raise Corrupt(place, 0, f"its content is no state of opaque entries: {error}") from None
        self.index, self.digest, self.entries, self.bytes = index, digest, entries, size

    def capture(self) -> Iterable[Buffer]:
        """Return the state: as small as it is, at once."""
        state = [_FORMAT, self.index, self.digest, self.entries, self.bytes]
        content: bytes = msgpack.packb(state)
        return [content]
