"""Linearizable reads: proof that this node still led after the read was asked for.

A read is answered with the commit index of the moment it was asked, once a
majority has answered a heartbeat round that began later. Before an entry of the
leader's own term is committed it is not answered: the commit index may be behind
what earlier leaders acknowledged.

What lives here: reads that wait. What must never live here: sending a round
(`replication`), or applying. Called by: `core`. Deterministic.
Source: thesis, 6.4.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from coordinator.raft.standing import Standing

Answer = Callable[[int | None], None]
"""Told the index to have applied before reading, or None: this node leads no more."""


@dataclass(frozen=True, slots=True)
class _Read:
    round: int
    index: int
    answer: Answer


class Reads:
    """Reads that wait for their round. See the module's docstring."""

    def __init__(self, standing: Standing) -> None:
        self._standing = standing
        self._waiting: list[_Read] = []

    @property
    def may_be_asked(self) -> bool:
        """Whether an entry of the leader's own term is committed."""
        standing = self._standing
        return standing.log.term(standing.commit) == standing.term

    @property
    def newest_round(self) -> int:
        """The latest round that a read waits for; 0 for none."""
        return self._waiting[-1].round if self._waiting else 0

    def ask(self, round_: int, answer: Answer) -> None:
        """Wait for a round that begins later."""
        self._waiting.append(_Read(round_, self._standing.commit, answer))

    def answered(self, round_: int) -> None:
        """Answer the reads whose round, up to this one, a majority has answered."""
        ready = [read for read in self._waiting if read.round <= round_]
        self._waiting = [read for read in self._waiting if read.round > round_]
        for read in ready:
            read.answer(read.index)

    def fail(self) -> None:
        """Answer all that wait: this node leads no more."""
        waiting, self._waiting = self._waiting, []
        for read in waiting:
            read.answer(None)
