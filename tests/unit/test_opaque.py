"""The replica of opaque entries: its digest tells sequences apart, and snapshots keep it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgpack
import pytest

from coordinator.opaque import OpaqueReplica
from coordinator.raft.segments.layout import Entry
from coordinator.raft.snapshots import SnapshotMeta
from raftbatch.errors import Corrupt


def applied(*entries: Entry) -> OpaqueReplica:
    """Return a replica that has applied these."""
    replica = OpaqueReplica()
    for entry in entries:
        replica.apply(entry)
    return replica


async def _chunks(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), 10):
        yield content[start : start + 10]


def install(replica: OpaqueReplica, index: int, content: bytes) -> None:
    """Install a snapshot's content."""
    meta = SnapshotMeta(index, 1, b"", 0, 1, len(content), len(content), b"")
    asyncio.run(replica.install(meta, _chunks(content)))


ONE, TWO = Entry(1, 1, b"one"), Entry(2, 1, b"two")


def test_digest_is_of_the_sequence() -> None:
    digests = {
        applied(*entries).digest
        for entries in [
            (),
            (ONE,),
            (ONE, TWO),
            (TWO, ONE),
            (ONE, ONE),
            (Entry(1, 1, b"onet"), Entry(2, 1, b"wo")),
            (Entry(2, 1, b"one"),),
            (Entry(1, 1, b"one\0"),),
            (Entry(1, 1, bytes(50_000)),),
            (Entry(1, 1, bytes(49_999) + b"\1"),),
        ]
    }
    assert len(digests) == 10
    assert applied(ONE, TWO).digest == applied(Entry(1, 9, b"one"), TWO).digest


def test_what_is_the_logs_own_changes_nothing_but_the_index() -> None:
    replica = applied(ONE, Entry(2, 1, b""), Entry(3, 1, b"members", is_config=True))
    assert (replica.index, replica.entries, replica.bytes) == (3, 1, 3)
    assert replica.digest == applied(ONE).digest


def test_snapshot_keeps_the_state() -> None:
    replica = applied(ONE, TWO)
    content = b"".join(bytes(chunk) for chunk in replica.capture())
    replica.apply(Entry(3, 1, b"later"))  # which the capture does not see
    other = OpaqueReplica()
    install(other, 2, content)
    assert other.digest == applied(ONE, TWO).digest
    other.apply(Entry(3, 1, b"later"))
    assert (other.digest, other.entries, other.bytes) == (replica.digest, 3, 11)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xc1",
        bytes(5000),
        msgpack.packb([2, 7, bytes(32), 1, 1]),
        msgpack.packb([2, 2, bytes(31), 1, 1]),
        msgpack.packb([1, 2, bytes(32), 1, 1]),
        msgpack.packb([2, 2, bytes(32)]),
    ],
)
def test_snapshot_of_something_else_is_refused(content: bytes) -> None:
    replica = applied(ONE)
    with pytest.raises(Corrupt, match="no state of opaque entries"):
        install(replica, 2, content)
    assert replica.index == 1
