"""Cancels of ids that nobody knows never take the room that requests need."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chaos.worlds.loop import VirtualLoop
from coordinator.cancelling import Cancelling
from coordinator.core.effects import Verdict
from coordinator.core.state import State
from raftbatch import records as r
from raftbatch.errors import Overloaded
from raftbatch.settings import Policy
from tests.unit.api_scene import Asked
from tests.unit.core.tables import Core


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    with VirtualLoop() as loop:
        yield loop


def _remembered(core: Core, *names: tuple[str, str]) -> None:
    said = core.one(r.Cancel(*[tuple(each) for each in zip(*names, strict=True)]))
    assert set(said.split()) == {"UNKNOWN_REQUEST"}


def _refused(state: State, *names: tuple[str, str]) -> dict[int, object]:
    with Cancelling().taken(state, names) as refused:
        return dict(refused)


def test_cancels_of_unknown_ids_take_an_eighth_of_what_may_be_known() -> None:
    core = Core(policy=Policy(dedupe_entries_max=32, dedupe_retention_ms=900_000))
    core.admit("a")
    _remembered(core, *[(f"t{n}", "x") for n in range(3)])
    names = [("t", "a"), ("t", "b"), ("t", "c"), ("t0", "x"), ("t9", "d")]
    refused = _refused(core.state, *names)
    assert list(refused) == [2, 4]  # what is known is cancelled all the same
    error = refused[4]
    assert isinstance(error, Overloaded)
    assert error.definite
    assert error.retry_after_ms == 901_000
    core.wait(1_000)
    error = _refused(core.state, *names)[4]
    assert isinstance(error, Overloaded)
    assert error.retry_after_ms == 900_000


def test_cancels_of_unknown_ids_take_an_eighth_of_the_bytes_of_outcomes() -> None:
    core = Core(policy=Policy(outcome_bytes_max=128 * 16))
    _remembered(core, ("t", "x"))
    assert list(_refused(core.state, ("t", "y"), ("t", "z"))) == [1]


def test_tenants_that_have_nothing_but_cancels_are_an_eighth_of_all_tenants() -> None:
    core = Core(policy=Policy(tenants_max=16))
    core.admit("a", tenant="busy")
    _remembered(core, ("t0", "x"))
    names = [("busy", "y"), ("t1", "y"), ("t1", "z"), ("t0", "z"), ("t2", "y"), ("t3", "y")]
    assert list(_refused(core.state, *names)) == [4, 5]


def test_cancels_that_are_under_way_count_until_they_are_not() -> None:
    core = Core(policy=Policy(dedupe_entries_max=16))
    cancelling = Cancelling()
    with cancelling.taken(core.state, [("t", "a"), ("t", "b")]) as first:
        assert first == {}
        with cancelling.taken(core.state, [("t", "c"), ("u", "d")]) as second:
            assert list(second) == [0, 1]
    with cancelling.taken(core.state, [("t", "c"), ("u", "d")]) as third:
        assert third == {}
    assert cancelling._under_way == {}


def test_each_id_of_a_call_has_its_own_answer(loop: VirtualLoop) -> None:
    node = Asked(loop, policy=Policy(dedupe_entries_max=16))
    node.admit("a")
    asked = [("t", each) for each in ("b", "c", "a", "d", "e")]
    answers = node.gets(node.api.cancel(asked))
    assert answers[:3] == [Verdict.UNKNOWN_REQUEST, Verdict.UNKNOWN_REQUEST, Verdict.OK]
    assert [type(each) for each in answers[3:]] == [Overloaded, Overloaded]
    assert node.gets(node.api.cancel([("t", "b")])) == [Verdict.ENDED]


def test_refused_cancel_names_what_is_full() -> None:
    core = Core(policy=Policy(dedupe_entries_max=16, dedupe_retention_ms=900_000))
    core.admit(*[f"{n}" for n in range(16)])
    error = _refused(core.state, ("t", "x"))[0]
    assert isinstance(error, Overloaded)
    assert "dedupe_entries_max = 16" in error.message
