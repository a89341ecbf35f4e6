"""A leader's first moments, and what it has in flight and does not know the end of."""

from __future__ import annotations

from coordinator.core.effects import Verdict
from coordinator.core.outlook import Outlook
from coordinator.core.values import Request
from raftbatch import records as r
from raftbatch.codec import encode_entry
from raftbatch.kinds import Key, Release
from raftbatch.settings import Model, Policy
from tests.unit.core.leading import KEY, assigned, failure, put, seals, started


def test_leader_decides_nothing_before_its_lead_is_applied() -> None:
    leading = started(put(max_batch_size=1))
    leading.propose(leading.admit("a"))
    leading.lead()
    assert leading.outlook is None
    leading.apply()
    assert leading.outlook is not None


def test_lapse_in_flight_that_was_lost_with_its_leader_leaves_the_attempt_as_it_was() -> None:
    leading = started(put(max_batch_size=1), executors=("g1", "g2"))
    leading.propose(leading.admit("a"))
    leading.apply()
    report = leading.complete(1)
    leading.propose(failure(leading, 1))
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
    leading = started(put(max_batch_size=1, backoff_initial_ms=0), executors=("g1", "g2"))
    leading.propose(leading.admit("a"))
    leading.apply()
    report = leading.complete(1)
    leading.propose(failure(leading, 1))
    records = leading.propose(report)
    assert report in records
    applied = leading.apply()
    assert [reply.verdict for reply in applied[-1].replies] == [Verdict.STALE_FENCE]
    assert leading.outlook is not None
    assert not leading.outlook.is_stale
    leading.at_ms += 1
    assert assigned(leading.propose()) == [(1, "g2")]


def test_inherited_tail_that_commits_after_the_election_is_decided_upon() -> None:
    """What the old leader appended is valid: it is sealed once, and its numbers are taken."""
    leading = started(put(max_batch_size=2), slots=4)
    leading.propose(leading.admit("a", "b"))
    leading.propose(leading.admit("c"))
    leading.lead()  # both entries are in the log, before the Lead, and not applied
    applied = leading.apply()
    assert [reply.verdict.name for each in applied for reply in each.replies] == ["OK"] * 5
    assert leading.outlook is not None
    assert (leading.outlook.next_request, leading.outlook.next_batch) == (4, 2)
    assert 1 not in leading.outlook.models["m", "1"].waiting
    records = leading.propose(leading.admit("d"))
    assert seals(records) == [(Release.SIZE, (3, 4))]
    leading.apply()
    assert sorted(leading.running["gpu-1"]) == [1, 2]


def test_what_a_deposed_leader_appends_later_is_refused() -> None:
    leading = started(put(max_batch_size=2))
    late = leading.admit("late")
    leading.lead()
    leading.apply()
    entry = r.Entry(leading.term - 1, 2000, (late,))
    leading.log.append((leading.term, encode_entry(entry)))
    assert leading.outlook is not None
    leading.outlook.commit(leading.outlook.begin(leading.at_ms))
    leading.outlook.flying.flights[-1].records.append(r.Advance())
    applied = leading.apply()
    assert [reply.verdict for reply in applied[0].replies] == [Verdict.NOT_LEADER]
    assert "t\0late" not in leading.state.dedupe


def test_duplicate_of_an_admit_in_flight_joins_its_fate() -> None:
    leading = started(put(max_batch_size=2))
    leading.propose(leading.admit("a"))
    assert leading.outlook is not None
    flight = leading.outlook.joins("t", "a")
    assert flight is leading.outlook.flying.flights[0]
    assert leading.outlook.joins("t", "b") is None
    assert leading.outlook.joins("u", "a") is None
    # Proposed all the same, it is foreseen to be no second request: one row, not two.
    assert not seals(leading.propose(leading.admit("a")))
    applied = leading.apply()
    assert leading.outlook.joins("t", "a") is None
    verdicts = [reply.verdicts for each in applied for reply in each.replies]  # type: ignore[union-attr]
    assert verdicts == [bytes([Verdict.OK]), bytes([Verdict.KNOWN])]
    assert not leading.outlook.is_stale


def test_duplicate_of_an_admit_that_was_lost_with_its_leader_is_admitted() -> None:
    leading = started(put(max_batch_size=2))
    leading.propose(leading.admit("a"))
    leading.lead(lose=1)
    leading.apply()
    assert leading.outlook is not None
    assert leading.outlook.joins("t", "a") is None
    leading.propose(leading.admit("a"))
    leading.apply()
    assert leading.state.counters.admitted == 1


def test_outlook_refuses_beyond_the_limit_with_what_is_in_flight() -> None:
    leading = started(put(requests_waiting_max=3))
    assert leading.outlook is not None
    leading.propose(leading.admit("a"))
    leading.apply()
    leading.propose(leading.admit("b", "c"))
    assert leading.outlook.overload(KEY, "t", 1, 10) == (Verdict.OVERLOADED, 1000)
    leading = started(put())
    leading.propose(r.PutPolicy(Policy(tenant_rows_waiting_max=3)))
    leading.apply()
    assert leading.outlook is not None
    leading.propose(leading.admit("b", "c"))
    assert leading.outlook.overload(KEY, "t", 1, 10)[0] is Verdict.OK
    assert leading.outlook.overload(KEY, "t", 2, 10)[0] is Verdict.QUOTA_EXCEEDED
    assert leading.outlook.overload(KEY, "u", 2, 10)[0] is Verdict.OK
    leading.propose(r.PutPolicy(Policy(dedupe_entries_max=3)))
    leading.apply()
    assert leading.outlook.overload(KEY, "u", 1, 10)[0] is Verdict.OK
    leading.propose(leading.admit("d"))
    assert leading.outlook.overload(KEY, "u", 1, 10)[0] is Verdict.OVERLOADED
    other: Key = ("x", "1", "")
    assert leading.outlook.overload(other, "t", 1, 1)[0] is Verdict.UNKNOWN_MODEL


def test_request_that_was_refused_for_load_is_not_waited_for() -> None:
    leading = started(put(requests_waiting_max=1))
    leading.propose(leading.admit("a"))
    leading.propose(leading.admit("b"))
    leading.apply()
    assert leading.outlook is not None
    assert leading.outlook.windows[KEY].requests == 1
    leading.at_ms += 10
    assert seals(leading.propose()) == [(Release.AGE, (1,))]


def test_leader_that_erred_decides_nothing_more() -> None:
    leading = started(put(max_batch_size=1))
    assert leading.outlook is not None
    leading.propose(r.Quarantine(5))
    leading.apply()
    assert leading.outlook.is_stale
    assert len(leading.propose(leading.admit("a"))) == 1


def test_model_that_is_being_changed_or_deleted_is_left_alone() -> None:
    leading = started(put(max_batch_size=1))
    leading.propose(put(max_batch_size=2))
    assert not seals(leading.propose(leading.admit("a", "b")))
    leading.apply()
    assert seals(leading.propose()) == [(Release.SIZE, (1, 2))]
    leading.propose(r.DeleteModel("m", "1"))
    assert not seals(leading.propose(leading.admit("c", "d")))
    leading.apply()
    leading.propose(leading.complete(1))
    leading.apply()
    assert leading.outlook is not None
    assert not leading.outlook.models
    assert not leading.outlook.is_stale


def test_window_of_a_model_that_was_deleted_and_put_anew_is_looked_at() -> None:
    """While requests for it were in flight: some before the DeleteModel lands, some after."""
    leading = started(put(max_batch_size=1))
    leading.propose(r.DeleteModel("m", "1"))
    leading.propose(leading.admit("late"))
    leading.apply()
    assert leading.outlook is not None
    assert (leading.outlook.windows, leading.outlook.models) == ({}, {})
    leading.propose(put(max_batch_size=1))
    leading.propose(leading.admit("early"))
    leading.apply()
    assert seals(leading.propose()) == [(Release.SIZE, (2,))]
    leading.apply()
    assert not leading.outlook.is_stale
    assert list(leading.running["gpu-1"]) == [1]


def test_outlook_of_many_small_windows_is_built_in_few_steps() -> None:
    leading = started(r.PutModel(Model("m", "1", max_queue_delay_microseconds=10_000_000)))
    for n in range(300):
        leading.propose(leading.admit(f"{n}", key=("m", "1", f"{n}")))
        leading.apply()
    assert len(leading.state.windows) == 300
    assert 1 <= len(list(Outlook(leading.state).build())) < 10


class Counted(str):
    """A text that counts how often its place among others was asked for."""

    __slots__ = ()
    asked = 0

    def __lt__(self, other: str) -> bool:
        """Count, and compare."""
        Counted.asked += 1
        return str.__lt__(self, other)


def test_outlook_is_built_in_steps_none_of_which_looks_at_all_windows() -> None:
    """A hundred thousand windows took 88 ms to be sorted, in one turn of the loop."""
    leading = started(put(), executors=())
    count = 4000
    for number in range(1, count + 1):
        key: Key = ("m", "1", Counted(f"{number * 7919 % count}"))
        request = Request(number, f"t\0{number}", key, 1, 1, 1, 0, 1, b"h", 10, b"", b"", "")
        leading.state.requests[number] = request
        leading.state.add_to_window(request)
    outlook = Outlook(leading.state)
    most = 0
    Counted.asked = 0
    for _ in outlook.build():
        most, Counted.asked = max(most, Counted.asked), 0
    assert max(most, Counted.asked) < count
    assert len(outlook.windows) == count
