"""Giving the replica what is committed: every entry once, in order, or a snapshot before it.

What lives here: how far the replica is, installing snapshots, and taking them.
What must never live here: what is committed (the core says). Called by: `log`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import Future
from functools import partial
from typing import Protocol

from coordinator.raft.journal import Journal
from coordinator.raft.segments.layout import Entry, record_bytes
from coordinator.raft.snapshots import SnapshotMeta
from coordinator.raft.snapshotting import Snapshotting
from raftbatch.errors import Fatal, Invariant
from raftbatch.world import Buffer

_APPLY_BYTES_MAX = 1 << 20
"""Entries applied in one turn of the loop, so that frames are read in between."""

_APPLY_ENTRIES_MAX = 64
"""The same in number: some ten milliseconds. A mebibyte of small entries would take longer than an
election waits for a vote, and a node that has just started has all of its log to apply."""

_ENTRY_BYTES_MIN = 1 << 10
"""What an entry counts as at least, until a snapshot is taken. A start applies all entries behind
the newest one, and each takes time, however small: 64 MiB are so at most 65,536 entries."""

_RETRY_S = 0.05
"""How soon a piece of a snapshot is asked for again."""


class Replica(Protocol):
    """The state machine. Deterministic; all of it is called on the loop.

    What it raises stops the node: a replica that has missed an entry is not one.
    """

    def apply(self, entry: Entry) -> None:
        """Apply the entry after the last; one without data is the log's own: pass it over."""
        ...

    async def install(self, snapshot: SnapshotMeta, chunks: AsyncIterator[bytes]) -> None:
        """Replace the state by a snapshot's. Nothing is applied meanwhile."""
        ...

    def capture(self) -> Iterable[Buffer]:
        """Return the state as it is now, in chunks of at most a mebibyte.

        Returns at once; the chunks are made later, on another thread, so they
        must not see what is applied meanwhile.
        """
        ...


class Applying:
    """See the module's docstring.

    Args:
        journal: where the entries are.
        snapshotting: its snapshots, from the loop's side.
        replica: the state machine, empty.
        capture_bytes_min: entries applied before a snapshot is taken; or twice the last one's
            size, if that is more. Small ones count as a kibibyte.
        on_captured: called when a snapshot is durable.
        on_applied: told each entry after the replica was given it.
        on_installed: told index and term of a snapshot the replica was given.
        on_ready: called when `advance` may go on after it had to wait.
        on_failed: told why the node must stop.

    Attributes:
        index: of the last entry whose effects the replica has.
        config: the membership at that index, as it goes into snapshots.
    """

    def __init__(
        self,
        journal: Journal,
        snapshotting: Snapshotting,
        replica: Replica,
        capture_bytes_min: Callable[[], int],
        on_captured: Callable[[], None],
        on_applied: Callable[[Entry], None],
        on_installed: Callable[[int, int], None],
        on_ready: Callable[[], None],
        on_failed: Callable[[Fatal], None],
    ) -> None:
        self._journal = journal
        self._snapshotting = snapshotting
        self._replica = replica
        self._capture_bytes_min = capture_bytes_min
        self._on_captured = on_captured
        self._on_applied = on_applied
        self._on_installed = on_installed
        self._on_ready = on_ready
        self._on_failed = on_failed
        self._is_reading = False
        self._next: tuple[Entry, ...] = ()  # committed, in order, the first after `index`
        self._installing: asyncio.Task[None] | None = None
        self._bytes = 0  # of entries applied since the last snapshot, as they count
        self.index = 0
        self.config = b""

    def advance(self, commit: int) -> bool:
        """Apply what is committed; return whether more could be applied at once.

        Not more than a mebibyte or some hundred entries a call, and nothing while a
        snapshot is being installed or older entries are being read.
        """
        budget, room = _APPLY_BYTES_MAX, _APPLY_ENTRIES_MAX
        while self.index < commit and not self._is_reading and self._installing is None:
            if budget <= 0 or room <= 0:
                return True
            if not self._next:
                entries = self._journal.tail(self.index + 1, budget)
                self._next = entries[: commit - self.index]
            if not self._next:
                self._is_reading = True
                # The journal reads on to what is durable here, and perhaps not committed.
                has_read = partial(self._has_read, commit)
                self._journal.read(self.index + 1, _APPLY_BYTES_MAX, has_read)
                return False
            room -= len(self._next)
            budget -= self._apply()
        self._capture()
        return False

    def install(self) -> None:
        """Give the replica the newest snapshot, in place of the entries up to its index."""
        newest = self._snapshotting.newest
        assert newest is not None
        if self._installing is not None:
            return  # when it ends, it looks for a newer one
        self._next = ()

        async def install() -> None:
            meta = newest
            while self.index < meta.index:
                await self._replica.install(meta, self._chunks(meta))
                self.index, self.config = meta.index, meta.config
                self._bytes = 0
                self._on_installed(meta.index, meta.term)
                again = self._snapshotting.newest
                assert again is not None
                meta = again

        def ended(task: asyncio.Task[None]) -> None:
            if task.cancelled():
                return
            self._installing = None
            error = task.exception()
            if error is not None:
                self._fail("installing a snapshot", error)
                return
            again = self._snapshotting.newest
            if again is not None and again.index > self.index:
                self.install()  # it came between the last look and this call
            self._on_ready()

        self._installing = asyncio.get_running_loop().create_task(install())
        self._installing.add_done_callback(ended)

    def close(self) -> None:
        """Give up an installation that is under way."""
        if self._installing is not None:
            self._installing.cancel()

    def _apply(self) -> int:
        """Give the replica the next entries, a turn's worth at most; return their bytes."""
        entries, self._next = self._next[:_APPLY_ENTRIES_MAX], self._next[_APPLY_ENTRIES_MAX:]
        size = 0
        for entry in entries:
            if entry.is_config:
                self._replica.apply(Entry(entry.index, entry.term, b""))
                self.config = entry.data
            else:
                self._replica.apply(entry)
            self.index = entry.index
            length = record_bytes(len(entry.data))
            size += length
            self._bytes += max(length, _ENTRY_BYTES_MIN)
            self._on_applied(entry)
        return size

    def _has_read(self, commit: int, future: Future[tuple[Entry, ...]]) -> None:
        """Apply entries that came from disk; up to `commit` they are still the same."""
        self._is_reading = False
        if future.exception() is None and self._installing is None:
            self._next = tuple(
                entry for entry in future.result() if self.index < entry.index <= commit
            )
            try:
                self._apply()
            except Exception as error:  # noqa: BLE001 - whatever it is, the replica is one no more
                self._fail("applying", error)
                return
        self._on_ready()

    def _capture(self) -> None:
        """Take a snapshot if enough was applied since the last."""
        newest = self._snapshotting.newest
        enough = max(self._capture_bytes_min(), 2 * newest.content_bytes if newest else 0)
        if self._bytes < enough or self._snapshotting.is_capturing or self._installing is not None:
            return
        term = self._journal.term(self.index)
        assert term is not None
        self._bytes = 0
        self._snapshotting.capture(
            self.index, term, self.config, self._replica.capture(), self._on_captured
        )

    async def _chunks(self, meta: SnapshotMeta) -> AsyncIterator[bytes]:
        """Yield a snapshot's content, read piece by piece on the worker."""
        offset = 0
        while offset < meta.content_bytes:
            piece: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()
            self._snapshotting.read(meta, offset, piece.set_result)
            data = await piece
            if not data:  # no descriptor is free; damage would have stopped the node
                await asyncio.sleep(_RETRY_S)
                continue
            offset += len(data)
            yield data

    def _fail(self, doing: str, error: BaseException) -> None:
        if isinstance(error, Fatal):
            self._on_failed(error)
        else:
            self._on_failed(Invariant(f"{doing}: {error!r}"))
