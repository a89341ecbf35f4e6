"""A node's data directory: one writer, one journal, its snapshots, held against each other.

    directory/lock          who writes here, by pid
    directory/journal/      entries and hard state (`journal`)
    directory/snapshots/    states that replace the log's beginning (`snapshots`)

What lives here: opening and closing all of it, and what the parts must say of
each other. What must never live here: a rule of Raft, or a decision of how much
to keep (`retention`). Called by: `coordinator.raft`, the composition root.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial

from coordinator.raft.failures import disk_errors
from coordinator.raft.journal import Journal
from coordinator.raft.membership import Membership
from coordinator.raft.membership import decode as decode_membership
from coordinator.raft.membership import encode as encode_membership
from coordinator.raft.retention import RetentionLimits, SnapshotSpan, retain
from coordinator.raft.segments.limits import JournalLimits
from coordinator.raft.segments.recovery import create
from coordinator.raft.segments.replay import Progress, is_initialised, read_identity
from coordinator.raft.snapshots import SnapshotLimits, SnapshotMeta, Snapshots
from raftbatch.errors import CannotStart, Corrupt, Fatal, Invariant
from raftbatch.ids import Identity
from raftbatch.world import Lock, World, join

_LOCK, _JOURNAL, _SNAPSHOTS = "lock", "journal", "snapshots"


@dataclass(frozen=True, slots=True)
class StorageLimits:
    """All bounds of a data directory; see the parts.

    Raises:
        ValueError: two of them contradict each other.
    """

    journal: JournalLimits
    snapshots: SnapshotLimits
    retention: RetentionLimits

    def __post_init__(self) -> None:
        if self.snapshots.snapshot_bytes_max != self.journal.snapshot_bytes_max:
            raise ValueError(
                f"snapshot_bytes_max is {self.snapshots.snapshot_bytes_max} for snapshots, but "
                f"{self.journal.snapshot_bytes_max} for the journal's reserve"
            )


def journal_directory(directory: str) -> str:
    """Return where in a data directory the journal is."""
    return join(directory, _JOURNAL)


def snapshots_directory(directory: str) -> str:
    """Return where in a data directory the snapshots are."""
    return join(directory, _SNAPSHOTS)


def lock_path(directory: str) -> str:
    """Return the file of a data directory that its writer locks."""
    return join(directory, _LOCK)


class DataDirectory:
    """An open data directory. Made by `create` and `open`; its methods are the loop's.

    Attributes:
        identity: whose it is.
        journal: entries and hard state.
        snapshots: owned by the snapshot worker; the loop reads `newest` and `all` only.
        snapshot_worker: where everything else about snapshots is done.
    """

    def __init__(
        self,
        world: World,
        limits: StorageLimits,
        lock: Lock,
        journal: Journal,
        snapshots: Snapshots,
        on_failed: Callable[[Fatal], None],
    ) -> None:
        self.identity = journal.identity
        self.journal = journal
        self.snapshots = snapshots
        self.snapshot_worker = world.workers.start("snapshots")
        self._world = world
        self._limits = limits
        self._lock = lock
        self._on_failed = on_failed

    @staticmethod
    def is_initialised(world: World, directory: str) -> bool:
        """Return whether anything of a node's data is there, a part of it lost or not.

        Raises:
            Corrupt: what is there is damaged, so it is no new directory.
            DiskFailed: it cannot be looked at.
        """
        with disk_errors(f"looking into {directory}"):
            if world.files.exists(snapshots_directory(directory)):
                return True
        return is_initialised(world.files, journal_directory(directory))

    @staticmethod
    def whose(world: World, directory: str) -> Identity:
        """Return whose it is, without opening it.

        Raises:
            Corrupt: the journal is damaged.
            CannotStart: there is none.
            DiskFailed: it cannot be read.
        """
        return read_identity(world.files, journal_directory(directory))

    @staticmethod
    def create(
        world: World,
        directory: str,
        identity: Identity,
        limits: StorageLimits,
        founders: Membership | None,
    ) -> None:
        """Begin a data directory, durably; `open` is next.

        Args:
            world: the ports.
            directory: where.
            identity: whose it is.
            limits: bounds.
            founders: the cluster's first membership, this node among them: the log begins with
                it, and there is no moment at which the directory is there without it. None
                for a node that joins: its log is empty, and it waits for a leader.

        Raises:
            CannotStart: it is in use, holds data already, or cannot be made.
            DiskFailed: the disk failed.
        """
        own = founders.get(identity.node_id) if founders is not None else None
        if founders is not None and (own is None or own.incarnation != identity.incarnation):
            raise Invariant(f"{identity} is none of the founders, {founders}")
        lock = claim(world, directory)
        try:
            journal = journal_directory(directory)
            begun = is_initialised(world.files, journal)
            if not begun and DataDirectory.is_initialised(world, directory):
                raise CannotStart(
                    f"{directory} holds snapshots, but no journal: it is not empty. Move it away, "
                    "or put the journal back"
                )
            first = None if founders is None else encode_membership(founders)
            create(world, journal, identity, limits.journal.segment_bytes, first)
        finally:
            lock.release()

    @classmethod
    def open(
        cls,
        world: World,
        directory: str,
        limits: StorageLimits,
        *,
        on_durable: Callable[[int], None],
        on_failed: Callable[[Fatal], None],
        progress: Progress | None = None,
    ) -> DataDirectory:
        """Open it, with all that was acknowledged.

        Blocks for as long as reading the journal and the newest snapshot takes.

        Args:
            world: the ports.
            directory: made by `create`.
            limits: bounds.
            on_durable: see `Journal`.
            on_failed: see `Journal`; also told when a snapshot could not be removed.
            progress: told bytes of the journal read, and in all.

        Raises:
            Corrupt: it is not what was acknowledged.
            CannotStart: it is in use, or no data directory.
            DiskFailed: the disk failed.
        """
        lock = claim(world, directory)
        journal: Journal | None = None
        try:
            journal = Journal(
                world,
                journal_directory(directory),
                limits.journal,
                on_durable=on_durable,
                on_failed=on_failed,
                progress=progress,
            )
            snapshots = Snapshots.open(
                world, snapshots_directory(directory), journal.identity, limits.snapshots
            )
            _reconcile(directory, journal, snapshots)
            return cls(world, limits, lock, journal, snapshots, on_failed)
        except BaseException:
            if journal is None or journal.close():
                lock.release()
            raise

    def retain(self, sending: int | None = None) -> None:
        """Let go of segments and snapshots that are neither needed nor to be kept.

        Called after a snapshot, and now and then, since what is kept for
        inspection ages. A `flush` of the journal must follow.

        Args:
            sending: index of the oldest snapshot on its way to a follower. The
                entries behind it are kept within `transfer_bytes_max`: else each
                transfer would end in the need for the next.
        """
        now_ms = self._world.clock.wall_ms()
        snapshots = [SnapshotSpan(meta.index, meta.file_bytes) for meta in self.snapshots.all]
        spans = self.journal.spans()
        decision = retain(snapshots, spans, now_ms, self._limits.retention)
        is_large = sum(span.bytes for span in spans) > self._limits.retention.transfer_bytes_max
        if sending is None or is_large:
            sending = decision.compact_to_index
        self.journal.compact(min(decision.compact_to_index, sending))
        prune = partial(self.snapshots.prune, decision.base_index)
        self.snapshot_worker.submit(prune, self._has_pruned)

    def close(self) -> None:
        """Close everything, the lock last. Like a crash: see `Journal.close`.

        Where a thread is still stuck in a system call, the lock stays until the
        process has ended, so that no two ever write here.
        """
        ended = [self.snapshot_worker.close(), self.journal.close()]
        if all(ended):
            self._lock.release()

    def _has_pruned(self, future: Future[None]) -> None:
        error = future.exception()
        if error is not None:
            unknown = Invariant(f"pruning snapshots met an error it does not know: {error!r}")
            self._on_failed(error if isinstance(error, Fatal) else unknown)


def claim(world: World, directory: str) -> Lock:
    """Make this process the directory's only writer.

    Raises:
        CannotStart: another is, or the directory cannot be used.
    """
    try:
        world.files.make_directory(directory)
        return world.files.lock(lock_path(directory))
    except BlockingIOError as error:
        raise CannotStart(
            f"{directory} is in use: {error.strerror}. A node needs a data directory of its own"
        ) from None
    except OSError as error:
        raise CannotStart(f"{directory} cannot be used: {error}") from None


def _reconcile(directory: str, journal: Journal, snapshots: Snapshots) -> None:
    """Hold journal and newest snapshot against each other.

    A snapshot that was received is durable before the journal is reset to it; a
    crash between the two is made good here.
    """
    newest = snapshots.newest
    check_no_gap(directory, journal.first_index, newest)
    check_membership(directory, newest)
    if newest and journal.term(newest.index) != newest.term:
        journal.reset(newest.index, newest.term)
        journal.flush()


def check_membership(directory: str, newest: SnapshotMeta | None) -> None:
    """Refuse a newest snapshot of which nobody could say who belongs to the cluster.

    Total. Deterministic.

    Raises:
        Corrupt: it is one.
    """
    if newest is None:
        return
    try:
        decode_membership(newest.config)
    except ValueError as error:
        path = snapshots_directory(directory)
        reason = f"the newest snapshot, at {newest.index}, holds no membership: {error}"
        raise Corrupt(path, 0, reason) from None


def check_no_gap(directory: str, first_index: int, newest: SnapshotMeta | None) -> None:
    """Refuse a journal whose first entry neither begins the log nor follows the newest snapshot.

    The state could not be rebuilt. Total. Deterministic.

    Raises:
        Corrupt: there is such a gap.
    """
    if first_index - 1 > (newest.index if newest else 0):
        raise Corrupt(
            snapshots_directory(directory),
            0,
            f"the journal begins with entry {first_index}, but the newest snapshot "
            f"{f'ends with {newest.index}' if newest else 'is missing'}. Put the missing snapshot "
            "back, or add the node again as a new member",
        )
