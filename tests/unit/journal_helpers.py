"""A journal on a simulated disk, driven by hand."""

from __future__ import annotations

from random import Random

from chaos.suites.journal_run import DIRECTORY, IDENTITY, LIMITS
from chaos.worlds.disk import SimDisk
from chaos.worlds.stepped import SimWorld
from coordinator.raft.journal import Journal
from coordinator.raft.segments.layout import Entry, segment_name
from coordinator.raft.segments.limits import JournalLimits
from coordinator.raft.segments.recovery import create
from coordinator.raft.segments.replay import is_initialised
from raftbatch.errors import Fatal
from raftbatch.world import join

__all__ = ["DIRECTORY", "IDENTITY", "LIMITS", "Bench"]


class Bench:
    """A disk, and the journal that is open on it.

    Attributes:
        durable: every value that `on_durable` was told.
        failures: every error that `on_failed` was told.
        raising: what `on_durable` raises after that, if anything.
    """

    def __init__(self, limits: JournalLimits = LIMITS, capacity: int = 4 << 20) -> None:
        self.disk = SimDisk(Random(1), capacity)
        self.limits = limits
        self.durable: list[int] = []
        self.raising: type[Exception] | None = None
        self.failures: list[Fatal] = []
        self.world = SimWorld(1, self.disk)
        self.journal = self.open()

    def open(self) -> Journal:
        """Open a journal in a new process, or begin it."""
        self.world = SimWorld(1, self.disk)
        if not is_initialised(self.disk, DIRECTORY):
            create(self.world, DIRECTORY, IDENTITY, self.limits.segment_bytes)
        self.journal = Journal(
            self.world,
            DIRECTORY,
            self.limits,
            on_durable=self._has_become_durable,
            on_failed=self.failures.append,
        )
        return self.journal

    def reopen(self, power: bool = False) -> Journal:
        """Kill the process, perhaps with the power, and open anew."""
        self.crash(power)
        return self.open()

    def crash(self, power: bool = False) -> None:
        """Kill the process; the disk lives on."""
        self.disk.fault = None
        self.disk.crash(power)

    def write(self, *data: bytes, term: int = 1) -> None:
        """Append entries and see them durable, in one group."""
        for each in data:
            self.journal.append(term, each)
        self.settle()

    def settle(self) -> None:
        """End the turn, and let the workers finish."""
        self.journal.flush()
        self.world.workers.run_all()

    def read(self, first: int, bytes_max: int = 1 << 20) -> list[bytes]:
        """Return the data of entries from disk."""
        found: list[tuple[Entry, ...]] = []
        self.journal.read(first, bytes_max, lambda future: found.append(future.result()))
        self.world.workers.run_all()
        return [entry.data for entry in found[0]]

    def segment(self, seq: int) -> str:
        """Return a segment's path."""
        return join(DIRECTORY, segment_name(seq))

    def _has_become_durable(self, lsn: int) -> None:
        self.durable.append(lsn)
        if self.raising:
            raise self.raising(lsn)
