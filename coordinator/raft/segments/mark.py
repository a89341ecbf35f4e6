"""The mark: up to which LSN the journal was synced, as far as anyone wrote it down.

It tells a journal whose tail was lost from one that was never longer. Two slots,
a sector each, are written in turn after each sync, and never synced themselves:
so the mark may lag after a power cut or a kill, is never ahead, and a write cut short
leaves the other slot. What lives here: the mark's file. What must never live
here: a decision. Called by: creation and recovery of a journal, the writer.
"""

from __future__ import annotations

from coordinator.raft.blocks import decode_block, encode_block
from coordinator.raft.segments.layout import SECTOR_BYTES
from raftbatch.errors import Corrupt
from raftbatch.world import File

MARK_NAME = "mark"
MARK_BYTES = 2 * SECTOR_BYTES

_MAGIC = b"RBMARK01"
_SLOT_BYTES = 32  # 16 of prefix and at most 10 of body, padded so that no rewrite leaves a rest


class Mark:
    """The mark of one journal.

    Args:
        path: for errors.
        file: open for reading, or for writing too.

    Attributes:
        path: as above.
        lsn: what it says; every record up to it was synced.

    Raises:
        Corrupt: both slots are damaged.
    """

    def __init__(self, path: str, file: File) -> None:
        self.path = path
        self._file = file
        found = [(lsn, slot) for slot in (0, 1) if (lsn := _decode(path, slot, file)) is not None]
        if not found:
            raise Corrupt(path, 0, "the checksums of both slots do not match")
        self.lsn, newest = max(found)
        self._next_slot = 1 - newest

    def write(self, lsn: int) -> None:
        """Note that records up to `lsn` are durable; the note itself need not be.

        Raises:
            OSError: the slot may be damaged; the other is not.
        """
        self._file.write_at(self._next_slot * SECTOR_BYTES, [encode_mark(lsn)])
        self.lsn = lsn
        self._next_slot = 1 - self._next_slot

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def encode_mark(lsn: int) -> bytes:
    """Return the content of a slot. Total. Deterministic."""
    return encode_block(_MAGIC, [lsn]).ljust(_SLOT_BYTES, b"\0")


def _decode(path: str, slot: int, file: File) -> int | None:
    """Return what a slot says; None if it is damaged, or was never written."""
    offset = slot * SECTOR_BYTES
    try:
        (lsn,), _ = decode_block(path, offset, file.read_at(offset, _SLOT_BYTES), _MAGIC, (int,))
    except Corrupt:
        return None
    assert isinstance(lsn, int)
    return max(lsn, 0)
