"""A check that cannot fail is a defect: each promise is broken by hand, and found broken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from coordinator.core.invariants import check
from coordinator.core.state import State
from coordinator.core.values import Held, Quarantined
from raftbatch import records as r
from raftbatch.errors import Invariant
from raftbatch.settings import Policy
from tests.unit.core.tables import KEY, Core


def _core() -> Core:
    """Return a state with something of everything."""
    core = Core(slots=3, executors=("gpu-1", "gpu-2"))
    core.admit("waiting", timeout_ms=500)
    core.start("a", "b", timeout_ms=500)
    core.one(core.report(core.start("done")))
    core.admit("sealed")
    core.seal("sealed")
    core.one(r.Cancel(("t",), ("unknown",)))
    return core


def _batch(state: State, **changes: object) -> None:
    state.batches[1] = replace(state.batches[1], **changes)  # type: ignore[arg-type]


def _executor(state: State, **changes: object) -> None:
    state.executors["gpu-1"] = replace(state.executors["gpu-1"], **changes)  # type: ignore[arg-type]


def _request(state: State, **changes: object) -> None:
    state.requests[1] = state.requests[1]._replace(**changes)  # type: ignore[arg-type]


def _outcome(state: State, **changes: object) -> None:
    state.ended[0] = state.ended[0]._replace(**changes)  # type: ignore[arg-type]


def _set_aside(state: State) -> None:
    request = state.requests[1]
    for number in (91, 92):
        state.quarantine[number] = Quarantined(request, 1, "", "", 0)
    state.policy = Policy(quarantine_requests_max=1)


BREAKS: list[Callable[[State], object]] = [
    lambda s: s.model_use.pop(("m", "1")),
    lambda s: s.deleting.update({("x", "1"): None}),
    lambda s: setattr(s, "oldest_kept", 99),
    _set_aside,
    lambda s: setattr(s.counters, "refused", -1),
    lambda s: setattr(s.counters, "admitted", 99),
    lambda s: setattr(s, "next_request", 1),
    lambda s: _request(s, key=("x", "1", "")),
    lambda s: _request(s, at_ms=10_000),
    lambda s: _request(s, deadline_ms=5),
    lambda s: _request(s, rows=3),
    lambda s: _request(s, name="t\0other"),
    lambda s: _request(s, number=9),
    lambda s: _outcome(s, at_ms=99_999),
    lambda s: _outcome(s, number=1),
    lambda s: _outcome(s, result=b"longer than it was"),
    lambda s: s.ended.pop(0),
    lambda s: setattr(s, "oldest_kept", 1),
    lambda s: setattr(s, "next_batch", 1),
    lambda s: _batch(s, number=2),
    lambda s: _batch(s, open_requests=1),
    lambda s: _batch(s, rows=7),
    lambda s: _batch(s, size=7),
    lambda s: _batch(s, key=("m", "1", "other")),
    lambda s: _batch(s, failed=5),
    lambda s: _batch(s, fence=0),
    lambda s: _batch(s, executor="gpu-9"),
    lambda s: _batch(s, executor=""),
    lambda s: _batch(s, incarnation=1),
    lambda s: _batch(s, assigned=11),
    lambda s: _batch(s, members=(2, 3, 5)),
    lambda s: _executor(s, held=()),
    lambda s: _executor(s, slots=0),
    lambda s: _executor(s, executor="gpu-9"),
    lambda s: _executor(s, incarnation=99_999),
    lambda s: _executor(s, held=(*s.executors["gpu-1"].held, Held(1, 77, False))),
    lambda s: _executor(s, held=s.executors["gpu-1"].held * 2),
    lambda s: s.dedupe.pop("t\0waiting"),
    lambda s: s.batch_of.pop(2),
    lambda s: setattr(s, "outcome_bytes", 0),
    lambda s: setattr(s, "quarantine_bytes", 5),
    lambda s: s.windows[KEY].lanes[1].pop(1),
    lambda s: s.windows.pop(KEY),
    lambda s: setattr(s.all_use, "rows", 0),
    lambda s: setattr(s.tenant_use["t"], "requests", 0),
    lambda s: setattr(s.tenant_use["t"], "cancels", 0),
    lambda s: setattr(s.model_use["m", "1"], "size", 0),
    lambda s: s.model_use["m", "1"].batches.clear(),
    lambda s: s.timers.bucket_left(1000, 1500).clear(),
]


def test_state_with_something_of_everything_is_sound() -> None:
    check(_core().state)


@pytest.mark.parametrize("number", range(len(BREAKS)))
def test_each_broken_promise_is_found(number: int) -> None:
    state = _core().state
    BREAKS[number](state)
    with pytest.raises((Invariant, KeyError)):
        check(state)
