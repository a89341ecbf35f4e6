"""One node of a scripted cluster: the real core on a real journal and real snapshots.

What lives here: the driver of one core (see the contract in `core`), with a disk
whose workers do a step only when told, and what the node shows of itself. What
must never live here: the network (`cluster`), or a command (`language`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Protocol

from chaos.suites.journal_run import LIMITS
from chaos.worlds.disk import SimDisk
from chaos.worlds.stepped import SimWorld, StepClock
from coordinator.raft.core import Core
from coordinator.raft.datadir import DataDirectory, StorageLimits
from coordinator.raft.membership import Membership
from coordinator.raft.messages import Message
from coordinator.raft.replication import Window
from coordinator.raft.retention import RetentionLimits
from coordinator.raft.segments.layout import Entry
from coordinator.raft.segments.limits import Space
from coordinator.raft.snapshots import SnapshotLimits, SnapshotMeta
from coordinator.raft.snapshotting import Snapshotting
from coordinator.raft.standing import Role
from coordinator.raft.timing import MS, Timing
from raftbatch.errors import Fatal, Removed
from raftbatch.ids import ClusterId, Identity, NodeId

DIRECTORY = "/data"
PADDING = b"."
STORAGE = StorageLimits(
    journal=LIMITS,
    snapshots=SnapshotLimits(snapshot_bytes_max=LIMITS.snapshot_bytes_max),
    retention=RetentionLimits(
        log_retention_bytes=0, log_retention_ms=0, trailing_entries=0, snapshots_kept_max=1
    ),
)
TIMING = Timing()
DISK_BYTES = 4 << 20


class Host(Protocol):
    """What a node needs of its cluster."""

    clock: StepClock
    window: Window
    piece_bytes: int
    founders: Membership

    def send(self, sender: NodeId, to: NodeId, message: Message) -> None:
        """Take a message that has been released."""
        ...

    def tell(self, line: str) -> None:
        """Add a line to the trace."""
        ...

    def check(self, node: Node) -> None:
        """Hold what the node says against what all have said."""
        ...

    def stopped(self, node: Node) -> None:
        """Take note that it runs no more."""
        ...

    def deliver_last_words(self, node: Node) -> None:
        """Deliver what a node said before it ended, which its transport does not lose."""
        ...

    def drop(self, node: Node, peer: NodeId) -> None:
        """Close a connection of its."""
        ...


class Node:
    """See the module's docstring.

    Attributes:
        core: while it runs.
        state: what the state machine holds: the data of the entries, in order.
        applied: index of the last entry in `state`.
        held: workers that do nothing unless told: `journal-write`, `journal-read`, `snapshots`.
        failure: why it stopped by itself.
        config: the membership at `applied`, in its encoded form.
        remembered: terms of the entries that were durable when it was last up.
    """

    def __init__(self, host: Host, node_id: NodeId, joins_as: int | None = None) -> None:
        self.host = host
        self.id = node_id
        self.disk = SimDisk(Random(f"disk {node_id}"), DISK_BYTES)
        self.world = SimWorld(1, self.disk)
        self.identity = Identity(ClusterId("0" * 32), node_id, joins_as or 1)
        founders = None if joins_as else host.founders
        DataDirectory.create(self.world, DIRECTORY, self.identity, STORAGE, founders)
        self.core: Core | None = None
        self.failure: Fatal | None = None
        self.remembered: dict[int, int] = {}
        self.held: set[str] = set()
        self.state: list[str] = []
        self.applied = 0
        self.config = b""

    # Its life.

    def start(self) -> None:
        """Begin a process on what the disk holds."""
        self.world = SimWorld(1, self.disk)
        self.world.clock = self.host.clock
        self.failure = None
        self.held.clear()
        self.state, self.applied, self.config = [], 0, b""
        self.data = DataDirectory.open(
            self.world,
            DIRECTORY,
            STORAGE,
            on_durable=lambda lsn: self.running.durable(self.now_ns),
            on_failed=self._failed,
        )
        self.snapshotting = Snapshotting(self.data, self._failed, lambda told: told())
        self.core = Core(
            self.id,
            self.identity.incarnation,
            self.data.journal,
            self.snapshotting,
            self,
            TIMING,
            self.host.window,
            self._below,
            lambda: self.data.journal.space is not Space.RESERVE,
            self._install,
            self.now_ns,
        )
        if self.snapshotting.newest is not None:
            self._install()
        self.settle()

    def stop(self, power: bool = False) -> None:
        """Kill the process; with `power`, what was not synced is lost."""
        self.remembered = self.durable_terms()
        self.core = None
        self.disk.crash(power)
        self.host.stopped(self)

    @property
    def running(self) -> Core:
        """The core of a node that runs."""
        assert self.core is not None, f"{self.id} is down"
        return self.core

    @property
    def now_ns(self) -> int:
        """The time."""
        return self.host.clock.monotonic_ns()

    # Events.

    def event(self, handle: Callable[[], object]) -> None:
        """Let the core handle an event, do what follows, and say what changed."""
        before = self.facts()
        try:
            handle()
            self.settle()
            standing = self.running.standing
            if standing.why_removed and standing.role is not Role.LEADER:
                self._failed(Removed(standing.why_removed))
        except Fatal as error:
            self._failed(error)
        if self.failure is not None:
            self.host.tell(f"{self.id} stops: {type(self.failure).__name__}: {self.failure}")
            if isinstance(self.failure, Removed):
                self.host.deliver_last_words(self)
            self.stop()
            return
        after = self.facts()
        changes = [after[name] for name in after if after[name] != before[name] and after[name]]
        if changes:
            self.host.tell(f"{self.id}: {', '.join(changes)}")
        self.host.check(self)
        standing = self.running.standing
        unwelcome, standing.unwelcome = standing.unwelcome, []
        for peer in unwelcome:
            self.host.drop(self, peer)

    def refused(self, why: str) -> None:
        """Take in that a peer does not admit it."""
        self.event(lambda: self._failed(Removed(why)))

    def settle(self) -> None:
        """Do what the driver does after an event, until nothing is left but what is held."""
        core, journal = self.running, self.data.journal
        flushed = -1  # the journal looks at a full disk with each flush, so not for ever
        while self.failure is None:
            core.replicate(self.now_ns)
            self._release()
            if journal.lsn != flushed:
                flushed = journal.lsn
                journal.flush()
            self._apply()
            if not self._work():
                return

    def tick(self) -> None:
        """Judge the timers."""
        self.running.tick(self.now_ns)

    def sync(self) -> None:
        """Let the disk write one group, and tell of it."""
        worker = self.world.workers["journal-write"]
        worker.run_one()
        worker.deliver_one()

    def capture(self) -> None:
        """Take a snapshot of the state."""
        term = self.data.journal.term(self.applied)
        assert term is not None
        content = "\n".join(self.state).encode()
        self.snapshotting.capture(self.applied, term, self.config, [content], self.data.retain)

    # What it shows.

    def facts(self) -> dict[str, str]:
        """Return what the trace tells of the node when it changes."""
        if self.core is None:
            return {"role": "down"}
        standing, journal = self.core.standing, self.data.journal
        role = standing.role.value
        if standing.role is Role.FOLLOWER and standing.leader:
            role += f" of {standing.leader}"
        vote = journal.hard_state.vote
        durable = journal.durable_index
        return {
            "role": role,
            "term": f"term {standing.term}",
            "vote": f"vote {vote}" if vote else "",
            "log": f"log {self.log()}",
            "durable": "" if durable == journal.last_index else f"durable {durable}",
            "commit": f"commit {standing.commit}",
            "members": f"members {standing.membership}",
        }

    def terms(self) -> dict[int, int]:
        """Return the term of each entry, and of the index before the first."""
        journal = self.data.journal
        return {
            index: journal.term(index) or 0
            for index in range(journal.first_index - 1, journal.last_index + 1)
        }

    def durable_terms(self) -> dict[int, int]:
        """Return the terms of what a power cut would leave."""
        if self.core is None:
            return self.remembered
        durable = self.data.journal.durable_index
        return {index: term for index, term in self.terms().items() if index <= durable}

    def log(self) -> str:
        """Return the log as runs of one term: `1-3@1 4@2`; `..5@1` is what went into a snapshot."""
        runs: list[tuple[int, int, int]] = []
        for index, term in self.terms().items():
            if index < self.data.journal.first_index:
                continue
            if runs and runs[-1][2] == term:
                runs[-1] = (runs[-1][0], index, term)
            else:
                runs.append((index, index, term))
        base = self.data.journal.first_index - 1
        parts = [f"..{base}@{self.terms()[base]}"] if base else []
        parts += [f"{a}@{t}" if a == b else f"{a}-{b}@{t}" for a, b, t in runs]
        return " ".join(parts) or "empty"

    # The core's Fetch.

    def entries(
        self, first: int, bytes_max: int, done: Callable[[tuple[Entry, ...] | None], None]
    ) -> None:
        """Read entries that are no longer in memory."""
        self.data.journal.read(
            first, bytes_max, lambda future: done(None if future.exception() else future.result())
        )

    def snapshot(
        self, meta: SnapshotMeta, offset: int, done: Callable[[bytes | None], None]
    ) -> None:
        """Read a piece of a snapshot, smaller than the product's."""
        most = self.host.piece_bytes
        self.snapshotting.read(meta, offset, lambda data: done(data and data[:most]))

    # Inside.

    def _release(self) -> None:
        outbox = self.running.standing.outbox
        while outbox and outbox[0].lsn <= self.data.journal.durable:
            outgoing = outbox.pop(0)
            self.host.send(self.id, outgoing.to, outgoing.message)

    def _work(self) -> bool:
        for worker in self.world.workers.started:
            if worker.name not in self.held and (worker.deliver_one() or worker.run_one()):
                return True
        return False

    def _apply(self) -> None:
        journal, commit = self.data.journal, self.running.standing.commit
        while self.applied < commit:
            entries: Sequence[Entry] = journal.tail(self.applied + 1, 1 << 20)
            if not entries:
                entries = self._read(self.applied + 1)
            for entry in entries:
                if entry.index <= commit:
                    assert entry.index == self.applied + 1, f"{self.id} applies with a gap"
                    self.applied = entry.index
                    if entry.is_config:
                        self.config = entry.data
                    elif entry.data:
                        self.state.append(entry.data.rstrip(PADDING).decode())

    def _read(self, first: int) -> Sequence[Entry]:
        found: list[tuple[Entry, ...]] = []
        self.data.journal.read(first, 1 << 20, lambda each: found.append(each.result()))
        self.world.workers["journal-read"].run_all()
        return found[0]

    def _install(self) -> None:
        newest = self.snapshotting.newest
        assert newest is not None
        if newest.index > self.applied:
            with self.data.snapshots.read(newest) as reader:
                content = reader.read(0, newest.content_bytes).decode()
            self.state, self.applied = content.split("\n") if content else [], newest.index
            self.config = newest.config

    def _failed(self, error: Fatal) -> None:
        self.failure = self.failure or error

    def _below(self, bound: int) -> int:
        """Draw: each node another part of the span, in whole ms, so that traces read well."""
        place = int(self.id[1:]) - 1
        return bound * place // max(len(self.host.founders.members), place + 1) // MS * MS
