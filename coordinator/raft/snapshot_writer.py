"""Writing one snapshot file, so that it is either whole, verified and durable, or not there.

What lives here: the steps from content to a file under its final name. What
must never live here: a decision about other snapshots. Called by: `snapshots`,
which makes writers; whoever captures a snapshot or receives one from a leader,
on a worker thread.

The order of the steps is the promise: content and footer, datasync, *read all
of it back and verify it*, rename, sync of the directory. A file is verified
before it gets its name and not after, because the newest name is what the node
starts from and nothing older is ever tried in its place: a file that cannot be
read back must not take that name from one that can.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from enum import Enum
from typing import NoReturn

from coordinator.raft.failures import EXHAUSTED, NO_DESCRIPTOR, NO_SPACE
from coordinator.raft.snapshot_format import (
    TEMPORARY,
    Footer,
    Header,
    SnapshotMeta,
    encode_chunk_head,
    encode_footer,
    encode_header,
    snapshot_meta,
    snapshot_name,
)
from coordinator.raft.snapshot_reader import RETRY_AFTER_MS, SnapshotReader
from raftbatch.errors import (
    Corrupt,
    DiskFailed,
    InvalidRequest,
    Invariant,
    NoSpace,
    Overloaded,
    PayloadTooLarge,
)
from raftbatch.world import Buffer, File, Files, join

WRITE_BYTES_MAX = 1 << 20
"""More than this in one piece is a caller that does not stream."""

_CHUNKS_PER_SYNC = 32
"""At 1 MiB each, 32 MiB: a file system may make the journal's fdatasync wait for all that a
snapshot has written before it, so what may lie unsynced is bounded, not left to `finish`."""


class _State(Enum):
    """Where a writer stands."""

    WRITING = "being written"
    FINISHED = "finished"
    ABORTED = "given up"
    FAILED = "failed"


class SnapshotWriter:
    """A snapshot in the making, under a temporary name. One thread at a time.

    It ends by `finish`, by `abort` or by a definite error, and then, but for
    `finish`, leaves nothing behind. After a `Fatal` it never ends: no other
    writer is made, nothing is touched any more, and the next start clears up.

    Args:
        files: the file system.
        directory: where snapshots live.
        header: what the snapshot is of.
        content_bytes_max: limit on the content, in bytes.
        finished: called with the snapshot, once it is whole, verified and durable.

    Raises:
        NoSpace: definite; nothing is left behind.
        Overloaded: definite, likewise; no descriptor or memory is left.
        DiskFailed: the disk's content is unknown.
    """

    def __init__(
        self,
        files: Files,
        directory: str,
        header: Header,
        content_bytes_max: int,
        finished: Callable[[SnapshotMeta], None],
    ) -> None:
        self._files = files
        self._directory = directory
        self._path = join(directory, snapshot_name(header.index, header.term))
        self._temporary = self._path + TEMPORARY
        self._header = header
        self._content_bytes_max = content_bytes_max
        self._finished = finished
        self._pending = bytearray()
        self._received = 0
        self._chunks = 0
        self._digest = hashlib.sha256()
        self._state = _State.WRITING
        self._file: File | None = None
        self._end = 0
        try:
            self._file = files.open(self._temporary, "create")
        except OSError as error:
            self._fail("made", error)
        head = encode_header(header)
        self._header_bytes = len(head)
        self._append([head])

    @property
    def received(self) -> int:
        """Content bytes accepted so far: where a broken transfer goes on."""
        return self._received

    @property
    def ended(self) -> bool:
        """Whether another snapshot may be begun."""
        return self._state in (_State.FINISHED, _State.ABORTED)

    def write(self, data: Buffer) -> None:
        """Append to the content; `data` may be changed afterwards.

        Args:
            data: 0 bytes to 1 MiB, cut as the caller likes.

        Raises:
            PayloadTooLarge: definite. More than 1 MiB at once: nothing was taken, and the writer
                goes on. More than the limit in all: the writer has ended.
            NoSpace, Overloaded: definite; the writer has ended.
            DiskFailed: the disk's content is unknown.
        """
        self._writing()
        rest = memoryview(data).cast("B")
        if len(rest) > WRITE_BYTES_MAX:
            raise PayloadTooLarge(f"{len(rest)} bytes at once: a snapshot is written by the MiB")
        if self._received + len(rest) > self._content_bytes_max:
            self.abort()
            raise PayloadTooLarge(
                f"the snapshot exceeds snapshot_bytes_max, {self._content_bytes_max} bytes: "
                "raise it on every node, or lower what the state may hold"
            )
        self._received += len(rest)
        self._digest.update(rest)
        while rest:
            part = rest[: self._header.chunk_bytes - len(self._pending)]
            self._pending += part
            rest = rest[len(part) :]
            if len(self._pending) == self._header.chunk_bytes:
                self._write_chunk()

    def finish(self, checksum: bytes | None = None) -> SnapshotMeta:
        """Make the snapshot whole, verified and durable, and return what it is.

        Args:
            checksum: what the sender says the content's is, for one that was received.

        Raises:
            InvalidRequest: definite; the content is not the sender's, and the writer has ended.
            NoSpace, Overloaded: definite; the writer has ended.
            DiskFailed: the disk's content is unknown.
            Corrupt: what was written reads back otherwise.
        """
        file = self._writing()
        footer = Footer(
            -(-self._received // self._header.chunk_bytes), self._received, self._digest.digest()
        )
        if checksum is not None and checksum != footer.checksum:
            self.abort()
            raise InvalidRequest(
                f"the content of snapshot {self._header.index} is not what its sender has: parts "
                "of two snapshots were mixed; send it again from the start"
            )
        if self._pending:
            self._write_chunk()
        self._append([encode_footer(self._header.salt, footer)])
        self._sync()
        file.close()
        meta = snapshot_meta(self._header, self._header_bytes, footer)
        self._verify(meta)
        self._publish()
        self._state = _State.FINISHED
        self._finished(meta)
        return meta

    def abort(self) -> None:
        """Give up and remove the temporary file. Harmless unless it is being written.

        Raises:
            DiskFailed: it cannot be removed.
        """
        if self._state is _State.WRITING:
            self._discard()

    def _write_chunk(self) -> None:
        """Write what is pending as the next chunk."""
        pending = self._pending
        self._append([encode_chunk_head(self._header.salt, self._chunks, pending), pending])
        self._pending = bytearray()
        self._chunks += 1
        if self._chunks % _CHUNKS_PER_SYNC == 0:
            self._sync()

    def _append(self, buffers: Sequence[Buffer]) -> None:
        try:
            self._writing().write_at(self._end, buffers)
        except OSError as error:
            self._fail("written", error)
        self._end += sum(map(len, buffers))

    def _sync(self) -> None:
        try:
            self._writing().datasync()
        except OSError as error:
            # Whatever the reason, a full disk too: what was written may be lost, or may not.
            self._fail("synced", error, definite=False)

    def _verify(self, meta: SnapshotMeta) -> None:
        """Read the file back and hold it against what was meant to be in it."""
        self._state = _State.FAILED  # until it has been shown to be good
        try:
            with SnapshotReader(self._files, self._temporary, self._header.identity) as reader:
                reader.verify()
                if reader.meta != meta:
                    raise Corrupt(self._temporary, 0, "it reads back as another snapshot")
        except Overloaded:
            self._discard()
            raise

    def _publish(self) -> None:
        """Give the file its name, durably."""
        try:
            self._files.rename(self._temporary, self._path)
        except OSError as error:
            self._fail("renamed", error)
        try:
            self._files.sync_directory(self._directory)
        except OSError as error:
            self._temporary = self._path  # what there is to remove, if it comes to that
            self._fail("synced into its directory", error, definite=error.errno in NO_DESCRIPTOR)

    def _fail(self, what: str, error: OSError, definite: bool = True) -> NoReturn:
        """Turn a failure of the file system into ours."""
        if definite and error.errno in NO_SPACE:
            self._discard()
            raise NoSpace(
                f"no space for a snapshot at {self._header.index} in {self._directory}: the one "
                "before is untouched; make room"
            ) from error
        if definite and error.errno in EXHAUSTED:
            self._discard()
            message = f"{self._temporary} cannot be {what} now: {error}"
            raise Overloaded(message, retry_after_ms=RETRY_AFTER_MS) from error
        self._state = _State.FAILED
        if self._file is not None:
            self._file.close()
        raise DiskFailed(f"{self._temporary} cannot be {what}: {error}") from error

    def _discard(self) -> None:
        """Close and remove the temporary file."""
        self._state = _State.FAILED
        if self._file is not None:
            self._file.close()
            try:
                # Not synced: if its name comes back in a power cut, the next start removes it.
                self._files.remove(self._temporary)
            except OSError as error:
                raise DiskFailed(f"{self._temporary} cannot be removed: {error}") from error
        self._state = _State.ABORTED

    def _writing(self) -> File:
        if self._state is not _State.WRITING or self._file is None:
            raise Invariant(f"{self._temporary} is written to, but is {self._state.value}")
        return self._file
