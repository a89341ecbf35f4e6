"""The state machine of the raft suite: small enough to compare, telling enough to trust.

Its state is the digest of all entries applied, in order, the last few commands, and
padding that makes snapshots as large as a seed wants them. Equal digests mean equal
histories, so that one comparison says whether an entry was lost, doubled, changed
or moved.

What lives here: a `Replica`. What must never live here: what it ought to be told.
Called by: `ReplicatedLog`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable

import msgpack

from coordinator.raft.segments.layout import Entry
from coordinator.raft.snapshots import SnapshotMeta
from raftbatch.errors import Corrupt

_KEPT = 8  # last commands: enough to see one go missing in a snapshot

Applied = Callable[[int, Entry], bytes]
"""Told the index applied before and the entry; returns the digest of the state after it."""

Installed = Callable[[int, bytes], None]
"""Told the index of a snapshot and the digest in it."""


class ListReplica:
    """See the module's docstring.

    Args:
        padding: bytes added to each snapshot.
        chunk: bytes in each chunk of one, at most.
        applied, installed: judge what it is given.

    Attributes:
        index: of the last entry applied.
        digest: of the state.
        last: the last commands, whole.
    """

    def __init__(self, padding: int, chunk: int, applied: Applied, installed: Installed) -> None:
        self.index = 0
        self.digest = b""
        self.last: list[bytes] = []
        self._padding = padding
        self._chunk = chunk
        self._applied = applied
        self._installed = installed

    def apply(self, entry: Entry) -> None:
        """Take in an entry."""
        self.digest = self._applied(self.index, entry)
        self.index = entry.index
        self.last = [*self.last[1 - _KEPT :], entry.data[:16]]

    async def install(self, snapshot: SnapshotMeta, chunks: AsyncIterator[bytes]) -> None:
        """Take in a snapshot."""
        content = b"".join([chunk async for chunk in chunks])
        index, digest, last, padding = msgpack.unpackb(content)
        if index != snapshot.index or padding != _padding(digest, len(padding)):
            raise Corrupt("a snapshot", 0, f"its content is of {index}, or was changed")
        self._installed(index, digest)
        self.index, self.digest, self.last = index, digest, last

    def capture(self) -> Iterable[bytes]:
        """Return the state, to be encoded later."""
        index, digest, last = self.index, self.digest, self.last

        def chunks() -> Iterable[bytes]:
            padding = _padding(digest, self._padding)
            content = msgpack.packb([index, digest, last, padding])
            for offset in range(0, len(content), self._chunk):
                yield content[offset : offset + self._chunk]

        return chunks()


def _padding(digest: bytes, length: int) -> bytes:
    """Return bytes that differ from one state to the next. Total. Deterministic."""
    return (digest * (length // 16 + 1))[:length] if digest else bytes(length)
