"""How clients and executors find their way: whom to ask, and when to ask again.

What lives here: a caller's idea of who leads, and what an error means for it. What
must never live here: what is asked. Called by: clients and executors of the
scheduler suite.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

from chaos.worlds.calls import Act, Calls, Lost
from coordinator.api import Api
from raftbatch.errors import (
    Draining,
    NoLeader,
    NoSpace,
    NotLeader,
    OutcomeUnknown,
    Overloaded,
    QuotaExceeded,
    RaftbatchError,
)
from raftbatch.ids import NodeId

T = TypeVar("T")


AGAIN = (NotLeader, NoLeader, Draining, Overloaded, QuotaExceeded, NoSpace, OutcomeUnknown)
"""Answers after which the same may be asked again."""

_WAIT_S = (0.005, 0.05)
_WAIT_S_MAX = 0.5  # whatever the node says: a run is short


class Caller:
    """See the module's docstring.

    Args:
        calls: of the run.
        name: of the caller.
        nodes: whom there is to ask.
        rng: its own.

    Attributes:
        node: whom it takes for the leader.
    """

    def __init__(self, calls: Calls[Api], name: str, nodes: Sequence[NodeId], rng: Random) -> None:
        self.calls = calls
        self.name = name
        self.node = rng.choice(nodes)
        self._nodes = nodes
        self._rng = rng

    def any_node(self) -> NodeId:
        """Return a node of chance."""
        return self._rng.choice(self._nodes)

    async def ask(
        self, what: str, act: Act[Api, T], *, node: NodeId | None = None, timeout_s: float = 0.0
    ) -> T:
        """Ask once: a given node, or who seems to lead; learn from what it says.

        Raises:
            RaftbatchError, Lost: see `Calls.ask`.
        """
        asked = node or self.node
        try:
            return await self.calls.ask(self.name, asked, what, act, timeout_s)
        except (RaftbatchError, Lost) as error:
            if node is None or isinstance(error, NotLeader):
                self.learn(error)
            raise

    def learn(self, error: RaftbatchError | Lost) -> None:
        """Think of another leader, where an error says that this is none."""
        if isinstance(error, NotLeader):
            hinted = NodeId(error.leader.partition(":")[0])
            self.node = hinted if hinted in self._nodes else self.any_node()
        elif isinstance(error, NoLeader | Draining | OutcomeUnknown | Lost):
            self.node = self.any_node()

    def wait_s(self, error: RaftbatchError | Lost) -> float:
        """Return how long to wait before the next try."""
        if isinstance(error, NotLeader) and error.leader and self._rng.random() < 0.8:
            return 0.0
        least_s = 0.0 if isinstance(error, Lost) else error.retry_after_ms / 1000
        return min(_WAIT_S_MAX, least_s) + self._rng.uniform(*_WAIT_S)


def may_have_happened(error: RaftbatchError | Lost) -> bool:
    """Return whether what was asked may have taken effect all the same."""
    return not error.definite
