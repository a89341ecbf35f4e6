"""Outcomes that one tenant leaves: they fill its own share, and nobody else's."""

from __future__ import annotations

import pytest

from coordinator.core import invariants
from coordinator.core.effects import Verdict
from coordinator.core.snapshot import Capture, restore
from coordinator.core.usage import Usage
from coordinator.core.values import OUTCOME_BYTES
from raftbatch import records as r
from raftbatch.kinds import Release
from raftbatch.settings import Model, Policy, TenantLimits
from tests.unit.core.leading import KEY, Leading
from tests.unit.core.tables import Core

SHARE = 3 * OUTCOME_BYTES
POLICY = Policy(tenant_outcome_bytes_max=SHARE, outcome_reserve_bytes=OUTCOME_BYTES)


def full() -> Core:
    """Return a core in which tenant `t` has three outcomes, and may have no more."""
    core = Core(policy=POLICY)
    core.admit("a", "b", "c")
    core.one(r.Cancel(("t",) * 3, ("a", "b", "c")))
    return core


def acknowledge(core: Core, *names: str, tenant: str = "t") -> str:
    """Say that outcomes were read."""
    return core.one(r.Acknowledge((tenant,) * len(names), names))


def test_tenant_that_acknowledges_nothing_is_refused_and_no_other() -> None:
    core = full()
    assert core.admit("d") == "QUOTA_EXCEEDED"
    assert core.admit("d", "e") == "QUOTA_EXCEEDED QUOTA_EXCEEDED"
    assert core.admit("d", tenant="u") == "OK"
    assert core.admit("a") == "ENDED", "what is known is answered all the same"
    assert acknowledge(core, "b") == "OK"
    assert core.admit("d") == "OK"
    assert core.admit("e") == "QUOTA_EXCEEDED", "what waits has its place kept"


@pytest.mark.parametrize("how", ["acknowledged", "forgotten", "old", "policy", "listed"])
def test_room_in_a_share_comes_back(how: str) -> None:
    core = full()
    match how:
        case "acknowledged":
            assert acknowledge(core, "a", "b", "c", "a") == "OK OK OK OK"
        case "forgotten":
            assert core.one(r.Forget(("t",) * 3, ("a", "b", "c"))) == "OK OK OK"
        case "old":
            core.at_ms += POLICY.outcome_retention_ms
            core.one(r.Advance())
        case "policy":
            core.one(r.PutPolicy(Policy()))
        case "listed":
            own = TenantLimits("t", 9, 9, 999, 6 * OUTCOME_BYTES)
            core.one(r.PutPolicy(Policy(tenant_outcome_bytes_max=SHARE, tenants=(own,))))
    assert core.admit("d", "e", "f") == "OK OK OK"
    assert (how in ("acknowledged", "forgotten", "old")) == (not core.state.tenant_outcomes)


def test_cancels_of_unknown_ids_count_toward_the_share() -> None:
    core = Core(policy=POLICY)
    assert core.one(r.Cancel(("t",) * 4, ("a", "b", "c", "d"))).endswith(
        "UNKNOWN_REQUEST QUOTA_EXCEEDED"
    )
    assert core.one(r.Cancel(("u",), ("a",))) == "UNKNOWN_REQUEST"
    core = full()
    assert core.one(r.Cancel(("t",), ("d",))) == "QUOTA_EXCEEDED"
    assert not core.state.tenant_use, "a tenant that has nothing else takes no room"


def test_results_of_several_tenants_in_one_batch_are_each_ones_own() -> None:
    core = Core()
    core.admit("a", "b")
    core.admit("a", tenant="u")
    numbers = (core.number("a"), core.number("b"), core.number("a", "u"))
    core.one(r.Seal(1, KEY, Release.SIZE, numbers))
    core.assign(1)
    core.one(core.report(1))
    outcomes = [core.state.request(tenant, name) for tenant, name in ("ta", "tb", "ua")]
    sizes = [each.size for each in outcomes if each is not None]
    assert core.state.tenant_outcomes == {"t": sizes[0] + sizes[1], "u": sizes[2]}
    assert acknowledge(core, "a", tenant="u") == "OK"
    assert core.state.tenant_outcomes.keys() == {"t"}


def test_shares_are_the_same_after_a_snapshot() -> None:
    core = full()
    core.one(r.Cancel(("u",), ("a",)))
    restored = restore(Capture(core.state).chunks())
    invariants.check(restored)
    assert restored.tenant_outcomes == core.state.tenant_outcomes == {"t": SHARE, "u": 128}


def test_leader_foresees_that_a_share_is_full() -> None:
    leading = Leading()
    leading.lead()
    leading.apply()
    leading.propose(r.PutPolicy(POLICY), r.PutModel(Model("m", "1")))
    leading.apply()
    assert leading.outlook is not None
    leading.propose(leading.admit("a", "b"))
    assert leading.outlook.overload(KEY, "t", 1, 10)[0] is Verdict.OK
    leading.propose(leading.admit("c"))
    verdict, retry_ms = leading.outlook.overload(KEY, "t", 1, 10)
    assert (verdict, retry_ms > 0) == (Verdict.QUOTA_EXCEEDED, True)
    assert leading.outlook.overload(KEY, "u", 1, 10)[0] is Verdict.OK
    more: dict[object, Usage] = {"u": Usage(), None: Usage()}
    for each in more.values():
        each.requests = 3
    assert leading.outlook.overload(KEY, "u", 1, 10, more)[0] is Verdict.QUOTA_EXCEEDED


def test_share_that_lets_nothing_pass_is_none() -> None:
    with pytest.raises(ValueError, match="tenant_outcome_bytes_max = 100 is less than"):
        Policy(tenant_outcome_bytes_max=100)
    with pytest.raises(ValueError, match=r"tenants\.t\.outcome_bytes_max = 100 is less than"):
        Policy(tenants=(TenantLimits("t", 1, 1, 1, 100),))
