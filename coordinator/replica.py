"""The replica: the scheduler's state, as the replicated log drives it.

The only place where bytes of the log become records. Every entry is decoded,
applied, and told to the listeners in their order, in one turn of the loop, so
that whoever looks at the state sees what is true at one index. A committed entry
that cannot be read stops the node: to pass it over would make this replica
differ from the others.

What lives here: a `coordinator.raft.applying.Replica`, and who listens to it.
What must never live here: what an entry means (`coordinator.core`), or what
follows from it (the listeners). Called by: the replicated log, on the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Generator, Iterable, Iterator
from typing import Protocol

from coordinator.core.apply import apply
from coordinator.core.effects import Applied
from coordinator.core.snapshot import Capture, Restoring
from coordinator.core.state import State
from coordinator.raft.segments.layout import Entry
from coordinator.raft.snapshots import SnapshotMeta
from raftbatch import records as r
from raftbatch.codec import decode_entry
from raftbatch.errors import Invariant, Undecodable
from raftbatch.world import Buffer

_SLICE_BYTES = 1 << 17
"""What is unpacked of a snapshot between two turns of the loop: some ten milliseconds."""

_ROWS_PER_TURN = 4096
"""Rows of an old state that are freed between two turns: a millisecond."""


class Listener(Protocol):
    """Whoever acts on what the replica does. Called on the loop; what it raises stops the node."""

    def applied(self, index: int, term: int, entry: r.Entry, applied: Applied) -> None:
        """Take in what an entry did. The state is what it is after it, and nothing further.

        Entries that are the log's own are not told: they do nothing.
        """
        ...

    def installed(self) -> None:
        """Take in that the replica's state is another object, from further on in the log."""
        ...


class Replica:
    """See the module's docstring.

    Attributes:
        state: the state. Another object after a snapshot was installed.
        index: of the last entry given; `state.index` is that of the last one with records.
        listeners: told in this order.
    """

    def __init__(self) -> None:
        self.state = State()
        self.index = 0
        self.listeners: list[Listener] = []

    @property
    def digest(self) -> bytes:
        """The rolling hash of all that was applied: equal on replicas at equal indexes."""
        return self.state.digest

    def apply(self, entry: Entry) -> None:
        """Apply the entry after the last, and tell the listeners.

        Raises:
            Undecodable: it cannot be read here; the message names its index.
            Invariant: it is not above the last.
        """
        if entry.index <= self.index:
            raise Invariant(f"entry {entry.index} is given to a replica that is at {self.index}")
        if not entry.data or entry.is_config:
            self.index = entry.index
            return
        try:
            decoded = decode_entry(entry.data)
        except Undecodable as error:
            raise Undecodable(
                f"entry {entry.index} of term {entry.term} is committed and cannot be read by "
                f"this program: {error}; run the version that the other nodes run"
            ) from error
        done = apply(self.state, entry.index, entry.term, decoded)
        self.index = entry.index
        for listener in self.listeners:
            listener.applied(entry.index, entry.term, decoded, done)

    async def install(self, snapshot: SnapshotMeta, chunks: AsyncIterator[bytes]) -> None:
        """Replace the state by a snapshot's, all at once, and tell the listeners.

        The state before is emptied then, since to free a large one at once would take as long
        as an election: nobody may hold on to it.

        Raises:
            Undecodable: it is no state, or of another index.
        """
        restoring = Restoring()
        try:
            async for chunk in chunks:
                view = memoryview(chunk)
                for start in range(0, len(view), _SLICE_BYTES):
                    restoring.feed(view[start : start + _SLICE_BYTES])
                    await asyncio.sleep(0)
            for _ in restoring.finish():
                await asyncio.sleep(0)
        except Undecodable as error:
            raise Undecodable(f"the snapshot at {snapshot.index}: {error}") from error
        state = restoring.state
        if state.index > snapshot.index:
            raise Undecodable(
                f"the snapshot at {snapshot.index} holds the state at {state.index}, which is later"
            )
        before, self.state, self.index = self.state, state, snapshot.index
        for listener in self.listeners:
            listener.installed()
        await _dismantle(before)

    def capture(self) -> Iterable[Buffer]:
        """Return the state as it is now, to be encoded on another thread; returns at once.

        The state keeps what is written meanwhile apart until the chunks were read to their
        end, or dropped, however that comes about. They are read once.
        """
        return _Captured(Capture(self.state), asyncio.get_running_loop())


class _Captured:
    """Chunks of a captured state, for one reader, who may be on another thread.

    Reading them to the end, closing the iterator, and dropping either it or this before,
    all release the capture: once, and on the loop.
    """

    def __init__(self, capture: Capture, loop: asyncio.AbstractEventLoop) -> None:
        self._capture: Capture | None = capture
        self._loop = loop

    def __iter__(self) -> Iterator[bytes]:
        capture, self._capture = self._capture, None
        if capture is None:
            raise Invariant("a captured state is read twice")
        chunks = self._read(capture)
        next(chunks)  # what has not begun would not reach its `finally`
        return chunks

    def __del__(self) -> None:
        if self._capture is not None:  # nobody has begun to read it
            self._release(self._capture)

    def _read(self, capture: Capture) -> Generator[bytes, None, None]:
        try:
            yield b""
            yield from capture.chunks()
        finally:
            self._release(capture)

    def _release(self, capture: Capture) -> None:
        try:
            self._loop.call_soon_threadsafe(capture.release)
        except RuntimeError:
            pass  # the loop is closed, and the state with it


async def _dismantle(state: State) -> None:
    """Free what a state holds, some with each turn of the loop."""
    for table in (state.requests, state.ended, state.dedupe, state.batch_of):
        # A table that was captured may be read on another thread still; it goes with that.
        while isinstance(table, dict) and table:
            for _ in range(min(len(table), _ROWS_PER_TURN)):
                table.popitem()
            await asyncio.sleep(0)
