"""A replica that a test speaks to in few words, its entries given as bytes; and a leader of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Sequence
from typing import Any, TypeVar

from coordinator.core.effects import Applied
from coordinator.core.invariants import check
from coordinator.core.snapshot import Capture
from coordinator.core.state import State
from coordinator.core.watch import Holding
from coordinator.proposer import Admission, Done, Inbox
from coordinator.raft.segments.layout import Entry
from coordinator.raft.snapshots import SnapshotMeta
from coordinator.refusing import check_admission
from coordinator.replica import Replica
from raftbatch import records as r
from raftbatch.codec import check_record, encode_entry
from raftbatch.errors import NotLeader, RaftbatchError
from tests.unit.core.tables import Core

T = TypeVar("T")


class Scene(Core):
    """As `Core`, but everything goes through a replica.

    Attributes:
        replica: it.
    """

    def __init__(self, **settings: Any) -> None:
        self.replica = Replica()
        self.replica.listeners.append(self)
        self._told: list[Applied] = []
        super().__init__(**settings)

    def do(self, *records: r.Record, term: int = 1, raft_term: int | None = None) -> Applied:
        """Apply an entry of these records."""
        data = encode_entry(r.Entry(term, self.at_ms, records))
        self.replica.apply(Entry(self.replica.index + 1, raft_term or term, data))
        self.state = self.replica.state
        check(self.state)
        applied = self._told.pop()
        self.effects = applied.effects
        return applied

    def applied(self, _index: int, _term: int, _entry: r.Entry, applied: Applied) -> None:
        """Remember what the entry did."""
        self._told = [applied]

    def installed(self) -> None:
        """Go on with the new state."""
        self.state = self.replica.state


class FakeLeader:
    """A leader whose entries land when the test says so.

    Args:
        scene: what they are applied to.

    Attributes:
        error: what it raises; None: it leads.
        heard: heartbeats.
        proposed: how many records and requests it was asked.
    """

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._inbox = Inbox()
        self.error: RaftbatchError | None = None
        self.heard: list[tuple[str, int, int, tuple[Holding, ...]]] = []
        self.proposed = 0

    @property
    def is_ready(self) -> bool:
        """Whether it leads."""
        return self.error is None

    async def ready(self) -> None:
        """Raise what it raises."""
        self._check()

    def admit(self, admission: Admission, done: Done) -> None:
        """Let a request wait for the next entry."""
        self._check()
        size = len(admission.payload) + len(admission.parameters)
        check_admission(self._scene.state, admission, size)
        name = f"{admission.tenant}\0{admission.request_id}"
        self._inbox.add_request(name, admission, size, done)
        self.proposed += 1

    def admit_all(self, admissions: Sequence[Admission], dones: Sequence[Done]) -> bool:
        """Let requests wait for the next entry, if it refuses none."""
        try:
            self._check()
            for each in admissions:
                check_admission(self._scene.state, each, len(each.payload) + len(each.parameters))
        except RaftbatchError:
            return False
        for admission, done in zip(admissions, dones, strict=True):
            self.admit(admission, done)
        return True

    def propose(self, record: r.Record, done: Done) -> None:
        """Let a record wait for the next entry."""
        self._check()
        check_record(record)
        self._inbox.add_record(record, 100, done)
        self.proposed += 1

    def heartbeat(
        self, executor: str, incarnation: int, tailed_index: int, holdings: Sequence[Holding]
    ) -> None:
        """Remember it."""
        self._check()
        self.heard.append((executor, incarnation, tailed_index, tuple(holdings)))

    def land(self) -> None:
        """Apply one entry of all that waits."""
        group = self._inbox.take(self._scene.state.next_request, 1 << 20)
        applied = self._scene.do(*group.records)
        group.landed(self._scene.state.index, applied.replies)
        for ask in self._inbox.landed(group):
            assert isinstance(ask.what, Admission)
            self.admit(ask.what, ask.done)

    def depose(self, told: RaftbatchError | None = None) -> None:
        """Lead no more, and tell all who wait."""
        self.error = NotLeader("n2 leads", leader="n2")
        self._inbox.close(told or self.error)

    def _check(self) -> None:
        if self.error is not None:
            raise self.error


def poll(awaited: Coroutine[Any, Any, T]) -> T | None:
    """Return what a coroutine returns at once; None: it would have to wait, and is given up."""
    try:
        awaited.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    awaited.close()
    return None


def content_of(state: State) -> bytes:
    """Return a state as a snapshot holds it."""
    capture = Capture(state)
    content = b"".join(capture.chunks())
    capture.release()
    return content


async def chunks_of(content: bytes, size: int = 1 << 20) -> AsyncIterator[bytes]:
    """Yield a snapshot's content in chunks."""
    for start in range(0, len(content), size):
        yield content[start : start + size]


def meta_of(index: int, content: bytes) -> SnapshotMeta:
    """Return what the log says of a snapshot."""
    return SnapshotMeta(index, 1, b"", 0, 1, len(content), len(content), b"")
