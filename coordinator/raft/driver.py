"""The driver of one core: events in, and after each what its contract asks for.

What lives here: opening the data directory, the turn of the loop in which changes
are flushed, messages released and entries applied, the timer, and the end. What
must never live here: a rule of Raft, or what the log is asked to do (`log`).
Called by: `log`. One thread: the loop's. See `core` for the contract.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future

from coordinator.raft.applying import Applying, Replica
from coordinator.raft.core import Core
from coordinator.raft.datadir import DataDirectory, StorageLimits
from coordinator.raft.fitness import Fitness
from coordinator.raft.log_config import LogConfig
from coordinator.raft.membership import Membership, removed
from coordinator.raft.messages import Digests, Outgoing
from coordinator.raft.ports import Peers
from coordinator.raft.proposals import Proposal, Proposals
from coordinator.raft.segments.layout import Entry
from coordinator.raft.snapshots import SnapshotMeta
from coordinator.raft.snapshotting import Snapshotting
from coordinator.raft.standing import Role
from coordinator.raft.syncobj import HardenedSyncObj, PeerTransport
from coordinator.raft.timing import LATE_NS_MIN, MS
from coordinator.raft.watchers import Watchers
from raftbatch.errors import Fatal, Invariant, OutcomeUnknown, RaftbatchError
from raftbatch.ids import NodeId
from raftbatch.world import World

_AT_ONCE_MAX = 64
"""Messages in a row that are each followed at once, and what they commit, in entries: 10 ms."""
_BRIEF_ENTRIES_MAX = 4
"""To apply more than so many takes longer than the thread that writes may be kept waiting. With
few it is woken last: it needs the interpreter's lock, which the loop lets go when it has nothing
more to do. Woken before, it would wait for that, and be woken twice."""


class Driver:
    """See the module's docstring; for the arguments see `ReplicatedLog`.

    Attributes:
        failure: why the log has ended; None while it lives.
        config: as given.
        now_ns: reads the monotonic time.
        data, journal, snapshotting: what is on disk.
        core: decides.
        applying: feeds the replica.
        proposals: who waits for an outcome.
        barriers: who waits for what to be applied.
        syncing: who waits for what to be durable here, by its LSN.
        held: messages that wait for the disk. Bounded, since that may stand still for long:
            the oldest go first, and all may be lost.
        peers: the way to them.
        transport: hands in what they say.
        on_digests, on_came: told what members tell of their replicas, and who has connected.
        watchers: told when role, term, leader or `is_caught_up` has changed, and at the end.
    """

    on_digests: Callable[[NodeId, Digests], None] | None = None
    on_came: Callable[[NodeId], None] | None = None
    _place = 0  # this node's, by id, among those whom the peers were told of
    _is_applying_later = False  # see `_pump`
    _at_once = 0  # messages in a row that were followed at once

    def __init__(
        self,
        world: World,
        directory: str,
        limits: StorageLimits,
        peers: Peers,
        replica: Replica,
        config: LogConfig,
        on_failed: Callable[[Fatal], None],
    ) -> None:
        config.window.check_fits(limits.journal)
        self.failure: Fatal | None = None
        self.config = config
        self.held: deque[Outgoing] = deque(maxlen=10_000)
        self.proposals = Proposals()
        self.barriers: list[tuple[int, asyncio.Future[int]]] = []
        self.watchers = Watchers()
        self.syncing: list[tuple[int, asyncio.Future[None]]] = []
        self.now_ns, self._world = world.clock.monotonic_ns, world
        self._loop = asyncio.get_running_loop()
        self._on_failed = on_failed
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ns, self._is_pump_due, self._has_news = 0, False, False
        self.data = DataDirectory.open(
            world, directory, limits, on_durable=self._has_become_durable, on_failed=self.fail
        )
        self.journal = self.data.journal
        self._fitness = Fitness(self.journal, config.timing, self.now_ns())
        self.snapshotting = Snapshotting(self.data, self.fail)
        self.applying = Applying(
            self.journal,
            self.snapshotting,
            replica,
            self._capture_bytes_min,
            self._retain,
            self.proposals.applied,
            self.proposals.installed,
            self.pump_soon,
            self.fail,
        )
        self.core = Core(
            self.data.identity.node_id,
            self.data.identity.incarnation,
            self.journal,
            self.snapshotting,
            self,
            config.timing,
            config.window,
            self._below,
            self._may_lead,
            self.applying.install,
            self.now_ns(),
        )
        self.peers = peers
        self._told = Membership()  # whom the peers were told of; none before the first pump
        self.transport = PeerTransport(peers.send)
        self._node = HardenedSyncObj(self.transport, self.core, self.now_ns)
        if self.snapshotting.newest is not None:
            self.applying.install()
        self._pump()

    # What the log does with it.

    def check_lives(self) -> None:
        """Raise why it has ended, if it has."""
        if self.failure is not None:
            raise self.failure

    def event(self, handle: Callable[[], object]) -> None:
        """Let the core handle an event, then do what follows from it."""
        if self._has_handled(handle) and not self._has_only_learnt:
            self.pump_soon()

    def message(self, handle: Callable[[], object]) -> None:
        """Let the core handle a message, then do at once what follows, unless that is due.

        Few come together, and somebody waits: a turn of the loop would cost both ends more.
        A node that stood still finds thousands: what follows from the rest of them is done once.
        """
        if self._has_handled(handle) and not (self._is_pump_due or self._has_only_learnt):
            if self._at_once < _AT_ONCE_MAX:
                committed = self.core.standing.commit - self.applying.index
                self._pump(self._at_once + 1 + committed)
            else:
                self.pump_soon()

    def came(self, peer: NodeId, incarnation: int) -> None:
        """Take in a new connection."""
        self.transport.came(peer, incarnation)
        if self.on_came is not None:  # also another life than the member's: that one is over
            self.on_came(peer)

    def heard(self, peer: NodeId, digests: Digests) -> None:
        """Hand on what a peer tells of its replica, if it is that life of it that counts."""
        if self.on_digests is not None and self.core.lives.is_member(peer):
            self.on_digests(peer, digests)

    def pump_soon(self) -> None:
        """Do what follows once this turn's events are all in."""
        if not self._is_pump_due and self.failure is None:
            self._is_pump_due = True
            self._loop.call_soon(self._pump)

    def proposed(self, index: int, term: int) -> Proposal:
        """Wait for an entry that was appended."""
        proposal = Proposal(index, term, self._loop)
        self.proposals.add(proposal)
        self.pump_soon()
        return proposal

    def fail(self, error: Fatal) -> None:
        """End for that reason, if it has not ended."""
        if self.failure is None:
            self._end(OutcomeUnknown(f"this node stopped: {error}"))
            self.failure = error
            self._on_failed(error)

    def close(self) -> None:
        """End, like a crash but for the files; what was proposed is unknown then."""
        if self.failure is None:
            self._end(OutcomeUnknown("this node was stopped"))
        self.data.close()

    # The core's Fetch.

    def entries(
        self, first: int, bytes_max: int, done: Callable[[tuple[Entry, ...] | None], None]
    ) -> None:
        """Read entries that are no longer in memory."""

        def has_read(future: Future[tuple[Entry, ...]]) -> None:
            found = None if future.exception() else future.result()
            self.event(lambda: done(found))

        try:
            self.journal.read(first, bytes_max, has_read)
        except RaftbatchError:
            self._loop.call_soon(lambda: self.event(lambda: done(None)))

    def snapshot(
        self, meta: SnapshotMeta, offset: int, done: Callable[[bytes | None], None]
    ) -> None:
        """Read the piece of a snapshot that begins at `offset`."""
        self.snapshotting.read(meta, offset, lambda data: self.event(lambda: done(data)))

    # Inside.
    def _has_handled(self, handle: Callable[[], object]) -> bool:
        """Let the core handle an event; return whether it lives."""
        if self.failure is not None:
            return False
        try:
            handle()
        except Fatal as error:
            self.fail(error)
        except Exception as error:  # noqa: BLE001 - a core that failed midway is not to be trusted
            self.fail(Invariant(f"the consensus core met an error it does not know: {error!r}"))
        return self.failure is None

    @property
    def _has_only_learnt(self) -> bool:
        """Whether nothing follows from what a leader was told but that it knows it.

        As from the answer of a follower that is not needed for a majority, or its own disk's.
        Whatever else there may be to do is done with the next tick.
        """
        core, standing = self.core, self.core.standing
        return (
            core.replication is not None
            and standing.commit == self.applying.index
            and not (standing.outbox or self.held or self.barriers or standing.unwelcome)
            and not (self.journal.waiting or core.reads.newest_round)
        )

    def _pump(self, at_once: int = 0) -> None:
        """See the contract in `core`."""
        self._is_pump_due, self._at_once = False, at_once
        if self.failure is not None:
            return
        try:
            now_ns = self.now_ns()
            # Whoever learns of a commit here may propose, and the entry carries the news.
            self._has_news = self.core.replicate(now_ns, tells=self._has_news)
            self._fitness.look(now_ns)
            self._release()  # before the disk: others have a disk too
            standing = self.core.standing
            is_brief = standing.commit - self.applying.index <= _BRIEF_ENTRIES_MAX
            # A follower's entries are awaited by the leader, what it applies by few: that is done
            # when the disk has them, or with whatever else comes first, after what is to be said.
            self._is_applying_later = (
                is_brief
                and self.core.replication is None
                and bool(self.journal.waiting)
                and not self._is_applying_later
            )
            if self._is_applying_later or not is_brief:
                self.journal.flush()
            self._tell()
            goes_on = not self._is_applying_later and self.applying.advance(standing.commit)
            if goes_on or self._has_news:
                self.pump_soon()
            self._answer_barriers()
            self.watchers.look(standing.role, standing.term, standing.leader, self.is_caught_up)
            self._end_if_removed()
            if is_brief and not self._is_applying_later:
                self.journal.flush()
        except Fatal as error:
            self.fail(error)
        except Exception as error:  # noqa: BLE001 - as in `event`
            self.fail(Invariant(f"applying met an error it does not know: {error!r}"))
        else:
            self._set_timer()

    def _tell(self) -> None:
        """Tell whom to be connected to, if that has changed, and whom not to be any more."""
        standing = self.core.standing
        membership, own = standing.membership, standing.self_id
        if self._told is not membership:
            self._told = membership
            self._place = sum(member.node_id < own for member in membership.members)
            self.peers.update(membership)
        unwelcome, standing.unwelcome = standing.unwelcome, []
        for peer in unwelcome:
            self.peers.drop(peer)

    @property
    def is_caught_up(self) -> bool:
        """Whether this node leads, and all that its log held when its term began is applied."""
        standing = self.core.standing
        own = self.journal.term(self.applying.index) == standing.term
        return own and standing.role is Role.LEADER

    def _release(self) -> None:
        """Send what depends on nothing that is not durable; LSNs never fall along the queue."""
        outbox = self.core.standing.outbox
        self.held.extend(outbox)
        outbox.clear()
        while self.held and self.held[0].lsn <= self.journal.durable:
            outgoing = self.held.popleft()
            self.transport.send(self.transport.peer(outgoing.to), outgoing.message)

    def _end_if_removed(self) -> None:
        """End a node that is a member no more, once all that it has to say is said."""
        standing = self.core.standing
        why = standing.why_removed
        has_applied = self.applying.index >= standing.commit
        if why and standing.role is not Role.LEADER and has_applied and not self.held:
            raise removed(why)

    def _set_timer(self) -> None:
        """Wake up at the core's deadline; to wake up a little early is harmless."""
        deadline_ns = self.core.deadline_ns
        if self._timer is not None:
            if 0 <= deadline_ns - self._timer_ns < self.config.timing.heartbeat_ms * MS // 2:
                return
            self._timer.cancel()
        self._timer_ns, self._at_once = deadline_ns, 0
        self._timer = self._loop.call_later(max(deadline_ns - self.now_ns(), 0) / 1e9, self._wake)

    def _wake(self) -> None:
        """Judge the timers, if late two turns later: one to read sockets, one to hand that in."""
        self._timer = None
        if self.now_ns() - self._timer_ns < LATE_NS_MIN:
            self._tick()
        else:
            self._loop.call_soon(self._loop.call_soon, self._tick)

    def _tick(self) -> None:
        if self._has_handled(lambda: self._node.doTick(0.0)) and not self._is_pump_due:
            self._pump()

    def _has_become_durable(self, _lsn: int) -> None:
        """Do at once what follows, unless that is due: few events come together with this one."""
        now_ns = self.now_ns()
        self._fitness.moved(now_ns)
        self._answer_syncing(self.journal.durable)
        lives = self._has_handled(lambda: self.core.durable(now_ns))
        if lives and not (self._is_pump_due or self._has_only_learnt):
            self._pump()

    def _answer_barriers(self) -> None:
        if not self.barriers:
            return
        applied = self.applying.index
        ready = [each for each in self.barriers if each[0] <= applied]
        self.barriers = [each for each in self.barriers if each[0] > applied]
        for _, found in ready:
            if not found.done():
                found.set_result(applied)

    def _answer_syncing(self, durable: int | None) -> None:
        """Answer who waits for no more than is durable; all, where nothing more will be."""
        waiting, self.syncing = self.syncing, []
        for lsn, ended in waiting:
            if durable is not None and lsn > durable:
                self.syncing.append((lsn, ended))
            elif not ended.done():
                ended.set_result(None)

    def _end(self, reason: OutcomeUnknown) -> None:
        """Answer all who wait, and act no more."""
        self.failure = Invariant("the log was closed")
        if self._timer is not None:
            self._timer.cancel()
        self.applying.close()
        self.proposals.end(reason)
        for _, found in self.barriers:
            if not found.done():
                found.set_exception(reason)
        self._answer_syncing(None)
        self.core.reads.fail()
        self.core.transfer.end(succeeded=False)
        self.watchers.tell()

    def _below(self, bound: int) -> int:
        return int.from_bytes(self._world.entropy.random_bytes(8), "little") % bound

    def _may_lead(self) -> bool:
        return self._fitness.may_lead(self.now_ns())

    def _retain(self) -> None:
        leading = self.core.replication
        sending = leading.sending if leading is not None else None
        self.snapshotting.release(sending)
        self.data.retain(sending)
        self.pump_soon()

    def _capture_bytes_min(self) -> int:
        is_leader = self.core.standing.role is Role.LEADER
        place = len(self._told.members) if is_leader else self._place
        return self.config.snapshot_bytes_min + place * self.config.stagger_bytes
