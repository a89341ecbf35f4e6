"""The checker's model of the scheduler, shown to fire: entries that no sound core would make."""

from __future__ import annotations

import pytest

from coordinator.core import effects as e
from coordinator.core.effects import Reply, Verdict, Verdicts
from raftbatch import records as r
from raftbatch.kinds import OutcomeKind, Release
from raftbatch.settings import Model, Policy, TenantLimits
from tests.unit.core.tables import KEY
from tests.unit.scheduler_scene import OK, TAKEN, Scene

SMALL = Model(
    "m",
    "1",
    max_batch_size=4,
    max_batch_bytes=100,
    attempts_max=1,
    default_priority_level=0,
    rows_waiting_max=6,
)
FEW = Policy(
    requests_waiting_max=3,
    bytes_waiting_max=120,
    executor_failures_max=9,
    tenants=(TenantLimits("poor", 1, 9, 900),),
)


def scene() -> Scene:
    """Return a scene of small limits, in which nothing waits."""
    return Scene(SMALL, FEW, slots=2)


def answer(*verdicts: Verdict, ticket: int = 0) -> Verdicts:
    """Return what a columnar record is answered."""
    known = (Verdict.KNOWN, Verdict.ENDED)
    tickets = [(place, ticket) for place, verdict in enumerate(verdicts) if verdict in known]
    return Verdicts(bytes(verdicts), tuple(tickets))


# Entries.


def test_entry_of_a_deposed_leader_that_takes_effect_is_found() -> None:
    found = scene()
    admission = found.admission("a")
    assert "took effect" in found.said_to(admission, TAKEN, term=7)


def test_effect_of_a_refused_entry_is_found() -> None:
    refused = Reply(Verdict.NOT_LEADER)
    assert "took effect" in scene().said_to(r.Advance(), refused, e.BatchGone(1), term=7)


@pytest.mark.parametrize(
    ("record", "verdict"),
    [
        (r.Assign(1, 1, "gpu-1", 3), Verdict.VOID),
        (r.Assign(1, 1, "gpu-1", 3), Verdict.STALE_INCARNATION),
        (r.Seal(1, KEY, Release.AGE, (1,)), Verdict.VOID),
        (r.Bisect(1, 2, 3), Verdict.VOID),
        (r.Quarantine(1), Verdict.VOID),
        (r.Lead("n1", 0, 1), Verdict.VOID),
    ],
)
def test_refusal_of_a_leaders_own_decision_is_found(record: r.Record, verdict: Verdict) -> None:
    assert "own leader's" in scene().said_to(record, Reply(verdict))


def test_missing_reply_is_found() -> None:
    found = scene()
    entry = r.Entry(1, found.at_ms, (r.Advance(),))
    found.checker.model.follow(99, 1, entry, e.Applied((), ()), lambda name: None)
    assert "has 0 replies" in found.violation


# Admissions.


def test_id_admitted_twice_is_found() -> None:
    found = scene()
    found.admit("a")
    assert "and was as" in found.said_to(found.admission("a"), TAKEN)


def test_id_admitted_again_within_its_retention_is_found() -> None:
    found = scene()
    found.finish(found.start("a"))
    found.at_ms += FEW.dedupe_retention_ms - 1
    assert "and was as" in found.said_to(found.admission("a"), TAKEN)


def test_id_admitted_again_after_its_retention_is_sound() -> None:
    found = scene()
    found.finish(found.start("a"))
    found.at_ms += FEW.dedupe_retention_ms
    assert found.admit("a") == "OK"
    assert not found.violation


def test_number_that_does_not_rise_is_found() -> None:
    found = scene()
    found.admit("a")
    assert "after" in found.said_to(found.admission("b", first=1), TAKEN)


@pytest.mark.parametrize(
    ("alike", "said"),
    [
        ({"rows": 5}, "5 rows"),
        ({"size": 101}, "101 bytes"),
        ({"priority": 3}, "priority 3"),
        ({"key": ("n", "1", "a")}, "for no model version"),
    ],
)
def test_request_that_can_never_run_is_found(alike: dict[str, object], said: str) -> None:
    found = scene()
    admission = found.admission("a", **alike)  # type: ignore[arg-type]
    assert said in found.said_to(admission, TAKEN)


@pytest.mark.parametrize(
    ("before", "alike", "said"),
    [
        (["a", "b", "c"], {}, "4 requests wait for all, of 3"),
        (["a", "b"], {"rows": 3}, "7 rows wait for ('m', '1'), of 6"),
        (["a", "b"], {"size": 81}, "121 bytes wait for all, of 120"),
    ],
)
def test_one_more_than_the_limit_is_found(
    before: list[str], alike: dict[str, object], said: str
) -> None:
    found = scene()
    rows = 2 if "rows" in alike else 1
    size = 20 if "size" in alike else 10
    assert found.admit(*before, rows=rows, size=size) == " ".join(["OK"] * len(before))
    admission = found.admission("z", **alike)  # type: ignore[arg-type]
    assert said in found.said_to(admission, TAKEN)


def test_one_more_than_a_tenants_limit_is_found() -> None:
    found = scene()
    found.admit("a", tenant="poor")
    assert "wait for poor" in found.said_to(found.admission("b", tenant="poor"), TAKEN)


@pytest.mark.parametrize(
    ("verdict", "content_hash", "ticket"),
    [
        (Verdict.KNOWN, b"h", 1),
        (Verdict.KNOWN, b"other", 6),
        (Verdict.ENDED, b"h", 6),
        (Verdict.REQUEST_ID_CONFLICT, b"h", 0),
        (Verdict.OUTCOME_FORGOTTEN, b"h", 0),
        (Verdict.OVERLOADED, b"h", 0),
        (Verdict.UNKNOWN_MODEL, b"h", 0),
    ],
)
def test_wrong_answer_to_a_known_id_is_found(
    verdict: Verdict, content_hash: bytes, ticket: int
) -> None:
    found = scene()
    found.admit("a")
    assert found.state.index == 6 - 1
    admission = found.admission("a", content_hash=content_hash)
    assert found.said_to(admission, answer(verdict, ticket=ticket))


def test_answer_of_an_id_that_never_came_is_found() -> None:
    found = scene()
    assert "never came" in found.said_to(found.admission("a"), answer(Verdict.KNOWN, ticket=3))


def test_outcome_forgotten_within_its_retention_is_found() -> None:
    found = scene()
    found.finish(found.start("a"))
    admission = found.admission("a")
    assert "FORGOTTEN" in found.said_to(admission, answer(Verdict.OUTCOME_FORGOTTEN))


def test_model_that_is_there_and_unknown_is_found() -> None:
    found = scene()
    assert "its model is there" in found.said_to(
        found.admission("a"), answer(Verdict.UNKNOWN_MODEL)
    )


# Cancels and acknowledgements.


@pytest.mark.parametrize(
    "verdict",
    [Verdict.OK, Verdict.ENDED, Verdict.UNKNOWN_REQUEST, Verdict.OVERLOADED],
)
def test_open_request_that_a_cancel_does_not_end_is_found(verdict: Verdict) -> None:
    found = scene()
    found.admit("a")
    assert "'t\\x00a'" in found.said_to(r.Cancel(("t",), ("a",)), answer(verdict))


def test_cancel_that_forgets_an_id_is_found() -> None:
    found = scene()
    found.one(r.Cancel(("t",), ("a",)))
    said = found.said_to(r.Cancel(("t",), ("a",)), answer(Verdict.UNKNOWN_REQUEST))
    assert "is answered UNKNOWN_REQUEST" in said


@pytest.mark.parametrize("verdict", [Verdict.OK, Verdict.UNKNOWN_REQUEST])
def test_acknowledgement_of_an_open_request_is_found(verdict: Verdict) -> None:
    found = scene()
    found.admit("a")
    assert found.said_to(r.Acknowledge(("t",), ("a",)), answer(verdict))


# Outcomes.


def test_second_outcome_is_found() -> None:
    found = scene()
    found.admit("a")
    ended, outcomes = found.ends("a", OutcomeKind.CANCELLED)
    found.one(r.Cancel(("t",), ("a",)))
    assert "again" in found.said_to(r.Advance(), OK, ended, outcomes=outcomes)


def test_outcome_that_no_replica_has_is_found() -> None:
    found = scene()
    found.admit("a")
    ended, _ = found.ends("a", OutcomeKind.CANCELLED)
    assert "again: None" in found.said_to(r.Advance(), OK, ended)


@pytest.mark.parametrize("kind", [OutcomeKind.OK, OutcomeKind.FAILED, OutcomeKind.CANCELLED])
def test_outcome_for_no_reason_is_found(kind: OutcomeKind) -> None:
    found = scene()
    found.admit("a")
    ended, outcomes = found.ends("a", kind, code="unknown_model")
    assert "for no reason" in found.said_to(r.Advance(), OK, ended, outcomes=outcomes)


@pytest.mark.parametrize(
    "changes", [{"at_ms": 7}, {"ended_index": 7}, {"ticket": 1}, {"content_hash": b"x"}]
)
def test_outcome_of_another_request_or_time_is_found(changes: dict[str, object]) -> None:
    found = scene()
    found.admit("a")
    ended, outcomes = found.ends("a", OutcomeKind.CANCELLED)
    outcomes = {name: each._replace(**changes) for name, each in outcomes.items()}  # type: ignore[arg-type]
    cancel = r.Cancel(("t",), ("a",))
    assert "is ended with" in found.said_to(cancel, TAKEN, ended, outcomes=outcomes)


@pytest.mark.parametrize("timeout_ms", [0, 100])
def test_expiry_before_the_deadline_is_found(timeout_ms: int) -> None:
    found = scene()
    found.admit("a", timeout_ms=timeout_ms)
    found.at_ms += 99
    ended, outcomes = found.ends("a", OutcomeKind.EXPIRED)
    assert "expires at" in found.said_to(r.Advance(), OK, ended, outcomes=outcomes)


def test_late_expiry_is_found_once_all_is_healed() -> None:
    found = scene()
    found.admit("a", timeout_ms=100)
    found.checker.healed()
    found.at_ms += 100 + 511  # half a second, and a tick
    ended, outcomes = found.ends("a", OutcomeKind.EXPIRED)
    assert "511 ms after" in found.said_to(r.Advance(), OK, ended, outcomes=outcomes)


def test_deletion_that_ends_what_runs_is_found() -> None:
    found = scene()
    batch = found.start("a")
    found.one(r.DeleteModel("m", "1"))
    ended, outcomes = found.ends("a", OutcomeKind.FAILED, code="unknown_model")
    fence = found.state.batches[batch].fence
    shed = e.Shed("gpu-1", 3, batch, fence, (1,))
    assert "though it runs" in found.said_to(r.Advance(), OK, ended, shed, outcomes=outcomes)
