"""How long batches run and what they leave, as reports tell it: to place, seal and hold back.

What lives here: the leader's own measurements, which are in no log. What must never
live here: what they are used for (`coordinator.core`). Called by: `leadership`.
Deterministic.
"""

from __future__ import annotations

from coordinator.core.decide import Decider
from coordinator.core.outlook import Outlook
from coordinator.core.state import ModelId
from raftbatch.records import Complete

_WEIGHT = 8
"""A new measurement moves how long a model version runs by an eighth."""

_CALM = 64
"""Smaller outcomes than before lower what a row is taken to leave by no more than this part."""


class RunTimes:
    """Running times of one leadership, by model version."""

    def __init__(self) -> None:
        self._run_us: dict[ModelId, int] = {}
        self._row_bytes = 0

    def attach(self, decider: Decider) -> None:
        """Let a new decider know them."""
        for model_id, run_us in self._run_us.items():
            decider.run_ms[model_id] = -(-run_us // 1000)
        decider.row_bytes = self._row_bytes

    def reported(self, report: Complete, outlook: Outlook, decider: Decider) -> None:
        """Note how long a batch ran, where a report tells of the whole of it."""
        batch = outlook.state.batches.get(report.batch)
        if batch is None or batch.fence != report.fence:
            return
        rows = max(1, len(report.numbers) * batch.rows // len(batch.members))
        row_bytes = sum(map(len, report.result)) // rows
        self._row_bytes = max(row_bytes, self._row_bytes - self._row_bytes // _CALM)
        decider.row_bytes = self._row_bytes
        if not report.last:
            return
        if len(report.numbers) < batch.open_requests:
            return
        view = outlook.executors.get(report.executor)
        if view is not None and view.incarnation == report.incarnation:
            view.measure(batch.rows, report.infer_ns)
        model_id = batch.key[:2]
        run_us = (report.compute_input_ns + report.infer_ns + report.output_ns) // 1000
        before_us = self._run_us.get(model_id)
        if before_us is not None:
            run_us = before_us + (run_us - before_us) // _WEIGHT
        self._run_us[model_id] = run_us
        decider.run_ms[model_id] = -(-run_us // 1000)

    def forget(self, model_id: ModelId, decider: Decider | None) -> None:
        """Let go of a model version that is there no more."""
        self._run_us.pop(model_id, None)
        if decider is not None:
            decider.run_ms.pop(model_id, None)
