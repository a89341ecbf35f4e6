"""Reading one snapshot file, from any place in its content, never a byte unchecked.

What lives here: opening, checking and reading a file of the form that
`snapshot_format` describes. What must never live here: a write, or a decision
about which file to read. Called by: `snapshots` and `snapshot_writer`, which
make readers; whoever restores from a snapshot or sends one, on a worker thread
or at start-up.
"""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Callable
from typing import NoReturn

from coordinator.raft.failures import EXHAUSTED
from coordinator.raft.snapshot_format import (
    CHUNK_HEAD_BYTES,
    FOOTER_BYTES,
    HEADER_BYTES_MAX,
    SnapshotMeta,
    check_chunk,
    decode_footer,
    decode_header,
    snapshot_meta,
)
from raftbatch.closing import Closing
from raftbatch.errors import (
    CannotStart,
    Corrupt,
    DiskFailed,
    InvalidRequest,
    Invariant,
    Overloaded,
)
from raftbatch.ids import Identity
from raftbatch.world import File, Files

Progress = Callable[[int, int], None]
"""Told (bytes done, bytes in all) after each chunk."""


RETRY_AFTER_MS = 100


def ignore_progress(done: int, total: int) -> None:
    """Tell nobody."""


class SnapshotReader(Closing):
    """An open snapshot. Opening checks header and footer; each chunk is checked as it is read.

    It holds one chunk in memory, at most 1 MiB, and nothing that grows with the
    file. As long as it is open the file stays, whatever is pruned meanwhile.
    One thread at a time.

    Args:
        files: the file system.
        path: the file.
        identity: whose it must be.
        closed: called once, when the reader is closed.

    Attributes:
        meta: what the file says of itself.

    Raises:
        Corrupt: header or footer are damaged or unreadable.
        CannotStart: it belongs to another node, or to another life of this one.
        DiskFailed: it cannot be opened.
        Overloaded: definite; no descriptor or memory is left.
    """

    def __init__(
        self,
        files: Files,
        path: str,
        identity: Identity,
        closed: Callable[[], None] = lambda: None,
    ) -> None:
        self._path = path
        self._closed = closed
        try:
            self._file: File | None = files.open(path, "read")
        except OSError as error:
            self._fail(0, error)
        try:
            self.meta = self._read_ends(identity)
        except BaseException:
            self._file.close()
            raise
        self._cached = -1
        self._cache = b""

    def read(self, offset: int, length_max: int) -> bytes:
        """Return content from `offset` on: 1 to `length_max` bytes, `b""` at the end only.

        It stops at the end of a chunk, so that no more is read than returned.

        Raises:
            InvalidRequest: there is no such place in the content.
            Corrupt: the chunk is damaged or unreadable.
        """
        total = self.meta.content_bytes
        if not 0 <= offset <= total or length_max < 1:
            raise InvalidRequest(
                f"no {length_max} bytes at offset {offset} of a snapshot of {total}"
            )
        if offset == total:
            return b""
        number, start = divmod(offset, self._chunk_bytes)
        start += CHUNK_HEAD_BYTES
        return self._chunk(number)[start : start + length_max]

    def verify(self, progress: Progress = ignore_progress) -> None:
        """Read all of it and compare it with the footer.

        Raises:
            Corrupt: it is damaged or unreadable.
        """
        done, total = 0, self.meta.content_bytes
        digest = hashlib.sha256()
        for number in range(self.meta.chunks):
            with memoryview(self._chunk(number))[CHUNK_HEAD_BYTES:] as content:
                digest.update(content)
                done += len(content)
            progress(done, total)
        if digest.digest() != self.meta.checksum:
            offset = self.meta.file_bytes - FOOTER_BYTES
            raise Corrupt(self._path, offset, "the checksum of the content does not match")

    def close(self) -> None:
        """Release the file. Harmless when called twice."""
        if self._file is not None:
            self._file.close()
            self._file = None
            self._cache = b""
            self._closed()

    def _read_ends(self, identity: Identity) -> SnapshotMeta:
        """Read and check header and footer."""
        size = self._size()
        header, header_bytes = decode_header(self._path, self._read_at(0, HEADER_BYTES_MAX))
        if header.identity != identity:
            raise CannotStart(
                f"{self._path} belongs to {header.identity}, but this node is {identity}: "
                "give each node, and each new life of a node, a data directory of its own"
            )
        footer_at = size - FOOTER_BYTES
        end = self._read_at(footer_at, FOOTER_BYTES) if footer_at >= header_bytes else b""
        footer = decode_footer(self._path, footer_at, end, header, header_bytes)
        self._salt, self._chunk_bytes, self._content_at = (
            header.salt,
            header.chunk_bytes,
            header_bytes,
        )
        return snapshot_meta(header, header_bytes, footer)

    def _chunk(self, number: int) -> bytes:
        """Return chunk `number` with its head, checked."""
        if self._cached != number:
            # Drop the old chunk first: two would be twice the memory that is promised.
            self._cached, self._cache = -1, b""
            start = number * self._chunk_bytes
            length = min(self._chunk_bytes, self.meta.content_bytes - start)
            offset = self._content_at + start + number * CHUNK_HEAD_BYTES
            data = self._read_at(offset, CHUNK_HEAD_BYTES + length)
            check_chunk(self._path, offset, data, length, self._salt, number)
            self._cached, self._cache = number, data
        return self._cache

    def _size(self) -> int:
        try:
            return self._open_file().size()
        except OSError as error:
            self._fail(0, error)

    def _read_at(self, offset: int, length: int) -> bytes:
        try:
            return self._open_file().read_at(offset, length)
        except OSError as error:
            self._fail(offset, error)

    def _fail(self, offset: int, error: OSError) -> NoReturn:
        """Turn a failure of the file system into ours."""
        if error.errno == errno.EIO:
            raise Corrupt(self._path, offset, f"the disk cannot read it: {error}") from error
        if error.errno in EXHAUSTED:
            message = f"{self._path} cannot be read now: {error}"
            raise Overloaded(message, retry_after_ms=RETRY_AFTER_MS) from error
        raise DiskFailed(f"{self._path} cannot be read: {error}") from error

    def _open_file(self) -> File:
        if self._file is None:
            raise Invariant(f"{self._path} is read after its reader was closed")
        return self._file
