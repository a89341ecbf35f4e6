"""What is counted of batches: by reason, rows, waiting and running, each batch once."""

from __future__ import annotations

from coordinator.measures import Measures
from coordinator.raft.spread import Spread
from raftbatch import records as r
from raftbatch.kinds import LapseReason, Release
from raftbatch.settings import Model
from tests.unit.replica_scene import Scene


def scene(model: Model | None = None, *, slots: int = 2) -> tuple[Scene, Measures]:
    """Return a scene, and what is counted in it from now on."""
    found = Scene(model=model, executors=("gpu-1", "gpu-2"), slots=slots)
    measures = Measures(found.replica, found.replica.index)
    found.replica.listeners.append(measures)
    return found, measures


def below(spread: Spread, bound: int) -> int:
    """Return how many are at most so large."""
    return sum(spread.counts[: spread.bounds.index(bound) + 1])


def test_batches_are_counted_by_reason_rows_and_waiting() -> None:
    found, measures = scene()
    found.admit("a", rows=2)
    found.at_ms += 20
    found.admit("b", rows=2)
    found.at_ms += 10
    numbers = (found.number("b"), found.number("a"))  # the oldest is not the first in the batch
    batch = found.state.next_batch
    live = found.state.executors["gpu-1"]
    seal = r.Seal(batch, ("m", "1", "a"), Release.AGE, numbers)
    found.do(seal, r.Assign(batch, 1, "gpu-1", live.incarnation))
    assert measures.sealed[Release.AGE] == 1
    assert sum(measures.sealed.values()) == 1
    assert (measures.rows.total, measures.rows.count) == (4, 1)
    assert (measures.queue_ms.total, measures.queue_ms.count) == (30, 1)
    assert found.one(found.report(batch)) == "OK"
    assert (measures.infer_ns.total, measures.infer_ns.count) == (3, 1)


def test_what_is_refused_is_not_counted() -> None:
    found, measures = scene()
    found.admit("a")
    batch = found.start("b")
    assert found.seal("a", batch=batch) == "VOID"
    assert found.assign(batch + 1) == "VOID"
    report = found.report(batch, fence=1)
    assert found.one(report) == "STALE_FENCE"
    assert sum(measures.sealed.values()) == 1
    assert (measures.queue_ms.count, measures.infer_ns.count) == (1, 0)


def test_report_in_parts_is_one_run() -> None:
    found, measures = scene()
    batch = found.start("a", "b")
    numbers = found.state.batches[batch].members
    found.one(found.report(batch, numbers=numbers[:1], last=False))
    assert measures.infer_ns.count == 0
    found.one(found.report(batch, numbers=numbers[1:]))
    assert measures.infer_ns.count == 1


def test_assignments_that_lapse_are_counted_by_reason_and_not_as_waiting_anew() -> None:
    found, measures = scene(Model("m", "1", attempts_max=3))
    batch = found.start("a")
    assert found.lapse(batch) == "OK"
    assert measures.lapsed[LapseReason.FAILED] == 1
    found.at_ms += 1000
    assert found.assign(batch, "gpu-2") == "OK"
    assert measures.queue_ms.count == 1
    live = found.state.executors["gpu-2"]
    found.one(r.Leave("gpu-2", live.incarnation, True, ()))  # found lost: no Lapse says so
    assert measures.lapsed[LapseReason.EXECUTOR_LOST] == 1


def test_what_the_log_held_when_it_was_opened_is_not_counted_again() -> None:
    found = Scene(slots=2)
    last = found.replica.index + 2
    measures = Measures(found.replica, last)
    found.replica.listeners.append(measures)
    found.admit("a")
    past = [measures.is_past]
    found.seal("a")
    past.append(measures.is_past)
    assert past == [False, True]
    assert sum(measures.sealed.values()) == 0
    found.start("b")
    assert sum(measures.sealed.values()) == 1


def test_batch_whose_oldest_request_has_ended_is_not_measured_by_another() -> None:
    found, measures = scene()
    found.admit("a", "b")
    assert found.seal("a", "b") == "OK"
    found.one(r.Cancel(("t",), ("a",)))
    assert found.assign(found.state.next_batch - 1) == "OK"
    assert measures.queue_ms.count == 0
