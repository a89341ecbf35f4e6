"""Texts that take more than is allowed for them count toward the limits, as the leader counts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coordinator.core import invariants, texts
from coordinator.core.room import has_ids, ids
from coordinator.core.snapshot import Capture, restore
from raftbatch import records as r
from raftbatch.kinds import Key
from raftbatch.settings import Policy
from tests.unit.core.tables import KEY, Core

LONG: Key = ("m", "1", "s" * 4096)
CLEF = "\U0001d11e"
"""Four bytes of UTF-8."""


def content(core: Core) -> int:
    """Return how many bytes the state takes in a snapshot."""
    return sum(map(len, Capture(core.state).chunks()))


def counted(core: Core) -> int:
    """Return how many bytes the limits allow for what requests have brought, by what they count."""
    state = core.state
    return (
        state.all_use.size
        + state.all_use.texts
        + state.all_use.requests * texts.WAITING_BYTES
        + state.outcome_bytes
        + state.outcome_texts
        + ids(state) * texts.KNOWN_ID_BYTES
    )


def traced(record: r.Admit, traceparent: str) -> r.Admit:
    """Return an Admit with a trace context."""
    return replace(record, traceparent=(traceparent,) * len(record.request_id))


SHORT = "i" * 40
ALIKE: list[dict[str, object]] = [
    {},
    {"key": LONG},
    {"key": ("m", "1", CLEF * 4096)},
    {"tenant": "t" * 256},
    {"tenant": CLEF * 256},
]


@pytest.mark.parametrize("alike", ALIKE)
@pytest.mark.parametrize("traceparent", ["", "t" * 55, CLEF * 4096])
@pytest.mark.parametrize("request_id", [SHORT, "i" * 254, CLEF * 254])
def test_what_requests_bring_takes_no_more_of_a_snapshot_than_is_counted(
    alike: dict[str, object], traceparent: str, request_id: str
) -> None:
    core = Core()
    key, tenant = alike.get("key", KEY), str(alike.get("tenant", "t"))
    empty = content(core)
    names = [f"{request_id}{n:02}" for n in range(20)]
    core.do(traced(core.admission(*names[:19], **alike), traceparent))  # type: ignore[arg-type]
    core.do(traced(core.admission(*names, **alike), traceparent))  # type: ignore[arg-type]
    assert len(core.state.requests) == 20
    assert content(core) - empty <= counted(core)
    numbers = list(core.state.requests)
    for number in numbers[:10]:
        core.do(r.Seal(core.state.next_batch, key, 1, (number,)))  # type: ignore[arg-type]
    assert len(core.state.batches) == 10
    assert content(core) - empty <= counted(core)
    assert core.assign(1) == "OK"
    report = replace(
        core.report(1, kind=1),
        executor="gpu-1",
        fingerprint=bytes(1024),
        padded=(1 << 40,) * 16,
        code=(CLEF * 256,),
        message=(CLEF * 4096,),
    )
    assert core.one(report) == "OK"
    assert core.one(r.Cancel((tenant,) * 20, tuple(names))).count("OK") == 19
    assert not core.state.requests
    assert content(core) - empty <= counted(core)
    restored = restore(Capture(core.state).chunks())
    invariants.check(restored)
    assert core.one(r.Acknowledge((tenant,) * 20, tuple(names))).count("OK") == 20
    assert core.state.outcome_texts == 0
    assert content(core) - empty <= counted(core)
    core.wait(Policy().dedupe_retention_ms)
    assert (core.state.id_texts, core.state.all_use.texts) == (0, 0)


def test_texts_that_are_short_count_nothing_beside_what_is_allowed() -> None:
    core = Core()
    core.do(traced(core.admission(SHORT, tenant="tenant"), "t" * 55))
    assert (core.state.all_use.texts, core.state.id_texts) == (0, 0)
    assert texts.of_names(["i" * 48, CLEF * 12]) == 0
    assert texts.of_names(["i" * 49, CLEF * 13]) == 1 + 4


def test_names_of_cancels_that_are_remembered_count_until_they_are_forgotten() -> None:
    core = Core()
    assert core.one(r.Cancel(("t",), ("i" * 254,))) == "UNKNOWN_REQUEST"
    assert core.state.tenant_use["t"].cancel_names == core.state.id_texts == 256 - 48
    assert ids(core.state) == 1 + 2
    core.wait(Policy().outcome_retention_ms)
    core.wait(Policy().dedupe_retention_ms)
    assert (core.state.id_texts, core.state.tenant_use) == (0, {})


def test_log_means_what_it_meant_whatever_texts_take() -> None:
    """The leader alone refuses by them: an Admit that is in the log is judged as it ever was."""
    core = Core(policy=Policy(bytes_waiting_max=100, dedupe_entries_max=4))
    core.do(traced(core.admission("a" * 256, "b", key=LONG), CLEF * 4096))
    assert len(core.state.requests) == 2
    assert core.admit("c") == "OK"
    assert not has_ids(core.state, 1)
    assert core.state.all_use.texts > 20_000


def test_what_is_said_of_runs_is_counted_closely() -> None:
    core = Core()
    core.state.next_request = core.state.next_batch = core.state.next_ended = 1 << 40
    core.state.oldest_kept = core.state.oldest_ended = 1 << 40
    empty = content(core)
    names = [f"{'i' * 44}{n:02}" for n in range(20)]
    report = core.report(core.start(*names), result=b"")
    large = 1 << 40
    report = replace(report, padded=(large,) * 16, fingerprint=bytes(64), queue_ns=large)
    assert core.one(report) == "OK"
    left = counted(core) - (content(core) - empty)
    assert 0 <= left < 20 * 96
