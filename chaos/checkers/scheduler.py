"""The scheduler's promises, held against every entry that any replica applies.

Each index of the log is judged once, when the first replica has applied it, by a
model of its own (`scheduler_model`) that knows the rules and none of the product's
code; what the others make of that index must be the same, to the byte. Runs are
known to `scheduler_runs`, what clients saw to `scheduler_history`.

A broken promise is noted, and ends the run after the event: raised within the
product, it would be taken for its own failure. What lives here: what replicas say,
and the judgement at the end. What must never live here: how nodes are run. Called
by: `chaos.suites.scheduler`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Protocol

from chaos.checkers.scheduler_history import ClientHistory
from chaos.checkers.scheduler_runs import RunHistory
from coordinator.core.effects import Applied
from coordinator.core.state import State
from raftbatch.ids import NodeId
from raftbatch.records import Entry


class Watched(Protocol):
    """What the checker needs of a replica."""

    state: State
    index: int


class Watch(Protocol):
    """What `begin` returns: one of a replica's listeners, to be its last."""

    def applied(self, index: int, term: int, entry: Entry, applied: Applied) -> None:
        """Judge an entry that this replica has just applied."""

    def installed(self) -> None:
        """Judge the state of a snapshot that this replica now has."""


class LiveExecutor(Protocol):
    """What `settled` needs of a simulated executor.

    Attributes:
        executor: its id.
        incarnation: the one it lives under; 0: it has none.
        holds: batch and fence of all that takes one of its slots.
    """

    @property
    def executor(self) -> str: ...  # noqa: D102
    @property
    def incarnation(self) -> int: ...  # noqa: D102
    @property
    def holds(self) -> tuple[tuple[int, int], ...]: ...  # noqa: D102


class SchedulerChecker:
    """See the module's docstring.

    Args:
        answer: the pure function that every model of the run computes: the result for
            a payload; None: that payload fails wherever it runs.
        digest_every: how many indexes lie between two at which whole states are compared.
        check_every: how many entries of one replica lie between two looks at its invariants.
        late_ms_max: by how much log time an outcome `expired` may follow its deadline
            once all is healed.

    Attributes:
        violation: the first broken promise.
        counts: what was seen; goes into the last line of a run.
        history: what clients saw.
        runs: what executors ran.
    """

    def __init__(
        self,
        answer: Callable[[bytes], bytes | None],
        *,
        digest_every: int = 64,
        check_every: int = 32,
        late_ms_max: int = 2_000,
    ) -> None:
        self.violation: str | None = None
        self.counts: Counter[str] = Counter()
        self.history: ClientHistory
        self.runs: RunHistory
        raise NotImplementedError

    def complain(self, promise: str) -> None:
        """Note a broken promise; the first ends the run."""

    def begin(self, node: NodeId, replica: Watched) -> Watch:
        """Watch a replica, from before it has applied anything; for each life of a node."""
        raise NotImplementedError

    def end(self, node: NodeId) -> None:
        """Forget the replica of a node that died."""

    def healed(self) -> None:
        """Take in that no fault is left from now on: deadlines are to be answered in time."""

    def settled(
        self, states: Mapping[NodeId, State], executors: Mapping[str, LiveExecutor]
    ) -> str | None:
        """Return what is still open; None: nothing, and all is as it must be then.

        To be asked again and again in the liveness phase. Once it says None, replicas are
        equal, every request that was admitted has its outcome, and every slot is where both
        the state and the executor say.
        """
        raise NotImplementedError

    def judge(self) -> None:
        """Judge what clients and executors saw, once nothing is under way any more."""
