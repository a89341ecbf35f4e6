"""Reading entries back from the segments, off the loop, every checksum checked again.

What lives here: `read_entries`, which runs on the journal's reading thread, and
`Reads`, its side on the loop. What must never live here: a decision of where to
read: the journal has made it from the index. Called by: the journal.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass
from functools import partial

from coordinator.raft.failures import TryLater, disk_errors
from coordinator.raft.segments.index import ANCHOR_BYTES, Piece
from coordinator.raft.segments.layout import (
    ENTRY_KINDS,
    Entry,
    Kind,
    decode_record,
    record_bytes,
    segment_name,
)
from raftbatch.errors import Corrupt, DiskFailed, Overloaded
from raftbatch.world import File, Files, Worker, join

_WINDOW_BYTES = 2 * ANCHOR_BYTES
"""What is read at once: a piece without anything taken back, and some more."""

RETRY_AFTER_MS = 100
"""When a caller may come back who met a shortage that others must end first."""


Done = Callable[[Future[tuple[Entry, ...]]], None]
"""Told the entries that were read, or why there are none."""


@dataclass(eq=False, slots=True)
class _Read:
    """A read on its way: whom to tell, and up to which index it is still true."""

    done: Done
    last: int


class Reads:
    """The reads of one journal that are on their way. On the loop's side.

    Args:
        files: where the segments are.
        directory: of the segments.
        worker: does the reading.
        on_failed: told what no later try can mend.
    """

    def __init__(
        self,
        files: Files,
        directory: str,
        worker: Worker,
        on_failed: Callable[[BaseException], None],
    ) -> None:
        self._files = files
        self._directory = directory
        self._worker = worker
        self._on_failed = on_failed
        self._reads: list[_Read] = []

    def begin(self, pieces: Sequence[Piece], last: int, bytes_max: int, done: Done) -> None:
        """Read the entries of the pieces, up to index `last`; see `Journal.read`."""
        job = partial(read_entries, self._files, self._directory, pieces, bytes_max)
        read = _Read(done, last)
        self._reads.append(read)
        self._worker.submit(job, partial(self._ended, read))

    def take_back(self, index: int) -> None:
        """Leave entries above `index` out of what is on its way."""
        for read in self._reads:
            read.last = min(read.last, index)

    def _ended(self, read: _Read, future: Future[tuple[Entry, ...]]) -> None:
        """Hand on what was read, less what was taken back meanwhile."""
        self._reads.remove(read)
        error = future.exception()
        if error is None:
            told: Future[tuple[Entry, ...]] = Future()
            told.set_result(tuple(e for e in future.result() if e.index <= read.last))
            read.done(told)
            return
        try:
            if not isinstance(error, Overloaded):
                self._on_failed(error)
        finally:
            read.done(future)


def read_entries(
    files: Files, directory: str, pieces: Sequence[Piece], bytes_max: int
) -> tuple[Entry, ...]:
    """Read the entries of the pieces, in order, until their records reach `bytes_max`.

    At least one entry is returned, however large.

    Raises:
        Overloaded: no descriptor or memory is free now.
        Corrupt: what is there now is not what was written.
    """
    entries: list[Entry] = []
    for piece in pieces:
        with closing(_read_piece(files, directory, piece)) as found:
            for entry in found:
                entries.append(entry)
                bytes_max -= record_bytes(len(entry.data))
                if bytes_max <= 0:  # what is behind is not looked at: it may be long
                    return tuple(entries)
    return tuple(entries)


def _read_piece(files: Files, directory: str, piece: Piece) -> Generator[Entry, None, None]:
    """Read one piece: yield its entries from `first` to `last`."""
    path = join(directory, segment_name(piece.seq))
    try:
        with (
            disk_errors(f"reading {path}", retryable=True),
            closing(files.open(path, "read")) as file,
        ):
            yield from _entries(path, file, piece)
    except TryLater as error:
        raise Overloaded(str(error), retry_after_ms=RETRY_AFTER_MS) from None
    except DiskFailed as error:
        if isinstance(error.__cause__, FileNotFoundError):
            # A dropped segment goes only behind the reads that may be using it.
            raise Corrupt(path, 0, "the file is missing") from None
        raise


def _entries(path: str, file: File, piece: Piece) -> Iterator[Entry]:
    """Yield a piece's entries, reading a window at a time.

    Most pieces are one window. Where entries were taken back a piece also holds
    those, behind the wanted ones, and may be as long as its segment.
    """
    data, start, offset = memoryview(b""), piece.offset, 0  # data stands at `start` of the file
    due = piece.first
    while due <= piece.last:
        record = decode_record(data, offset, piece.salt)
        left = piece.end - start - offset
        if isinstance(record, str) and len(data) - offset < left:
            start, offset = start + offset, 0
            data = memoryview(file.read_at(start, min(left, max(_WINDOW_BYTES, 2 * len(data)))))
            continue
        if isinstance(record, str) or (record.kind in ENTRY_KINDS and record.index > due):
            found = record if isinstance(record, str) else f"entry {record.index} stands there"
            raise Corrupt(path, start + offset, f"entry {due} is not there: {found}")
        if record.kind in ENTRY_KINDS and record.index == due:
            yield Entry(due, record.term, bytes(record.data), record.kind == Kind.CONFIG)
            due += 1
        offset += record_bytes(len(record.data))
