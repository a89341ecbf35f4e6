"""What heartbeats tell the leader, and what it proposes for it."""

from __future__ import annotations

from coordinator.core.watch import Holding, Watch
from raftbatch import records as r
from raftbatch.kinds import LapseReason, Ran
from raftbatch.settings import Model
from tests.unit.core.leading import Leading, started


def _begun(timeout_us: int = 1_000_000) -> tuple[Leading, Watch]:
    model = Model(
        "m",
        "1",
        max_batch_size=1,
        execution_timeout_microseconds=timeout_us,
        backoff_initial_ms=0,
    )
    leading = started(r.PutModel(model), slots=2)
    leading.propose(leading.admit("a", "b"))
    leading.apply()
    assert leading.outlook is not None
    return leading, Watch(leading.outlook)


def _live(leading: Leading) -> int:
    return leading.state.executors["gpu-1"].incarnation


def _holding(leading: Leading, batch: int, running: bool) -> Holding:
    return Holding(batch, leading.state.batches[batch].fence, running)


def test_assignment_that_is_not_listed_is_lapsed_at_once() -> None:
    leading, watch = _begun()
    fence = leading.state.batches[1].fence
    held = [_holding(leading, 2, True)]
    assert watch.heard("gpu-1", _live(leading), fence - 1, held, leading.at_ms) == []
    assert watch.heard("gpu-1", 99, fence, held, leading.at_ms) == []
    records = watch.heard("gpu-1", _live(leading), fence, held, leading.at_ms)
    assert records == [r.Lapse(1, 1, fence, LapseReason.REFUSED, Ran.NO, True, "refused", "")]
    leading.propose(*records)
    assert watch.heard("gpu-1", _live(leading), fence, held, leading.at_ms) == []
    leading.apply()
    assert leading.state.executors["gpu-1"].free_slots == 1


def test_running_time_alone_counts_toward_the_timeout() -> None:
    leading, watch = _begun()
    held = [_holding(leading, 1, True), _holding(leading, 2, False)]
    watch.heard("gpu-1", _live(leading), 0, held, leading.at_ms)
    watch.heard("gpu-1", _live(leading), 0, held, leading.at_ms + 500)
    assert watch.next_ms() == leading.at_ms + 1000
    assert watch.overdue(leading.at_ms + 999) == []
    fence = leading.state.batches[1].fence
    records = watch.overdue(leading.at_ms + 1000)
    said = "it ran for longer than execution_timeout_microseconds allows"
    lapse = r.Lapse(1, 1, fence, LapseReason.TIMED_OUT, Ran.YES, False, "timed_out", said)
    assert records == [lapse], "the outcome of a request that hangs each time says why"
    assert watch.overdue(leading.at_ms + 5000) == []
    assert watch.next_ms() is None
    leading.propose(*records)
    leading.apply()
    assert leading.state.executors["gpu-1"].free_slots == 0
    # It stops: the slot returns.
    records = watch.heard("gpu-1", _live(leading), fence, held[1:], leading.at_ms)
    assert records == [r.Free("gpu-1", _live(leading), (1,), (fence,))]
    leading.propose(*records)
    assert watch.heard("gpu-1", _live(leading), fence, held[1:], leading.at_ms) == []
    leading.apply()
    assert not [each for each in leading.state.executors["gpu-1"].held if each.is_lapsed]


def test_what_has_ended_is_never_overdue() -> None:
    leading, watch = _begun()
    held = [_holding(leading, 1, True), _holding(leading, 2, True)]
    watch.heard("gpu-1", _live(leading), 0, held, leading.at_ms)
    leading.propose(leading.complete(1))
    leading.apply()
    leading.propose(leading.complete(2))
    assert watch.overdue(leading.at_ms + 5000) == []


def test_model_without_a_timeout_runs_for_ever() -> None:
    leading, watch = _begun(0)
    watch.heard("gpu-1", _live(leading), 0, [_holding(leading, 1, True)], leading.at_ms)
    assert watch.next_ms() is None


def test_lost_executor_tells_what_was_running() -> None:
    leading, watch = _begun()
    held = [_holding(leading, 1, True), _holding(leading, 2, False)]
    watch.heard("gpu-1", _live(leading), 0, held, leading.at_ms)
    assert watch.lost("gpu-1", 99) == []
    assert watch.lost("gpu-1", _live(leading)) == [r.Leave("gpu-1", _live(leading), True, (1,))]


def test_watch_remembers_nothing_of_what_has_ended() -> None:
    leading, watch = _begun(0)
    for n in range(200):
        holdings = [_holding(leading, batch, True) for batch in leading.state.batches]
        watch.heard("gpu-1", _live(leading), 0, holdings, leading.at_ms)
        watch.heard("gpu-1", _live(leading), 0, [Holding(77, 1, True)], leading.at_ms)
        running = list(leading.running["gpu-1"])
        leading.propose(*[leading.complete(batch) for batch in running])
        leading.propose(leading.admit(f"c{n}", f"d{n}"))
        leading.apply()
    assert len(watch._running) < 100


def test_watch_remembers_no_timeout_of_what_has_ended_in_time() -> None:
    leading, watch = _begun(3_600_000_000)
    for n in range(200):
        holdings = [_holding(leading, batch, True) for batch in leading.state.batches]
        watch.heard("gpu-1", _live(leading), 0, holdings, leading.at_ms)
        leading.propose(*[leading.complete(batch) for batch in leading.running["gpu-1"]])
        leading.propose(leading.admit(f"c{n}", f"d{n}"))
        leading.apply()
    assert len(watch._timeouts) < 300
    holdings = [_holding(leading, batch, True) for batch in leading.state.batches]
    watch.heard("gpu-1", _live(leading), 0, holdings, leading.at_ms)
    held = [each.batch for each in holdings]
    lapses = watch.overdue(leading.at_ms + 3_600_000)
    assert sorted(each.batch for each in lapses if isinstance(each, r.Lapse)) == held
