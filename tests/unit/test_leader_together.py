"""Requests that are taken together are what they are one by one, and none is taken too many."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random

import pytest

from chaos.worlds.loop import VirtualLoop
from coordinator.leader_parts import LeaderConfig
from coordinator.proposer import Admission
from coordinator.raft.segments.limits import Space
from coordinator.submission import Submission, are_plain, check
from raftbatch import records as r
from raftbatch.errors import NoSpace, RaftbatchError
from raftbatch.settings import Policy
from tests.unit.api_scene import submission
from tests.unit.leader_scene import Scene, admission, put

Requests = list[tuple[str, dict[str, object]]]

_POLICY = {"tenant_requests_waiting_max": 12, "requests_waiting_max": 16}


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    with VirtualLoop() as loop:
        yield loop


def _scene(loop: VirtualLoop, config: LeaderConfig) -> Scene:
    """Return a leader near its limits, with a request in the state and one in flight."""
    scene = Scene(loop, config=config)
    other = r.PutModel(replace(put(requests_waiting_max=1000).model, name="o"))
    policy = r.PutPolicy(Policy(**_POLICY, request_bytes_max=5000))  # type: ignore[arg-type]
    scene.begin(policy, other, put(requests_waiting_max=10, priority_levels=2))
    scene.admit("applied")
    scene.settle()
    scene.admit("flying")
    scene.turn()
    scene.admit("waiting")
    return scene


def _drawn(rng: Random) -> Requests:
    """Return requests of one message, mostly alike."""
    odd = {
        "rows": (2, 40),
        "priority": (1, 2),
        "key": (("o", "1", ""), ("gone", "1", "")),
        "tenant": ("u",),
        "payload": (bytes(300), bytes(6000)),
        "timeout_ms": (30,),
        "traceparent": ("00-1",),
    }
    found: Requests = []
    size = rng.choice([10, 10, 700])
    for number in range(rng.choice([1, 2, 5, 7, 8, 9, 12])):
        fields: dict[str, object] = {"payload": bytes(size)}
        if rng.random() < 0.04:
            name = rng.choice(list(odd))
            fields[name] = rng.choice(odd[name])
        old = rng.choice(["applied", "flying", "waiting", "r0"])
        found.append((old if rng.random() < 0.03 else f"r{number}", fields))
    return found


def _waiting(scene: Scene) -> tuple[int, int, int]:
    """Return what waits for the next entry: things, requests, bytes."""
    leadership = scene.leader._current
    assert leadership is not None
    return leadership.inbox.items, leadership.inbox.admissions, leadership.inbox.size


def _one_by_one(scene: Scene, requests: Requests) -> int:
    """Ask for each by itself; return how many were refused."""
    refused = 0
    for name, fields in requests:
        try:
            scene.admit(name, **fields)
        except RaftbatchError:
            refused += 1
    return refused


def test_what_is_taken_together_is_what_it_is_one_by_one() -> None:
    """And nothing of what would be refused, or wait for another of its id, is taken so."""
    together = refused = 0
    for seed in range(300):
        rng = Random(seed)
        config = LeaderConfig(
            pending_items_max=rng.choice([6, 100]),
            record_bytes_max=rng.choice([250, 5999]),
            pending_bytes_max=rng.choice([5999, 1 << 20]),
        )
        requests = _drawn(rng)
        with VirtualLoop() as one_loop, VirtualLoop() as all_loop:
            one, all_ = _scene(one_loop, config), _scene(all_loop, config)
            of_one = _one_by_one(one, requests)
            taken = all_.admit_all(requests)
            if taken is None:
                assert _waiting(all_)[0] == 1  # nothing was done
                refused += bool(of_one)
                continue
            assert not of_one
            together += 1
            assert _waiting(one) == _waiting(all_)
            more: Requests = [(f"s{number}", {"tenant": "u"}) for number in range(20)]
            assert _one_by_one(one, more) == _one_by_one(all_, more)
            one.settle()
            all_.settle()
            assert [each.data for each in one.log.entries] == [
                each.data for each in all_.log.entries
            ]
            assert [each.landed for each in all_.asked] == [each.landed for each in one.asked]
    assert together > 60
    assert refused > 60


def test_as_many_are_taken_together_as_may_be_and_not_one_more() -> None:
    for count in range(1, 16):
        with VirtualLoop() as loop:
            scene = _scene(loop, LeaderConfig())
            taken = scene.admit_all([(f"r{number}", {}) for number in range(count)])
            assert (taken is not None) == (count <= 7)  # three wait already, of ten


def _hold(scene: Scene) -> None:
    scene.log.refusal = NoSpace("full")
    scene.turn()


@pytest.mark.parametrize("odd", [{"tenant": "u"}, {"key": ("m", "1", "b")}])
def test_requests_that_are_counted_elsewhere_are_not_taken_together(
    loop: VirtualLoop, odd: dict[str, object]
) -> None:
    scene = Scene(loop)
    scene.begin(put())
    assert scene.admit_all([("a", {}), ("b", odd)]) is None
    assert scene.admit_all([("a", odd), ("b", odd)]) is not None


@pytest.mark.parametrize(
    "hinder",
    [
        lambda scene: scene.leader.drain(),
        lambda scene: scene.depose(),
        lambda scene: setattr(scene.log, "space", Space.LOW),
        _hold,
    ],
)
def test_nothing_is_taken_together_where_nothing_is_taken(
    loop: VirtualLoop, hinder: Callable[[Scene], None]
) -> None:
    scene = Scene(loop)
    scene.begin(put())
    assert scene.admit_all([("a", {})]) is not None
    hinder(scene)
    assert scene.admit_all([("b", {})]) is None


_ODD: dict[str, tuple[object, ...]] = {
    "tenant": ("", "a\0b", "x" * 257, 7, "\udc80", "ä"),
    "request_id": ("", "a\0b", "x" * 257, b"a", "\udc80", "ä"),
    "model": ("", "a\0b", "x" * 257, None),
    "version": ("a\0b", "x" * 257, None),
    "signature": ("a\0b", "x" * 300, "x" * 4097, ["a"]),
    "rows": (0, -1, True, (1 << 40) + 1, 1 << 40, 2.0),
    "payload": (bytearray(b"x"), "x", memoryview(b"x")),
    "priority": (-1, 1 << 16, (1 << 16) + 1, True, None, 0),
    "timeout_ms": (-1, 1 << 40, (1 << 40) + 1, None),
    "parameters": (bytes((1 << 20) + 1), bytearray(b"x"), bytes(1 << 20)),
    "traceparent": ("a\0b", "x" * 300, None, "00-1"),
}


def _is_fine(one: Submission) -> bool:
    try:
        check(one)
    except RaftbatchError:
        return False
    return True


@pytest.mark.parametrize("name", list(_ODD))
def test_submissions_that_are_plain_are_fine_each(name: str) -> None:
    """Also as records: what is taken together is not looked at again."""
    usual = submission("a")
    assert are_plain([usual])
    assert are_plain([usual, submission("b", tenant="u", version="", timeout_ms=1 << 40)])
    doubted = 0
    for value in _ODD[name]:
        odd = usual._replace(**{name: value})  # type: ignore[arg-type]
        for group in ([odd], [usual, odd, usual], [odd, usual]):
            if not are_plain(group):
                doubted += 1
                continue
            assert _is_fine(odd)
            fields = {each: getattr(odd, each) for each in odd._fields if each in Admission._fields}
            if fields["priority"] is None:
                fields["priority"] = 0
            admission(**fields).check()  # raises nothing
    assert doubted
