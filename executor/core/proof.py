"""Whether an executor that was suspended has shown that it works again.

The leader suspends one where several batches in a row have failed as a whole, and gives it work
again once a warm-up went well. What lives here: whose warm-up proves something, which is each model
whose last batch failed; another may be well on a device that those are not well on. What must never
live here: an instance. Called by: the machine. Total. Deterministic.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from executor.core.values import ModelId
from raftbatch.v1 import dispatch_pb2 as pb


class Probe(Enum):
    """How far it is."""

    NONE = 1
    RUNNING = 2
    SUCCEEDED = 3


class Proof:
    """See the module's docstring.

    Attributes:
        at: how far it is.
    """

    def __init__(self) -> None:
        self.at = Probe.NONE
        self._suspects: set[ModelId] = set()

    def reported(self, model: ModelId, told: Sequence[pb.Report]) -> None:
        """Take in what is reported of a batch, and judge it as the leader does.

        Args:
            model: whose batch it is.
            told: all parts of the report.
        """
        numbers = sum([len(each.complete.numbers) for each in told])
        failures = sum([len(each.complete.failures) for each in told])
        if failures < numbers:
            self._suspects.discard(model)
        elif numbers or any(each.lapse.ran == pb.RAN_YES for each in told):
            self.failed(model)

    def failed(self, model: ModelId) -> None:
        """Take in that a batch of a model failed as a whole."""
        self._suspects.add(model)

    def is_by(self, model: ModelId) -> bool:
        """Return whether a warm-up of a model proves anything."""
        return not self._suspects or model in self._suspects

    def warmed(self, model: ModelId) -> None:
        """Take in that a warm-up went well; the last of those that prove something is the proof."""
        self._suspects.discard(model)
        if not self._suspects:
            self.at = Probe.SUCCEEDED

    def excuse(self, model: ModelId) -> None:
        """Take in that a model does not come up: others are not held up, if there are others."""
        if len(self._suspects) > 1:
            self._suspects.discard(model)
