"""What a node can be asked, whichever door it comes through.

Clients' calls are in `api_requests` and `api_names`, executors' in `api_executors`,
operators' here. All of them raise only errors of `raftbatch.errors`; those name the
leader by its node id, as the log's do, since doors know addresses.

What lives here: operators' calls, how the node stands, and the beginning and end of
it all. What must never live here: a message's form, or a decision. Called by: doors;
the replica, as a listener, behind the leader. One thread: the loop's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from coordinator.api_base import ApiConfig, Leading, Name, Reading
from coordinator.api_executors import ExecutorsApi, Report
from coordinator.api_requests import RequestsApi
from coordinator.core.effects import Applied, ModelChanged
from coordinator.submitting import Answer
from raftbatch import records as r
from raftbatch.settings import Model, Policy

__all__ = ["Answer", "Api", "ApiConfig", "Leading", "Name", "Reading", "Report", "Standing"]


@dataclass(frozen=True, slots=True)
class Standing:
    """How this node's copy of the scheduler stands, at one index.

    Attributes:
        index: of the last entry applied.
        term: of the last Lead.
        leader: node named by it.
        at_ms: log time.
        digest: of all that was applied.
        requests: without an outcome.
        windows: that are not empty.
        batches: sealed, and not done with.
        outcomes: that are known.
        executors: live ones.
        models: versions, those that are being deleted too.
        quarantined: requests set aside.
        counters: totals since the cluster began, by name.
        waits: calls that wait here for an outcome.
        tails: feeds tailed from here.
    """

    index: int
    term: int
    leader: str
    at_ms: int
    digest: bytes
    requests: int
    windows: int
    batches: int
    outcomes: int
    executors: int
    models: int
    quarantined: int
    counters: dict[str, int]
    waits: int
    tails: int


class Api(RequestsApi, ExecutorsApi):
    """See the module's docstring; its parts are made by the composition root."""

    async def put_model(self, model: Model) -> None:
        """Add a model version, or change its settings.

        Raises:
            InvalidRequest: definite; what a batch may hold cannot shrink while requests wait.
            Draining: definite; it is being deleted.
            Overloaded: definite; there are too many.
            RaftbatchError: the leader's.
        """
        await self._carry_out(r.PutModel(model))

    async def delete_model(self, name: str, version: str) -> None:
        """Delete a model version: its waiting requests fail, running ones finish.

        Raises:
            UnknownModel: definite.
            InvalidRequest: definite; the names are none.
            RaftbatchError: the leader's.
        """
        await self._carry_out(r.DeleteModel(name, version))

    async def put_policy(self, policy: Policy) -> None:
        """Change the cluster's limits. Raises RaftbatchError, the leader's."""
        await self._carry_out(r.PutPolicy(policy))

    async def release_quarantined(self, numbers: Sequence[int]) -> int:
        """Drop requests from quarantine, and return how many were there.

        Raises:
            InvalidRequest: definite; the numbers are none, or one stands twice.
            RaftbatchError: the leader's.
        """
        return await self._carry_out(r.ReleaseQuarantined(tuple(numbers)))

    def standing(self) -> Standing:
        """Return how this node stands."""
        state = self._replica.state
        names = state.counters.__slots__
        return Standing(
            self._replica.index,
            state.term,
            state.leader,
            state.now_ms,
            state.digest,
            len(state.requests),
            len(state.windows),
            len(state.batches),
            len(state.ended),
            len(state.executors),
            len(state.models),
            len(state.quarantine),
            dict(zip(names, state.counters.values(), strict=True)),
            len(self._waits),
            self._feed.tails,
        )

    def close(self) -> None:
        """Take nothing more, and tell all who wait: the node stops. What was proposed goes on."""
        self._is_closed = True
        error = self._draining()
        self._waits.end(error)
        self._index_waits.end(error)

    # As a listener of the replica.

    def applied(self, index: int, _term: int, _entry: r.Entry, applied: Applied) -> None:
        """Tell those who wait for what an entry did."""
        if self._newest is not None and any(
            type(effect) is ModelChanged for effect in applied.effects
        ):
            self._newest = None
        self._waits.applied(self._replica.state, applied)
        self._index_waits.reached(index)

    def installed(self) -> None:
        """Look up again whatever somebody waits for."""
        self._newest = None
        self._waits.installed(self._replica.state)
        self._index_waits.reached(self._replica.index)
