"""Reading entries back from the segments, off the loop, every checksum checked again.

What lives here: `read_entries`, for a follower or a replay that is further behind
than what the journal keeps in memory. What must never live here: a decision of
where to read: the loop has made it from the index. Called by: the journal, on
its reading thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import NamedTuple

from coordinator.raft.segments.index import Piece
from coordinator.raft.segments.layout import Kind, decode_record, record_bytes, segment_name
from coordinator.raft.segments.writer import TryLater, disk_errors
from raftbatch.errors import Compacted, Corrupt, DiskFailed, Overloaded
from raftbatch.world import Files, join

RETRY_AFTER_MS = 100
"""When a caller may come back who met a shortage that others must end first."""


class Entry(NamedTuple):
    """What stands at one index of the log.

    Attributes:
        index: from 1, without gaps.
        term: in which a leader appended it; never decreases.
        data: its content, opaque here.
    """

    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody asks for
    term: int
    data: bytes


def read_entries(
    files: Files, directory: str, pieces: Sequence[Piece], bytes_max: int
) -> tuple[Entry, ...]:
    """Read the entries of the pieces, in order, until their records reach `bytes_max`.

    At least one entry is returned, however large.

    Raises:
        Compacted: a segment is gone meanwhile.
        Overloaded: no descriptor or memory is free now.
        Corrupt: what is there now is not what was written.
    """
    entries: list[Entry] = []
    for piece in pieces:
        for entry in _read_piece(files, directory, piece):
            entries.append(entry)
            bytes_max -= record_bytes(len(entry.data))
            if bytes_max <= 0:
                return tuple(entries)
    return tuple(entries)


def _read_piece(files: Files, directory: str, piece: Piece) -> list[Entry]:
    """Read one piece: all its entries from `first` to `last`."""
    path = join(directory, segment_name(piece.seq))
    try:
        with (
            disk_errors(f"reading {path}", retryable=True),
            closing(files.open(path, "read")) as file,
        ):
            data = memoryview(file.read_at(piece.offset, piece.end - piece.offset))
    except TryLater as error:
        raise Overloaded(str(error), retry_after_ms=RETRY_AFTER_MS) from None
    except DiskFailed as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise Compacted(f"entry {piece.first} is no longer in the log") from None
        raise
    entries: list[Entry] = []
    offset = 0
    due = piece.first
    while due <= piece.last:
        record = decode_record(data, offset, piece.salt)
        if isinstance(record, str) or (record.kind == Kind.ENTRY and record.index > due):
            found = record if isinstance(record, str) else f"entry {record.index} stands there"
            raise Corrupt(path, piece.offset + offset, f"entry {due} is not there: {found}")
        if record.kind == Kind.ENTRY and record.index == due:
            entries.append(Entry(due, record.term, bytes(record.data)))
            due += 1
        offset += record_bytes(len(record.data))
    return entries
