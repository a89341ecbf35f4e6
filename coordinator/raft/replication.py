"""The leader: feeding followers, counting what they hold, and noticing that it leads no more.

What lives here: the leader's side of AppendEntries and InstallSnapshot, the
heartbeat rounds, the commit index, CheckQuorum. What must never live here: who
is fed (`followers`), one follower's state (`progress`), the rule of commitment
(`commit`). Called by: `core`, while this node leads. Deterministic.
Source: Raft paper, 5.3, 7, and figure 2; thesis, 6.2 (CheckQuorum); docs/RAFT.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.raft.commit import committed, majority_at
from coordinator.raft.followers import Followers
from coordinator.raft.lives import Lives
from coordinator.raft.messages import (
    AppendEntries,
    AppendReply,
    Beat,
    InstallSnapshot,
    SnapshotReply,
)
from coordinator.raft.parting import last_of_term
from coordinator.raft.ports import Fetch, Store
from coordinator.raft.progress import Feeding, Progress
from coordinator.raft.segments.layout import Entry, record_bytes
from coordinator.raft.segments.limits import JournalLimits
from coordinator.raft.standing import Standing
from coordinator.raft.timing import MS
from coordinator.raft.uncommitted import Uncommitted
from raftbatch.ids import NodeId

_MESSAGE_BYTES_MAX = 2 << 20
"""At most 2 MiB / 48 bytes = 43,690 entries, whose columns take under 15 bytes each: 640 KiB.
What reads them (`wire`) takes a MiB."""


@dataclass(frozen=True, slots=True)
class Window:
    """How much is under way to one follower, in bytes.

    Attributes:
        message_bytes_max: entries in one message; a larger one rides alone.
        in_flight_bytes_max: sent and not acknowledged: at least bandwidth times
            round trip, or a distant follower falls behind.
        uncommitted_bytes_max: appended by the leader, and not held by a majority yet:
            more is refused. Several windows.

    Raises:
        ValueError: nothing could ever be sent.
    """

    message_bytes_max: int = 1 << 20
    in_flight_bytes_max: int = 16 << 20
    uncommitted_bytes_max: int = 128 << 20

    def __post_init__(self) -> None:
        if self.message_bytes_max > _MESSAGE_BYTES_MAX:
            raise ValueError(
                f"message_bytes_max = {self.message_bytes_max} is more than {_MESSAGE_BYTES_MAX}: "
                "the columns of so many small entries are more than a follower reads"
            )
        if min(self.message_bytes_max, self.in_flight_bytes_max, self.uncommitted_bytes_max) < 1:
            raise ValueError(f"a window without a byte: {self}")

    def check_fits(self, limits: JournalLimits) -> None:
        """Hold it against what may wait for a follower's disk.

        Raises:
            ValueError: a follower would refuse entries in the midst of a window.
        """
        needed = self.in_flight_bytes_max + self.message_bytes_max + limits.entry_bytes_max
        if limits.pending_bytes_max < needed:
            raise ValueError(
                f"pending_bytes_max = {limits.pending_bytes_max} is less than in_flight_bytes_max "
                f"+ message_bytes_max + entry_bytes_max = {needed}: a follower could not take in "
                "what may be on its way to it"
            )


class Replication:
    """One leadership. Made when this node is elected, dropped when it steps down.

    Attributes:
        followers: who is fed.
        told: commit index of which all who are fed have been told, but who cannot be now.
        beat_ns: when the next heartbeat is due.
        round: number of the latest heartbeat round.
    """

    def __init__(
        self,
        standing: Standing,
        window: Window,
        fetch: Fetch,
        store: Store,
        lives: Lives,
    ) -> None:
        self._standing = standing
        self._window = window
        self._fetch = fetch
        self._store = store
        self._is_over = False
        self.uncommitted = Uncommitted(window.uncommitted_bytes_max, standing.timing.retry_ms)
        self.beat_ns = standing.now_ns
        self.round = 0
        self.told = standing.commit
        self.followers = Followers(standing, lives)
        self._acknowledgements = 0  # of entries that were not held before
        self._weighed: tuple[object, ...] = ()  # what `advance` has looked at
        self._made = AppendEntries(0, 0, 0, (), 0, 0)  # the last

    @property
    def progress(self) -> dict[NodeId, Progress]:
        """What is believed of each member."""
        return self.followers.members

    def end(self) -> None:
        """Let reads that are on their way come to nothing."""
        self._is_over = True

    @property
    def has_quorum(self) -> bool:
        """Whether a majority was heard from within the longest election timeout."""
        standing = self._standing
        since = standing.now_ns - standing.timing.election_ms_max * MS
        electorate = standing.electorate
        heard = sum(
            progress.heard_ns > since for progress in self.followers.of_all(electorate.peers)
        )
        return heard + electorate.is_voter >= electorate.quorum

    @property
    def sending(self) -> int | None:
        """Index of the oldest snapshot that is on its way to a follower."""
        return min(
            (
                progress.snapshot.index
                for _, progress in self.followers.all
                if progress.snapshot is not None and progress.is_connected
            ),
            default=None,
        )

    def tick(self) -> None:
        """Send a heartbeat if it is due."""
        standing = self._standing
        if standing.now_ns >= self.beat_ns:
            self.beat_ns = standing.now_ns + standing.timing.heartbeat_ms * MS
            self.beat()

    def beat(self) -> int:
        """Begin a round: something for every follower; return its number."""
        self.round += 1
        self.followers.begin_rounds()
        for peer, progress in self.followers.all:
            if progress.feeding is Feeding.PROBE:
                progress.is_waiting = False  # the last probe may be lost
            elif progress.is_connected and progress.has_bulk_under_way:
                self._standing.send(peer, Beat(self._standing.term, self.round))
            if progress.feeding is Feeding.SNAPSHOT:
                # A piece that was lost is asked for again by the answer to this one.
                self._send_piece(peer, progress, b"")
            elif not self._feed(peer, progress):
                self._send(peer, progress, ())
        self.followers.part()
        return self.round

    def feed(self) -> None:
        """Send every follower what its window has room for."""
        last = self._standing.log.last_index
        for peer, progress in self.followers.all:
            if progress.next <= last or progress.feeding is not Feeding.REPLICATE:  # mostly not
                self._feed(peer, progress)

    def advance(self) -> None:
        """Raise the commit index if a majority of the voters durably holds more."""
        standing = self._standing
        if standing.commit == standing.log.last_index:
            return  # as nearly always where nothing is under way
        log, electorate = standing.log, standing.electorate
        weighed = log.durable, self._acknowledgements, electorate
        if weighed == self._weighed:
            return
        self._weighed = weighed
        held = [progress.match for progress in self.followers.of_all(electorate.peers)]
        if electorate.is_voter:
            held.append(log.durable_index)
        commit = committed(held, electorate.quorum, log, standing.term, standing.commit)
        if commit == standing.commit:
            return
        standing.commit = commit
        self.uncommitted.committed(commit)

    def tell(self) -> None:
        """Tell followers that do not know it yet what is committed: who waits for it may be there.

        Entries that are sent tell it too, so this comes after what they may bring about.
        """
        commit = self._standing.commit
        if self.told == commit:
            return
        self.told = commit
        for peer, progress in self.followers.all:
            if progress.feeding is not Feeding.REPLICATE or progress.told == commit:
                continue
            if not self._feed(peer, progress):
                self._send(peer, progress, ())
        self.followers.part()

    def answered_round(self) -> int:
        """Return the latest round that a majority of the voters has answered."""
        electorate = self._standing.electorate
        rounds = [progress.round for progress in self.followers.of_all(electorate.peers)]
        if electorate.is_voter:
            rounds.append(self.round)
        return majority_at(rounds, electorate.quorum)

    def on_append_reply(self, peer: NodeId, reply: AppendReply) -> bool:
        """Take in an answer; return whether the follower holds more than before."""
        progress = self._hear(peer, reply.round)
        if progress is None or reply.match > self._standing.log.last_index:
            return False  # nobody can hold what was never sent
        news = False
        if reply.rejected:
            log, match = self._standing.log, progress.match
            hint = last_of_term(log, reply.hint_term, min(match, reply.hint), reply.hint)
            progress.rejected(reply.rejected, hint)
        else:
            news = progress.acknowledged(reply.match)
            self._acknowledgements += news
            if progress.snapshot is not None and progress.match >= progress.snapshot.index:
                progress.installed()
        self._feed(peer, progress)
        return news

    def on_snapshot_reply(self, peer: NodeId, reply: SnapshotReply) -> None:
        """Send the next piece."""
        progress = self._hear(peer, reply.round)
        if progress is None:
            return
        progress.has_of_snapshot(reply.index, reply.offset, reply.round)
        self._feed(peer, progress)

    def connected(self, peer: NodeId) -> None:
        """Begin anew with a follower."""
        progress = self.followers.of(peer)
        if progress is not None:
            progress.connected()
            self._feed(peer, progress)

    def disconnected(self, peer: NodeId) -> None:
        """Wait for it. Called while it still counts as connected."""
        progress = self.followers.of(peer)
        if progress is not None:
            progress.disconnected()

    def _hear(self, peer: NodeId, round_: int) -> Progress | None:
        """Take in a sign of life; of a node that is fed, in the life that is."""
        progress = self.followers.of(peer)
        if round_ > self.round:
            return None  # it was never asked
        if progress is not None:
            progress.heard_ns = self._standing.now_ns
            progress.round = max(progress.round, round_)
        return progress

    def _feed(self, peer: NodeId, progress: Progress) -> bool:
        """Send one follower what can be sent now; return whether anything was."""
        if not progress.is_connected or progress.is_waiting:
            return False
        if (
            progress.feeding is not Feeding.SNAPSHOT
            and progress.next < self._standing.log.first_index
        ):
            newest = self._store.newest
            assert newest is not None, "what is gone from the log is in a snapshot"
            progress.needs_snapshot(newest)
        match progress.feeding:
            case Feeding.PROBE:
                progress.is_waiting = True
                self._send(peer, progress, ())
                return True
            case Feeding.SNAPSHOT:
                self._fetch_piece(peer, progress)
                return False
            case Feeding.REPLICATE:
                return self._stream(peer, progress)

    def _stream(self, peer: NodeId, progress: Progress) -> bool:
        """Send entries until the window is full."""
        log, window = self._standing.log, self._window
        is_sent = False
        while (
            progress.next <= log.last_index
            and progress.in_flight_bytes < window.in_flight_bytes_max
        ):
            entries = log.tail(progress.next, window.message_bytes_max)
            if not entries:
                self._fetch_entries(peer, progress)
                break
            self._send_entries(peer, progress, entries)
            is_sent = True
        return is_sent

    def _send_entries(self, peer: NodeId, progress: Progress, entries: tuple[Entry, ...]) -> None:
        if self._send(peer, progress, entries):
            size = sum(record_bytes(len(entry.data)) for entry in entries)
            progress.sent(entries[-1].index, size)

    def _send(self, peer: NodeId, progress: Progress, entries: tuple[Entry, ...]) -> bool:
        """Send AppendEntries from `next` on; return whether that could be."""
        standing = self._standing
        prev = progress.next - 1
        prev_term = standing.log.term(prev)
        if prev_term is None or not progress.is_connected:
            return False  # gone from the log: the next feeding begins a snapshot
        message = AppendEntries(
            standing.term, prev, prev_term, entries, standing.commit, self.round
        )
        if message == self._made:  # as mostly: then it is encoded once for all followers
            message = self._made
        self._made = message
        standing.send(peer, message)
        progress.told = standing.commit
        return True

    def _fetch_entries(self, peer: NodeId, progress: Progress) -> None:
        """Read entries that are no longer in memory, then send them."""
        first, reading = progress.next, object()

        def fetched(entries: tuple[Entry, ...] | None) -> None:
            if self._is_over or progress.reading is not reading:
                return
            progress.is_waiting, progress.reading = False, None
            if entries and progress.next == first:
                self._send_entries(peer, progress, entries)
                self._feed(peer, progress)

        progress.is_waiting, progress.reading = True, reading
        self._fetch.entries(first, self._window.message_bytes_max, fetched)

    def _fetch_piece(self, peer: NodeId, progress: Progress) -> None:
        """Read the piece of the snapshot that the follower lacks, then send it."""
        snapshot, offset = progress.snapshot, progress.offset
        assert snapshot is not None

        def fetched(data: bytes | None) -> None:
            if self._is_over or progress.snapshot is not snapshot or progress.offset != offset:
                return
            if progress.piece_round is not None:
                return  # it was read twice, over two connections
            if data is None:
                progress.installed()  # the snapshot is gone: look again what is needed
            else:
                progress.piece_round = self.round
                self._send_piece(peer, progress, data)

        progress.is_waiting, progress.piece_round = True, None
        self._fetch.snapshot(snapshot, offset, fetched)

    def _send_piece(self, peer: NodeId, progress: Progress, data: bytes) -> None:
        """Send a piece, or, without data, only ask what the follower has."""
        standing, snapshot = self._standing, progress.snapshot
        if snapshot is None or not progress.is_connected:
            return
        standing.send(
            peer,
            InstallSnapshot(
                standing.term,
                snapshot.index,
                snapshot.term,
                snapshot.config,
                snapshot.content_bytes,
                snapshot.checksum,
                progress.offset,
                data,
                self.round,
            ),
        )
