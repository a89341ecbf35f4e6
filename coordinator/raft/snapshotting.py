"""Snapshots on the loop's side: capturing, receiving, and reading them for followers.

All work is done by the data directory's snapshot worker, one job at a time;
what comes back comes on the loop. What lives here: the core's `Store` and the
snapshot half of its `Fetch`, and capturing. What must never live here: when to
capture (`log`), bytes of a file (`snapshots`). Called by: `log`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from functools import partial

from coordinator.raft.datadir import DataDirectory
from coordinator.raft.snapshots import SnapshotMeta, SnapshotReader, SnapshotWriter
from raftbatch.errors import Fatal, Invariant, Overloaded, RaftbatchError
from raftbatch.world import Buffer

_READERS_MAX = 4
"""Snapshots kept open for followers: each has one at a time, and clusters are small."""

PIECE_BYTES_MAX = 1 << 20
"""Content of one message of a transfer."""


class Snapshotting:
    """See the module's docstring.

    Args:
        data: whose snapshots they are.
        on_failed: told why the node must stop.
        handle: calls what takes in the end of a job, and does what follows from it.

    Attributes:
        is_capturing: whether a snapshot of this node's own is being written.
    """

    def __init__(
        self,
        data: DataDirectory,
        on_failed: Callable[[Fatal], None],
        handle: Callable[[Callable[[], object]], object],
    ) -> None:
        self._data = data
        self._on_failed = on_failed
        self._handle = handle
        self.is_capturing = False
        self._writer: SnapshotWriter | None = None
        self._readers: list[SnapshotReader] = []  # the one used last is the last

    @property
    def newest(self) -> SnapshotMeta | None:
        """The newest snapshot that is whole and durable."""
        return self._data.snapshots.newest

    def capture(
        self,
        index: int,
        term: int,
        config: bytes,
        chunks: Iterable[Buffer],
        done: Callable[[], None],
    ) -> None:
        """Write a snapshot of the state at `index`; `done` is called when it is durable.

        Where there is no room it is given up, and may be tried again.

        Args:
            index: the last one applied.
            term: its term.
            config: the membership at that index.
            chunks: the state, encoded as it is asked for, on the worker.
            done: called on success alone.
        """

        def write() -> SnapshotMeta:
            writer = self._begin(index, term, config)
            for chunk in chunks:
                writer.write(chunk)
            return writer.finish()

        def written(worked: bool) -> None:
            self.is_capturing = False
            if worked:
                done()

        self.is_capturing = True
        self._submit(write, written)

    def begin(self, index: int, term: int, config: bytes, done: Callable[[bool], None]) -> None:
        """Begin to receive a snapshot, giving up one that was being received."""

        self._submit(partial(self._begin, index, term, config), done)

    def write(self, data: bytes, done: Callable[[bool], None]) -> None:
        """Take the next piece of it."""

        def write() -> None:
            self._receiving().write(data)

        self._submit(write, done)

    def finish(self, checksum: bytes, done: Callable[[bool], None]) -> None:
        """Make it whole and durable."""

        def finish() -> None:
            self._receiving().finish(checksum)

        self._submit(finish, done)

    def read(self, meta: SnapshotMeta, offset: int, done: Callable[[bytes | None], None]) -> None:
        """Read the piece of a snapshot that begins at `offset`; None where it is gone."""

        def read() -> bytes | None:
            reader = next((each for each in self._readers if each.meta == meta), None)
            if reader is not None:
                self._readers.remove(reader)
            elif meta in self._data.snapshots.all:
                reader = self._data.snapshots.read(meta)
            else:
                return None  # a newer one has taken its place
            self._readers.append(reader)
            while len(self._readers) > _READERS_MAX:
                self._readers.pop(0).close()
            return reader.read(offset, PIECE_BYTES_MAX)

        def finished(future: Future[bytes | None]) -> None:
            error = future.exception()
            if error is None:
                done(future.result())
            else:
                self._told(error)
                done(None)

        self._data.snapshot_worker.submit(read, finished)

    def release(self, sending: int | None) -> None:
        """Let snapshots be removed that are older than the oldest on its way to a follower."""

        def release() -> None:
            for reader in list(self._readers):
                if sending is None or reader.meta.index < sending:
                    self._readers.remove(reader)
                    reader.close()

        self._submit(release, lambda _worked: None)

    def _begin(self, index: int, term: int, config: bytes) -> SnapshotWriter:
        """Begin one, on the worker; a newer one may have been finished since this was asked."""
        if self._writer is not None and not self._writer.ended:
            self._writer.abort()
        if self.newest is not None and index <= self.newest.index:
            raise Overloaded(f"there is a snapshot as new as {index} already")
        self._writer = self._data.snapshots.begin(index, term, config)
        return self._writer

    def _receiving(self) -> SnapshotWriter:
        if self._writer is None or self._writer.ended:
            raise Overloaded("what was being received was given up for a snapshot of our own")
        return self._writer

    def _submit(self, job: Callable[[], object], done: Callable[[bool], None]) -> None:
        def finished(future: Future[object]) -> None:
            error = future.exception()
            if error is not None:
                self._told(error)
            self._handle(lambda: done(error is None))

        self._data.snapshot_worker.submit(job, finished)

    def _told(self, error: BaseException) -> None:
        """Stop the node for what no later try can mend."""
        if isinstance(error, Fatal):
            self._on_failed(error)
        elif not isinstance(error, RaftbatchError):
            self._on_failed(Invariant(f"a snapshot met an error it does not know: {error!r}"))
