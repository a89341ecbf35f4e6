"""Stand-ins for the core's ports: a log in memory, a store, reads; each step is the test's.

What lives here: the least that the Protocols of `coordinator.raft.ports` promise.
What must never live here: a disk. Called by: unit tests of the core's objects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from coordinator.raft.membership import Membership, encode, founders
from coordinator.raft.messages import Message
from coordinator.raft.segments.layout import Entry, HardState, record_bytes
from coordinator.raft.snapshots import SnapshotMeta
from coordinator.raft.standing import Standing
from coordinator.raft.timing import Timing
from raftbatch.errors import RaftbatchError
from raftbatch.ids import NodeId

N1, N2, N3, N4, N5 = (NodeId(f"n{number}") for number in range(1, 6))


def members(*voters: NodeId) -> Membership:
    """Return the first membership of these voters."""
    return founders({voter: f"{voter}:1" for voter in voters})


class FakeLog:
    """Entries in memory. What is durable is said by `sync`, or at once where `is_instant`.

    Before the first entry, for the sake of brief tests, there is the founders' one.
    """

    def __init__(
        self,
        *terms: int,
        base: tuple[int, int] = (0, 0),
        is_instant: bool = True,
        voters: Sequence[NodeId] = (N1, N2, N3),
    ) -> None:
        self._founders = Entry(0, 0, encode(members(*voters)), is_config=True)
        self.hard_state = HardState(max((*terms, base[1])), None)
        self.lsn = self.durable = 0
        self.is_instant = True
        self.refusal: RaftbatchError | None = None
        self.kept_in_memory_from = 0
        self._base = base
        self.last_index = base[0]
        self._entries: list[tuple[Entry, int]] = []
        for term in terms:
            self.append(term, b"old")
        self.sync()

    @property
    def first_index(self) -> int:
        """As in `Log`."""
        return self._base[0] + 1

    @property
    def last_term(self) -> int:
        """As in `Log`."""
        return self._entries[-1][0].term if self._entries else self._base[1]

    @property
    def durable_index(self) -> int:
        """As in `Log`."""
        return self._base[0] + sum(lsn <= self.durable for _, lsn in self._entries)

    @property
    def terms(self) -> list[int]:
        """The terms of all entries."""
        return [entry.term for entry, _ in self._entries]

    def sync(self) -> None:
        """Let all be durable."""
        self.durable = self.lsn

    def _changed(self) -> int:
        self.lsn += 1
        if self.is_instant:
            self.durable = self.lsn
        return self.lsn

    def term(self, index: int) -> int | None:
        """As in `Log`."""
        at = index - self._base[0]
        if at == 0:
            return self._base[1]
        return self._entries[at - 1][0].term if 0 < at <= len(self._entries) else None

    def config(self, index: int) -> Entry | None:
        """As in `Log`."""
        held = [entry for entry, _ in self._entries if entry.is_config and entry.index <= index]
        return held[-1] if held else self._founders

    def append(self, term: int, data: bytes, *, is_config: bool = False) -> int:
        """As in `Log`."""
        if self.refusal is not None:
            raise self.refusal
        self._changed()
        self.last_index += 1
        self._entries.append((Entry(self.last_index, term, data, is_config), self.lsn))
        return self.lsn

    def set_hard_state(self, term: int, vote: NodeId | None) -> int:
        """As in `Log`."""
        self.hard_state = HardState(term, vote)
        return self._changed()

    def truncate(self, index: int) -> int:
        """As in `Log`."""
        del self._entries[index - self._base[0] :]
        self.last_index = index
        return self._changed()

    def reset(self, index: int, term: int) -> int:
        """As in `Log`."""
        self._base, self._entries, self.last_index = (index, term), [], index
        return self._changed()

    def tail(self, first: int, bytes_max: int) -> tuple[Entry, ...]:
        """As in `Log`."""
        if first < max(self.first_index, self.kept_in_memory_from):
            return ()
        found: list[Entry] = []
        for entry, _ in self._entries[first - self.first_index :]:
            if bytes_max <= 0:
                break
            bytes_max -= record_bytes(len(entry.data))
            found.append(entry)
        return tuple(found)


class FakeStore:
    """Takes pieces; `answer` calls back for the step that waits."""

    def __init__(self, newest: SnapshotMeta | None = None) -> None:
        self.newest = newest
        self.steps: list[str] = []
        self._begun = meta(0, 0), b""
        self.content = b""
        self._waiting: list[Callable[[bool], None]] = []

    def begin(self, index: int, term: int, config: bytes, done: Callable[[bool], None]) -> None:
        """As in `Store`."""
        self.content = b""
        self._begun = meta(index, term), config
        self._take(f"begin {index}@{term}", done)

    def write(self, data: bytes, done: Callable[[bool], None]) -> None:
        """As in `Store`."""
        self.content += data
        self._take(f"write {data.decode()}", done)

    def finish(self, checksum: bytes, done: Callable[[bool], None]) -> None:
        """As in `Store`."""
        begun, config = self._begun

        def finished(worked: bool) -> None:
            if worked:
                self.newest = replace(begun, config=config)
            done(worked)

        self._take(f"finish {checksum.decode()}", finished)

    def answer(self, worked: bool = True) -> None:
        """End the step that waits."""
        self._waiting.pop(0)(worked)

    def answer_all(self) -> None:
        """End all steps, those that follow too."""
        while self._waiting:
            self.answer()

    def _take(self, step: str, done: Callable[[bool], None]) -> None:
        self.steps.append(step)
        self._waiting.append(done)


class FakeFetch:
    """Keeps what was asked for; the test calls back."""

    def __init__(self) -> None:
        self.entries_asked: list[tuple[int, Callable[[tuple[Entry, ...] | None], None]]] = []
        self.pieces_asked: list[tuple[int, Callable[[bytes | None], None]]] = []

    def entries(
        self, first: int, bytes_max: int, done: Callable[[tuple[Entry, ...] | None], None]
    ) -> None:
        """As in `Fetch`."""
        self.entries_asked.append((first, done))

    def snapshot(
        self, meta: SnapshotMeta, offset: int, done: Callable[[bytes | None], None]
    ) -> None:
        """As in `Fetch`."""
        self.pieces_asked.append((offset, done))


def standing(log: FakeLog, self_id: NodeId = N1) -> Standing:
    """Return a node's standing, with timers that always draw the least."""
    return Standing(self_id, 1, Membership(), log, Timing(), lambda bound: 0)


def taken(shared: Standing) -> list[tuple[NodeId, Message]]:
    """Empty the outbox; return what was in it."""
    found = [(outgoing.to, outgoing.message) for outgoing in shared.outbox]
    shared.outbox.clear()
    return found


def entries(first: int, *terms: int) -> tuple[Entry, ...]:
    """Return entries of these terms, from an index on."""
    return tuple(Entry(first + at, term, b"new") for at, term in enumerate(terms))


def meta(index: int, term: int, size: int = 10) -> SnapshotMeta:
    """Return what is known of a snapshot."""
    return SnapshotMeta(
        index=index,
        term=term,
        created_ms=0,
        chunks=1,
        config=encode(members(N1, N2, N3)),
        content_bytes=size,
        checksum=b"sum",
        file_bytes=size,
    )
