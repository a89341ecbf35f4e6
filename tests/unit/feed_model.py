"""An executor that does what its feed says and nothing else, and holds that against the state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from coordinator.core.state import State
from coordinator.feed_messages import Changes, Current, Shed

Key = tuple[int, int]


class ModelExecutor:
    """See the module's docstring. Messages are taken in the order that `feed_messages` asks for.

    Attributes:
        held: by batch and fence: the requests that it would run.
        stopped: what it was told to stop, and has not confirmed.
        seen_index: of the last message.
        standing: whether it drains, and is suspended, as it was told.
        counts: how many of each thing it was told.
    """

    def __init__(self) -> None:
        self.held: dict[Key, set[int]] = {}
        self.stopped: set[Key] = set()
        self.seen_index = 0
        self.standing = (False, False)
        self.counts: Counter[str] = Counter()

    def take(self, message: Current | Changes) -> None:
        """Do what a message says."""
        assert message.index >= self.seen_index
        if isinstance(message, Current):
            for batch, fence in message.drop:
                self.held.pop((batch, fence), None)
                self.stopped.add((batch, fence))
            self._shed(message.shed)
            assert set(self.held) == {tuple(each) for each in message.keep}
            assert len(set(message.keep)) == len(message.keep)
            self.counts["keep"] += len(message.keep)
            self.counts["drop"] += len(message.drop)
            self.counts["kept and shed"] += len(message.shed)
        else:
            for batch, fence in message.finished:
                del self.held[batch, fence]
            for batch, fence, reason in message.stop:
                known = self.held.pop((batch, fence), None) is not None
                assert (batch, fence) not in self.stopped
                self.stopped.add((batch, fence))
                self.counts["stop" if known else "stop of what it never had"] += 1
                self.counts["stop without a reason"] += known and reason is None
            self._shed(message.shed)
            self.counts["shed"] += len(message.shed)
            self.counts["finished"] += len(message.finished)
            if self.standing != (message.is_draining, message.is_suspended):
                self.counts["standing"] += 1
        for started in message.start:
            key = started.batch, started.fence
            assert key not in self.held
            assert key not in self.stopped
            if any(batch == started.batch for batch, _ in self.stopped):
                self.counts["start of what it had before"] += 1
            n = len(started.numbers)
            columns: Sequence[Sequence[object]] = (
                started.rows,
                started.payloads,
                started.parameters,
                started.traceparents,
                started.deadlines_ms,
            )
            assert all(len(column) == n for column in columns)
            self.held[key] = set(started.numbers)
            self.counts["start"] += 1
        self.standing = (message.is_draining, message.is_suspended)
        self.seen_index = message.index

    def agrees(self, state: State, executor: str) -> None:
        """Make sure that it holds what the state says, which is at the last message's index."""
        assert state.index == self.seen_index
        live = state.executors[executor]
        wanted = {
            (each.batch, each.fence): {
                number for number in state.batches[each.batch].members if number in state.requests
            }
            for each in live.held
            if not each.is_lapsed
        }
        assert self.held == wanted
        lapsed = {(each.batch, each.fence) for each in live.held if each.is_lapsed}
        assert lapsed <= self.stopped, "a slot would never return"
        assert self.standing == (live.is_draining, live.is_suspended)

    def confirm(self) -> list[Key]:
        """Return what it has stopped, for a Free."""
        return sorted(self.stopped)

    def _shed(self, shed: Sequence[Shed]) -> None:
        for batch, fence, numbers in shed:
            assert numbers
            self.held[batch, fence] -= set(numbers)
