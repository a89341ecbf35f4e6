"""Reading a segment's records in order, and judging what stands where they end.

What lives here: the walk over one segment's bytes, and the difference between
a torn tail and damage. What must never live here: a file, or what the records
mean together (`recovery`). Called by: `recovery`, the journal's reader, the
offline dump. Total. Deterministic.
"""

from __future__ import annotations

from collections.abc import Iterator

from coordinator.raft.segments.layout import (
    RECORD_MAGIC,
    SECTOR_BYTES,
    Record,
    decode_head,
    decode_record,
    record_bytes,
)

_ZEROS = bytes(1 << 20)


class Scan:
    """Iterates over the records of a segment from `offset` on, LSNs counting up from `lsn`.

    Iteration ends at the first place without the next record. Then:

    Attributes:
        end: offset behind the last good record.
        lsn: LSN that the next record would have.
        flaw: why there is no record at `end`; None where only zeros follow.
    """

    def __init__(self, data: bytes, salt: int, lsn: int, offset: int = SECTOR_BYTES) -> None:
        self._data = memoryview(data)
        self._salt = salt
        self.end = offset
        self.lsn = lsn
        self.flaw: str | None = None

    def __iter__(self) -> Iterator[Record]:
        """Yield records until there is no next one."""
        data, salt = self._data, self._salt
        while True:
            record = decode_record(data, self.end, salt)
            if isinstance(record, str):
                self.flaw = None if only_zeros(data, self.end) else record
                return
            if record.lsn != self.lsn:
                self.flaw = f"a record with LSN {record.lsn} where {self.lsn} is due"
                return
            self.end += record_bytes(len(record.data))
            self.lsn += 1
            yield record

    def vouched(self) -> int | None:
        """Return the LSN of a later record which shows that the one due at `end` was durable.

        None where no later record says so: then what stands at `end` is what a
        crash left of a group that nobody was told of.
        """
        offset = self.end
        whole = self._data.obj
        assert isinstance(whole, bytes)
        while (offset := whole.find(RECORD_MAGIC, offset)) >= 0:
            if offset % 8 == 0:
                head = decode_head(self._data, offset, self._salt)
                if head is not None and head[1] >= self.lsn:
                    return head[0]
            offset += 1
        return None


def only_zeros(data: memoryview, offset: int) -> bool:
    """Return whether nothing but zeros follows; compares by the MiB, not by the byte."""
    while offset < len(data):
        part = data[offset : offset + len(_ZEROS)]
        if part != _ZEROS[: len(part)]:
            return False
        offset += len(part)
    return True
