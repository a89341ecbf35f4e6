"""Starts what dies again: after a pause, which grows with each death in a row.

What lives here: when. What must never live here: how (`cluster`). Called by: `raftbatch up`, with
the time. Deterministic, for a cluster that is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from raftbatch.backoff import backoff_s
from raftbatch.errors import CannotStart
from raftbatch.world import Clock

PAUSE_S, PAUSE_S_MAX = 1.0, 30.0
STEADY_S = 60.0
"""Whoever lives so long begins anew with a short pause."""


class Watched(Protocol):
    """What a local cluster is to a supervisor."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of the nodes."""
        ...

    @property
    def executors(self) -> tuple[str, ...]:
        """Names of the executors."""
        ...

    def ending(self, name: str) -> str:
        """Return how a process ended; empty while it has not."""
        ...

    def restart(self, name: str) -> None:
        """Start it again. Raises CannotStart."""
        ...


@dataclass(frozen=True, slots=True)
class Died:
    """A process has ended.

    Attributes:
        name: its name.
        why: how, and what it said last.
        pause_s: after so long it is started again.
    """

    name: str
    why: str
    pause_s: float


@dataclass(frozen=True, slots=True)
class Restarted:
    """A process was started again.

    Attributes:
        name: its name.
    """

    name: str


class Supervisor:
    """See the module's docstring.

    Args:
        cluster: all of which runs.
        clock: the time.
    """

    def __init__(self, cluster: Watched, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._deaths: dict[str, int] = {}
        self._begun_s: dict[str, float] = {}
        self._due_s: dict[str, float] = {}

    def look(self) -> list[Died | Restarted]:
        """Return what has happened since the last look, and start what is due."""
        now_s = self._clock.monotonic_ns() / 1e9
        found: list[Died | Restarted] = []
        for name in (*self._cluster.nodes, *self._cluster.executors):
            if name in self._due_s:
                if now_s >= self._due_s[name]:
                    found.append(self._again(name, now_s))
            elif why := self._cluster.ending(name):
                if now_s - self._begun_s.get(name, now_s) >= STEADY_S:
                    self._deaths.pop(name, None)
                found.append(self._died(name, why, now_s))
        return found

    def _again(self, name: str, now_s: float) -> Died | Restarted:
        del self._due_s[name]
        try:
            self._cluster.restart(name)
        except CannotStart as error:
            return self._died(name, str(error), now_s)
        self._begun_s[name] = now_s
        return Restarted(name)

    def _died(self, name: str, why: str, now_s: float) -> Died:
        deaths = self._deaths[name] = self._deaths.get(name, 0) + 1
        pause_s = backoff_s(deaths, PAUSE_S, PAUSE_S_MAX, drawn=1.0)
        self._due_s[name] = now_s + pause_s
        return Died(name, why, pause_s)
