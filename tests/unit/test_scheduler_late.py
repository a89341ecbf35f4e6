"""Time before the scheduler's checker: requests found late within an entry, and the log's clock."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chaos.checkers.scheduler import SchedulerChecker
from coordinator.core.effects import Verdicts
from raftbatch import records as r
from raftbatch.kinds import LapseReason, Ran, Release
from raftbatch.settings import Model, Policy
from tests.unit.core.tables import KEY
from tests.unit.scheduler_scene import N2, Scene

# Time is looked at in grains of 1/256 of a timeout: past that deadline nobody is at once.
TIMEOUT_MS = 25_600
LATE_MS = TIMEOUT_MS + 1


def waiting(*ids: str) -> Scene:
    """Return a scene in which requests wait that are past their deadline, and open yet."""
    found = Scene(Model("m", "1", attempts_max=5), Policy())
    found.at_ms += 7
    found.admit(*ids, timeout_ms=TIMEOUT_MS)
    return found


def verdicts(found: Scene, record: r.Record, *others: r.Record) -> bytes:
    """Apply an entry; return what is said to each request of its first record."""
    reply = found.do(record, *others).replies[0]
    assert isinstance(reply, Verdicts)
    return reply.verdicts


@pytest.mark.parametrize("late_ms", [0, 1, 100, 200])
def test_duplicate_before_the_seal_that_finds_it_late(late_ms: int) -> None:
    """Whether it is known or has ended then is for time to say; both are sound."""
    found = waiting("a", "b")
    found.at_ms += TIMEOUT_MS + late_ms
    seal = r.Seal(1, KEY, Release.AGE, (1, 2))
    said = verdicts(found, found.admission("a"), seal)
    assert said == (b"\x01" if late_ms < 100 else b"\x02")
    assert found.outcome("a") == "expired"
    assert not found.violation


@pytest.mark.parametrize("late_ms", [0, 200])
@pytest.mark.parametrize("kind", [r.Cancel, r.Acknowledge])
def test_cancel_before_the_seal_that_finds_it_late(
    late_ms: int, kind: type[r.Cancel | r.Acknowledge]
) -> None:
    found = waiting("a", "b")
    found.at_ms += TIMEOUT_MS + late_ms
    found.do(kind(("t",), ("a",)), r.Seal(1, KEY, Release.AGE, (1, 2)))
    assert not found.violation


@pytest.mark.parametrize("late_ms", [0, 200])
def test_assignment_that_finds_it_late(late_ms: int) -> None:
    found = waiting("a", "b")
    found.admit("c")
    found.seal("a", "b", "c")
    found.assign()
    found.at_ms += TIMEOUT_MS + late_ms
    batch = found.state.batches[1]
    lapse = r.Lapse(1, 1, batch.fence, LapseReason.DRAINED, Ran.NO, True, "", "")
    again = r.Assign(1, 2, "gpu-1", batch.incarnation)
    found.do(lapse, found.admission("a"), again)
    assert found.outcome("a") == "expired"
    assert not found.violation


def test_duplicate_that_is_answered_wrongly_is_found_all_the_same() -> None:
    found = waiting("a")
    found.at_ms += TIMEOUT_MS
    admission = replace(found.admission("a"), content_hash=(b"other",))
    assert verdicts(found, admission, r.Seal(1, KEY, Release.AGE, (1,))) == bytes([15])
    assert not found.violation
    known = Verdicts(b"\x01", ((0, 3),))
    assert "is answered KNOWN" in found.said_to(found.admission("a"), known)


# Log time.


def test_death_of_a_node_after_the_heal_is_a_fault_again() -> None:
    now = [0]
    found = Scene(checker=SchedulerChecker(lambda payload: b"", real_ms=lambda: now[0]))
    found.checker.healed()
    now[0] += 3_000
    found.do(r.Advance())
    found.checker.end(N2)
    found.at_ms += 70_000
    found.do(r.Advance())
    assert not found.violation


@pytest.mark.parametrize(
    ("log_ms", "real_ms", "is_found"),
    [(10_000, 10_000, False), (9_700, 10_000, False), (4_000, 10_000, True), (20, 2_000, True)],
)
def test_log_time_passes_as_the_worlds_does(log_ms: int, real_ms: int, *, is_found: bool) -> None:
    now = [0]
    checker = SchedulerChecker(lambda payload: b"", real_ms=lambda: now[0])
    found = Scene(checker=checker)
    found.checker.healed()
    now[0] += 1_000
    found.do(r.Advance())  # too early to be judged by
    now[0] += 2_000
    found.at_ms += 50_000
    found.do(r.Advance())
    now[0] += real_ms
    found.at_ms += log_ms
    found.do(r.Advance())
    assert ("log time has parted" in found.violation) == is_found
