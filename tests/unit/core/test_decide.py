"""The leader's decisions: when, what, where."""

from __future__ import annotations

import pytest

from coordinator.core import decide
from raftbatch import records as r
from raftbatch.kinds import Key, OutcomeKind, Release
from raftbatch.settings import Model, Policy
from tests.unit.core.leading import assigned, failure, ids, put, seals, started

AGE_MS = 5


def test_admit_seal_and_assign_ride_in_one_entry() -> None:
    leading = started(put(max_batch_size=2))
    records = leading.propose(leading.admit("a", "b"))
    assert [type(each).__name__ for each in records] == ["Admit", "Seal", "Assign"]
    leading.apply()
    assert list(leading.running["gpu-1"]) == [1]


def test_window_gathers_until_it_is_old() -> None:
    leading = started(put())
    assert not seals(leading.propose(leading.admit("a")))
    leading.at_ms += AGE_MS - 1
    assert leading.propose() == []
    assert leading.decider is not None
    assert leading.decider.wake_ms() == leading.at_ms + 1
    leading.at_ms += 1
    records = leading.propose()
    assert seals(records) == [(Release.AGE, (1,))]
    assert assigned(records) == [(1, "gpu-1")]


@pytest.mark.parametrize(
    ("settings", "alike", "count", "expected"),
    [
        ({"max_batch_size": 4}, {}, 4, [(Release.SIZE, 4)]),
        ({"max_batch_size": 4}, {}, 3, []),
        ({"max_batch_size": 4}, {"rows": 2}, 2, [(Release.SIZE, 2)]),
        ({"max_batch_size": 4}, {"rows": 3}, 2, [(Release.SIZE, 1)]),
        ({"max_batch_size": 8, "preferred_batch_size": (2, 4)}, {}, 3, [(Release.SIZE, 2)]),
        ({"max_batch_size": 8, "preferred_batch_size": (2, 4)}, {}, 5, [(Release.SIZE, 4)]),
        ({"max_batch_size": 8, "preferred_batch_size": (2,)}, {"rows": 3}, 1, [(Release.SIZE, 1)]),
        ({"max_batch_bytes": 30}, {"size": 10}, 3, [(Release.BYTES, 3)]),
        ({"max_batch_bytes": 30}, {"size": 20}, 2, [(Release.BYTES, 1)]),
        ({"max_batch_size": 0}, {}, 1, [(Release.SIZE, 1)]),
    ],
)
def test_window_is_sealed_when_it_is_full(
    settings: dict[str, object],
    alike: dict[str, int],
    count: int,
    expected: list[tuple[Release, int]],
) -> None:
    leading = started(put(**settings))
    records = leading.propose(leading.admit(*ids(count), **alike))  # type: ignore[arg-type]
    assert [(reason, len(numbers)) for reason, numbers in seals(records)][:1] == expected


def test_window_is_sealed_before_its_earliest_deadline_becomes_unreachable() -> None:
    leading = started(put(max_queue_delay_microseconds=500_000))
    assert leading.decider is not None
    leading.decider.run_ms["m", "1"] = 20
    leading.propose(leading.admit("a"))
    leading.propose(leading.admit("b", timeout_ms=100))
    leading.at_ms += 74
    assert not seals(leading.propose())
    leading.at_ms += 1  # 100 - 20 for the run - 5 for a commit
    assert seals(leading.propose()) == [(Release.DEADLINE, (1, 2))]


def test_idle_executor_ends_the_gathering_where_the_model_wants_it() -> None:
    leading = started(put(seal_when_idle=True))
    assert not seals(leading.propose(leading.admit("a")))
    assert seals(leading.propose(is_quiet=True)) == [(Release.IDLE, (1,))]
    leading = started(put())
    leading.propose(leading.admit("a"))
    assert not seals(leading.propose(is_quiet=True))


def test_idle_executors_take_the_oldest_windows() -> None:
    other: Key = ("m", "1", "b")
    leading = started(put(seal_when_idle=True), executors=("g1", "g2", "g3"))
    leading.propose(leading.admit("a"))
    leading.at_ms += 1
    leading.propose(leading.admit("b", key=other))
    leading.apply()
    records = leading.propose(is_quiet=True)
    assert seals(records) == [(Release.IDLE, (1,)), (Release.IDLE, (2,))]
    leading.apply()
    assert leading.decider is not None
    leading.at_ms += 100
    assert leading.propose(is_quiet=True) == []
    assert leading.outlook is not None
    assert not leading.outlook.eager


def test_draining_leader_seals_at_once() -> None:
    leading = started(put())
    assert leading.decider is not None
    leading.propose(leading.admit("a"))
    leading.decider.drain()
    assert seals(leading.propose(leading.admit("b"))) == [(Release.DRAIN, (1, 2))]


def test_decisions_are_cut_into_entries_and_none_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decide, "DECISIONS_MAX", 5)
    leading = started(put(max_batch_size=1), slots=64)
    assert leading.decider is not None
    leading.propose(leading.admit(*ids(30)))
    calls = 1
    while leading.decider.has_more:
        leading.propose()
        calls += 1
    assert calls > 10
    leading.apply()
    assert len(leading.running["gpu-1"]) == 30


def test_old_window_grows_while_no_slot_is_free() -> None:
    leading = started(put(max_batch_size=8))
    leading.propose(leading.admit(*ids(8)))
    leading.apply()
    leading.propose(leading.admit("a"))
    leading.at_ms += 50
    assert not seals(leading.propose())
    leading.propose(leading.admit("b"))
    leading.apply()
    records = leading.propose(leading.complete(1))
    assert seals(records) == [(Release.AGE, (9, 10))]
    assert assigned(records) == [(2, "gpu-1")]


def test_full_windows_are_sealed_ahead_of_slots_but_few() -> None:
    leading = started(put(max_batch_size=2))
    records = leading.propose(leading.admit(*ids(20)))
    assert len(seals(records)) == 3
    assert len(assigned(records)) == 1
    leading.apply()
    records = leading.propose(leading.complete(1))
    assert assigned(records) == [(2, "gpu-1")]  # in the order in which they were sealed
    assert len(seals(records)) == 1


def test_batch_takes_effective_priority_then_log_order() -> None:
    leading = started(put(max_batch_size=2, priority_aging_ms=1000))
    leading.propose(leading.admit(*ids(6, "busy")))  # one batch runs, two are ahead
    leading.apply()
    leading.propose(leading.admit("old", priority=2))
    leading.at_ms += 900
    leading.propose(leading.admit("middle", priority=1))
    leading.propose(leading.admit("urgent", priority=0))
    leading.propose(leading.admit("middle2", priority=1))
    leading.apply()
    numbers = {each.request_id: n for n, each in leading.state.requests.items()}
    # `old` has not risen yet when there is a slot for the first ...
    records = leading.propose(leading.complete(1))
    assert seals(records)[0][1] == (numbers["urgent"], numbers["middle"])
    leading.apply()
    # ... and then is as urgent as `middle2`, and before it.
    leading.at_ms += 150
    records = leading.propose(leading.complete(2))
    assert seals(records)[0][1] == (numbers["old"], numbers["middle2"])


@pytest.mark.parametrize("aging_ms", [100, 1000])
def test_nothing_starves_whatever_comes_with_more_priority(aging_ms: int) -> None:
    leading = started(put(max_batch_size=1, priority_aging_ms=aging_ms))
    leading.propose(leading.admit("x", "y", "z", priority=0))  # one runs, two are ahead
    leading.propose(leading.admit("low", priority=2))
    for n in range(3 * aging_ms // 10):
        leading.at_ms += 10
        leading.apply()
        running = leading.running.get("gpu-1", {})
        reports = [leading.complete(batch) for batch in list(running)]
        leading.propose(*reports, leading.admit(f"a{n}", f"b{n}", priority=0))
        if leading.state.dedupe["t\0low"] < 0:
            break
    waited_ms = leading.at_ms - 1000
    assert 2 * aging_ms <= waited_ms <= 2 * aging_ms + 10 * 10  # two levels, then its turn


def test_placement_takes_the_executor_with_the_least_work() -> None:
    leading = started(put(max_batch_size=4), executors=("gpu-2", "gpu-1", "gpu-3"), slots=2)
    assert leading.outlook is not None
    records = leading.propose(leading.admit(*ids(4)))
    assert assigned(records) == [(1, "gpu-1")]  # ties by id
    records = leading.propose(leading.admit(*ids(8, "s")))
    assert assigned(records) == [(2, "gpu-2"), (3, "gpu-3")]
    leading.apply()
    leading.outlook.executors["gpu-3"].measure(4, 1_000_000)
    leading.outlook.refresh_executor("gpu-3")
    records = leading.propose(leading.admit(*ids(4, "t")))
    assert assigned(records) == [(4, "gpu-3")]


@pytest.mark.parametrize("why", ["drain", "ready", "gone", "suspended", "full"])
def test_placement_passes_over_those_that_are_not_able(why: str) -> None:
    leading = started(put(max_batch_size=1), executors=("gpu-1", "gpu-2"))
    live = leading.state.executors["gpu-1"].incarnation
    if why == "drain":
        leading.propose(r.Drain("gpu-1", live, True))
    elif why == "ready":
        leading.propose(r.Ready("gpu-1", live, ()))
    elif why == "gone":
        leading.propose(r.Leave("gpu-1", live, False, ()))
    elif why == "suspended":
        leading.propose(r.PutPolicy(Policy(executor_failures_max=1)))
        leading.propose(leading.admit("x"))
        leading.apply()
        leading.propose(failure(leading, 1))
    else:
        leading.propose(leading.admit("x"))
    # Also before any of that is applied.
    assert [name for _, name in assigned(leading.propose(leading.admit("a")))] == ["gpu-2"]
    leading.apply()
    assert leading.outlook is not None
    assert not leading.outlook.is_stale


def test_executor_that_a_failure_in_flight_may_suspend_gets_nothing_meanwhile() -> None:
    leading = started(put(max_batch_size=1), executors=("gpu-1", "gpu-2"), slots=2)
    leading.propose(r.PutPolicy(Policy(executor_failures_max=1)))
    leading.propose(leading.admit("x"))
    leading.apply()
    leading.propose(failure(leading, 1))
    records = leading.propose(leading.admit("a", "b", "c"))
    assert [name for _, name in assigned(records)] == ["gpu-2", "gpu-2"]
    leading.apply()
    assert leading.state.executors["gpu-1"].is_suspended
    assert leading.outlook is not None
    assert not leading.outlook.is_stale


def test_failed_batch_goes_to_another_executor_after_its_backoff() -> None:
    leading = started(put(max_batch_size=1, backoff_initial_ms=30), executors=("g1", "g2"))
    leading.propose(leading.admit("a"))
    leading.apply()
    assert list(leading.running["g1"]) == [1]
    leading.propose(failure(leading, 1))
    leading.apply()
    assert leading.propose() == []
    leading.at_ms += 29
    assert leading.propose() == []
    leading.at_ms += 1
    assert assigned(leading.propose()) == [(1, "g2")]


def test_excluded_executor_is_taken_where_no_other_is_able() -> None:
    leading = started(put(max_batch_size=1, backoff_initial_ms=0), executors=("g1", "g2"))
    leading.propose(leading.admit("a"))
    leading.apply()
    leading.propose(failure(leading, 1))
    leading.propose(leading.admit("b"))
    leading.apply()
    leading.propose(leading.admit("c"))
    leading.apply()
    live = leading.state.executors["g2"].incarnation
    leading.propose(r.Leave("g2", live, True, ()))
    leading.apply()
    for _ in range(4):
        leading.at_ms += 10
        leading.propose(*[leading.complete(n) for n in list(leading.running["g1"])])
        leading.apply()
    assert leading.state.counters.succeeded == 3


def test_poison_request_is_isolated_and_its_batchmates_are_answered() -> None:
    leading = started(
        put(max_batch_size=8, attempts_max=2, backoff_initial_ms=0),
        r.PutModel(Model("n", "1")),
        executors=("g1", "g2"),
        slots=2,
    )
    leading.propose(r.PutPolicy(Policy(executor_failures_max=99)))
    leading.propose(leading.admit(*ids(8)))
    for _ in range(40):
        leading.at_ms += 10
        leading.apply()
        reports: list[r.Record] = []
        for running in leading.running.values():
            for number in list(running):
                poisoned = 5 in leading.state.batches[number].members
                reports.append(failure(leading, number) if poisoned else leading.complete(number))
        leading.propose(*reports)
    outcomes = [leading.state.ended[order] for order in sorted(leading.state.ended)]
    assert {each.number for each in outcomes if each.kind is OutcomeKind.OK} == {
        1,
        2,
        3,
        4,
        6,
        7,
        8,
    }
    assert [each.number for each in outcomes if each.kind is OutcomeKind.FAILED] == [5]
    assert list(leading.state.quarantine) == [5]
    assert not leading.state.requests


def test_deadline_is_answered_though_every_executor_is_busy() -> None:
    leading = started(put(max_batch_size=1))
    leading.propose(leading.admit("busy"))
    leading.propose(leading.admit("a", timeout_ms=100))
    leading.apply()
    assert leading.decider is not None
    leading.at_ms = leading.decider.wake_ms() or 0
    assert leading.at_ms == 1100
    assert leading.propose() == [r.Advance()]
    assert leading.propose() == []  # one is on its way
    leading.apply()
    assert leading.state.counters.expired == 1


def test_advance_comes_no_more_often_than_each_tick() -> None:
    leading = started(put(max_batch_size=1))
    leading.propose(r.PutPolicy(Policy(expire_per_entry_max=1, tick_ms=10)))
    leading.propose(leading.admit("busy"))
    leading.propose(leading.admit("a", "b", timeout_ms=50))
    leading.at_ms += 60
    leading.apply()
    assert leading.propose() == [r.Advance()]
    leading.apply()
    leading.at_ms += 9
    assert leading.propose() == []
    leading.at_ms += 1
    assert leading.propose() == [r.Advance()]
