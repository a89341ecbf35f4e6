"""Second Admits of an id whose first is in flight when the term ends: they share its fate."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chaos.worlds.loop import VirtualLoop
from coordinator.core.effects import Verdict
from coordinator.leader_parts import LeaderConfig
from raftbatch import records as r
from raftbatch.errors import NoLeader, NotLeader, OutcomeUnknown
from tests.unit.leader_scene import MODEL, OTHER, Scene, put


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    with VirtualLoop() as loop:
        yield loop


def test_duplicate_of_what_is_in_flight_is_told_what_became_of_that(loop: VirtualLoop) -> None:
    """Its own entry never was; but its id may be in the log, so nothing definite can be said."""
    scene = Scene(loop, config=LeaderConfig(entries_inflight_max=1))
    scene.begin(put())
    flying, twin = scene.admit("a"), scene.admit("a")
    scene.turn()
    twins = [twin, scene.admit("a"), scene.admit("a", content_hash=b"other")]
    scene.depose()
    assert not any(each.answers for each in (flying, *twins))
    scene.settle()  # committed by the next leader
    ticket = flying.landed.value
    told = [(each.landed.verdict, each.landed.value) for each in twins]
    known = Verdict.KNOWN, ticket
    assert told == [known, known, (Verdict.REQUEST_ID_CONFLICT, 0)]
    scene.check()


def test_duplicate_of_what_is_unknown_is_unknown_too(loop: VirtualLoop) -> None:
    scene = Scene(loop)
    scene.begin(put())
    entries = len(scene.log.entries)
    flying, twin = scene.admit("a"), scene.admit("a")
    scene.turn()
    scene.depose()
    del scene.log.entries[entries:]
    scene.elect()
    scene.turn()
    assert isinstance(flying.error, OutcomeUnknown)
    assert isinstance(twin.error, OutcomeUnknown)
    scene.settle()
    scene.check()


def test_duplicate_of_what_stands_in_flight_when_the_node_stops_is_unknown(
    loop: VirtualLoop,
) -> None:
    scene = Scene(loop)
    scene.begin(put())
    flying, twin = scene.admit("a"), scene.admit("a")
    scene.turn()
    waits = [scene.admit("b"), scene.admit("b")]
    scene.process.call(scene.leader.close)
    assert [type(each.error) for each in (flying, twin)] == [OutcomeUnknown] * 2
    assert [type(each.error) for each in waits] == [NoLeader] * 2
    scene.check()


def test_duplicate_of_what_was_never_there_is_refused_as_that_is(loop: VirtualLoop) -> None:
    scene = Scene(loop)
    scene.begin(put())
    first = len(scene.log.entries) + 1
    flying, twin = scene.admit("a"), scene.admit("a")
    scene.turn()
    scene.depose()
    scene.lose(first)
    scene.settle()
    assert [type(each.error) for each in (flying, twin)] == [NotLeader] * 2
    scene.check()


def test_duplicate_of_what_was_refused_as_it_landed_goes_elsewhere(loop: VirtualLoop) -> None:
    scene = Scene(loop)
    scene.begin(put())
    scene.propose(r.DeleteModel(*MODEL))
    scene.turn()
    flying, twin = scene.admit("a"), scene.admit("a")
    scene.turn()
    scene.depose()
    scene.settle()  # both entries are committed by the next leader
    assert flying.landed.verdict is Verdict.UNKNOWN_MODEL
    assert isinstance(twin.error, NotLeader)
    assert twin.error.leader == OTHER
    scene.check()
