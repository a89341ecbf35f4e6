"""What executors ask of a node: to join, to report, to be heard, and what they are to hold.

Reports go to the leader; a feed is tailed from any node. A report for an attempt that
was over at an index this node has applied is over for ever, and is answered so by any
node; an attempt that it has not heard of yet is the leader's to judge.

What lives here: executors' calls. What must never live here: whether an executor lives
(`leader`), what it is to hold (`feed`). Called by: doors, as a part of `api`. One thread:
the loop's.
"""

from __future__ import annotations

from collections.abc import Sequence

from coordinator.api_base import ApiBase
from coordinator.core.batches import is_current
from coordinator.core.watch import Holding
from coordinator.loads import Load
from coordinator.tail import Tail
from raftbatch import records as r
from raftbatch.codec import check_record
from raftbatch.errors import InvalidRequest, StaleFence
from raftbatch.kinds import LapseReason

Report = r.Complete | r.Lapse | r.Free | r.Probe
"""What an executor reports: outcomes, that it gives an assignment up, that it stopped some
that had lapsed, or how its probe went."""


class ExecutorsApi(ApiBase):
    """See the module's docstring."""

    async def join(self, join: r.Join) -> int:
        """Begin a life of an executor, and return its incarnation.

        Raises:
            ExecutorIdInUse: definite; a live incarnation has the id, and is not the one that
                this replaces.
            Overloaded: definite; there are too many executors.
            InvalidRequest: definite; the record is none.
            RaftbatchError: the leader's; after OutcomeUnknown the id may be in use until the
                leader finds that life lost.
        """
        return await self._carry_out(join)

    async def ready(self, ready: r.Ready) -> None:
        """Name the model versions that an executor now has ready. Raises: see `leave`."""
        await self._carry_out(ready)

    async def drain(self, drain: r.Drain) -> None:
        """Let an executor get nothing new, or something again. Raises: see `leave`."""
        await self._carry_out(drain)

    async def leave(self, leave: r.Leave) -> None:
        """End an executor's life by its own will; what it holds lapses.

        Raises:
            StaleIncarnation: definite; that life is over.
            InvalidRequest: definite; the record is none, or it says that it is lost.
            RaftbatchError: the leader's.
        """
        if leave.lost:
            raise InvalidRequest("who is lost does not say so")
        await self._carry_out(leave)

    async def report(self, report: Report) -> None:
        """Take in what an executor reports. It reports again until it is answered definitely.

        Raises:
            StaleFence: definite; the attempt is over: what it gave is dropped.
            StaleIncarnation: definite; the executor's life is over.
            InvalidRequest: definite; the record is none, or names what it must not.
            PayloadTooLarge: definite; report in parts.
            RaftbatchError: the leader's.
        """
        self._check_open()
        if isinstance(report, r.Lapse) and report.reason is LapseReason.EXECUTOR_LOST:
            check_record(report)
            raise InvalidRequest("who is lost does not say so")
        if isinstance(report, r.Complete | r.Lapse):
            self._check_fence(report)
        await self._carry_out(report)

    def heartbeat(
        self,
        executor: str,
        incarnation: int,
        tailed_index: int,
        holdings: Sequence[Holding],
        load: Load | None = None,
    ) -> None:
        """Take in that an executor lives, and what it holds.

        Args:
            executor: its id.
            incarnation: of its life.
            tailed_index: that of the last message of its feed.
            holdings: all that it holds, at most as many as a feed takes.
            load: what it has to do; None: it does not say.

        Raises:
            StaleIncarnation: definite; that life is over.
            InvalidRequest: definite; it cannot hold so much.
            NotLeader, NoLeader, Draining: definite.
        """
        self._check_open()
        most = self._feed.config.holdings_max
        if len(holdings) > most:
            raise InvalidRequest(f"{len(holdings)} assignments are held, at most {most}")
        self._leader.heartbeat(executor, incarnation, tailed_index, holdings)
        if load is not None:
            self.loads.take(executor, incarnation, load)

    async def tail(
        self, executor: str, incarnation: int, held: Sequence[tuple[int, int]], seen_index: int
    ) -> Tail:
        """Return a tail of an executor's feed. See `Feed.open`, also for what it raises."""
        return await self._feed.open(executor, incarnation, held, seen_index)

    def _check_fence(self, report: r.Complete | r.Lapse) -> None:
        """Refuse what is about an attempt that was over at an index that is applied here."""
        state = self._replica.state
        if report.fence > state.index:
            return
        batch = state.batches.get(report.batch)
        if batch is None or not is_current(batch, report.attempt, report.fence):
            check_record(report)  # the leader checks what it takes
            raise StaleFence(
                f"attempt {report.attempt} of batch {report.batch} under fence {report.fence} "
                "is not the current one"
            )
