"""Nobody takes all of what is bounded for all callers together."""

from __future__ import annotations

from collections.abc import Iterator
from contextvars import Context, copy_context
from typing import Any

import pytest

from chaos.worlds.loop import VirtualLoop
from coordinator.core.values import Outcome
from coordinator.rpc.callers import note
from coordinator.shares import CALLER, Caller, Shares
from coordinator.waits import IndexWaits, OutcomeWaits, Wait
from raftbatch import records as r
from raftbatch.errors import Draining, Overloaded, RaftbatchError
from tests.unit.core.tables import Core
from tests.unit.test_callers import Call


def context(*caller: str) -> Context:
    """Return a context in which things count as a caller's."""
    found = copy_context()
    found.run(CALLER.set, caller)
    return found


HOG, VICTIM, NOBODY = context("hog"), context("victim"), context()


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    with VirtualLoop() as loop:
        yield loop


def take(shares: Shares, who: Context, count: int = 1) -> Caller:
    """Take so much, or raise."""
    who.run(shares.check, count)
    return who.run(shares.take, count)


def most(shares: Shares, who: Context) -> int:
    """Take one after the other until no more may be taken; return how many were."""
    count, refused = 0, None
    while refused is None:
        try:
            take(shares, who)
            count += 1
        except Overloaded as error:
            refused = error
    assert refused.definite
    assert refused.retry_after_ms == 7
    return count


def test_each_caller_has_half_of_what_others_leave() -> None:
    shares = Shares(16, "things wait", "things_max", 7)
    assert [most(shares, context(f"{n}")) for n in range(4)] == [8, 4, 2, 1]
    with pytest.raises(
        Overloaded, match="8 things wait already for 0, and 7 for others: one caller"
    ):
        take(shares, context("0"))
    take(shares, context("4"))
    with pytest.raises(Overloaded, match=r"16 things wait already, of 16 that may \(things_max\)"):
        take(shares, context("5"))
    for new in ("5", "6"):
        shares.give(("0",))
        assert most(shares, context("0")) == 0, "others come first"
        take(shares, context(new))
    assert shares.total == 16


def test_within_a_node_nothing_has_a_share() -> None:
    shares = Shares(16, "things wait", "things_max", 7)
    assert most(shares, NOBODY) == 16
    assert shares._of == {}


def test_connections_of_one_machine_leave_something_to_others() -> None:
    shares = Shares(64, "things wait", "things_max", 7)
    found = [most(shares, context("machine", f"machine:{n}")) for n in range(9)]
    assert found == [32, 16, 0, 0, 0, 0, 0, 0, 0]
    shares.give(("machine", "machine:0"))
    take(shares, context("machine", "machine:5"))
    assert most(shares, context("certificate web")) == 8


def test_first_thing_of_a_caller_may_be_large() -> None:
    shares = Shares(64, "bytes", "bytes_max", 7, first_is_free=True)
    given = take(shares, HOG, 40)
    with pytest.raises(Overloaded):
        take(shares, HOG, 1)
    with pytest.raises(Overloaded):
        take(shares, VICTIM, 25)
    take(shares, VICTIM, 24)
    shares.give(given, 40)
    shares.give(("victim",), 24)
    assert (shares.total, shares._of) == (0, {})


def test_caller_is_a_certificate_or_a_connection_and_its_machine() -> None:
    for call, caller in (
        (Call("ipv4:10.0.0.1:5", b"web"), ("certificate web",)),
        (Call("ipv4:10.0.0.1:5"), ("ipv4:10.0.0.1", "ipv4:10.0.0.1:5")),
    ):
        ran = copy_context()
        assert ran.run(note, call) == caller[0]  # type: ignore[arg-type]
        assert ran.run(CALLER.get) == caller
    assert CALLER.get() == ()


def _told(_result: Outcome | RaftbatchError) -> None:
    pass


@pytest.mark.parametrize("how", ["dropped", "told", "installed", "ended"])
def test_who_waits_for_outcomes_leaves_room_for_others_and_gives_all_back(how: str) -> None:
    core, waits = Core(), OutcomeWaits(16)
    core.admit("a")
    found: list[Wait] = [HOG.run(waits.add, "t\0a", _told) for _ in range(8)]
    with pytest.raises(Overloaded, match=r"8 calls wait for outcomes already for hog.*waits_max"):
        HOG.run(waits.add, "t\0a", _told)
    found.append(VICTIM.run(waits.add, "t\0a", _told))
    match how:
        case "dropped":
            for wait in found:
                waits.drop(wait)
                waits.drop(wait)
        case "told":
            waits.applied(core.state, core.do(r.Cancel(("t",), ("a",))))
        case "installed":
            core.one(r.Cancel(("t",), ("a",)))
            waits.installed(core.state)
        case "ended":
            waits.end(Draining("it stops"))
    assert (len(waits), waits._shares._of) == (0, {})


def test_who_waits_for_an_index_leaves_room_for_others(loop: VirtualLoop) -> None:
    waits = IndexWaits(4)

    def asks(who: Context) -> Any:
        return loop.create_task(waits.wait(7, 1000), context=who)

    tasks = [asks(HOG), asks(HOG), asks(VICTIM)]
    loop.run_for(0.1)
    refused = asks(HOG)
    loop.run_for(0.1)
    with pytest.raises(Overloaded, match="2 calls wait for an index already for hog"):
        refused.result()
    tasks[0].cancel()
    waits.reached(7)
    loop.run_for(0.1)
    assert [tasks[1].result(), tasks[2].result()] == [True, True]
    assert (len(waits), waits._shares.total, waits._shares._of) == (0, 0, {})
