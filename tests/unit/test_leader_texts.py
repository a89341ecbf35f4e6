"""A leader counts what texts take beyond their due, and says when room is to be expected.

Signatures, trace contexts and long ids count; outcomes that nobody reads go with their retention.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chaos.worlds.loop import VirtualLoop
from coordinator.cancelling import Cancelling
from coordinator.core.texts import KNOWN_ID_BYTES, TEXTS_BYTES
from raftbatch import records as r
from raftbatch.errors import Overloaded, QuotaExceeded, RaftbatchError
from raftbatch.settings import Policy
from tests.unit.core.tables import Core
from tests.unit.leader_scene import KEY, Scene, put

SIGNED = (*KEY[:2], "s" * 500)
SIGNED_BYTES = 2 * sum(map(len, SIGNED)) - TEXTS_BYTES
SIZE = 10
"""Bytes of a request's payload."""


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    with VirtualLoop() as loop:
        yield loop


def _taken(scene: Scene, count: int, how: str, **fields: object) -> tuple[int, RaftbatchError]:
    """Ask for requests until one is refused, whose answers are waited for or not; how many were."""
    taken = 0
    while taken < count:
        requests = [(f"{taken + n}", fields) for n in range(2 if how == "together" else 1)]
        try:
            if how != "together" or scene.admit_all(requests) is None:
                for request_id, _ in requests:
                    scene.admit(request_id, **fields)
                    taken += 1
            else:
                taken += len(requests)
        except RaftbatchError as error:
            return taken, error
        if how == "landed":
            scene.settle()
        elif how == "in flight":
            scene.turn()
    raise AssertionError("nothing was refused")


@pytest.mark.parametrize("how", ["landed", "in flight", "waiting", "together"])
def test_signatures_count_toward_the_bytes_that_wait(loop: VirtualLoop, how: str) -> None:
    scene = Scene(loop)
    most = 5 * (SIGNED_BYTES + SIZE)
    scene.begin(r.PutPolicy(Policy(bytes_waiting_max=most, tenant_bytes_waiting_max=most)), put())
    taken, error = _taken(scene, 9, how, key=SIGNED)
    assert (taken, type(error)) == (5, Overloaded)
    assert error.definite
    assert error.retry_after_ms
    with pytest.raises(Overloaded):
        scene.admit("plain")
    scene.settle()
    scene.propose(r.Cancel(("t",), ("0",)))
    scene.settle()
    scene.admit("now")
    scene.settle()


@pytest.mark.parametrize("how", ["landed", "in flight", "waiting", "together"])
def test_signatures_of_a_tenant_fill_its_own_share(loop: VirtualLoop, how: str) -> None:
    scene = Scene(loop)
    most = 3 * (SIGNED_BYTES + SIZE)
    scene.begin(r.PutPolicy(Policy(tenant_bytes_waiting_max=most)), put())
    taken, error = _taken(scene, 9, how, key=SIGNED)
    assert (taken, type(error)) == (3, QuotaExceeded)
    scene.admit("other", tenant="u", key=SIGNED)
    scene.settle()


@pytest.mark.parametrize("how", ["landed", "in flight", "waiting", "together"])
def test_long_id_counts_as_several(loop: VirtualLoop, how: str) -> None:
    scene = Scene(loop)
    scene.begin(r.PutPolicy(Policy(dedupe_entries_max=10)), put())
    tenant = "t" * (46 + KNOWN_ID_BYTES)  # and NUL, and a digit
    taken, error = _taken(scene, 9, how, tenant=tenant)
    assert (taken, type(error)) == (5, Overloaded)
    assert "dedupe_entries_max = 10" in error.message
    assert error.retry_after_ms > 60_000
    scene.settle()


def test_cancels_of_long_ids_that_nobody_knows_count_as_several() -> None:
    core = Core(policy=Policy(dedupe_entries_max=80))
    cancelling = Cancelling()
    names = [("t", f"{n}" + "i" * (45 + KNOWN_ID_BYTES)) for n in range(9)]
    with cancelling.taken(core.state, names[:2]) as first:
        assert not first
        with cancelling.taken(core.state, names[2:]) as second:
            assert list(second) == [3, 4, 5, 6]
    core.one(r.Cancel(("t",) * 4, tuple([name for _, name in names[:4]])))
    with cancelling.taken(core.state, [*names[4:], ("t", "x")]) as third:
        assert list(third) == [1, 2, 3, 4, 5]
    core.admit(*[f"r{n}" for n in range(71)])
    with cancelling.taken(core.state, [("t", "x"), ("t", "y")]) as fourth:
        assert list(fourth) == [1], "as many ids are known as may"
    assert cancelling._names == 0


FULL = Policy(outcome_bytes_max=4 * 128, outcome_reserve_bytes=128, outcome_retention_ms=200_000)
SHARE = Policy(tenant_outcome_bytes_max=4 * 128, outcome_retention_ms=200_000)


@pytest.mark.parametrize(("policy", "error"), [(FULL, Overloaded), (SHARE, QuotaExceeded)])
def test_who_comes_when_outcomes_fill_what_is_kept_is_told_when_one_goes(
    loop: VirtualLoop, policy: Policy, error: type[RaftbatchError]
) -> None:
    def refused() -> int:
        with pytest.raises(error, match=r"has not acknowledged|nobody has acknowledged") as found:
            scene.admit("more")
        assert found.value.definite
        return found.value.retry_after_ms

    scene = Scene(loop)
    scene.begin(r.PutPolicy(policy), put())
    for name in "abcd":
        scene.admit(name)
        scene.settle()
        scene.propose(r.Cancel(("t",), (name,)))
        scene.settle(100)
    assert refused() == 1000, "whether anybody reads them is not known yet"
    scene.settle(2000)
    # What is left of the oldest one's retention, and a second's grace.
    first = scene.replica.state.ended[0].at_ms
    left_ms = first + 201_000 - scene.log_clock.now_ms()
    assert 195_000 < left_ms < 200_000
    assert abs(refused() - left_ms) <= 10
    scene.propose(r.Acknowledge(("t",), ("a",)))
    scene.settle()
    scene.admit("e")
    scene.settle()
    assert refused() == 1000, "somebody reads them"
    scene.settle(1500)
    # The oldest that is kept is the second one now.
    left_ms = scene.replica.state.ended[1].at_ms + 201_000 - scene.log_clock.now_ms()
    assert abs(refused() - left_ms) <= 10
    scene.settle(left_ms + 20)
    scene.admit("now")
    scene.check()


def test_tenant_that_reads_nothing_is_told_so_whatever_others_read(loop: VirtualLoop) -> None:
    scene = Scene(loop)
    scene.begin(r.PutPolicy(SHARE), put())
    for tenant, name in (("u", "x"), ("t", "a"), ("t", "b"), ("t", "c"), ("t", "d")):
        scene.admit(name, tenant=tenant)
        scene.settle()
        scene.propose(r.Cancel((tenant,), (name,)))
        scene.settle(100)
    scene.settle(2000)
    scene.propose(r.Acknowledge(("u",), ("x",)))
    scene.settle()
    left_ms = scene.replica.state.ended[1].at_ms + 201_000 - scene.log_clock.now_ms()
    with pytest.raises(QuotaExceeded) as found:
        scene.admit("more")
    assert abs(found.value.retry_after_ms - left_ms) <= 10
