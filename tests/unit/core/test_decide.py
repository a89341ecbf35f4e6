"""The leader's decisions: when, what, where; and its first moments."""

from __future__ import annotations

import pytest

from coordinator.core.effects import Verdict
from raftbatch import records as r
from raftbatch.kinds import Key, LapseReason, OutcomeKind, Ran, Release
from raftbatch.settings import Model, Policy
from tests.unit.core.leading import KEY, Leading, started

AGE_MS = 5


def _model(**settings: object) -> r.PutModel:
    return r.PutModel(Model("m", "1", **settings))  # type: ignore[arg-type]


def _seals(records: list[r.Record]) -> list[tuple[Release, tuple[int, ...]]]:
    return [(each.reason, each.numbers) for each in records if isinstance(each, r.Seal)]


def _assigned(records: list[r.Record]) -> list[tuple[int, str]]:
    return [(each.batch, each.executor) for each in records if isinstance(each, r.Assign)]


def _ids(count: int, prefix: str = "r") -> list[str]:
    return [f"{prefix}{n}" for n in range(count)]


def test_admit_seal_and_assign_ride_in_one_entry() -> None:
    leading = started(_model(max_batch_size=2))
    records = leading.propose(leading.admit("a", "b"))
    assert [type(each).__name__ for each in records] == ["Admit", "Seal", "Assign"]
    leading.apply()
    assert list(leading.running["gpu-1"]) == [1]


def test_window_gathers_until_it_is_old() -> None:
    leading = started(_model())
    assert not _seals(leading.propose(leading.admit("a")))
    leading.at_ms += AGE_MS - 1
    assert leading.propose() == []
    assert leading.decider is not None
    assert leading.decider.wake_ms() == leading.at_ms + 1
    leading.at_ms += 1
    records = leading.propose()
    assert _seals(records) == [(Release.AGE, (1,))]
    assert _assigned(records) == [(1, "gpu-1")]


@pytest.mark.parametrize(
    ("settings", "alike", "count", "seals"),
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
    seals: list[tuple[Release, int]],
) -> None:
    leading = started(_model(**settings))
    records = leading.propose(leading.admit(*_ids(count), **alike))  # type: ignore[arg-type]
    assert [(reason, len(numbers)) for reason, numbers in _seals(records)][:1] == seals


def test_window_is_sealed_before_its_earliest_deadline_becomes_unreachable() -> None:
    leading = started(_model(max_queue_delay_microseconds=500_000))
    assert leading.decider is not None
    leading.decider.run_ms["m", "1"] = 20
    leading.propose(leading.admit("a"))
    leading.propose(leading.admit("b", timeout_ms=100))
    leading.at_ms += 74
    assert not _seals(leading.propose())
    leading.at_ms += 1  # 100 - 20 for the run - 5 for a commit
    assert _seals(leading.propose()) == [(Release.DEADLINE, (1, 2))]


def test_idle_executor_ends_the_gathering_where_the_model_wants_it() -> None:
    leading = started(_model(seal_when_idle=True))
    assert not _seals(leading.propose(leading.admit("a")))
    assert leading.outlook is not None
    leading.outlook.dirty["m", "1"] = None
    assert _seals(leading.propose(is_quiet=True)) == [(Release.IDLE, (1,))]
    leading = started(_model())
    leading.propose(leading.admit("a"))
    assert not _seals(leading.propose(is_quiet=True))


def test_draining_leader_seals_at_once() -> None:
    leading = started(_model())
    assert leading.decider is not None
    leading.decider.is_draining = True
    assert _seals(leading.propose(leading.admit("a"))) == [(Release.DRAIN, (1,))]


def test_old_window_grows_while_no_slot_is_free() -> None:
    leading = started(_model(max_batch_size=8))
    leading.propose(leading.admit(*_ids(8)))
    leading.apply()
    leading.propose(leading.admit("a"))
    leading.at_ms += 50
    assert not _seals(leading.propose())
    leading.propose(leading.admit("b"))
    leading.apply()
    records = leading.propose(leading.complete(1))
    assert _seals(records) == [(Release.AGE, (9, 10))]
    assert _assigned(records) == [(2, "gpu-1")]


def test_full_windows_are_sealed_ahead_of_slots_but_few() -> None:
    leading = started(_model(max_batch_size=2))
    records = leading.propose(leading.admit(*_ids(20)))
    assert len(_seals(records)) == 3
    assert len(_assigned(records)) == 1
    leading.apply()
    records = leading.propose(leading.complete(1))
    assert _assigned(records) == [(2, "gpu-1")]  # in the order in which they were sealed
    assert len(_seals(records)) == 1


def test_batch_takes_effective_priority_then_log_order() -> None:
    leading = started(_model(max_batch_size=2, priority_aging_ms=1000))
    leading.propose(leading.admit(*_ids(6, "busy")))  # one batch runs, two are ahead
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
    assert _seals(records)[0][1] == (numbers["urgent"], numbers["middle"])
    leading.apply()
    # ... and then is as urgent as `middle2`, and before it.
    leading.at_ms += 150
    records = leading.propose(leading.complete(2))
    assert _seals(records)[0][1] == (numbers["old"], numbers["middle2"])


@pytest.mark.parametrize("aging_ms", [100, 1000])
def test_nothing_starves_whatever_comes_with_more_priority(aging_ms: int) -> None:
    leading = started(_model(max_batch_size=1, priority_aging_ms=aging_ms))
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
    leading = started(_model(max_batch_size=4), executors=("gpu-2", "gpu-1", "gpu-3"), slots=2)
    assert leading.outlook is not None
    records = leading.propose(leading.admit(*_ids(4)))
    assert _assigned(records) == [(1, "gpu-1")]  # ties by id
    records = leading.propose(leading.admit(*_ids(8, "s")))
    assert _assigned(records) == [(2, "gpu-2"), (3, "gpu-3")]
    leading.apply()
    leading.outlook.executors["gpu-3"].measure(4, 1_000_000)
    leading.outlook.refresh_executor("gpu-3")
    records = leading.propose(leading.admit(*_ids(4, "t")))
    assert _assigned(records) == [(4, "gpu-3")]


@pytest.mark.parametrize("why", ["drain", "ready", "gone", "suspended", "full"])
def test_placement_passes_over_those_that_are_not_able(why: str) -> None:
    leading = started(_model(max_batch_size=1), executors=("gpu-1", "gpu-2"))
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
        batch = leading.state.batches[1]
        leading.propose(r.Lapse(1, 1, batch.fence, LapseReason.FAILED, Ran.YES, True, "", ""))
    else:
        leading.propose(leading.admit("x"))
    # Also before any of that is applied.
    assert [name for _, name in _assigned(leading.propose(leading.admit("a")))] == ["gpu-2"]
    leading.apply()
    assert leading.outlook is not None
    assert not leading.outlook.is_stale


def test_executor_that_a_failure_in_flight_may_suspend_gets_nothing_meanwhile() -> None:
    leading = started(_model(max_batch_size=1), executors=("gpu-1", "gpu-2"), slots=2)
    leading.propose(r.PutPolicy(Policy(executor_failures_max=1)))
    leading.propose(leading.admit("x"))
    leading.apply()
    leading.propose(_lapse(leading, 1))
    records = leading.propose(leading.admit("a", "b", "c"))
    assert [name for _, name in _assigned(records)] == ["gpu-2", "gpu-2"]
    leading.apply()
    assert leading.state.executors["gpu-1"].is_suspended
    assert leading.outlook is not None
    assert not leading.outlook.is_stale


def _lapse(leading: Leading, batch: int) -> r.Lapse:
    found = leading.state.batches[batch]
    return r.Lapse(
        batch, found.assigned, found.fence, LapseReason.FAILED, Ran.YES, True, "broke", "it"
    )


def test_failed_batch_goes_to_another_executor_after_its_backoff() -> None:
    leading = started(_model(max_batch_size=1, backoff_initial_ms=30), executors=("g1", "g2"))
    leading.propose(leading.admit("a"))
    leading.apply()
    assert list(leading.running["g1"]) == [1]
    leading.propose(_lapse(leading, 1))
    leading.apply()
    assert leading.propose() == []
    leading.at_ms += 29
    assert leading.propose() == []
    leading.at_ms += 1
    assert _assigned(leading.propose()) == [(1, "g2")]


def test_excluded_executor_is_taken_where_no_other_is_able() -> None:
    leading = started(_model(max_batch_size=1, backoff_initial_ms=0), executors=("g1", "g2"))
    leading.propose(leading.admit("a"))
    leading.apply()
    leading.propose(_lapse(leading, 1))
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
        _model(max_batch_size=8, attempts_max=2, backoff_initial_ms=0),
        r.PutModel(Model("n", "1")),
        executors=("g1", "g2"),
        slots=2,
    )
    leading.propose(r.PutPolicy(Policy(executor_failures_max=99)))
    leading.propose(leading.admit(*_ids(8)))
    for _ in range(40):
        leading.at_ms += 10
        leading.apply()
        reports: list[r.Record] = []
        for running in leading.running.values():
            for number in list(running):
                poisoned = 5 in leading.state.batches[number].members
                reports.append(_lapse(leading, number) if poisoned else leading.complete(number))
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
    leading = started(_model(max_batch_size=1))
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
    leading = started(_model(max_batch_size=1))
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


# A leader's first moments, and what it does not know.


def test_leader_decides_nothing_before_its_lead_is_applied() -> None:
    leading = started(_model(max_batch_size=1))
    leading.propose(leading.admit("a"))
    leading.lead()
    assert leading.outlook is None
    leading.apply()
    assert leading.outlook is not None


def test_lapse_in_flight_that_was_lost_with_its_leader_leaves_the_attempt_as_it_was() -> None:
    leading = started(_model(max_batch_size=1), executors=("g1", "g2"))
    leading.propose(leading.admit("a"))
    leading.apply()
    report = leading.complete(1)
    leading.propose(_lapse(leading, 1))
    assert leading.outlook is not None
    assert 1 in leading.outlook.flying.busy
    leading.lead(lose=1)
    leading.apply()
    assert 1 not in leading.outlook.flying.busy
    assert leading.state.batches[1].assigned == 1
    leading.propose(report)
    leading.apply()
    assert leading.state.counters.succeeded == 1


def test_report_of_an_attempt_whose_lapse_is_in_flight_is_proposed_and_loses() -> None:
    leading = started(_model(max_batch_size=1, backoff_initial_ms=0), executors=("g1", "g2"))
    leading.propose(leading.admit("a"))
    leading.apply()
    report = leading.complete(1)
    leading.propose(_lapse(leading, 1))
    records = leading.propose(report)
    assert report in records
    applied = leading.apply()
    assert [reply.verdict for reply in applied[-1].replies] == [Verdict.STALE_FENCE]
    assert leading.outlook is not None
    assert not leading.outlook.is_stale
    leading.at_ms += 1
    assert _assigned(leading.propose()) == [(1, "g2")]


def test_inherited_tail_that_commits_after_the_election_is_decided_upon() -> None:
    """What the old leader appended is valid: it is sealed once, and its numbers are taken."""
    leading = started(_model(max_batch_size=2), slots=4)
    leading.propose(leading.admit("a", "b"))
    leading.propose(leading.admit("c"))
    leading.lead()  # both entries are in the log, before the Lead, and not applied
    applied = leading.apply()
    assert [reply.verdict.name for each in applied for reply in each.replies] == ["OK"] * 5
    assert leading.outlook is not None
    assert (leading.outlook.next_request, leading.outlook.next_batch) == (4, 2)
    assert 1 not in leading.outlook.models["m", "1"].waiting
    records = leading.propose(leading.admit("d"))
    assert _seals(records) == [(Release.SIZE, (3, 4))]
    leading.apply()
    assert sorted(leading.running["gpu-1"]) == [1, 2]


def test_what_a_deposed_leader_appends_later_is_refused() -> None:
    leading = started(_model(max_batch_size=2))
    late = leading.admit("late")
    leading.lead()
    leading.apply()
    leading.log.append((leading.term, _encoded(leading.term - 1, late)))
    assert leading.outlook is not None
    leading.outlook.commit(leading.outlook.begin(leading.at_ms))
    leading.outlook.flying.flights[-1].records.append(r.Advance())
    applied = leading.apply()
    assert [reply.verdict for reply in applied[0].replies] == [Verdict.NOT_LEADER]
    assert "t\0late" not in leading.state.dedupe


def _encoded(term: int, record: r.Record) -> bytes:
    from raftbatch.codec import encode_entry

    return encode_entry(r.Entry(term, 2000, (record,)))


def test_duplicate_of_an_admit_in_flight_joins_its_fate() -> None:
    leading = started(_model(max_batch_size=2))
    leading.propose(leading.admit("a"))
    assert leading.outlook is not None
    flight = leading.outlook.joins("t", "a")
    assert flight is leading.outlook.flying.flights[0]
    assert leading.outlook.joins("t", "b") is None
    assert leading.outlook.joins("u", "a") is None
    # Proposed all the same, it is foreseen to be no second request: one row, not two.
    assert not _seals(leading.propose(leading.admit("a")))
    applied = leading.apply()
    assert leading.outlook.joins("t", "a") is None
    verdicts = [reply.verdicts for each in applied for reply in each.replies]  # type: ignore[union-attr]
    assert verdicts == [bytes([Verdict.OK]), bytes([Verdict.KNOWN])]
    assert not leading.outlook.is_stale


def test_duplicate_of_an_admit_that_was_lost_with_its_leader_is_admitted() -> None:
    leading = started(_model(max_batch_size=2))
    leading.propose(leading.admit("a"))
    leading.lead(lose=1)
    leading.apply()
    assert leading.outlook is not None
    assert leading.outlook.joins("t", "a") is None
    leading.propose(leading.admit("a"))
    leading.apply()
    assert leading.state.counters.admitted == 1


def test_outlook_refuses_beyond_the_limit_with_what_is_in_flight() -> None:
    leading = started(_model(requests_waiting_max=3))
    assert leading.outlook is not None
    leading.propose(leading.admit("a"))
    leading.apply()
    leading.propose(leading.admit("b", "c"))
    assert leading.outlook.overload(KEY, "t", 1, 10) == (Verdict.OVERLOADED, 1000)
    leading = started(_model())
    leading.propose(r.PutPolicy(Policy(tenant_rows_waiting_max=3)))
    leading.apply()
    assert leading.outlook is not None
    leading.propose(leading.admit("b", "c"))
    assert leading.outlook.overload(KEY, "t", 1, 10)[0] is Verdict.OK
    assert leading.outlook.overload(KEY, "t", 2, 10)[0] is Verdict.QUOTA_EXCEEDED
    assert leading.outlook.overload(KEY, "u", 2, 10)[0] is Verdict.OK
    other: Key = ("x", "1", "")
    assert leading.outlook.overload(other, "t", 1, 1)[0] is Verdict.UNKNOWN_MODEL


def test_request_that_was_refused_for_load_is_not_waited_for() -> None:
    leading = started(_model(requests_waiting_max=1))
    leading.propose(leading.admit("a"))
    leading.propose(leading.admit("b"))
    leading.apply()
    assert leading.outlook is not None
    assert leading.outlook.windows[KEY].requests == 1
    leading.at_ms += 10
    assert _seals(leading.propose()) == [(Release.AGE, (1,))]


def test_leader_that_erred_decides_nothing_more() -> None:
    leading = started(_model(max_batch_size=1))
    assert leading.outlook is not None
    leading.propose(r.Quarantine(5))
    leading.apply()
    assert leading.outlook.is_stale
    assert len(leading.propose(leading.admit("a"))) == 1


def test_model_that_is_being_changed_or_deleted_is_left_alone() -> None:
    leading = started(_model(max_batch_size=1))
    leading.propose(_model(max_batch_size=2))
    assert not _seals(leading.propose(leading.admit("a", "b")))
    leading.apply()
    assert _seals(leading.propose()) == [(Release.SIZE, (1, 2))]
    leading.propose(r.DeleteModel("m", "1"))
    assert not _seals(leading.propose(leading.admit("c", "d")))
    leading.apply()
    leading.propose(leading.complete(1))
    leading.apply()
    assert leading.outlook is not None
    assert not leading.outlook.models
    assert not leading.outlook.is_stale
