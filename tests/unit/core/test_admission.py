"""Admit: ids that are known, what can never run, what is too much."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coordinator.core.effects import Verdicts
from coordinator.core.values import Outcome
from raftbatch import records as r
from raftbatch.settings import Model, Policy, TenantLimits
from tests.unit.core.tables import KEY, Core


def test_admit_takes_a_request_once() -> None:
    core = Core()
    assert core.admit("a", "b", "a") == "OK OK KNOWN"
    assert core.admit("a") == "KNOWN"
    assert core.state.counters.admitted == 2
    assert core.admit("a", tenant="other") == "OK"


def test_admit_answers_a_known_id_with_its_ticket() -> None:
    core = Core()
    core.admit("a")
    ticket = core.state.index
    reply = core.do(core.admission("b", "a")).replies[0]
    assert isinstance(reply, Verdicts)
    assert reply.tickets == ((1, ticket),)


def test_admit_in_two_records_of_an_entry_takes_a_request_once() -> None:
    core = Core()
    first = core.admission("a")
    core.do(first, replace(first, first=2))
    assert list(core.state.requests) == [1]


@pytest.mark.parametrize("ended", [False, True])
def test_same_id_with_other_content_is_a_conflict(ended: bool) -> None:
    core = Core()
    batch = core.start("a")
    if ended:
        core.one(core.report(batch))
    assert core.admit("a", content_hash=b"other") == "REQUEST_ID_CONFLICT"
    assert core.admit("a") == ("ENDED" if ended else "KNOWN")


def test_numbers_only_rise() -> None:
    core = Core()
    core.admit("a", first=10)
    assert core.admit("b", first=10) == "VOID"
    assert core.admit("b", first=1 << 60) == "VOID"
    assert core.admit("b", first=11) == "OK"
    assert core.state.next_request == 12


@pytest.mark.parametrize(
    ("alike", "verdict", "said"),
    [
        ({"rows": 33}, "INVALID_REQUEST", "33 rows are more than max_batch_size = 32"),
        ({"rows": 32}, "OK", ""),
        ({"priority": 3}, "INVALID_REQUEST", "priority 3 is none of priority_levels = 3"),
        ({"priority": 2}, "OK", ""),
        ({"size": 101}, "PAYLOAD_TOO_LARGE", "101 bytes are more than max_batch_bytes = 100"),
        ({"size": 100}, "OK", ""),
        ({"key": ("m", "2", "a")}, "UNKNOWN_MODEL", ""),
    ],
)
def test_request_that_can_never_run_is_refused_with_the_limit(
    alike: dict[str, object], verdict: str, said: str
) -> None:
    core = Core(Model("m", "1", max_batch_bytes=100))
    record = core.admission("a", **alike)  # type: ignore[arg-type]
    assert core.one(record) == verdict
    again = core.admission("b", **alike)  # type: ignore[arg-type]
    assert core.said(again) == said


def test_request_beyond_the_clusters_limit_is_refused() -> None:
    core = Core(policy=Policy(request_bytes_max=50))
    assert core.said(core.admission("a", size=51)) == (
        "51 bytes are more than request_bytes_max = 50"
    )
    assert core.admit("b", size=50) == "OK"


def test_request_without_a_batch_axis_has_one_row() -> None:
    core = Core(Model("m", "1", max_batch_size=0))
    assert core.admit("a", rows=2) == "INVALID_REQUEST"
    assert core.admit("b") == "OK"


LIMITS: list[tuple[Model, Policy, str]] = [
    (Model("m", "1"), Policy(requests_waiting_max=3), "OVERLOADED"),
    (Model("m", "1"), Policy(rows_waiting_max=6), "OVERLOADED"),
    (Model("m", "1"), Policy(bytes_waiting_max=30), "OVERLOADED"),
    (Model("m", "1", requests_waiting_max=3), Policy(), "OVERLOADED"),
    (Model("m", "1", rows_waiting_max=6), Policy(), "OVERLOADED"),
    (Model("m", "1", bytes_waiting_max=30), Policy(), "OVERLOADED"),
    (Model("m", "1"), Policy(tenant_requests_waiting_max=3), "QUOTA_EXCEEDED"),
    (Model("m", "1"), Policy(tenant_rows_waiting_max=6), "QUOTA_EXCEEDED"),
    (Model("m", "1"), Policy(tenant_bytes_waiting_max=30), "QUOTA_EXCEEDED"),
    (Model("m", "1"), Policy(tenants=(TenantLimits("t", 3, 99, 999),)), "QUOTA_EXCEEDED"),
    (
        Model("m", "1"),
        Policy(tenant_outcome_bytes_max=300, outcome_reserve_bytes=100),
        "QUOTA_EXCEEDED",
    ),
    (
        Model("m", "1"),
        Policy(
            tenants=(TenantLimits("t", 9, 99, 999, 300),),
            tenant_outcome_bytes_max=1 << 20,
            outcome_reserve_bytes=100,
        ),
        "QUOTA_EXCEEDED",
    ),
    (Model("m", "1"), Policy(dedupe_entries_max=3), "OVERLOADED"),
    (Model("m", "1"), Policy(outcome_bytes_max=300, outcome_reserve_bytes=100), "OVERLOADED"),
]


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize(("model", "policy", "verdict"), LIMITS)
def test_limit_of_three_takes_three_and_refuses_the_next(
    model: Model, policy: Policy, verdict: str, at_once: bool
) -> None:
    core = Core(model, policy)
    if at_once:
        answers = core.admit("a", "b", "c", "d", rows=2)
    else:
        answers = " ".join([core.admit(each, rows=2) for each in "abcd"])
    assert answers == f"OK OK OK {verdict}"
    assert core.admit("a", rows=2) == "KNOWN"


@pytest.mark.parametrize(("model", "policy", "verdict"), LIMITS[:9])
def test_what_runs_counts_until_its_outcome(model: Model, policy: Policy, verdict: str) -> None:
    core = Core(model, policy)
    batch = core.start("a", "b", "c", rows=2)
    assert core.admit("d") == verdict
    core.one(core.report(batch))
    assert core.admit("d") == "OK"


def test_windows_and_tenants_are_bounded() -> None:
    core = Core(policy=Policy(windows_max=1, tenants_max=1))
    assert core.admit("a") == "OK"
    assert core.admit("b", key=("m", "1", "b")) == "OVERLOADED"
    assert core.admit("b", tenant="other") == "OVERLOADED"
    core.one(r.Cancel(("t",), ("a",)))
    assert not core.state.tenant_use
    assert core.admit("b", key=("m", "1", "b"), tenant="other") == "OK"


def test_refusal_says_when_to_come_back_by_the_rate_of_outcomes() -> None:
    core = Core(policy=Policy(requests_waiting_max=16), slots=9)
    ids = [f"a{n}" for n in range(16)]
    core.admit(*ids)
    reply = core.do(core.admission("x")).replies[0]
    assert isinstance(reply, Verdicts)
    assert reply.retry_after_ms == 1000  # nothing has ended yet
    core.seal(*ids[:10])
    core.assign()
    core.one(core.report())
    core.wait(1000)
    core.admit(*[f"b{n}" for n in range(10)])
    reply = core.do(core.admission("x")).replies[0]
    assert isinstance(reply, Verdicts)
    assert core.state.drained_per_s == 10
    assert reply.retry_after_ms == 300  # 3 of 16, at 10 a second


def test_cancel_that_comes_first_meets_the_request() -> None:
    core = Core()
    assert core.one(r.Cancel(("t",), ("a",))) == "UNKNOWN_REQUEST"
    assert core.admit("a") == "ENDED"
    assert core.outcome("a") == "cancelled"
    found = core.state.request("t", "a")
    assert isinstance(found, Outcome)
    assert found.number == 0


def test_remembered_cancels_are_bounded_for_each_tenant() -> None:
    core = Core(policy=Policy(cancels_remembered_max=2))
    many = r.Cancel(("t", "t", "t", "other"), ("a", "b", "c", "c"))
    assert core.one(many) == ("UNKNOWN_REQUEST UNKNOWN_REQUEST QUOTA_EXCEEDED UNKNOWN_REQUEST")
    core.wait(3_600_000)
    assert core.one(r.Cancel(("t",), ("c",))) == "UNKNOWN_REQUEST"


def test_remembered_cancels_respect_the_bounds_of_all() -> None:
    core = Core(policy=Policy(dedupe_entries_max=1))
    assert core.one(r.Cancel(("t", "u"), ("a", "b"))) == "UNKNOWN_REQUEST OVERLOADED"
    assert list(core.state.tenant_use) == ["t"], "a tenant that has nothing takes no room"
    core = Core(policy=Policy(outcome_bytes_max=200))
    assert core.one(r.Cancel(("t", "u"), ("a", "b"))) == "UNKNOWN_REQUEST OVERLOADED"
    assert list(core.state.tenant_use) == ["t"]
    core = Core(policy=Policy(tenants_max=1))
    assert core.one(r.Cancel(("t", "u"), ("a", "b"))) == "UNKNOWN_REQUEST OVERLOADED"


def test_deadline_is_made_of_the_timeout_or_the_models_own() -> None:
    core = Core(Model("m", "1", default_timeout_ms=70))
    core.admit("a", timeout_ms=50)
    core.admit("b")
    deadlines = [request.deadline_ms for request in core.state.requests.values()]
    assert deadlines == [1050, 1070]


def test_window_holds_what_waits_in_lanes() -> None:
    core = Core()
    core.admit("a", "b", priority=1)
    core.admit("c", priority=0, rows=2)
    window = core.state.windows[KEY]
    assert {priority: list(lane) for priority, lane in window.lanes.items()} == {1: [1, 2], 0: [3]}
    assert (window.requests, window.rows, window.size) == (3, 4, 30)


def test_window_is_called_by_the_oldest_request_in_it() -> None:
    core = Core()
    assert core.state.window_id(KEY) is None
    core.admit("a")
    opened = (core.at_ms, core.state.index)
    core.wait(3)
    core.admit("b", priority=0)
    assert core.state.window_id(KEY) == opened
    core.seal("a")
    assert core.state.window_id(KEY) == (core.at_ms, core.state.index - 1)
