"""What a data directory must hold, built from what its process said before it died.

A process that keeps a data directory reports, a line each, what it is about to
change and what it was told is durable. From these lines alone this model says
what a directory may hold after any crash: exactly what some prefix of the
changes says, and a prefix that reaches at least as far as the acknowledgements
did; and no older snapshot than the newest acknowledged one.

    opened LSN                             it opened, with that many records, all durable now
    change WHAT LSN TERM INDEX NONCE SIZE  record LSN was asked for, and is not written yet
    durable LSN                            acknowledged: all up to LSN
    begin INDEX TERM NONCE SIZE            a snapshot is about to be written
    snapshot INDEX                         acknowledged: that snapshot

What lives here: the lines and the model. What must never live here: the product's
files. Called by: `chaos.suites.storage`, and whoever reads a process's lines.
Total. Deterministic.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from random import Random

from chaos.suites.journal_model import Violation, check

__all__ = ["Change", "StorageModel", "Violation", "check", "content", "vote_of"]


@lru_cache(maxsize=4096)
def content(nonce: int, size: int) -> bytes:
    """Return the bytes of an entry or snapshot, which its nonce decides."""
    return Random(nonce).randbytes(size)


def vote_of(nonce: int) -> str | None:
    """Return the vote that a nonce decides."""
    return (None, "n1", "n2", "n3")[nonce % 4]


@dataclass(frozen=True, slots=True)
class Change:
    """One record of the journal.

    Attributes:
        what: `append`, `vote`, `keep`, `reset` or `drop`.
        lsn: its place in the sequence.
        term: of the entry, the hard state, or the snapshot that replaces the log.
        index: of the entry, the last one kept, or the snapshot's last; of a drop, the
            highest entry that may be gone.
        nonce: decides the entry's data or the vote.
        size: bytes of the entry's data.
    """

    what: str
    lsn: int
    term: int
    index: int
    nonce: int
    size: int

    def line(self) -> str:
        """Return the line that reports it."""
        return f"change {self.what} {self.lsn} {self.term} {self.index} {self.nonce} {self.size}"


@dataclass(slots=True)
class State:
    """A log: entries behind a base, and the hard state.

    Attributes:
        base: index that a snapshot was installed at; 0 if none ever was.
        base_term: its term.
        entries: all behind it.
        dropped: entries up to this one may be gone.
        term: the current one.
        vote: in it.
    """

    base: int = 0
    base_term: int = 0
    entries: list[Change] = field(default_factory=list)
    dropped: int = 0
    term: int = 0
    vote: str | None = None

    @property
    def last(self) -> int:
        """Index of the last entry."""
        return self.base + len(self.entries)

    def apply(self, change: Change) -> None:
        """Take in one record."""
        match change.what:
            case "append":
                check(change.index == self.last + 1, "entries are appended without gaps")
                self.entries.append(change)
            case "vote":
                self.term, self.vote = change.term, vote_of(change.nonce)
            case "keep":
                check(change.index >= self.base, "a snapshot's entries are not taken back")
                del self.entries[change.index - self.base :]
            case "reset":
                self.base, self.base_term, self.entries = change.index, change.term, []
            case "drop":
                self.dropped = max(self.dropped, change.index)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a snapshot must be."""

    term: int
    nonce: int
    size: int


@dataclass(slots=True)
class StorageModel:
    """All that a process said.

    Attributes:
        records: by LSN, from 1.
        acknowledged: highest LSN that was called durable.
        begun: snapshots that were ever begun, by index.
        snapshot: index of the newest that was called durable; 0 for none.
        lost: how many changes that nobody had acknowledged crashes have taken.
        acknowledgements: how many lines said that something is durable.
    """

    records: list[Change] = field(default_factory=list)
    acknowledged: int = 0
    begun: dict[int, Snapshot] = field(default_factory=dict)
    snapshot: int = 0
    lost: int = 0
    acknowledgements: int = 0

    def take(self, line: str) -> None:
        """Take in one line.

        Raises:
            Violation: what it says must not be.
        """
        match line.split():
            case ["opened", lsn]:
                self._opened(int(lsn))
            case ["change", what, *numbers]:
                change = Change(what, *map(int, numbers))
                # A vote that nobody has written yet may be replaced by a later one.
                check(self.acknowledged < change.lsn <= len(self.records) + 1, f"LSN of {change}")
                self.records[change.lsn - 1 :] = [change]
            case ["durable", lsn]:
                check(self.acknowledged < int(lsn) <= len(self.records), f"`{line}`: out of order")
                self.acknowledged = int(lsn)
                self.acknowledgements += 1
            case ["begin", index, *numbers]:
                self.begun[int(index)] = Snapshot(*map(int, numbers))
            case ["snapshot", index]:
                check(int(index) > self.snapshot, f"`{line}`: out of order")
                self.snapshot = int(index)
                self.acknowledgements += 1
            case _:
                raise AssertionError(f"a line of no form: {line!r}")

    def state(self) -> State:
        """Return what all records together say."""
        state = State()
        for change in self.records:
            state.apply(change)
        return state

    def copy(self) -> StorageModel:
        """Return another that can be told other things."""
        return StorageModel(
            self.records[:], self.acknowledged, dict(self.begun), self.snapshot, self.lost
        )

    def _opened(self, lsn: int) -> None:
        """A directory was opened again: it has all that was acknowledged, and no more than all."""
        check(lsn >= self.acknowledged, f"LSN {self.acknowledged} acknowledged, {lsn} recovered")
        check(lsn <= len(self.records), f"{len(self.records)} records asked for, {lsn} recovered")
        self.lost += len(self.records) - lsn
        del self.records[lsn:]
        self.acknowledged = lsn
