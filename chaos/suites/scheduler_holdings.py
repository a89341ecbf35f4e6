"""What a simulated executor holds: batches that wait in its slots, run, or are reported.

As a careful executor would, it starts nothing that it was told to stop, runs no row
that was shed before, holds a batch until its feed says that it is finished or
stopped, and says of none that it is gone before what ran it has died.

What lives here: that bookkeeping, without time and without calls. What must never
live here: how long anything takes (`scheduler_executor`). Called by:
`chaos.suites.scheduler_executor`. Total. Deterministic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from chaos.checkers.scheduler_runs import Run
from coordinator.core.watch import Holding
from coordinator.feed_messages import Assignment, Changes, Current
from raftbatch.kinds import LapseReason, OutcomeKind

Name = tuple[int, int]
"""Batch and fence."""


class Stage(Enum):
    """How far an assignment is."""

    WAITING = 1
    RUNNING = 2
    REPORTING = 3
    """It has run; what came of it is told until the feed says that it is known."""
    STOPPING = 4
    """It is being killed."""


@dataclass(eq=False, slots=True)
class Held:
    """An assignment that takes a slot.

    Attributes:
        given: what the feed said.
        stage: how far it is.
        shed: rows that need not run.
        run: as the checker knows it, once it runs.
        results: of each row that ran; None: it failed as a whole, or has not ended.
    """

    given: Assignment
    stage: Stage = Stage.WAITING
    shed: dict[int, None] = field(default_factory=dict)
    run: Run | None = None
    results: Mapping[int, tuple[OutcomeKind, bytes]] | None = None

    @property
    def name(self) -> Name:
        """Batch and fence."""
        return self.given.batch, self.given.fence

    @property
    def rows(self) -> dict[int, bytes]:
        """The payloads that are to run, by number."""
        pairs = zip(self.given.numbers, self.given.payloads, strict=True)
        return {number: payload for number, payload in pairs if number not in self.shed}


class Holdings:
    """All that one incarnation holds.

    Args:
        instances: batches that run at a time.

    Attributes:
        seen: the highest index that its feed has told of.
        is_draining: whether it gets nothing new, as its feed says.
        is_suspended: whether it gets nothing new until a probe succeeds.
        held: by batch and fence, in the order in which they came.
    """

    def __init__(self, instances: int) -> None:
        self.seen = 0
        self.is_draining = self.is_suspended = False
        self.held: dict[Name, Held] = {}
        self._instances = instances

    def take(self, message: Current | Changes) -> list[tuple[Held, LapseReason | None]]:
        """Take in a message; return what it ends, and why if it lapsed: kill what ran."""
        self.seen = max(self.seen, message.index)
        self.is_draining, self.is_suspended = message.is_draining, message.is_suspended
        ends: list[tuple[Name, LapseReason | None]]
        if isinstance(message, Current):
            ends = [((each.batch, each.fence), None) for each in message.drop]
        else:
            ends = [((each.batch, each.fence), None) for each in message.finished]
            ends += [((each.batch, each.fence), each.reason) for each in message.stop]
        found = self._end(ends)
        for shed in message.shed:
            held = self.held.get((shed.batch, shed.fence))
            if held is not None:
                held.shed.update(dict.fromkeys(shed.numbers))
        for given in message.start:
            self.held.setdefault((given.batch, given.fence), Held(given))
        return found

    def next(self) -> Held | None:
        """Return what is to run now, running from now on; None: nothing can."""
        busy = (Stage.RUNNING, Stage.STOPPING)
        if sum(each.stage in busy for each in self.held.values()) >= self._instances:
            return None
        for each in self.held.values():
            if each.stage is Stage.WAITING:
                each.stage = Stage.RUNNING
                return each
        return None

    def gone(self, held: Held) -> None:
        """Take in that an assignment takes its slot no more."""
        if self.held.get(held.name) is held:
            del self.held[held.name]

    def listed(self) -> tuple[Holding, ...]:
        """Return all, as a heartbeat lists it."""
        busy = (Stage.RUNNING, Stage.STOPPING)
        return tuple([Holding(*name, each.stage in busy) for name, each in self.held.items()])

    def _end(
        self, names: list[tuple[Name, LapseReason | None]]
    ) -> list[tuple[Held, LapseReason | None]]:
        found = []
        for name, reason in names:
            held = self.held.get(name)
            if held is None or held.stage is Stage.STOPPING:
                continue
            if held.stage is Stage.RUNNING:
                held.stage = Stage.STOPPING
            else:
                del self.held[name]
            found.append((held, reason))
        return found
