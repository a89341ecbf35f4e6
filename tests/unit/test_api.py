"""Submitting: who gets a ticket, who does not and why, and what is never asked of the leader."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from chaos.worlds.loop import VirtualLoop
from coordinator.answers import Ticket
from coordinator.api import ApiConfig, Leading, Reading
from coordinator.core.values import Request
from coordinator.leader import Leader
from coordinator.raft.log import ReplicatedLog
from coordinator.submission import Submission, content_hash
from raftbatch import records as r
from raftbatch.errors import (
    Draining,
    InvalidRequest,
    NotLeader,
    Overloaded,
    RaftbatchError,
)
from raftbatch.settings import Model, Policy
from tests.unit.api_scene import Asked, names, submission


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    with VirtualLoop() as loop:
        yield loop


def test_requests_of_one_call_are_one_entry_and_get_their_tickets(loop: VirtualLoop) -> None:
    node = Asked(loop)
    task = node.asks(node.api.submit([submission("a"), submission("b", tenant="u")]))
    assert not task.done()
    node.leader.land()
    index = node.state.index
    assert loop.run_until_complete(task) == [Ticket("a", index), Ticket("b", index)]
    assert node.state.counters.admitted == 2


def test_request_stands_in_the_log_as_it_was_submitted(loop: VirtualLoop) -> None:
    node = Asked(loop)
    asked = submission(
        signature="INT64[64]",
        rows=3,
        priority=2,
        timeout_ms=700,
        parameters=b"p",
        traceparent="00-trace",
    )
    node.submits(asked)
    found = node.state.request("t", "r1")
    assert isinstance(found, Request)
    assert found.key == ("m", "1", "INT64[64]")
    assert (found.rows, found.priority, found.deadline_ms) == (3, 2, 1700)
    assert (found.payload, found.parameters, found.traceparent) == (b"payload", b"p", "00-trace")
    assert found.payload is asked.payload or found.payload == asked.payload
    assert found.content_hash == content_hash(asked)


def test_defaults_are_the_models(loop: VirtualLoop) -> None:
    node = Asked(
        loop, model=Model("m", "1", default_priority_level=2, default_timeout_ms=50), executors=()
    )
    node.submits(submission())
    found = node.state.request("t", "r1")
    assert isinstance(found, Request)
    assert (found.priority, found.deadline_ms) == (2, 1050)


def test_newest_version_is_meant_where_none_is_named(loop: VirtualLoop) -> None:
    node = Asked(loop)
    for version in ("9", "10", "beta"):
        node.put(Model("m", version))
    node.put(Model("other", "99"))

    def version_of(request_id: str) -> str:
        assert isinstance(node.submits(submission(request_id, version=""))[0], Ticket)
        found = node.state.request("t", request_id)
        assert isinstance(found, Request)
        return found.key[1]

    assert version_of("a") == "10"
    node.put(Model("m", "11"))
    assert version_of("b") == "11"
    # The same id is the same request, though the newest version is another now.
    assert names(node.submits(submission("a", version=""))) == [node.state.requests[1].ticket]
    node.one(r.DeleteModel("m", "11"))
    assert version_of("c") == "10"
    assert names(node.submits(submission("d", model="none", version=""))) == ["unknown_model"]


def test_known_ids_are_answered_without_the_leader(loop: VirtualLoop) -> None:
    node = Asked(loop, policy=Policy(outcome_retention_ms=10))
    (ticket,) = node.submits(submission("open"))
    assert isinstance(ticket, Ticket)
    node.submits(submission("ended"), submission("old"))
    node.one(r.Cancel(("t", "t"), ("old", "never")))
    node.wait(10)
    node.one(r.Cancel(("t", "t"), ("ended", "later")))
    node.leader.depose()
    asked = [submission(each) for each in ("open", "ended", "old", "later", "never")]
    conflict = [submission("open", payload=b"other"), submission("ended", model="n")]
    answers = node.submits(*asked, *conflict)
    ended = node.state.request("t", "ended")
    assert ended is not None
    assert names(answers) == [
        ticket.index,
        ended.ticket,
        "outcome_forgotten",
        0,  # cancelled before it came
        "outcome_forgotten",
        "request_id_conflict",
        "request_id_conflict",
    ]
    assert node.leader.proposed == 3


def test_what_the_same_content_is(loop: VirtualLoop) -> None:
    plain = submission()
    same: list[dict[str, Any]] = [
        {"priority": 2},
        {"timeout_ms": 9},
        {"traceparent": "x"},
        {"signature": "b"},
    ]
    other: list[dict[str, Any]] = [
        {"model": "n"},
        {"version": "2"},
        {"payload": b"p"},
        {"parameters": b"p"},
    ]
    for fields in same:
        assert content_hash(submission(**fields)) == content_hash(plain), fields
    hashes = [content_hash(submission(**fields)) for fields in other]
    # Nor does it matter that two fields, put together, are the same bytes.
    hashes += [
        content_hash(submission(model="m1", version="")),
        content_hash(submission(parameters=b"pay", payload=b"load")),
        content_hash(submission(parameters=b"q")),
        content_hash(plain),
    ]
    assert len(set(hashes)) == len(hashes)


def test_duplicates_of_what_is_in_flight_join_its_fate(loop: VirtualLoop) -> None:
    node = Asked(loop)
    first = node.asks(node.api.submit([submission("a"), submission("a", payload=b"other")]))
    again = node.asks(node.api.submit([submission("a")]))
    node.leader.land()
    index = node.state.index
    assert not first.done()
    node.leader.land()
    assert names(loop.run_until_complete(first)) == [index, "request_id_conflict"]
    node.leader.land()
    assert names(loop.run_until_complete(again)) == [index]


@pytest.mark.parametrize(
    ("fields", "slug"),
    [
        ({"tenant": ""}, "invalid_request"),
        ({"tenant": "a\0b"}, "invalid_request"),
        ({"tenant": b"t"}, "invalid_request"),
        ({"request_id": "x" * 257}, "invalid_request"),
        ({"request_id": "half \ud83d"}, "invalid_request"),
        ({"model": ""}, "invalid_request"),
        ({"model": "half \ud83d"}, "invalid_request"),
        ({"version": "1\0"}, "invalid_request"),
        ({"signature": "x" * 4097}, "invalid_request"),
        ({"traceparent": "x" * 257}, "invalid_request"),
        ({"rows": 0}, "invalid_request"),
        ({"rows": True}, "invalid_request"),
        ({"rows": 1 << 41}, "invalid_request"),
        ({"rows": 33}, "invalid_request"),
        ({"priority": -1}, "invalid_request"),
        ({"priority": 3}, "invalid_request"),
        ({"priority": 1.0}, "invalid_request"),
        ({"timeout_ms": -1}, "invalid_request"),
        ({"timeout_ms": 1 << 41}, "invalid_request"),
        ({"payload": bytearray(3)}, "invalid_request"),
        ({"parameters": "text"}, "invalid_request"),
        ({"parameters": bytes((1 << 20) + 1)}, "payload_too_large"),
        ({"payload": bytes(101)}, "payload_too_large"),
        ({"payload": bytes(96), "parameters": bytes(5)}, "payload_too_large"),
        ({"model": "n"}, "unknown_model"),
        ({"version": "2"}, "unknown_model"),
    ],
)
def test_request_that_can_never_be_is_refused_and_never_proposed(
    loop: VirtualLoop, fields: dict[str, Any], slug: str
) -> None:
    node = Asked(loop, policy=Policy(request_bytes_max=100))
    before = node.state.index
    answers = node.submits(submission(**fields), submission("other"))
    assert names(answers) == [slug, before + 1]
    assert node.leader.proposed == 1
    error = answers[0]
    assert isinstance(error, RaftbatchError)
    assert error.definite


def test_bounds_are_what_they_say(loop: VirtualLoop) -> None:
    node = Asked(loop, policy=Policy(request_bytes_max=100))
    fields: list[dict[str, Any]] = [
        {"request_id": "x" * 256},
        {"request_id": "ähnlich"},
        {"signature": "x" * 4096},
        {"rows": 32},
        {"payload": bytes(96), "parameters": bytes(4)},
        {"priority": 2},
    ]
    for place, each in enumerate(fields):
        (answer,) = node.submits(submission(**({"request_id": f"r{place}"} | each)))
        assert isinstance(answer, Ticket), each


def test_payload_of_no_record_is_refused(loop: VirtualLoop) -> None:
    node = Asked(loop)
    answers = node.submits(submission(payload=bytes((64 << 20) + 1)))
    assert names(answers) == ["payload_too_large"]


def test_refusals_of_apply_are_told_with_their_reasons(loop: VirtualLoop) -> None:
    node = Asked(loop, policy=Policy(tenant_requests_waiting_max=1, requests_waiting_max=2))
    answers = node.submits(
        submission("a"), submission("b"), submission("c", tenant="u"), submission("d", tenant="v")
    )
    assert names(answers)[1::2] == ["quota_exceeded", "overloaded"]
    error = answers[3]
    assert isinstance(error, Overloaded)
    assert error.retry_after_ms == 1000


def test_refused_requests_are_counted_by_their_errors(loop: VirtualLoop) -> None:
    node = Asked(loop, policy=Policy(tenant_requests_waiting_max=1))
    node.submits(submission("a"), submission("b"), submission(""), submission("c", model="x"))
    node.submits(submission("a"), submission("a", payload=b"other"))
    task = node.asks(node.api.submit([submission("d", tenant="u")]))
    node.leader.depose()
    loop.run_until_complete(task)
    node.submits(submission("e"))
    assert node.api.refused == {
        "quota_exceeded": 1,
        "invalid_request": 1,
        "unknown_model": 1,
        "request_id_conflict": 1,
        "not_leader": 2,
    }


def test_leader_that_leads_no_more_is_told_of_by_its_name(loop: VirtualLoop) -> None:
    node = Asked(loop)
    task = node.asks(node.api.submit([submission("a"), submission("b")]))
    node.leader.depose()
    for answer in [*loop.run_until_complete(task), *node.submits(submission("c"))]:
        assert isinstance(answer, NotLeader)
        assert (answer.leader, answer.definite) == ("n2", True)


def test_model_that_this_node_may_not_know_yet_is_the_leaders_to_judge(loop: VirtualLoop) -> None:
    node = Asked(loop)
    node.leader.depose()
    assert names(node.submits(submission(model="n"))) == ["not_leader"]


def test_caller_that_goes_away_harms_nobody(loop: VirtualLoop) -> None:
    node = Asked(loop)
    task = node.asks(node.api.submit([submission("a")]))
    task.cancel()
    loop.run_for(0.1)
    node.leader.land()
    assert node.number("a")
    assert loop.run_until_complete(node.api.submit([])) == []


def test_priority_that_no_record_carries_is_named(loop: VirtualLoop) -> None:
    node = Asked(loop)
    [answer] = node.submits(submission(priority=(1 << 16) + 1))
    assert isinstance(answer, InvalidRequest)
    assert answer.message == "the priority is not in 0 .. 65536"


def test_bounds_of_a_call(loop: VirtualLoop) -> None:
    node = Asked(loop, ApiConfig(submissions_max=2))
    three = [submission(str(n)) for n in range(3)]
    with pytest.raises(InvalidRequest, match="3 requests at once, at most 2"):
        node.gets(node.api.submit(three))
    assert len(node.submits(*three[:2])) == 2
    node.api.close()
    with pytest.raises(Draining):
        node.gets(node.api.submit(three[:1]))


def _are_what_is_asked_for(leader: Leader, log: ReplicatedLog) -> tuple[Leading, Reading]:
    return leader, log  # for mypy


def test_submission_states_what_matters_and_no_more() -> None:
    plain = Submission("t", "r", "m", "", "s", 1, b"")
    assert (plain.priority, plain.timeout_ms, plain.parameters) == (None, 0, b"")


@pytest.mark.parametrize("what", ["submit", "put_policy"])
def test_nothing_is_proposed_that_waited_for_a_leader_until_the_end(
    loop: VirtualLoop, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    node = Asked(loop)
    ready = loop.create_future()
    monkeypatch.setattr(type(node.leader), "is_ready", False)
    monkeypatch.setattr(node.leader, "ready", lambda: ready)
    api = node.api
    task: asyncio.Task[Any] = node.asks(
        api.submit([submission()]) if what == "submit" else api.put_policy(Policy())
    )
    api.close()
    ready.set_result(None)
    loop.run_for(0)
    if what == "submit":
        assert names(task.result()) == ["draining"]
    else:
        with pytest.raises(Draining):
            task.result()
    assert node.leader.proposed == 0


def test_requests_of_a_large_call_are_taken_over_several_turns(loop: VirtualLoop) -> None:
    node = Asked(loop)
    task = loop.create_task(node.api.submit([submission(f"{n}") for n in range(1000)]))
    taken = []
    while node.leader.proposed < 1000:
        before = node.leader.proposed
        assert loop.step()
        taken.append(node.leader.proposed - before)
    assert max(taken) <= 256
    node.leader.land()
    answers = loop.run_until_complete(task)
    assert [each.request_id for each in answers if isinstance(each, Ticket)] == [
        f"{n}" for n in range(1000)
    ]


def test_versions_are_looked_through_once_for_many_names(
    loop: VirtualLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Asked(loop)
    looks = []

    class Counting(dict[tuple[str, str], Model]):
        def __iter__(self) -> Iterator[tuple[str, str]]:
            looks.append(1)
            return super().__iter__()

    [model] = node.state.models.values()
    others = {(f"other {n}", "1"): model for n in range(50)}
    monkeypatch.setattr(node.state, "models", Counting({**node.state.models, **others}))
    many = [submission(f"{n}", model=f"none {n}", version="") for n in range(50)]
    assert set(names(node.submits(*many))) == {"unknown_model"}
    assert len(looks) <= 1
