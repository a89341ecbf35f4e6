"""What happens to batches, counted as this node applies it.

Every node applies the same entries, so every node counts the same: these are facts of
the cluster, seen from here since this process began. What stood in the node's log by
then is not counted, as it was counted by the process before.

What lives here: a listener of the replica that counts a few things of each entry, and
nothing of each request. What must never live here: how it is shown (`rpc.metrics`).
Called by: the replica, behind all other listeners. One thread: the loop's.
"""

from __future__ import annotations

from coordinator.core.effects import Applied, Revoked, Verdict, Verdicts
from coordinator.core.state import State
from coordinator.raft.spread import MS, Spread
from coordinator.replica import Replica
from raftbatch import records as r
from raftbatch.kinds import LapseReason, Release

_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
"""Powers of two, as batch sizes are chosen."""

_QUEUE_MS = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 60_000, 600_000)
"""From below the shortest window to what waits for an executor to come."""

_INFER_NS = tuple(
    [ms * MS for ms in (1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000)]
)
"""Up to the execution timeout by default."""


class Measures:
    """See the module's docstring. A `replica.Listener`.

    Args:
        replica: whose state is looked at.
        last_index: of the newest entry that the node's log held when it was opened.

    Attributes:
        sealed: batches, by why their window was sealed.
        lapsed: assignments that were taken back, by why.
        rows: of each batch, when it was sealed.
        queue_ms: log time from the admission of a batch's first request to its first
            assignment.
        infer_ns: how long the model ran, by the executor's word, of each batch.
    """

    def __init__(self, replica: Replica, last_index: int) -> None:
        self.sealed = dict.fromkeys(Release, 0)
        self.lapsed = dict.fromkeys(LapseReason, 0)
        self.rows = Spread(_ROWS)
        self.queue_ms = Spread(_QUEUE_MS)
        self.infer_ns = Spread(_INFER_NS)
        self._replica = replica
        self._last_index = last_index

    @property
    def is_past(self) -> bool:
        """Whether all is applied that the log held when it was opened."""
        return self._replica.index >= self._last_index

    def applied(self, index: int, _term: int, entry: r.Entry, applied: Applied) -> None:
        """Count what an entry did."""
        if index <= self._last_index:
            return
        state = self._replica.state
        for record, reply in zip(entry.records, applied.replies, strict=True):
            if isinstance(reply, Verdicts) or reply.verdict is not Verdict.OK:
                continue
            if type(record) is r.Seal:
                self._seal(state, record)
            elif type(record) is r.Assign:
                self._assign(state, record)
            elif type(record) is r.Complete and record.last:
                self.infer_ns.add(record.infer_ns)
        for effect in applied.effects:
            if type(effect) is Revoked:
                self.lapsed[effect.reason] += 1

    def installed(self) -> None:
        """Count nothing of what a snapshot brings."""

    def _seal(self, state: State, record: r.Seal) -> None:
        batch = state.batches.get(record.batch)
        if batch is not None:
            self.sealed[record.reason] += 1
            self.rows.add(batch.rows)

    def _assign(self, state: State, record: r.Assign) -> None:
        batch = state.batches.get(record.batch)
        if record.attempt != 1 or batch is None or batch.root != batch.number:
            return  # again, or the half of one
        first = state.requests.get(min(batch.members))
        if first is not None:
            self.queue_ms.add(max(0, state.now_ms - first.at_ms))
