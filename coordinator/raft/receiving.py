"""The follower's side of a snapshot transfer.

Pieces come in order and are written as they come; the answer names what is
there, so a transfer goes on where it was, also under another leader, and also
after pieces were lost. Installed is what was whole, of the right checksum, and
durable; and only what is newer than the commit index.

What lives here: one transfer being received. What must never live here: the
file (`snapshots`), the sender (`replication`). Called by: `core`.
Deterministic. Source: Raft paper, 7; docs/RAFT.md, faults 1, 7, 8, 29.
"""

from __future__ import annotations

from collections.abc import Callable

from coordinator.raft.membership import decode
from coordinator.raft.messages import InstallSnapshot, SnapshotReply
from coordinator.raft.ports import Store
from coordinator.raft.standing import Standing
from coordinator.raft.timing import MS
from raftbatch.errors import Invariant

_FULL_MS = 1000
"""How long a follower for whom a snapshot was too much takes none: else every
heartbeat would bring one."""

_Key = tuple[int, int, int, bytes]


class Receiving:
    """See the module's docstring.

    Args:
        standing: shared.
        store: where the pieces go.
        installed: called when the snapshot of that index and term is durable.
    """

    def __init__(
        self,
        standing: Standing,
        store: Store,
        installed: Callable[[int, int], None],
    ) -> None:
        self._standing = standing
        self._store = store
        self._installed = installed
        self._key: _Key | None = None
        self._offset = 0
        self._is_busy = False
        self._full_until_ns = 0

    def on_install_snapshot(self, message: InstallSnapshot) -> None:
        """Take the next piece, or say which one is the next.

        Raises:
            Invariant: it is of a later term than its sender's, or has no membership.
        """
        key = (message.index, message.index_term, message.size, message.checksum)
        if message.index_term > message.term:
            raise Invariant(f"snapshot {message.index} is of a later term than its sender's")
        if self._is_busy or self._standing.now_ns < self._full_until_ns:
            return  # where to go on is said when the piece is written, or there may be room
        if key != self._key and message.offset == 0:
            self._check(message)
            self._is_busy, self._key, self._offset = True, key, 0
            self._store.begin(
                message.index, message.index_term, message.config, self._next(message)
            )
        elif key == self._key and message.offset == self._offset and message.data:
            self._write(message)
        else:
            self._reply(message, self._offset if key == self._key else 0)

    def _check(self, message: InstallSnapshot) -> None:
        """Stop rather than store what could not be read again: frames were checked as they came."""
        try:
            decode(message.config)
        except ValueError as error:
            raise Invariant(f"the snapshot at {message.index} has no membership: {error}") from None

    def _next(self, message: InstallSnapshot) -> Callable[[bool], None]:
        def begun(worked: bool) -> None:
            if self._goes_on(worked):
                self._write(message)

        return begun

    def _write(self, message: InstallSnapshot) -> None:
        def written(worked: bool) -> None:
            if not self._goes_on(worked):
                return
            self._offset += len(message.data)
            if self._offset >= message.size:
                self._is_busy = True
                self._store.finish(message.checksum, finished)
            else:
                self._reply(message, self._offset)

        def finished(worked: bool) -> None:
            if self._goes_on(worked):
                self._key = None
                self._installed(message.index, message.index_term)

        self._is_busy = True
        self._store.write(message.data, written)

    def _goes_on(self, worked: bool) -> bool:
        """Take in what became of a step.

        Where it failed, say nothing for a while: the leader asks with its
        heartbeats, and then hears that it must begin from the start. To say so at
        once would bring the next piece at once, for as long as the disk is full.
        """
        self._is_busy = False
        if not worked:
            self._key = None
            self._full_until_ns = self._standing.now_ns + _FULL_MS * MS
        return worked

    def _reply(self, message: InstallSnapshot, offset: int) -> None:
        """Say what is there, to whoever leads now."""
        standing = self._standing
        if standing.leader is not None and standing.leader != standing.self_id:
            # Written in a later term than it was sent in: that leader's rounds are not this one's.
            round_ = message.round if message.term == standing.term else 0
            reply = SnapshotReply(standing.term, message.index, offset, round_)
            standing.send(standing.leader, reply)
