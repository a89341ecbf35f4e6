"""What a node shows Prometheus: every metric has help, the right type, and is in the documents."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as families

from coordinator.loads import DeviceLoad, Load, ModelLoad
from coordinator.measures import Measures
from coordinator.overview import SHOWN_MAX
from coordinator.pulse import Pulse
from coordinator.raft.standing import Role
from coordinator.rpc.metrics import NodeMetrics
from raftbatch import records as r
from raftbatch.settings import Model
from tests.tidy.tree import ROOT
from tests.unit.http_scene import N2, HttpScene


class _Clock:
    def monotonic_ns(self) -> int:
        return 0

    def wall_ms(self) -> int:
        return 0


class Shown(HttpScene):
    """A node, and what it shows."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.metrics = NodeMetrics(self.node, lambda: {"full": 0, "slow": 2, "long": 0})
        self.metrics.pulse = Pulse(_Clock(), lambda: 0)
        self.metrics.measures = Measures(self.replica, self.replica.index)
        self.replica.listeners.append(self.metrics.measures)

    def text(self) -> str:
        """Return all, in the older form."""
        make, content_type = self.metrics.exposing("")
        assert content_type.startswith("text/plain; version=0.0.4")
        return make().decode()

    def families(self) -> dict[str, Metric]:
        """Return all of raftbatch's, as Prometheus's own parser reads them."""
        return {each.name: each for each in families(self.text()) if "raftbatch" in each.name}

    def value(self, name: str, **labels: str) -> float | None:
        """Return a sample; None: there is none."""
        for family in self.families().values():
            for sample in family.samples:
                if sample.name == name and sample.labels == labels:
                    return sample.value
        return None


@pytest.fixture
def shown(tmp_path: Path) -> Shown:
    """Return a node that has work, executors, and their loads."""
    found = Shown(tmp_path)
    found.join("gpu-1", slots=2)
    found.join("gpu-2")
    found.start("a", "b")
    found.admit("c", rows=3)
    model = ModelLoad(("m", "1"), 3, 2)
    device = DeviceLoad("cuda:0", 5, 6)
    found.given["gpu-1"] = Load(1, 2, 250, 10, 20, (model,), (device,))
    return found


def test_numbers_are_what_the_node_holds(shown: Shown) -> None:
    value = shown.value
    assert value("raftbatch_cluster_requests_admitted_total") == 3
    assert value("raftbatch_cluster_requests_waiting") == 3
    assert value("raftbatch_cluster_rows_waiting") == 5
    assert value("raftbatch_cluster_windows") == value("raftbatch_cluster_batches") == 1
    assert value("raftbatch_cluster_batches_sealed_total", reason="size") == 1
    assert value("raftbatch_cluster_batch_rows_sum") == 2
    assert value("raftbatch_cluster_batch_rows_bucket", le="1.0") == 0
    assert value("raftbatch_cluster_batch_rows_bucket", le="2.0") == 1
    assert value("raftbatch_cluster_batch_queue_seconds_count") == 1
    assert value("raftbatch_cluster_executors", state="ready") == 2
    assert (value("raftbatch_cluster_slots"), value("raftbatch_cluster_slots_held")) == (3, 1)
    labels = {"model": "m", "version": "1"}
    assert value("raftbatch_cluster_model_requests_waiting", **labels) == 3
    assert value("raftbatch_cluster_model_executors_ready", **labels) == 2
    assert value("raftbatch_is_leader") == value("raftbatch_has_leader") == 1
    assert value("raftbatch_applied_index") == 9
    assert value("raftbatch_http_connections_cut_total", reason="slow") == 2
    assert value("raftbatch_executor_batches_running", executor="gpu-1") == 1
    assert value("raftbatch_executor_cpu_ratio", executor="gpu-1") == 0.25
    assert value("raftbatch_executor_instances_busy", executor="gpu-1", **labels) == 2
    device = {"executor": "gpu-1", "device": "cuda:0"}
    assert value("raftbatch_executor_device_memory_limit_bytes", **device) == 6
    assert value("raftbatch_executor_batches_running", executor="gpu-2") is None


def test_times_are_in_seconds(shown: Shown) -> None:
    shown.log.disk.sync_ns.add(2_000_000)
    assert shown.value("raftbatch_journal_sync_seconds_sum") == 0.002
    assert shown.value("raftbatch_journal_sync_seconds_bucket", le="0.001") == 0
    assert shown.value("raftbatch_journal_sync_seconds_bucket", le="0.0025") == 1
    batch = next(iter(shown.state.batches))
    shown.one(shown.report(batch))
    assert shown.value("raftbatch_cluster_batch_infer_seconds_sum") == 3e-9
    assert shown.value("raftbatch_cluster_outcomes_total", kind="ok") == 2


def test_state_of_executors_is_one_of_three(shown: Shown) -> None:
    for name in ("gpu-1", "gpu-2"):
        shown.one(r.Drain(name, shown.state.executors[name].incarnation, True))
    assert shown.value("raftbatch_cluster_executors", state="draining") == 2
    assert shown.value("raftbatch_cluster_executors", state="ready") == 0
    labels = {"model": "m", "version": "1"}
    assert shown.value("raftbatch_cluster_model_executors_ready", **labels) == 0


def test_facts_of_the_cluster_are_told_by_name_and_help(shown: Shown) -> None:
    for name, family in shown.families().items():
        assert family.documentation[-1] == ".", name
        is_fact = name.startswith("raftbatch_cluster_")
        assert is_fact == ("not to be summed over nodes" in family.documentation), name


def test_facts_of_the_cluster_wait_until_the_node_has_caught_up(tmp_path: Path) -> None:
    shown = Shown(tmp_path)
    shown.log.term = 2  # the leader's first entry is not applied yet
    assert shown.value("raftbatch_cluster_requests_waiting") is None
    shown.do(r.Lead("n1", 0, 1), term=2, raft_term=2)
    assert shown.value("raftbatch_cluster_requests_waiting") == 0
    shown.log.term = 3  # an election takes nothing away
    assert shown.value("raftbatch_cluster_requests_waiting") == 0


def test_both_forms_are_read_by_prometheus_itself(shown: Shown) -> None:
    make, content_type = shown.metrics.exposing("application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    new = {each.name for each in open_metrics(make().decode())}  # type: ignore[no-untyped-call]
    assert set(shown.families()) <= new
    assert {"process_cpu_seconds", "process_resident_memory_bytes"} <= new


def test_names_follow_the_rules(shown: Shown) -> None:
    for name, family in shown.families().items():
        assert re.fullmatch(r"raftbatch_[a-z_]+", name)
        assert not name.endswith(("_total", "_count", "_sum", "_bucket", "_ms", "_ns")), name
        if family.type == "counter":
            assert all(each.name == f"{name}_total" for each in family.samples), name
        if family.type == "histogram":
            assert name.endswith(("_seconds", "_rows")), name


def test_documents_list_every_metric_and_no_other(shown: Shown) -> None:
    text = (ROOT / "docs" / "OPERATIONS.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `(raftbatch_\w+)` \| (\w+)", text, re.MULTILINE))
    there = {
        (f"{name}_total" if family.type == "counter" else name, family.type)
        for name, family in shown.families().items()
    }
    assert listed == there


def test_leaders_are_counted_when_they_change(shown: Shown) -> None:
    for leader in (None, N2, None, N2, "n1", "n1"):
        shown.log.leader = leader  # type: ignore[assignment]
        shown.log.role = Role.FOLLOWER
        shown.metrics.look()
    assert shown.value("raftbatch_leader_changes_total") == 2
    assert shown.value("raftbatch_is_leader") == 0


def test_models_are_bounded(shown: Shown) -> None:
    for number in range(SHOWN_MAX + 5):
        shown.put(Model(f"m{number}", "1"))
    family = shown.families()["raftbatch_cluster_model_requests_waiting"]
    assert len(family.samples) == SHOWN_MAX
    assert shown.value("raftbatch_cluster_models") == SHOWN_MAX + 6


def test_each_node_has_its_own(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    one, other = Shown(tmp_path / "a"), Shown(tmp_path / "b")
    one.admit("a")
    assert one.value("raftbatch_cluster_requests_admitted_total") == 1
    assert other.value("raftbatch_cluster_requests_admitted_total") == 0


def test_text_that_a_client_chose_breaks_nothing(shown: Shown) -> None:
    shown.put(Model('m"\n{x="1"} 7\\', "1"))
    labels = {"model": 'm"\n{x="1"} 7\\', "version": "1"}
    assert shown.value("raftbatch_cluster_model_requests_waiting", **labels) == 0
