"""What a journal must hold: the trivial model it is held against.

The model is the list of all records by LSN, and how many of them were
acknowledged. Whatever happened, a journal that opens again must hold exactly
what some prefix of that list says, and the prefix must reach at least as far
as the acknowledgements did.

What lives here: the model. What must never live here: the journal. Called by:
`chaos.suites.journal`. Total. Deterministic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from coordinator.raft.segments.layout import Entry, HardState


class Violation(AssertionError):
    """The journal broke a promise."""


def check(condition: bool, promise: str) -> None:
    """Raise `Violation` unless the condition holds; unlike `assert`, also under -O."""
    if not condition:
        raise Violation(promise)


@dataclass(slots=True)
class Model:
    """What the log is, by LSN.

    Attributes:
        records: one change each: a function from state to state; the first has LSN 1.
        acknowledged: highest LSN that was called durable.
        compacted: highest index that was said to be replaced by a snapshot.
    """

    records: list[Callable[[State], State]] = field(default_factory=list)
    acknowledged: int = 0
    compacted: int = 0

    def state(self) -> State:
        """Return what all records together say."""
        state = State(0, 0, (), HardState(0, None))
        for lsn, record in enumerate(self.records, 1):
            state = record(state).stamped(lsn)
        return state


@dataclass(frozen=True, slots=True)
class State:
    """A log: entries behind a base, each with the LSN of its record (0: not stamped yet)."""

    base: int
    base_term: int
    entries: tuple[tuple[int, Entry], ...]
    hard_state: HardState

    @property
    def last(self) -> int:
        """Index of the last entry."""
        return self.base + len(self.entries)

    def term(self, index: int) -> int:
        """Term at an index from base to last."""
        return self.entries[index - self.base - 1][1].term if index > self.base else self.base_term

    def stamped(self, lsn: int) -> State:
        """Return the state with the newest entry's LSN filled in."""
        if self.entries and self.entries[-1][0] == 0:
            entries = (*self.entries[:-1], (lsn, self.entries[-1][1]))
            return State(self.base, self.base_term, entries, self.hard_state)
        return self

    def durable_index(self, lsn: int) -> int:
        """Index up to which every entry has a record at or below `lsn`."""
        index = self.base
        for stamp, _ in self.entries:
            if stamp > lsn:
                break
            index += 1
        return index


def append(term: int, data: bytes, state: State) -> State:
    """Add an entry. Its LSN is stamped later."""
    entry = Entry(state.last + 1, term, data)
    return State(state.base, state.base_term, (*state.entries, (0, entry)), state.hard_state)


def keep(index: int, state: State) -> State:
    """Take back the entries above an index."""
    kept = state.entries[: index - state.base]
    return State(state.base, state.base_term, kept, state.hard_state)


def reset(index: int, term: int, state: State) -> State:
    """Begin anew behind a snapshot."""
    return State(index, term, (), state.hard_state)


def vote(hard_state: HardState, state: State) -> State:
    """Change the hard state."""
    return State(state.base, state.base_term, state.entries, hard_state)


def nothing(state: State) -> State:
    """Change nothing that the model knows of."""
    return state
