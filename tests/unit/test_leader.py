"""The leader's shell: terms, entries, and who is told what."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chaos.worlds.loop import VirtualLoop
from coordinator.core.effects import Verdict, Verdicts
from coordinator.leader_parts import LeaderConfig
from coordinator.proposer import Landed
from raftbatch import records as r
from raftbatch.errors import (
    Draining,
    InvalidRequest,
    Overloaded,
    PayloadTooLarge,
    QuotaExceeded,
    UnknownModel,
)
from raftbatch.kinds import Release
from raftbatch.settings import Policy
from tests.unit.leader_scene import (
    KEY,
    MODEL,
    Scene,
    join,
    put,
)


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    with VirtualLoop() as loop:
        yield loop


def test_request_goes_its_way(loop: VirtualLoop) -> None:
    scene = Scene(loop)
    scene.begin(put(max_batch_size=1), join())
    asked = scene.admit("a")
    scene.turn()
    index = len(scene.log.entries)
    assert scene.records(index) == ["Admit", "Seal", "Assign"]
    assert not asked.answers
    scene.apply()
    assert (asked.landed.index, asked.landed.value) == (index, index)
    scene.check()


def test_time_from_append_to_apply_is_measured_for_what_was_applied(loop: VirtualLoop) -> None:
    scene = Scene(loop)
    scene.begin(put(), join())
    before = scene.leader.commit_ns.count, scene.leader.commit_ns.total
    scene.admit("a")
    scene.turn()
    loop.run_for(0.002)
    scene.apply(1)
    found = scene.leader.commit_ns
    assert (found.count, found.total - before[1]) == (before[0] + 1, 2_000_000)
    scene.admit("b")
    scene.turn()
    scene.depose()
    scene.lose(len(scene.log.entries))
    scene.apply()
    assert found.count == before[0] + 1, "it was never committed"


def test_burst_in_one_turn_is_one_entry(loop: VirtualLoop) -> None:
    scene = Scene(loop)
    scene.begin(put())
    before = len(scene.log.entries)
    for number in range(300):
        scene.admit(f"{number}")
    cancelled = scene.propose(r.Cancel(("t",), ("7",)))
    scene.turn()
    assert len(scene.log.entries) == before + 1
    assert scene.records(before + 1)[:2] == ["Admit", "Cancel"]
    scene.apply()
    assert all(each.landed.verdict is Verdict.OK for each in scene.asked[-301:-1])
    assert cancelled.answers == [Verdicts(bytes(1))]
    scene.check()


def test_no_more_entries_are_in_flight_than_may_be(loop: VirtualLoop) -> None:
    scene = Scene(loop, config=LeaderConfig(entries_inflight_max=2))
    scene.begin(put())
    before = len(scene.log.entries)
    for number in range(5):
        scene.admit(f"{number}")
        scene.turn()
    assert len(scene.log.entries) == before + 2
    scene.apply(1)
    assert len(scene.log.entries) == before + 3
    found = scene.entry(before + 3).records[0]
    assert isinstance(found, r.Admit)
    assert found.request_id == ("2", "3", "4")
    scene.settle()
    assert all(each.landed.verdict is Verdict.OK for each in scene.asked[-5:])
    scene.check()


def test_what_is_little_waits_for_a_large_entry_in_flight_and_what_is_large_does_not(
    loop: VirtualLoop,
) -> None:
    scene = Scene(loop, config=LeaderConfig(entries_inflight_max=3))
    scene.begin(put(), join())
    before = len(scene.log.entries)
    scene.admit("large", payload=bytes(20 << 10))
    scene.turn()
    scene.admit("little", timeout_ms=5)
    loop.run_for(0.1)  # nor does what is due meanwhile have an entry of its own
    assert len(scene.log.entries) == before + 1
    events = loop.events
    loop.run_for(1.0)
    assert loop.events - events < 60  # it is waited for at no cost
    scene.admit("larger", payload=bytes(260 << 10))
    scene.turn()
    assert len(scene.log.entries) == before + 2
    found = scene.entry(before + 2).records[0]
    assert isinstance(found, r.Admit)
    assert found.request_id == ("little", "larger")
    scene.settle()
    scene.admit("first")
    scene.turn()
    scene.admit("second")
    scene.turn()
    names = [scene.records(index)[0] for index in (-1, 0)]
    assert names == ["Admit", "Admit"]  # each went at once
    scene.settle()
    assert all(each.landed.verdict is Verdict.OK for each in scene.asked[-5:])
    scene.check()


def test_entries_are_grouped_up_to_their_limit_and_a_larger_thing_rides_alone(
    loop: VirtualLoop,
) -> None:
    scene = Scene(loop, config=LeaderConfig(entry_bytes_max=1400, entries_inflight_max=9))
    scene.begin(put())
    before = len(scene.log.entries)
    for name in "abcd":
        scene.admit(name, payload=bytes(300))
    scene.admit("large", payload=bytes(5000))
    scene.admit("e")
    scene.turn()
    found = [scene.entry(index + 1).records[0] for index in range(before, len(scene.log.entries))]
    ids = [each.request_id for each in found if isinstance(each, r.Admit)]
    assert ids == [("a", "b"), ("c", "d"), ("large",), ("e",)]
    scene.settle()
    assert all(each.landed.verdict is Verdict.OK for each in scene.asked[-6:])
    scene.check()


def test_second_request_of_an_id_waits_for_what_becomes_of_the_first(loop: VirtualLoop) -> None:
    scene = Scene(loop)
    scene.begin(put())
    first, pending = scene.admit("a"), scene.admit("a")
    scene.turn()
    in_flight, other = scene.admit("a"), scene.admit("a", content_hash=b"x")
    scene.turn()
    entries = len(scene.log.entries)
    scene.apply()
    assert len(scene.log.entries) == entries  # they are answered by what is applied
    assert first.landed == Landed(entries, Verdict.OK, "", entries)
    assert pending.landed == in_flight.landed == Landed(entries, Verdict.KNOWN, "", entries)
    assert other.landed.verdict is Verdict.REQUEST_ID_CONFLICT
    scene.check()


def test_second_request_of_an_id_goes_its_own_way_where_the_first_was_refused(
    loop: VirtualLoop,
) -> None:
    scene = Scene(loop, config=LeaderConfig(entries_inflight_max=1))
    scene.begin(put())
    scene.propose(put(max_batch_size=1))
    scene.turn()
    first = scene.admit("a", rows=2)  # too large for what is in flight
    second = scene.admit("a")
    scene.apply()
    scene.apply()
    assert first.landed.verdict is Verdict.INVALID_REQUEST
    assert not second.answers
    scene.apply()
    assert second.landed.verdict is Verdict.OK
    scene.check()


def test_id_that_is_known_is_never_refused_for_load(loop: VirtualLoop) -> None:
    scene = Scene(loop)
    scene.begin(put(requests_waiting_max=1))
    first, second = scene.admit("a"), scene.admit("a")
    with pytest.raises(Overloaded):
        scene.admit("b")
    scene.settle()
    third = scene.admit("a")
    scene.settle()
    assert first.landed.verdict is Verdict.OK
    assert second.landed.verdict is third.landed.verdict is Verdict.KNOWN
    assert third.landed.value == first.landed.index
    scene.check()


def test_limit_of_n_means_that_n_are_accepted_and_the_next_refused(loop: VirtualLoop) -> None:
    scene = Scene(loop)
    policy = Policy(requests_waiting_max=6, tenant_requests_waiting_max=4)
    scene.begin(r.PutPolicy(policy), put(rows_waiting_max=9))
    accepted = [scene.admit("a"), scene.admit("b")]
    scene.settle()
    accepted.append(scene.admit("c"))
    scene.turn()  # in flight
    accepted.append(scene.admit("d"))  # pending
    with pytest.raises(QuotaExceeded):
        scene.admit("e")
    with pytest.raises(Overloaded) as refused:
        scene.admit("e", tenant="u", rows=6)
    assert refused.value.retry_after_ms
    accepted += [scene.admit("e", tenant="u"), scene.admit("f", tenant="u")]
    with pytest.raises(Overloaded):
        scene.admit("g", tenant="v")
    scene.settle()
    assert [each.landed.verdict for each in accepted] == [Verdict.OK] * 6
    with pytest.raises(Overloaded):
        scene.admit("g", tenant="v")
    scene.propose(r.Cancel(("t",), ("a",)))
    scene.settle()
    scene.admit("g", tenant="v")
    scene.check()


def test_who_comes_when_as_many_ids_are_known_as_may_is_told_when_one_goes(
    loop: VirtualLoop,
) -> None:
    scene = Scene(loop)
    policy = Policy(dedupe_entries_max=3, dedupe_retention_ms=900_000)
    scene.begin(r.PutPolicy(policy), put())
    scene.admit("a")
    scene.settle()
    scene.propose(r.Cancel(("t",), ("a",)))
    scene.settle()
    scene.admit("b")
    scene.turn()  # in flight
    scene.admit("c")  # pending
    for passed_ms, left_ms in ((0, 901_000), (400_000, 501_000)):
        scene.settle(passed_ms)
        with pytest.raises(Overloaded, match="dedupe_entries_max = 3") as refused:
            scene.admit("d")
        assert abs(refused.value.retry_after_ms - left_ms) <= 10
    scene.settle(501_010)
    scene.admit("d")
    scene.check()


def test_what_can_never_be_taken_is_refused_at_once(loop: VirtualLoop) -> None:
    scene = Scene(loop, config=LeaderConfig(record_bytes_max=5000, pending_bytes_max=6000))
    scene.begin(put(max_batch_size=4, max_batch_bytes=4000))
    for error, fields in (
        (UnknownModel, {"key": ("m", "2", "a")}),
        (InvalidRequest, {"rows": 5}),
        (InvalidRequest, {"priority": 3}),
        (InvalidRequest, {"rows": 0}),
        (InvalidRequest, {"tenant": ""}),
        (PayloadTooLarge, {"payload": bytes(4001)}),
    ):
        with pytest.raises(error):
            scene.admit("a", **fields)
    for record in (
        r.Lead("n1", 0, 1),
        r.Seal(1, KEY, Release.SIZE, (1,)),
        r.Quarantine(1),
        r.Advance(),
        r.Join("", 0, 1, (), b""),
    ):
        with pytest.raises(InvalidRequest):
            scene.propose(record)
    with pytest.raises(PayloadTooLarge, match="record_bytes_max = 5000"):
        scene.propose(r.Join("g", 0, 1, (), bytes(5000)))
    entries = len(scene.log.entries)
    scene.settle()
    assert len(scene.log.entries) == entries
    scene.propose(r.DeleteModel(*MODEL))
    scene.settle()
    with pytest.raises(UnknownModel):
        scene.admit("a")


def test_no_more_waits_than_may(loop: VirtualLoop) -> None:
    config = LeaderConfig(
        entries_inflight_max=1, pending_items_max=3, pending_bytes_max=3000, record_bytes_max=3000
    )
    scene = Scene(loop, config=config)
    scene.begin(put())
    scene.admit("flies", payload=bytes(2000))
    scene.turn()
    for name in "aab":
        scene.admit(name)
    with pytest.raises(Overloaded):
        scene.admit("c")
    with pytest.raises(Overloaded):
        scene.propose(r.Cancel(("t",), ("a",)))
    scene.settle()
    scene.admit("c", payload=bytes(2000))
    with pytest.raises(Overloaded):
        scene.admit("d", payload=bytes(2000))
    scene.settle()
    assert [len(each.answers) for each in scene.asked[-5:]] == [1] * 5
    scene.admit("d", payload=bytes(2000))
    scene.check()


def test_windows_are_sealed_when_they_are_old_and_time_moves_what_is_due(
    loop: VirtualLoop,
) -> None:
    scene = Scene(loop)
    scene.begin(put(max_queue_delay_microseconds=500_000), join())
    scene.admit("a")
    scene.admit("b", timeout_ms=5_000)
    scene.settle(499)
    assert not scene.replica.state.batches
    scene.settle(10)
    assert [each.members for each in scene.replica.state.batches.values()] == [(1, 2)]
    entries = len(scene.log.entries)
    scene.settle(1000)
    assert scene.replica.state.counters.expired == 0
    assert len(scene.log.entries) == entries  # nothing is due: nothing is written
    scene.beat()
    scene.settle(2000)
    scene.beat()
    scene.settle(1600)
    assert scene.replica.state.counters.expired == 1
    assert scene.records(len(scene.log.entries)) == ["Advance"]
    scene.check()


def test_everything_is_sealed_at_once_when_the_node_drains(loop: VirtualLoop) -> None:
    scene = Scene(loop)
    scene.begin(put(max_queue_delay_microseconds=500_000), join())
    scene.admit("a")
    scene.settle()
    scene.process.call(scene.leader.drain)
    scene.settle()
    assert [each.reason for each in scene.replica.state.batches.values()] == [Release.DRAIN]
    with pytest.raises(Draining):
        scene.admit("b")
    scene.propose(r.Cancel(("t",), ("a",)))
    scene.settle()
    # The same in a later term of this node.
    scene.depose()
    scene.elect()
    scene.settle()
    with pytest.raises(Draining):
        scene.admit("c")
    scene.check()


def test_node_that_drains_before_it_leads_seals_what_waits_once_it_does(loop: VirtualLoop) -> None:
    scene = Scene(loop)
    scene.begin(put(max_queue_delay_microseconds=500_000), join())
    scene.admit("a")
    scene.settle()
    scene.depose()
    scene.process.call(scene.leader.drain)
    scene.elect()
    scene.settle()
    assert [each.reason for each in scene.replica.state.batches.values()] == [Release.DRAIN]


def test_idle_executor_ends_the_gathering_once_no_request_waits_for_an_entry(
    loop: VirtualLoop,
) -> None:
    scene = Scene(loop, config=LeaderConfig(entry_bytes_max=300))
    scene.begin(put(max_queue_delay_microseconds=500_000, seal_when_idle=True), join())
    scene.admit("a", payload=bytes(200))
    scene.admit("b", payload=bytes(200))
    scene.settle()
    assert [(each.reason, each.members) for each in scene.replica.state.batches.values()] == [
        (Release.IDLE, (1, 2))
    ]
    scene.check()


def test_what_is_due_and_under_way_is_waited_for_at_no_cost(loop: VirtualLoop) -> None:
    scene = Scene(loop, config=LeaderConfig(entries_inflight_max=4))
    scene.begin(put(), join())
    scene.admit("a", timeout_ms=30)
    scene.settle()
    loop.run_for(1.0)  # an Advance is in flight, and does not land
    before = loop.events
    loop.run_for(1.0)
    assert loop.events - before < 30
    scene.settle()
    assert scene.replica.state.counters.expired == 1
    scene.check()
