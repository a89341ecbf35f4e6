"""What all parts of the api stand on: the node's own parts, bounds, and asking the leader.

What lives here: that. What must never live here: a call of somebody's. Called by:
`api` and its parts. One thread: the loop's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from coordinator.answers import error_of
from coordinator.core.effects import Verdict, Verdicts
from coordinator.core.watch import Holding
from coordinator.feed import Feed
from coordinator.loads import Loads
from coordinator.proposer import Admission, Done, Landed
from coordinator.replica import Replica
from coordinator.waits import IndexWaits, OutcomeWaits
from raftbatch import records as r
from raftbatch.errors import Draining, Invariant, RaftbatchError

Name = tuple[str, str]
"""Tenant and request id."""


class Leading(Protocol):
    """What is asked of this node's leader part; see `coordinator.leader`."""

    @property
    def is_ready(self) -> bool:
        """Whether it leads, and may admit."""
        ...

    async def ready(self) -> None:
        """Return once it is; raises NotLeader, NoLeader or NoSpace, definite."""
        ...

    def admit(self, admission: Admission, done: Done) -> None:
        """Propose a request."""
        ...

    def admit_all(self, admissions: Sequence[Admission], dones: Sequence[Done]) -> bool:
        """Propose requests, if surely all may be admitted; return whether that was done."""
        ...

    def propose(self, record: r.Record, done: Done) -> None:
        """Propose any other record."""
        ...

    def heartbeat(
        self, executor: str, incarnation: int, tailed_index: int, holdings: Sequence[Holding]
    ) -> None:
        """Take in that an executor lives."""
        ...


class Reading(Protocol):
    """What is asked of the replicated log."""

    async def barrier(self) -> int:
        """Return once all that was acknowledged before is applied here."""
        ...


@dataclass(frozen=True, slots=True)
class ApiConfig:
    """Bounds of the api.

    Attributes:
        submissions_max: requests of one call.
        names_max: ids of one call to cancel, acknowledge or forget.
        waits_max: calls that wait for an outcome at one time, a few hundred bytes each.
        index_waits_max: calls that wait for an index; each is looked at when one is reached. Not
            less than the calls of all clients: each that was handed on waits for its own.
        timeout_ms_max: the longest that one call waits for an outcome.
        find_ms: how long a call waits, of its own time, for a request that this node does not
            know yet: for its ticket's index, or for the leader's word that there is none.
    """

    submissions_max: int = 4096
    names_max: int = 4096
    waits_max: int = 100_000
    index_waits_max: int = 5000
    timeout_ms_max: int = 3_600_000
    find_ms: int = 2000


class ApiBase:
    """See the module's docstring.

    Args:
        replica: this node's.
        leader: this node's leader part, whether it leads or not.
        log: this node's.
        feed: this node's.
        node: its name, for messages.
        config: bounds.

    Attributes:
        refused: requests that got an error instead of a ticket, by its slug.
        loads: of executors, where this node leads.
    """

    def __init__(
        self,
        replica: Replica,
        leader: Leading,
        log: Reading,
        feed: Feed,
        node: str,
        config: ApiConfig | None = None,
    ) -> None:
        self._replica = replica
        self._leader = leader
        self._log = log
        self._feed = feed
        self._node = node
        self._config = config or ApiConfig()
        self._waits = OutcomeWaits(self._config.waits_max)
        self._index_waits = IndexWaits(self._config.index_waits_max)
        self.refused: dict[str, int] = {}
        self.loads = Loads()
        self._newest: dict[str, str] | None = None  # version by model, once one is asked for
        self._is_closed = False

    def _check_open(self) -> None:
        if self._is_closed:
            raise self._draining()

    def _draining(self) -> Draining:
        return Draining(f"{self._node} stops: ask another node")

    async def _propose(self, record: r.Record) -> Landed | Verdicts:
        """Have a record proposed, and return what `apply` did with it.

        Raises:
            RaftbatchError: the leader's, definite or not.
        """
        self._check_open()
        if not self._leader.is_ready:
            await self._leader.ready()
            self._check_open()
        landed: asyncio.Future[Landed | Verdicts | RaftbatchError]
        landed = asyncio.get_running_loop().create_future()

        def done(result: Landed | Verdicts | RaftbatchError) -> None:
            if not landed.done():  # the caller may have gone away
                landed.set_result(result)

        self._leader.propose(record, done)
        result = await landed
        if isinstance(result, RaftbatchError):
            raise result
        return result

    async def _carry_out(self, record: r.Record) -> int:
        """Have a record proposed and done; return the value that it made.

        Raises:
            RaftbatchError: the leader's, or what `apply` has against it.
        """
        landed = await self._propose(record)
        if not isinstance(landed, Landed):
            raise Invariant(f"a {type(record).__name__} landed in columns")
        if landed.verdict not in (Verdict.OK, Verdict.EMPTY):
            raise error_of(landed.verdict, landed.message, landed.retry_after_ms)
        return landed.value
