"""What one life of an executor holds: batches that wait in its slots, run, stop, or are reported.

An assignment is forgotten only when its feed says so, or when what ran it is dead and the
feed has said so before. An answer to a report may come from a node that is ahead of the one
that is tailed, which would have it run again.

What lives here: taking in the feed. What must never live here: what runs where
(`machine`). Called by: the machine. Total. Deterministic.
"""

from __future__ import annotations

from collections.abc import Iterator

from executor.core.values import After, Held, Name, Stage
from raftbatch.v1 import dispatch_pb2 as pb

BUSY = (Stage.RUNNING, Stage.STOPPING)

_SHORT_NS = 2_000_000
"""Batches that run for less are over before anybody misses the reports of those before them."""


class Holdings:
    """See the module's docstring.

    Attributes:
        held: by batch and fence, in the order in which they came.
        frees: what has stopped and is to be confirmed; whether that is under way.
        seen_index: the highest index that the feed has told of.
        is_draining: whether the executor gets nothing new, as its feed says.
        is_suspended: whether it gets nothing new until a probe succeeds.
    """

    def __init__(self) -> None:
        self.held: dict[Name, Held] = {}
        self.frees: dict[Name, bool] = {}
        self.seen_index = 0
        self.is_draining = self.is_suspended = False

    def take(self, message: pb.FeedMessage, now_ns: int) -> list[Held]:
        """Take in a message; return what must be killed."""
        found: pb.Current | pb.Changes
        if message.HasField("current"):
            found, finished = message.current, []
            gone = [(each.batch, each.fence) for each in message.current.drop]
        else:
            found = message.changes
            finished = [(each.batch, each.fence) for each in message.changes.finished]
            gone = [(each.batch, each.fence) for each in message.changes.stop]
        self.seen_index = max(self.seen_index, found.index)
        self.is_draining, self.is_suspended = found.draining, found.suspended
        kill = [*self._end(finished, After.FORGET), *self._end(gone, After.FREE)]
        for shed in found.shed:
            held = self.held.get((shed.batch, shed.fence))
            if held is not None:
                held.shed.update(dict.fromkeys(shed.numbers))
        for given in found.start:
            self.held.setdefault((given.batch, given.fence), Held(given, now_ns))
        return kill

    def dead(self, held: Held) -> None:
        """Take in that what ran an assignment, and was to be stopped, is dead."""
        if self.held.pop(held.name, None) is not None and held.after is After.FREE:
            self.frees[held.name] = False

    def forget(self, held: Held) -> None:
        """Hold an assignment no more, though the feed has not said so: it lapses."""
        self.held.pop(held.name, None)

    def waiting(self) -> Iterator[Held]:
        """Yield what waits, in the order in which it came."""
        yield from [each for each in self.held.values() if each.stage is Stage.WAITING]

    def has_company_soon(self) -> bool:
        """Whether the only report that is due has company in a moment: its like is running."""
        due = [each for each in self.held.values() if each.reports and not each.is_told]
        if len(due) != 1:
            return False
        # Of a report of anything else, or of what never ran, these are 0.
        complete, model = due[0].reports[0].complete, due[0].model
        ran_ns = complete.compute_input_ns + complete.infer_ns + complete.output_ns
        running = [each for each in self.held.values() if each.stage is Stage.RUNNING]
        return 0 < ran_ns < _SHORT_NS and any(each.model == model for each in running)

    def _end(self, names: list[Name], after: After) -> Iterator[Held]:
        """Let go of assignments; yield those that run."""
        for name in names:
            held = self.held.get(name)
            if held is not None and held.stage in BUSY:
                held.after = after
                if held.stage is Stage.RUNNING:
                    held.stage = Stage.STOPPING
                    yield held
                continue
            self.held.pop(name, None)
            if after is After.FREE:
                self.frees[name] = False
