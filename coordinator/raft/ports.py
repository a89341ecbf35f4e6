"""What the core needs of the world: a log, snapshots, peers. Interfaces only.

What lives here: Protocols over which the consensus core is written, so that it
can be read, and tested, without a disk or a socket. What must never live here:
an implementation. Called by: the core; implemented by `journal`, `log`, `transport`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from coordinator.raft.membership import Membership
from coordinator.raft.messages import PeerMessage
from coordinator.raft.segments.layout import Entry, HardState
from coordinator.raft.snapshots import SnapshotMeta
from raftbatch.ids import NodeId


class Log(Protocol):
    """The journal as the core sees it; see `coordinator.raft.journal` for the contract."""

    @property
    def hard_state(self) -> HardState:
        """The current term, and the vote in it."""
        ...

    @property
    def last_index(self) -> int:
        """Index of the newest entry."""
        ...

    @property
    def durable(self) -> int:
        """LSN up to which all changes are durable."""
        ...

    @property
    def first_index(self) -> int:
        """Oldest index that can be read."""
        ...

    @property
    def durable_index(self) -> int:
        """Index up to which all entries, as they are now, are durable."""
        ...

    @property
    def last_term(self) -> int:
        """Term at `last_index`."""
        ...

    def term(self, index: int) -> int | None:
        """Term at an index from `first_index` - 1 to `last_index`."""
        ...

    def config(self, index: int) -> Entry | None:
        """Return the newest membership entry at or below an index; None: a snapshot's holds."""
        ...

    def append(self, term: int, data: bytes, *, is_config: bool = False) -> int:
        """Add an entry; return its LSN. Raises NoSpace, Overloaded, PayloadTooLarge."""
        ...

    def set_hard_state(self, term: int, vote: NodeId | None) -> int:
        """Change term or vote; return the LSN."""
        ...

    def truncate(self, index: int) -> int:
        """Take back what is above an index; return the LSN."""
        ...

    def reset(self, index: int, term: int) -> int:
        """Begin anew behind a snapshot; return the LSN."""
        ...

    def tail(self, first: int, bytes_max: int) -> tuple[Entry, ...]:
        """Return entries that are in memory; none where `first` is older."""
        ...


class Fetch(Protocol):
    """Reads that take time; each calls back on the loop, never at once.

    A callback gets None where what was asked for is gone, or cannot be had now:
    the caller asks again with its next heartbeat.
    """

    def entries(
        self, first: int, bytes_max: int, done: Callable[[tuple[Entry, ...] | None], None]
    ) -> None:
        """Read entries that are no longer in memory."""
        ...

    def snapshot(
        self, meta: SnapshotMeta, offset: int, done: Callable[[bytes | None], None]
    ) -> None:
        """Read the piece of a snapshot that begins at `offset`."""
        ...


class Store(Protocol):
    """Where a snapshot that is being received goes; each call calls back on the loop.

    One at a time. A callback gets whether it worked; where it did not, all that
    was received is gone.
    """

    @property
    def newest(self) -> SnapshotMeta | None:
        """The newest snapshot that is whole and durable."""
        ...

    def begin(self, index: int, term: int, config: bytes, done: Callable[[bool], None]) -> None:
        """Begin to receive, giving up what was being received."""
        ...

    def write(self, data: bytes, done: Callable[[bool], None]) -> None:
        """Take the next piece."""
        ...

    def finish(self, checksum: bytes, done: Callable[[bool], None]) -> None:
        """Make it whole and durable, if its content has that checksum."""
        ...


class Peers(Protocol):
    """The way to the other nodes; hands what arrives to `ReplicatedLog.receive`."""

    def send(self, peer: NodeId, message: PeerMessage) -> None:
        """Send, in order, or drop it where there is no connection. Never blocks."""
        ...

    def update(self, membership: Membership) -> None:
        """Take in who belongs to the cluster now: while the log is opened, and at each change.

        Who is in it no more may be connected still, and is told so over that connection;
        whom to refuse `ReplicatedLog.admits` says.
        """
        ...

    def drop(self, peer: NodeId) -> None:
        """Close the connection to a peer that `admits` refuses by now.

        It was removed, and missed that; when it connects anew it is told.
        """
        ...
