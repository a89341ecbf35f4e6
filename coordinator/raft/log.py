"""The replicated log, as the rest of the program sees it: bytes in, bytes out.

    proposal = log.propose(log.term, b"...")     # appended at once, or refused
    await proposal.committed()                   # applied here, durable on a majority
    index = await log.barrier()                  # everything acknowledged before is applied

The state machine is a `Replica`: it is given every committed entry once, in
order, and now and then a snapshot in place of the entries before it. What it
raises stops the node: a replica that has missed an entry is not one.

What lives here: the driver of the core (see `core` for its contract), proposals,
the order of what is applied, when a snapshot is taken. What must never live
here: a rule of Raft, or what the bytes mean. Called by: the replica's owner, the
transport. One thread: the loop's.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Protocol

from coordinator.raft.applying import Applying, Replica
from coordinator.raft.core import Core
from coordinator.raft.datadir import DataDirectory, StorageLimits
from coordinator.raft.messages import Message, Outgoing
from coordinator.raft.proposals import Proposal, Proposals
from coordinator.raft.replication import Window
from coordinator.raft.segments.layout import Entry
from coordinator.raft.segments.limits import Space
from coordinator.raft.snapshots import SnapshotMeta
from coordinator.raft.snapshotting import Snapshotting
from coordinator.raft.standing import Role
from coordinator.raft.syncobj import HardenedSyncObj, Peer, PeerTransport
from coordinator.raft.timing import Timing
from raftbatch.errors import Fatal, Invariant, NotLeader, OutcomeUnknown, RaftbatchError
from raftbatch.ids import NodeId
from raftbatch.world import World


class Peers(Protocol):
    """The way to the other voters; hands what arrives to `ReplicatedLog.receive`."""

    def send(self, peer: NodeId, message: Message) -> None:
        """Send, in order, or drop it where there is no connection. Never blocks."""
        ...


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Settings of the replicated log.

    Attributes:
        timing: timers.
        window: how much is under way to a follower.
        snapshot_bytes_min: entries applied since the last snapshot, in bytes, before
            another is taken; or twice the last snapshot's size, if that is more.
            Smaller ones restart faster and write more.
        stagger_bytes: added for each place of this node in the order of ids, and
            for the leader once more than all, so that nodes do not pause together.
    """

    timing: Timing = field(default_factory=Timing)
    window: Window = field(default_factory=Window)
    snapshot_bytes_min: int = 64 << 20
    stagger_bytes: int = 8 << 20


class ReplicatedLog:
    """See the module's docstring. Opening it reads the journal: it blocks, at start-up.

    Args:
        world: the ports.
        directory: a data directory that was created.
        limits: its bounds.
        voters: all voters; the node that the directory belongs to is one.
        peers: the way to the others.
        replica: the state machine, empty.
        config: settings.
        on_failed: told once why the node must stop.

    Attributes:
        failure: why the log has ended; None while it lives.

    Raises:
        Corrupt, CannotStart, DiskFailed: see `DataDirectory.open`.
    """

    def __init__(
        self,
        world: World,
        directory: str,
        limits: StorageLimits,
        voters: Sequence[NodeId],
        peers: Peers,
        replica: Replica,
        config: LogConfig,
        on_failed: Callable[[Fatal], None],
    ) -> None:
        config.window.check_fits(limits.journal)
        self.failure: Fatal | None = None
        self._world = world
        self._loop = asyncio.get_running_loop()
        self._config = config
        self._on_failed = on_failed
        # Bounded: a disk may stand still for long. The oldest go first; all may be lost.
        self._held: deque[Outgoing] = deque(maxlen=10_000)
        self._proposals = Proposals()
        self._barriers: list[tuple[int, asyncio.Future[int]]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ns = 0
        self._is_pump_due = False
        self._data = DataDirectory.open(
            world, directory, limits, on_durable=self._has_become_durable, on_failed=self._fail
        )
        self._journal = self._data.journal
        self._snapshotting = Snapshotting(self._data, self._fail)
        self._voters = sorted(voters)
        self._applying = Applying(
            self._journal,
            self._snapshotting,
            replica,
            "\n".join(self._voters).encode("ascii"),
            self._capture_bytes_min,
            self._retain,
            self._proposals.applied,
            self._proposals.installed,
            self._pump_soon,
            self._fail,
        )
        self._core = Core(
            self._data.identity.node_id,
            voters,
            self._journal,
            self._snapshotting,
            self,
            config.timing,
            config.window,
            self._below,
            self._may_lead,
            self._applying.install,
            self._now_ns(),
        )
        self._transport = PeerTransport(peers.send)
        self._node = HardenedSyncObj(voters, self._transport, self._core, self._now_ns)
        if self._snapshotting.newest is not None:
            self._applying.install()
        self._pump()

    # What it is.

    @property
    def role(self) -> Role:
        """This node's role."""
        return self._core.standing.role

    @property
    def term(self) -> int:
        """The current term."""
        return self._core.standing.term

    @property
    def leader(self) -> NodeId | None:
        """Who leads, as far as this node knows; perhaps itself."""
        return self._core.standing.leader

    @property
    def commit(self) -> int:
        """Highest index known committed."""
        return self._core.standing.commit

    @property
    def applied(self) -> int:
        """Index of the last entry whose effects the replica has."""
        return self._applying.index

    @property
    def space(self) -> Space:
        """How much room the disk has left."""
        return self._journal.space

    # What it does.

    def propose(self, term: int, data: bytes) -> Proposal:
        """Append an entry in a term that this node leads.

        Raises:
            NotLeader, NoLeader, Draining, NoSpace, Overloaded, PayloadTooLarge: definite.
            Fatal: the log has ended.
        """
        self._check_lives()
        index = self._core.propose(self._now_ns(), term, data)
        proposal = Proposal(index, term, self._loop.create_future())
        self._proposals.add(proposal)
        self._pump_soon()
        return proposal

    async def barrier(self) -> int:
        """Return the applied index once all that was acknowledged before the call is applied.

        Raises:
            NotLeader, NoLeader: definite; this node does not lead, or lost the lead meanwhile.
            Fatal: the log has ended.
        """
        self._check_lives()
        found: asyncio.Future[int] = self._loop.create_future()

        def answer(index: int | None) -> None:
            if found.done():
                return
            if index is None:
                found.set_exception(NotLeader("this node leads no more", leader=self.leader or ""))
            else:
                self._barriers.append((index, found))
                self._pump_soon()

        self._core.read(self._now_ns(), answer)
        self._pump_soon()
        return await found

    async def transfer(self, heir: NodeId) -> bool:
        """Hand leadership to another voter; return whether this node leads no more.

        Raises:
            NotLeader, NoLeader: definite; this node does not lead.
            Fatal: the log has ended.
        """
        self._check_lives()
        ended: asyncio.Future[bool] = self._loop.create_future()
        self._core.hand_over(
            self._now_ns(), heir, lambda moved: None if ended.done() else ended.set_result(moved)
        )
        self._pump_soon()
        return await ended

    def receive(self, peer: NodeId, message: Message) -> None:
        """Take in a message from a peer's present connection."""
        self._event(lambda: self._transport.arrived(peer, message))

    def connected(self, peer: NodeId) -> None:
        """Take in that there is a new connection to a peer."""
        self._event(lambda: self._transport.came(peer))

    def disconnected(self, peer: NodeId) -> None:
        """Take in that the connection to a peer broke."""
        self._event(lambda: self._transport.went(peer))

    def close(self) -> None:
        """End, like a crash but for the files; what was proposed is unknown then."""
        if self.failure is None:
            self._end(OutcomeUnknown("this node was stopped"))
        self._data.close()

    # The core's Fetch.

    def entries(
        self, first: int, bytes_max: int, done: Callable[[tuple[Entry, ...] | None], None]
    ) -> None:
        """Read entries that are no longer in memory."""

        def has_read(future: Future[tuple[Entry, ...]]) -> None:
            found = None if future.exception() else future.result()
            self._event(lambda: done(found))

        try:
            self._journal.read(first, bytes_max, has_read)
        except RaftbatchError:
            self._loop.call_soon(lambda: self._event(lambda: done(None)))

    def snapshot(
        self, meta: SnapshotMeta, offset: int, done: Callable[[bytes | None], None]
    ) -> None:
        """Read the piece of a snapshot that begins at `offset`."""
        self._snapshotting.read(meta, offset, lambda data: self._event(lambda: done(data)))

    # The driver.

    def _event(self, handle: Callable[[], object]) -> None:
        """Let the core handle an event, then do what follows from it."""
        if self.failure is not None:
            return
        try:
            handle()
        except Fatal as error:
            self._fail(error)
        except Exception as error:  # noqa: BLE001 - a core that failed midway is not to be trusted
            self._fail(Invariant(f"the consensus core met an error it does not know: {error!r}"))
        else:
            self._pump_soon()

    def _pump_soon(self) -> None:
        """Do what follows once this turn's events are all in."""
        if not self._is_pump_due and self.failure is None:
            self._is_pump_due = True
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        """See the contract in `core`."""
        self._is_pump_due = False
        if self.failure is not None:
            return
        try:
            self._core.replicate(self._now_ns())
            self._journal.flush()
            self._release()
            if self._applying.advance(self._core.standing.commit):
                self._pump_soon()
            self._answer_barriers()
        except Fatal as error:
            self._fail(error)
        except Exception as error:  # noqa: BLE001 - as in `_event`
            self._fail(Invariant(f"applying met an error it does not know: {error!r}"))
        else:
            self._set_timer()

    def _release(self) -> None:
        """Send what depends on nothing that is not durable; LSNs never fall along the queue."""
        outbox = self._core.standing.outbox
        self._held.extend(outbox)
        outbox.clear()
        while self._held and self._held[0].lsn <= self._journal.durable:
            outgoing = self._held.popleft()
            self._transport.send(Peer(outgoing.to), outgoing.message)

    def _set_timer(self) -> None:
        """Wake up at the core's deadline; one that wakes up early is harmless, and kept."""
        deadline_ns = self._core.deadline_ns
        if self._timer is not None:
            if self._timer_ns <= deadline_ns:
                return
            self._timer.cancel()
        self._timer_ns = deadline_ns
        delay_ns = max(deadline_ns - self._now_ns(), 0)
        self._timer = self._loop.call_later(delay_ns / 1e9, self._wake)

    def _wake(self) -> None:
        """Judge the timers two turns later: one to read sockets, one to hand in what was read."""
        self._timer = None
        self._loop.call_soon(lambda: self._loop.call_soon(self._tick))

    def _tick(self) -> None:
        self._event(lambda: self._node.doTick(0.0))

    def _has_become_durable(self, _lsn: int) -> None:
        self._event(lambda: self._core.durable(self._now_ns()))

    def _answer_barriers(self) -> None:
        ready = [each for each in self._barriers if each[0] <= self.applied]
        self._barriers = [each for each in self._barriers if each[0] > self.applied]
        for _, found in ready:
            if not found.done():
                found.set_result(self.applied)

    def _fail(self, error: Fatal) -> None:
        if self.failure is None:
            self._end(OutcomeUnknown(f"this node stopped: {error}"))
            self.failure = error
            self._on_failed(error)

    def _end(self, reason: OutcomeUnknown) -> None:
        """Answer all who wait, and act no more."""
        self.failure = Invariant("the log was closed")
        if self._timer is not None:
            self._timer.cancel()
        self._applying.close()
        self._proposals.end(reason)
        for _, found in self._barriers:
            if not found.done():
                found.set_exception(reason)
        self._core.reads.fail()
        self._core.transfer.end(succeeded=False)

    def _check_lives(self) -> None:
        if self.failure is not None:
            raise self.failure

    def _now_ns(self) -> int:
        return self._world.clock.monotonic_ns()

    def _below(self, bound: int) -> int:
        return int.from_bytes(self._world.entropy.random_bytes(8), "little") % bound

    def _may_lead(self) -> bool:
        return self._journal.space is not Space.RESERVE and self._journal.stalled is None

    def _retain(self) -> None:
        leading = self._core.replication
        sending = leading.sending if leading is not None else None
        self._snapshotting.release(sending)
        self._data.retain(sending)
        self._pump_soon()

    def _capture_bytes_min(self) -> int:
        own = self._voters.index(self._core.standing.self_id)
        place = len(self._voters) if self.role is Role.LEADER else own
        return self._config.snapshot_bytes_min + place * self._config.stagger_bytes
