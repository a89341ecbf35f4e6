"""The first records of a new cluster: tables of its file, and what is wrong in them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from coordinator.api import ApiConfig
from coordinator.config import NodeConfig, SessionLimits, load_node
from coordinator.leader import LeaderConfig
from coordinator.scheduler import SchedulerConfig
from raftbatch.codec import decode_entry, encode_entry
from raftbatch.errors import InvalidRequest
from raftbatch.realworld import RealFiles
from raftbatch.records import Entry, PutModel, PutPolicy
from raftbatch.settings import Model, Policy, TenantLimits

NODES = """
[cluster]
name = "test"
[nodes.n1]
peer = "127.0.0.1:8003"
client = "127.0.0.1:8001"
"""


def load(folder: Path, text: str) -> NodeConfig:
    """Return what a node is told by a file of these tables."""
    path = folder / "cluster.toml"
    path.write_text(NODES + text, encoding="utf-8")
    return load_node(RealFiles(), str(path), "n1")


def test_founding_writes_the_whole_policy_down(tmp_path: Path) -> None:
    assert load(tmp_path, "").founding == (PutPolicy(Policy()),)
    text = """
    [policy]
    windows_max = 7
    tenant_outcome_bytes_max = 8000
    [policy.tenants.b]
    requests_waiting_max = 1
    rows_waiting_max = 2
    bytes_waiting_max = 3
    [policy.tenants.a]
    requests_waiting_max = 4
    rows_waiting_max = 5
    bytes_waiting_max = 6
    outcome_bytes_max = 9000
    """
    tenants = (TenantLimits("a", 4, 5, 6, 9000), TenantLimits("b", 1, 2, 3))
    policy = Policy(windows_max=7, tenants=tenants, tenant_outcome_bytes_max=8000)
    assert load(tmp_path, text).founding == (PutPolicy(policy),)


def test_founding_puts_each_model(tmp_path: Path) -> None:
    text = """
    [models.b]
    version = "7"
    max_batch_size = 64
    preferred_batch_size = [8, 16]
    seal_when_idle = true
    inputs = [{ name = "x", datatype = "FP32", dims = [-1], length_buckets = [64, 128] }]
    outputs = [{ name = "y", datatype = "FP32", dims = [384] }]
    [models.b.executor]
    whatever = ["it", { is = 1.5 }]
    [models.a]
    """
    policy, *models = load(tmp_path, text).founding
    assert isinstance(policy, PutPolicy)
    first, second = models
    assert first == PutModel(Model("a", "1"))
    assert isinstance(second, PutModel)
    model = second.model
    assert (model.name, model.version, model.max_batch_size) == ("b", "7", 64)
    assert (model.preferred_batch_size, model.seal_when_idle) == ((8, 16), True)
    declared = json.loads(model.config)
    assert declared["inputs"][0]["length_buckets"] == [64, 128]
    assert declared["outputs"][0]["dims"] == [384]
    entry = Entry(1, 1, (policy, *models))
    assert decode_entry(encode_entry(entry)).records == entry.records


def test_equal_declarations_are_equal_bytes(tmp_path: Path) -> None:
    one, two = '{ name = "x", dims = [1] }', '{ dims = [1], name = "x" }'
    found = [load(tmp_path, f"[models.a]\ninputs = [{each}]").founding for each in (one, two)]
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[policy]\nwindow_max = 1", "policy.window_max is unknown: the nearest is windows_max"),
        ("[policy]\nwindows_max = 0", "windows_max = 0 is not in 1"),
        ("[policy]\nwindows_max = '1'", "policy.windows_max is '1', which is no whole number"),
        ("[policy.tenants.a]\nrows_waiting_max = 1", "requests_waiting_max is missing"),
        ("[policy.tenants.a]\nrows = 1", "policy.tenants.a.rows is unknown"),
        ("[policy.tenants.'']", "'' is no name"),
        ("[models.a]\nmax_batch = 1", "models.a.max_batch is unknown: the nearest is max_batch"),
        ("[models.a]\nmax_batch_size = -1", "max_batch_size = -1 is not in 0"),
        ("[models.a]\nversion = ''", "version is '', which is no text"),
        ("[models.a]\npreferred_batch_size = 8", "is 8, which is no list of whole numbers"),
        ("[models.a]\npreferred_batch_size = [true]", "which is no list of whole numbers"),
        ("[models.a]\nseal_when_idle = 1", "seal_when_idle is 1, which is neither"),
        ("[models.a]\ninputs = [1]", "which is no list of tables"),
        ("[models.a]\ninputs = [{ since = 1979-05-27 }]", "text, numbers and lists alone"),
        ("[models.a]\nexecutor = 1", "executor is 1, which is no table"),
        (f"[models.a]\nversion = '{'1' * 300}'", "models: "),
        ("[policy]\nmodels_max = 1\n[models.a]\n[models.b]", "there are 2: policy.models_max is 1"),
        ("[models]\na = 1", "models.a is 1, which is no table"),
        (f"[models.{'a' * 257}]", "is no name: 1 to 256 characters"),
        ("[leader]\nlease = 1", "leader.lease is unknown: the nearest is lease_ms"),
        ("[leader]\nlease_ms = 0", "leader: a limit is below 1"),
        ("[leader]\nrecord_bytes_max = 30_000_000", "leaves room for decisions"),
        ("[leader]\nentry_bytes_max = 9_000_000", "leader: entry_bytes_max = 9000000 is not in"),
        ("[api]\nwaits = 1", "api.waits is unknown: the nearest is waits_max"),
        ("[sessions]\nsessions_max = 0", "sessions_max = 0 is less than 1"),
    ],
)
def test_founding_says_what_is_wrong(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        load(tmp_path, text)
    assert said in caught.value.message
    assert str(tmp_path) in caught.value.message


def test_scheduler_is_told_what_the_file_says(tmp_path: Path) -> None:
    config = load(tmp_path, "")
    assert config.scheduler == SchedulerConfig()
    assert config.sessions == SessionLimits()
    text = "[leader]\nlease_ms = 500\n[api]\nwaits_max = 9\n[sessions]\nin_flight_max = 8\n"
    config = load(tmp_path, text)
    assert config.scheduler.leader == LeaderConfig(lease_ms=500)
    assert config.scheduler.api == ApiConfig(waits_max=9)
    assert config.sessions == SessionLimits(in_flight_max=8)


def test_leader_groups_less_than_the_journal_takes(tmp_path: Path) -> None:
    """Its own decisions come on top of what it groups, in the same entry."""
    config = load(tmp_path, "[storage]\nentry_bytes_max = 1_000_000\n")
    assert config.scheduler.leader.entry_bytes_max == 250_000
    assert config.scheduler.leader.record_bytes_max == 750_000
