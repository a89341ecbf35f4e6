"""What a leader believes of one follower, and how it feeds it.

    PROBE      one empty message a heartbeat, until the follower says where its
               log is the leader's
    REPLICATE  entries are streamed ahead of the answers, within a window of bytes
    SNAPSHOT   the follower needs entries that are gone: a piece at a time

What lives here: the state of one follower, and its transitions. What must never
live here: a message, or another follower. Called by: `replication`.
Deterministic. Source: etcd's raft for the three states' idea; docs/RAFT.md,
faults 6, 20, 26, 27, 28.
"""

from __future__ import annotations

from collections import deque
from enum import Enum

from coordinator.raft.snapshots import SnapshotMeta


class Feeding(Enum):
    """How a follower is fed; see the module's docstring."""

    PROBE = "probe"
    REPLICATE = "replicate"
    SNAPSHOT = "snapshot"


class Progress:
    """See the module's docstring.

    Attributes:
        match: up to here the follower durably holds the leader's log. Only rises.
        next: the entry to send next; above `match`.
        feeding: see `Feeding`.
        is_connected: whether there is a connection to send over.
        is_waiting: whether an answer, or a read from disk, must come before the next message.
        reading: the read of entries from disk that is under way for it; what an
            earlier one brings is of no use.
        in_flight_bytes: sent and not acknowledged.
        heard_ns: when the follower was last heard from.
        round: the latest heartbeat round it answered.
        told: the commit index that the last message to it carried.
        snapshot: the one being sent. It stays the one, however many newer ones there are.
        offset: what of it the follower has.
        piece_round: the heartbeat round in which the piece behind `offset` was sent;
            None while it is read from disk.
        incarnation: which life of the follower this is about; no other's answers count.
        goal: index up to which a learner must hold the log to end its round of catching up.
        goal_ns: when that round began, and the log ended with `goal`.
        parts_at: index of the membership that has it no more; None while it is a member.
    """

    def __init__(self, incarnation: int, next_index: int, now_ns: int, is_connected: bool) -> None:
        self.incarnation = incarnation
        self.goal = next_index
        self.goal_ns = now_ns
        self.parts_at: int | None = None
        self.match = 0
        self.next = next_index
        self.feeding = Feeding.PROBE
        self.is_connected = is_connected
        self.is_waiting = False
        self.reading: object = None
        self.in_flight_bytes = 0
        self.heard_ns = now_ns
        self.round = 0
        self.told = 0
        self.snapshot: SnapshotMeta | None = None
        self.offset = 0
        self.piece_round: int | None = None
        self._in_flight: deque[tuple[int, int]] = deque()  # last index and bytes of each message

    @property
    def has_bulk_under_way(self) -> bool:
        """Whether something large may stand between the follower and the next message."""
        return self.in_flight_bytes > 0 or self.piece_round is not None

    def sent(self, last_index: int, size: int) -> None:
        """Note entries up to `last_index` as on their way."""
        self.next = last_index + 1
        self._in_flight.append((last_index, size))
        self.in_flight_bytes += size

    def acknowledged(self, match: int) -> bool:
        """Take in that the follower holds entries up to `match`; return whether that is news."""
        news = match > self.match
        self.match = max(self.match, match)
        self.next = max(self.next, self.match + 1)
        while self._in_flight and self._in_flight[0][0] <= match:
            self.in_flight_bytes -= self._in_flight.popleft()[1]
        if self.feeding is Feeding.PROBE and match >= self.next - 1:
            self._enter(Feeding.REPLICATE)  # below that it says nothing of what was asked
        return news

    def rejected(self, index: int, hint: int) -> None:
        """Take in that the follower's log is not the leader's at `index`; `hint` may be."""
        if index <= self.match:
            return  # an old answer: it holds that
        if self.feeding is Feeding.REPLICATE:
            self._enter(Feeding.PROBE)
            self.next = self.match + 1
        elif self.feeding is Feeding.PROBE and index == self.next - 1:
            self.next = max(min(index, hint + 1), self.match + 1)
            self.is_waiting = False

    def needs_snapshot(self, snapshot: SnapshotMeta) -> None:
        """Begin to send a snapshot."""
        self._enter(Feeding.SNAPSHOT)
        self.snapshot, self.offset = snapshot, 0

    def has_of_snapshot(self, index: int, offset: int, round_: int) -> None:
        """Take in how much of the snapshot the follower has.

        It may say the same twice, to a piece and to a heartbeat: to send a piece for
        each would double the traffic with every heartbeat. A piece is lost only if an
        answer to what was sent after it does not know it.
        """
        if self.snapshot is None or self.snapshot.index != index:
            return
        is_lost = self.piece_round is not None and round_ > self.piece_round
        if offset != self.offset or is_lost:
            self.offset = min(offset, self.snapshot.content_bytes)
            self.is_waiting = False

    def installed(self) -> None:
        """Go on with the entries behind the snapshot, after finding where they begin."""
        self._enter(Feeding.PROBE)
        self.next = self.match + 1

    def connected(self) -> None:
        """Begin anew: what was on its way over the old connection may be lost."""
        self.is_connected = True
        if self.feeding is Feeding.REPLICATE:
            self._enter(Feeding.PROBE)
            self.next = self.match + 1
        self.is_waiting = False

    def disconnected(self) -> None:
        """Send nothing until there is a connection again."""
        self.is_connected = False

    def _enter(self, feeding: Feeding) -> None:
        self.feeding = feeding
        self.is_waiting, self.reading = False, None
        self.snapshot, self.offset, self.piece_round = None, 0, None
        self.in_flight_bytes = 0
        self._in_flight.clear()
