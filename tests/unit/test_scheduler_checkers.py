"""The checker of the scheduler, shown to fire: replicas that part, states as they must not be.

What the model judges is in `test_scheduler_model`, what clients saw in
`test_scheduler_history`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from coordinator.core.apply import apply
from coordinator.core.effects import Applied, Reply, Verdict
from coordinator.core.snapshot import Capture, restore
from coordinator.core.state import State
from raftbatch import records as r
from raftbatch.codec import decode_entry
from raftbatch.kinds import LapseReason, Ran
from raftbatch.settings import Policy
from tests.unit.scheduler_scene import N1, N2, Replica, Scene


def scene() -> Scene:
    """Return a scene in which something waits, something runs, and something has ended."""
    found = Scene(slots=2)
    done = found.start("a", "b")
    assert found.finish(done) == "OK"
    found.start("c", timeout_ms=5000)
    found.admit("d", "e", tenant="u")
    found.one(r.Cancel(("t", "t"), ("c", "z")))
    assert not found.violation
    return found


def applies(
    found: Scene, bend: Callable[[r.Entry, Applied], tuple[r.Entry, Applied]]
) -> tuple[Replica, str]:
    """Let a second replica apply the log, its last entry bent; return what is wrong."""
    replica = found.again(found.state.index - 1)
    watch = found.checker.begin(N2, replica)
    watch._place = found.state.index - 1
    index, term, data = found.log[-1]
    entry = decode_entry(data)
    watch.applied(index, term, *bend(entry, apply(replica.state, index, term, entry)))
    return replica, found.violation


def test_equal_replicas_are_equal() -> None:
    found = scene()
    found.again()
    assert not found.violation
    assert found.checker.counts["whole_states"] > 4
    assert found.checker.counts["looks"] > 10


def test_other_reply_is_found() -> None:
    _, said = applies(
        scene(), lambda entry, done: (entry, replace(done, replies=(Reply(Verdict.OK),)))
    )
    assert "or otherwise" in said


def test_other_effects_are_found() -> None:
    _, said = applies(scene(), lambda entry, done: (entry, replace(done, effects=())))
    assert "or otherwise" in said


def test_other_entry_is_found() -> None:
    _, said = applies(scene(), lambda entry, done: (replace(entry, at_ms=entry.at_ms + 1), done))
    assert "another entry" in said


def test_entry_of_another_term_is_found() -> None:
    found = scene()
    replica = Replica(State())
    watch = found.checker.begin(N2, replica)
    index, _, data = found.log[0]
    entry = decode_entry(data)
    watch.applied(index, 2, entry, apply(replica.state, index, 1, entry))
    assert "another entry 1" in found.violation


def test_skipped_entry_is_found() -> None:
    found = scene()
    replica = Replica(State())
    watch = found.checker.begin(N2, replica)
    for index, term, data in found.log:
        if index != 3:
            entry = decode_entry(data)
            watch.applied(index, term, entry, apply(replica.state, index, term, entry))
    assert "another entry 4" in found.violation or "as 2th" in found.violation


def test_skipped_entry_without_effect_is_found() -> None:
    """Whatever it did: an index that another replica applied was not given to this one."""
    found = scene()
    replica = found.again(4)
    watch = found.checker.begin(N2, replica)
    index, term, data = found.log[4]
    entry = decode_entry(data)
    watch.applied(index, term, entry, apply(replica.state, index, term, entry))
    assert f"{N2} applies 5, the 4th, as 0th" in found.violation


def test_entry_behind_what_all_know_is_found() -> None:
    found = scene()
    found.state.index -= 3
    found.checker._known.pop(found.state.index + 1)
    found.do(r.Advance())
    assert "where the log has none" in found.violation


def test_other_digest_is_found() -> None:
    found = scene()
    replica = found.again(found.state.index - 1)
    assert not found.violation
    replica.state.digest = bytes(16)
    found.checker.begin(N2, replica)._place = found.state.index - 1
    index, term, data = found.log[-1]
    entry = decode_entry(data)
    watch = found.checker._watches[N2]
    watch.applied(index, term, entry, apply(replica.state, index, term, entry))
    assert "digest at" in found.violation


def test_state_whose_index_is_another_is_found() -> None:
    found = scene()
    found.watch.applied(99, 1, r.Entry(1, found.at_ms, ()), Applied((), ()))
    assert "its state is at" in found.violation


def test_dead_replica_that_applies_is_found() -> None:
    found = scene()
    found.checker.end(N1)
    found.checker.end(N2)
    found.do(r.Advance())
    assert "is dead" in found.violation


def test_whole_state_that_differs_under_equal_digests_is_found() -> None:
    found = scene()
    while found.state.index % found.checker.digest_every != found.checker.digest_every - 1:
        found.do(r.Advance())
    replica = found.again()
    replica.state.quarantine_bytes += 0
    number = next(iter(replica.state.requests))
    replica.state.requests[number] = replica.state.requests[number]._replace(payload=b"other")
    found.do(r.Advance())
    watch = found.checker.begin(N2, replica)
    watch._place = found.state.index - 1
    index, term, data = found.log[-1]
    entry = decode_entry(data)
    watch.applied(index, term, entry, apply(replica.state, index, term, entry))
    assert f"{N2}'s state at {index} is another" in found.violation


def test_state_that_breaks_an_invariant_is_found() -> None:
    found = scene()
    found.state.outcome_bytes += 1
    found.do(r.Advance())
    assert "bytes of outcomes are counted" in found.violation


def test_snapshot_is_followed() -> None:
    found = scene()
    replica = Replica(State())
    watch = found.checker.begin(N2, replica)
    replica.state = restore(Capture(found.state).chunks())
    watch.installed()
    found.do(r.Advance())
    index, term, data = found.log[-1]
    entry = decode_entry(data)
    watch.applied(index, term, entry, apply(replica.state, index, term, entry))
    assert not found.violation
    assert found.checker.counts["installs"] == 1


@pytest.mark.parametrize("what", ["digest", "index", "requests", "ended", "executors"])
def test_snapshot_of_another_state_is_found(what: str) -> None:
    found = scene()
    replica = Replica(restore(Capture(found.state).chunks()))
    watch = found.checker.begin(N2, replica)
    match what:
        case "digest":
            replica.state.digest = bytes(16)
        case "index":
            replica.state.index += 1
        case _:
            table = getattr(replica.state, what)
            del table[next(iter(table))]
    watch.installed()
    assert N2 in found.violation


# States held against the model.


def _executor(state: State, **changes: object) -> None:
    state.executors["gpu-1"] = replace(state.executors["gpu-1"], **changes)  # type: ignore[arg-type]


def _requests(state: State) -> None:
    number = next(iter(state.requests))
    state.requests[number] = state.requests[number]._replace(traceparent="x")


def _result(state: State) -> None:
    state.ended[0] = state.ended[0]._replace(result=b"tluser")


def _run(state: State) -> None:
    run = state.ended[0].run
    assert run is not None
    state.ended[0] = state.ended[0]._replace(run=run._replace(fence=1))


def _outcome_dropped(state: State) -> None:
    state.outcome_bytes -= state.ended[0].size
    state.ended[0] = state.ended[0]._replace(message="", result=b"", run=None, is_kept=False)


def _batch(state: State) -> None:
    (number,) = state.batches
    state.batches[number] = replace(state.batches[number], failed=1, assigned=1)


def _kinds(state: State) -> None:
    state.counters.succeeded -= 1
    state.counters.failed += 1


STATES: dict[str, Callable[[State], None]] = {
    "slots": lambda state: _executor(state, slots=3),
    "drain": lambda state: _executor(state, is_draining=True),
    "suspended": lambda state: _executor(state, is_suspended=True),
    "failures": lambda state: _executor(state, failures=(7,)),
    "request": _requests,
    "result": _result,
    "run": _run,
    "outcome gone": _outcome_dropped,
    "batch": _batch,
    "policy": lambda state: setattr(state, "policy", Policy(tick_ms=11)),
    "time": lambda state: setattr(state, "now_ms", state.now_ms + 1),
    "term": lambda state: setattr(state, "term", 3),
    "models": lambda state: state.models.update(
        {("m", "1"): replace(state.models["m", "1"], priority_aging_ms=7)}
    ),
    "refused": lambda state: setattr(state.counters, "refused", 9),
    "kinds": _kinds,
}


@pytest.mark.parametrize("what", STATES)
def test_state_that_differs_from_the_model_is_found(what: str) -> None:
    found = scene()
    STATES[what](found.state)
    found.checker.look(N1, found.state)
    assert N1 in found.violation, what


# The end.


@dataclass
class Executor:
    """A simulated executor, as far as the checker asks."""

    incarnation: int
    holds: tuple[tuple[int, int], ...] = ()


def settled(found: Scene, **holds: tuple[tuple[int, int], ...]) -> str | None:
    """Ask whether all is at rest, of executors that hold what is said."""
    live = {
        name: Executor(each.incarnation, holds.get(name.replace("-", ""), ()))
        for name, each in found.state.executors.items()
    }
    return found.checker.settled({N1: found.state}, live)


def at_rest() -> Scene:
    """Return a scene where all has come to its end."""
    found = scene()
    found.one(r.Cancel(("u", "u"), ("d", "e")))
    for number, batch in list(found.state.batches.items()):
        assert found.lapse(number) == "OK"
        assert batch.executor
    return found


def test_what_is_at_rest_is_settled() -> None:
    found = at_rest()
    assert settled(found) is None
    assert not found.violation


def test_open_requests_are_not_settled() -> None:
    assert "requests have no outcome" in (settled(scene()) or "")


def test_batch_that_is_held_without_requests_is_not_settled() -> None:
    found = scene()
    found.one(r.Cancel(("u", "u"), ("d", "e")))
    assert "0 requests and 1 batches" in (settled(found) or "")


def test_lapsed_slot_is_not_settled() -> None:
    found = scene()
    found.one(r.Cancel(("u", "u"), ("d", "e")))
    assert found.one(replace_lapse(found)) == "OK"
    assert "gpu-1 holds" in (settled(found) or "")


def replace_lapse(found: Scene) -> r.Lapse:
    """Return a Lapse of the one batch, whose executor has not stopped."""
    ((number, batch),) = found.state.batches.items()
    reason, ran = LapseReason.TIMED_OUT, Ran.YES
    return r.Lapse(number, batch.assigned, batch.fence, reason, ran, False, "", "")


def test_slot_that_only_the_executor_takes_is_not_settled() -> None:
    assert "gpu-1 holds ((1, 2),)" in (settled(at_rest(), gpu1=((1, 2),)) or "")


def test_executor_of_another_incarnation_is_not_settled() -> None:
    found = at_rest()
    live = {name: Executor(1) for name in found.state.executors}
    assert "is not over" in (found.checker.settled({N1: found.state}, live) or "")


def test_executor_that_the_state_does_not_know_is_not_settled() -> None:
    found = at_rest()
    live = {name: Executor(each.incarnation) for name, each in found.state.executors.items()}
    live["gpu-7"] = Executor(0)
    assert "does not know" in (found.checker.settled({N1: found.state}, live) or "")


def test_deletion_that_does_not_end_is_not_settled() -> None:
    found = at_rest()
    found.state.deleting["m", "1"] = None
    assert "has not finished to delete" in (settled(found) or "")


def test_replica_that_lags_is_not_settled() -> None:
    found = at_rest()
    replica = found.again(found.state.index - 1)
    live = {name: Executor(each.incarnation) for name, each in found.state.executors.items()}
    said = found.checker.settled({N1: found.state, N2: replica.state}, live)
    assert f"{N2} has" in (said or "")


def test_replica_that_lags_at_rest_is_not_settled() -> None:
    found = at_rest()
    replica = found.again()
    found.do(r.Advance())
    live = {name: Executor(each.incarnation) for name, each in found.state.executors.items()}
    said = found.checker.settled({N1: found.state, N2: replica.state}, live)
    assert f"{N2} has applied" in (said or "")


def test_replica_that_differs_in_the_end_is_found() -> None:
    found = at_rest()
    replica = found.again()
    replica.state.drained_per_s += 1
    live = {name: Executor(each.incarnation) for name, each in found.state.executors.items()}
    found.checker.settled({N1: found.state, N2: replica.state}, live)
    assert f"{N2}'s state at" in found.violation
