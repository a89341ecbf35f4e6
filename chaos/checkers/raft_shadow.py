"""What a node's journal must hold, now and after any death: the oracle behind the checks.

A shadow is told of every change of its node's journal as it is made, and folds
them twice: all of them (`memory`), and those that were called durable
(`durable`). It outlives processes. What a process recovers must be `durable`,
and any number of the changes after it, in order.

What lives here: the two models of one node's log. What must never live here: a
rule of Raft. Called by: `chaos.checkers.raft`. Deterministic.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from coordinator.raft.journal import Journal
from coordinator.raft.segments.layout import Entry, HardState, Kind
from coordinator.raft.segments.writer import Operation
from raftbatch.ids import NodeId

Complain = Callable[[str], None]
"""Told of a broken promise, in words; the first one told ends the run."""


class LogModel:
    """A log: entries behind a base, and the hard state. Compaction does not shorten it.

    Attributes:
        base: index behind which it begins: a snapshot's, or 0.
        base_term: the term there.
        entries: all behind it.
        configs: those of them that hold a membership.
        hard_state: term and vote.
    """

    def __init__(self) -> None:
        self.base = 0
        self.base_term = 0
        self.entries: list[Entry] = []
        self.configs: list[Entry] = []
        self.hard_state = HardState(0, None)

    @property
    def last(self) -> int:
        """Index of the last entry."""
        return self.base + len(self.entries)

    def entry(self, index: int) -> Entry | None:
        """Return the entry at an index, if it is behind the base."""
        return self.entries[index - self.base - 1] if self.base < index <= self.last else None

    def term(self, index: int) -> int | None:
        """Return the term at an index from the base on."""
        if index == self.base:
            return self.base_term
        entry = self.entry(index)
        return None if entry is None else entry.term

    def apply(self, change: Operation) -> None:
        """Take in a change."""
        match change.kind:
            case Kind.ENTRY:
                self.entries.append(Entry(change.index, change.term, change.data))
            case Kind.CONFIG:
                entry = Entry(change.index, change.term, change.data, is_config=True)
                self.entries.append(entry)
                self.configs.append(entry)
            case Kind.STATE:
                self.hard_state = HardState(
                    change.term, NodeId(change.data.decode("ascii")) if change.data else None
                )
            case Kind.KEEP:
                del self.entries[max(change.index - self.base, 0) :]
                self.configs = [each for each in self.configs if each.index <= change.index]
                if change.index < self.base:
                    self.base, self.base_term = change.index, change.term
            case Kind.RESET:
                self.base, self.base_term = change.index, change.term
                self.entries.clear()
                self.configs.clear()

    def copy(self) -> LogModel:
        """Return another that is equal."""
        twin = LogModel()
        twin.base, twin.base_term, twin.hard_state = self.base, self.base_term, self.hard_state
        twin.entries, twin.configs = list(self.entries), list(self.configs)
        return twin


class Shadow:
    """The models of the journal of one life of a node. See the module's docstring.

    Args:
        complain: see `Complain`.
        incarnation: which life.
        founders: the first membership, with which the journal of a founder begins.

    Attributes:
        incarnation: which life.
        memory: what the living process takes its log to be.
        durable: what no power cut may take.
        lsn: up to which changes are durable.
        snapshot: index of the newest snapshot known to be durable: it stands for all before.
    """

    def __init__(self, complain: Complain, incarnation: int, founders: bytes | None) -> None:
        self.incarnation = incarnation
        self.memory = LogModel()
        self.durable = LogModel()
        self.lsn = 0
        if founders is not None:
            self.lsn = 1
            self.durable.hard_state = HardState(1, None)
            self.durable.apply(Operation(Kind.CONFIG, 1, 1, 1, founders))
            self.memory = self.durable.copy()
        self.snapshot = 0
        self._complain = complain
        self._pending: deque[Operation] = deque()

    def open(self, journal: Journal, changed: Callable[[Operation], None]) -> None:
        """Hold what a process recovered against what it must have, and watch what it changes.

        Args:
            journal: just opened.
            changed: told of each change, after `memory` has it.
        """
        recovered = journal.durable
        if recovered < self.lsn:
            self._complain(f"changes up to {self.lsn} were durable, but {recovered} are left")
        self._rise(recovered)
        self._pending.clear()
        self.lsn = recovered
        self.memory = self.durable.copy()
        for operation in (*journal._groups, *journal.waiting):
            self._add(operation)  # the journal was reset to a snapshot
        found = (journal.last_index, journal.last_term, journal.hard_state)
        memory = self.memory
        wanted = (memory.last, memory.term(memory.last), memory.hard_state)
        if found != wanted:
            self._complain(f"recovered is {found}, but it must be {wanted}")
        for name in ("append", "set_hard_state", "truncate", "reset"):
            method = getattr(journal, name)
            setattr(journal, name, partial(self._call, journal, method, changed))

    def catch_up(self, journal: Journal) -> None:
        """Take in how far the journal says it is durable."""
        if journal.durable < self.lsn:
            self._complain(f"durable fell from {self.lsn} to {journal.durable}")
        if journal.durable > self.lsn:
            self._rise(journal.durable)

    def holds(self, index: int, term: int) -> bool:
        """Return whether the entry there is durable and was not taken back."""
        return index <= self.snapshot or (
            self.memory.term(index) == term and self.durable.term(index) == term
        )

    def _call(
        self,
        journal: Journal,
        method: Callable[..., int],
        changed: Callable[[Operation], None],
        *args: Any,
        **options: Any,
    ) -> int:
        """Make a change, and note what was queued for it."""
        lsn = method(*args, **options)
        newest = self._pending[-1] if self._pending else None
        queued = journal.waiting[-1] if journal.waiting else None
        if queued is not None and queued is not newest:  # else nothing was changed
            self._add(queued)
            changed(queued)
        return lsn

    def _add(self, operation: Operation) -> None:
        while self._pending and self._pending[-1].lsn >= operation.lsn:
            self._pending.pop()  # a hard state that stands for one nobody has written
        self._pending.append(operation)
        self.memory.apply(operation)

    def _rise(self, lsn: int) -> None:
        pending = self._pending
        while pending and pending[0].lsn <= lsn:
            self.durable.apply(pending.popleft())
        self.lsn = lsn
