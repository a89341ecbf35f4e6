"""What executors and operators ask: joins, reports, heartbeats, tails; models and policy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from chaos.worlds.loop import VirtualLoop
from coordinator.api import Report
from coordinator.core.watch import Holding
from coordinator.feed import FeedConfig
from coordinator.loads import Load
from raftbatch import records as r
from raftbatch.errors import (
    Draining,
    ExecutorIdInUse,
    InvalidRequest,
    NotLeader,
    OutcomeUnknown,
    Overloaded,
    RaftbatchError,
    StaleFence,
    StaleIncarnation,
    UnknownModel,
)
from raftbatch.kinds import LapseReason, Ran
from raftbatch.settings import Model, Policy
from tests.unit.api_scene import Asked

MODELS = (("m", "1"),)


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    with VirtualLoop() as loop:
        yield loop


def _incarnation(node: Asked, executor: str = "gpu-1") -> int:
    return node.state.executors[executor].incarnation


def test_join_gives_the_incarnation(loop: VirtualLoop) -> None:
    node = Asked(loop)
    found = node.gets(node.api.join(r.Join("gpu-2", 0, 2, MODELS, b"")))
    assert found == node.state.index == _incarnation(node, "gpu-2")
    with pytest.raises(ExecutorIdInUse, match=f"incarnation {found} is live"):
        node.gets(node.api.join(r.Join("gpu-2", 0, 2, MODELS, b"")))
    again = node.gets(node.api.join(r.Join("gpu-2", found, 2, MODELS, b"")))
    assert again == _incarnation(node, "gpu-2") > found
    with pytest.raises(InvalidRequest):
        node.gets(node.api.join(r.Join("gpu-3", 0, 0, MODELS, b"")))


def test_joins_are_bounded(loop: VirtualLoop) -> None:
    node = Asked(loop, policy=Policy(executors_max=1))
    with pytest.raises(Overloaded, match="executors_max = 1"):
        node.gets(node.api.join(r.Join("gpu-2", 0, 2, MODELS, b"")))


def test_life_of_an_executor(loop: VirtualLoop) -> None:
    node = Asked(loop)
    incarnation = _incarnation(node)
    node.gets(node.api.ready(r.Ready("gpu-1", incarnation, ())))
    assert node.state.executors["gpu-1"].models == ()
    node.gets(node.api.drain(r.Drain("gpu-1", incarnation, True)))
    assert node.state.executors["gpu-1"].is_draining
    with pytest.raises(InvalidRequest, match="who is lost"):
        node.gets(node.api.leave(r.Leave("gpu-1", incarnation, True, ())))
    node.gets(node.api.leave(r.Leave("gpu-1", incarnation, False, ())))
    assert "gpu-1" not in node.state.executors
    for call in (
        node.api.ready(r.Ready("gpu-1", incarnation, ())),
        node.api.drain(r.Drain("gpu-1", incarnation, True)),
        node.api.leave(r.Leave("gpu-1", incarnation, False, ())),
    ):
        with pytest.raises(StaleIncarnation):
            node.gets(call)


def test_report_lands_and_the_next_of_its_kind_is_stale_at_once(loop: VirtualLoop) -> None:
    node = Asked(loop)
    batch = node.start("a")
    report = node.report(batch)
    node.gets(node.api.report(report))
    assert node.outcome("a") == "ok"
    before = node.leader.proposed
    for each in (report, _lapse(report)):
        with pytest.raises(StaleFence):
            node.gets(node.api.report(each))
    node.leader.depose()  # any node that has applied it knows
    with pytest.raises(StaleFence):
        node.gets(node.api.report(report))
    assert node.leader.proposed == before


def _lapse(report: r.Complete, reason: LapseReason = LapseReason.FAILED) -> r.Lapse:
    return r.Lapse(report.batch, report.attempt, report.fence, reason, Ran.YES, True, "", "")


def test_report_of_what_is_not_known_yet_is_the_leaders_to_judge(loop: VirtualLoop) -> None:
    node = Asked(loop)
    batch = node.start("a")
    ahead = replace(node.report(batch), fence=node.state.index + 1)
    with pytest.raises(StaleFence):
        node.gets(node.api.report(ahead))
    assert node.leader.proposed == 1
    node.leader.depose()
    for each in (replace(ahead, fence=node.state.index + 1), node.report(batch)):
        with pytest.raises(NotLeader):
            node.gets(node.api.report(each))


def test_report_that_another_has_overtaken_in_the_log_is_stale(loop: VirtualLoop) -> None:
    node = Asked(loop)
    batch = node.start("a")
    report = node.report(batch)
    lapsing = node.asks(node.api.report(_lapse(report)))
    reporting = node.asks(node.api.report(report))
    node.leader.land()
    assert loop.run_until_complete(lapsing) is None
    with pytest.raises(StaleFence, match="not the current attempt"):
        loop.run_until_complete(reporting)
    assert node.outcome("a") == "open"


def test_report_names_requests_of_its_batch_alone(loop: VirtualLoop) -> None:
    node = Asked(loop)
    batch = node.start("a")
    node.admit("b")
    with pytest.raises(InvalidRequest, match="another batch"):
        node.gets(node.api.report(node.report(batch, numbers=(2,))))


@pytest.mark.parametrize(
    "report",
    [
        r.Lapse(1, 1, 5, LapseReason.EXECUTOR_LOST, Ran.NO, True, "", ""),
        r.Lapse(0, 1, 5, LapseReason.FAILED, Ran.NO, True, "", ""),
        r.Free("gpu-1", 3, (1, 2), (1,)),
        r.Probe("", 3, True),
    ],
)
def test_report_that_is_none_is_never_proposed(loop: VirtualLoop, report: Report) -> None:
    node = Asked(loop)
    node.start("a")
    with pytest.raises(InvalidRequest):
        node.gets(node.api.report(report))
    assert node.leader.proposed == 0


def test_freed_slots_return(loop: VirtualLoop) -> None:
    node = Asked(loop)
    batch = node.start("a")
    fence = node.state.batches[batch].fence
    node.lapse(batch, LapseReason.TIMED_OUT, Ran.NO, stopped=False)
    assert node.state.executors["gpu-1"].free_slots == 0
    node.gets(node.api.report(r.Free("gpu-1", _incarnation(node), (batch,), (fence,))))
    assert node.state.executors["gpu-1"].free_slots == 1
    with pytest.raises(StaleIncarnation):
        node.gets(node.api.report(r.Free("gpu-1", 1, (batch,), (fence,))))


def test_probe_of_an_executor_that_is_not_suspended_is_none(loop: VirtualLoop) -> None:
    node = Asked(loop, policy=Policy(executor_failures_max=1))
    probe = r.Probe("gpu-1", _incarnation(node), True)
    with pytest.raises(InvalidRequest, match="not suspended"):
        node.gets(node.api.report(probe))
    node.start("a")
    node.lapse()
    assert node.state.executors["gpu-1"].is_suspended
    node.gets(node.api.report(probe))
    assert not node.state.executors["gpu-1"].is_suspended


def test_unknown_end_of_a_report_is_told_as_such(loop: VirtualLoop) -> None:
    node = Asked(loop)
    task = node.asks(node.api.report(node.report(node.start("a"))))
    node.leader.depose(OutcomeUnknown("nobody knows"))
    with pytest.raises(OutcomeUnknown):
        loop.run_until_complete(task)


def test_heartbeats_go_to_the_leader(loop: VirtualLoop) -> None:
    node = Asked(loop)
    holdings = (Holding(1, 4, True),)
    node.api.heartbeat("gpu-1", 3, 9, holdings)
    assert node.leader.heard == [("gpu-1", 3, 9, holdings)]
    most = FeedConfig().holdings_max
    with pytest.raises(InvalidRequest, match=f"at most {most}"):
        node.api.heartbeat("gpu-1", 3, 9, holdings * (most + 1))
    node.leader.depose()
    with pytest.raises(NotLeader):
        node.api.heartbeat("gpu-1", 3, 9, holdings)
    node.api.close()
    with pytest.raises(Draining):
        node.api.heartbeat("gpu-1", 3, 9, holdings)


def test_load_is_that_of_heartbeats_that_the_leader_took(loop: VirtualLoop) -> None:
    async def beat(incarnation: int, load: Load | None) -> dict[str, Load]:
        try:
            node.api.heartbeat("gpu-1", incarnation, 9, (), load)
        except NotLeader:
            pass
        return node.api.loads.of(node.state.executors)

    node = Asked(loop)
    incarnation, load = _incarnation(node), Load(1, 2, 3, 4, 5)
    assert loop.run_until_complete(beat(incarnation, None)) == {}
    assert loop.run_until_complete(beat(incarnation, load)) == {"gpu-1": load}
    assert loop.run_until_complete(beat(incarnation, None)) == {"gpu-1": load}
    node.leader.depose()
    assert loop.run_until_complete(beat(incarnation, Load(0, 0, 0, 0, 0))) == {"gpu-1": load}


def test_tail_is_the_feeds(loop: VirtualLoop) -> None:
    node = Asked(loop)
    tail = loop.run_until_complete(node.api.tail("gpu-1", _incarnation(node), [], 0))
    node.start("a")
    first = loop.run_until_complete(tail.next())
    assert [each.batch for each in first.start] == [1]
    assert node.api.standing().tails == 1
    tail.close()
    assert node.api.standing().tails == 0


def test_operators_put_and_delete(loop: VirtualLoop) -> None:
    node = Asked(loop)
    node.gets(node.api.put_model(Model("n", "1")))
    assert ("n", "1") in node.state.models
    node.gets(node.api.delete_model("n", "1"))
    assert ("n", "1") not in node.state.models
    with pytest.raises(UnknownModel):
        node.gets(node.api.delete_model("n", "1"))
    node.admit("a")
    with pytest.raises(InvalidRequest, match="cannot shrink"):
        node.gets(node.api.put_model(Model("m", "1", max_batch_size=2)))
    node.gets(node.api.put_policy(Policy(models_max=1)))
    with pytest.raises(Overloaded, match="models_max = 1"):
        node.gets(node.api.put_model(Model("n", "1")))


def test_quarantine_is_released(loop: VirtualLoop) -> None:
    node = Asked(loop, model=Model("m", "1", attempts_max=1))
    node.admit("a")
    node.seal("a")
    node.fails(1)
    node.one(r.Quarantine(1))
    assert node.api.standing().quarantined == 1
    assert node.gets(node.api.release_quarantined([1, 7])) == 1
    with pytest.raises(InvalidRequest):
        node.gets(node.api.release_quarantined([1, 1]))
    assert node.api.standing().quarantined == 0


def test_standing_is_of_one_index(loop: VirtualLoop) -> None:
    node = Asked(loop)
    node.start("a", "b")
    node.one(r.Cancel(("t",), ("a",)))
    standing = node.api.standing()
    assert (standing.index, standing.term, standing.leader) == (node.state.index, 1, "n1")
    assert (standing.requests, standing.outcomes, standing.batches) == (1, 1, 1)
    assert (standing.executors, standing.models, standing.windows) == (1, 1, 0)
    assert standing.digest == node.replica.digest
    assert standing.counters["admitted"] == 2
    assert standing.counters["cancelled"] == 1


def test_everything_raises_errors_of_ours_alone(loop: VirtualLoop) -> None:
    node = Asked(loop)
    node.api.close()
    incarnation = _incarnation(node)
    for call in (
        node.api.join(r.Join("gpu-2", 0, 2, MODELS, b"")),
        node.api.ready(r.Ready("gpu-1", incarnation, ())),
        node.api.report(r.Probe("gpu-1", incarnation, True)),
        node.api.put_policy(Policy()),
        node.api.acknowledge([("t", "a")]),
    ):
        with pytest.raises(RaftbatchError) as error:
            node.gets(call)
        assert error.value.definite
