"""Limits that can never be reached, since others always come first, are found and named."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator.config import load_node
from coordinator.limits import rate_max, state_bytes_max, sustained, unreachable
from raftbatch.records import PutPolicy
from raftbatch.settings import Policy
from tests.tidy.tree import ROOT
from tests.unit.test_config import FILES, GOOD, write

NODES = GOOD + "[models.m]\n"


def found(folder: Path, text: str) -> list[str]:
    """Return what is found in a file."""
    return unreachable(load_node(FILES, write(folder, text), "n1"))


@pytest.mark.parametrize("name", ["chaos-3", "local-1", "local-3", "local-5"])
def test_limits_that_are_shipped_can_all_be_reached(name: str) -> None:
    assert unreachable(load_node(FILES, str(ROOT / f"cluster_configs/{name}.toml"), "n1")) == []


def test_limits_by_default_can_all_be_reached(tmp_path: Path) -> None:
    assert found(tmp_path, NODES) == []
    opaque = GOOD.replace('name = "test"', 'name = "test"\nreplica = "opaque"')
    assert found(tmp_path, opaque + "[policy]\nrequests_waiting_max = 9_000_000\n") == []


def test_rate_that_ids_bear_is_said(tmp_path: Path) -> None:
    text = NODES + "[policy]\ndedupe_entries_max = 4_500_000\n"
    [said] = sustained(load_node(FILES, write(tmp_path, text), "n1"))
    assert "dedupe_entries_max = 4500000 that bears 12500 requests/s" in said
    assert "for ever, in some 2025 MB of memory for ids" in said
    assert f"{state_bytes_max(Policy(dedupe_entries_max=4_500_000))} bytes in a snapshot" in said
    opaque = GOOD.replace('name = "test"', 'name = "test"\nreplica = "opaque"')
    assert sustained(load_node(FILES, write(tmp_path, opaque), "n1")) == []


@pytest.mark.parametrize("name", ["local-1", "local-3", "local-5"])
def test_clusters_that_are_shipped_bear_five_thousand_requests_a_second_for_ever(name: str) -> None:
    config = load_node(FILES, str(ROOT / f"cluster_configs/{name}.toml"), "n1")
    [policy] = [each.policy for each in config.founding if isinstance(each, PutPolicy)]
    assert rate_max(policy) >= 5000
    [said] = sustained(config)
    assert f"that bears {rate_max(policy)} requests/s for ever" in said
    assert policy.outcome_retention_ms >= 300_000, "nor by forgetting sooner than clients come back"


def test_limit_that_is_lowered_says_nothing_of_those_that_stand_for_none(tmp_path: Path) -> None:
    text = "[policy]\nrequests_waiting_max = 10\nbytes_waiting_max = 20_000_000\n"
    assert found(tmp_path, NODES + text) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[policy]\nrequests_waiting_max = 10\ntenant_requests_waiting_max = 11\n",
            (
                "policy.tenant_requests_waiting_max = 11 can never be reached: "
                "policy.requests_waiting_max = 10"
            ),
        ),
        (
            (
                "[policy]\nbytes_waiting_max = 20_000_000\n[policy.tenants.'a.b']\n"
                "requests_waiting_max = 1\nrows_waiting_max = 1\nbytes_waiting_max = 20_000_001\n"
            ),
            (
                "policy.tenants.a.b.bytes_waiting_max = 20000001 can never be reached: "
                "policy.bytes_waiting_max = 20000000"
            ),
        ),
        (
            "[policy]\nrows_waiting_max = 10\n",
            (
                "policy.requests_waiting_max = 200000 can never be reached: each has a row, and "
                "policy.rows_waiting_max = 10"
            ),
        ),
        (
            "[policy]\ndedupe_entries_max = 10\n",
            (
                "policy.requests_waiting_max = 200000 can never be reached: the id of each is "
                "known, and policy.dedupe_entries_max = 10"
            ),
        ),
        (
            "[policy]\nbytes_waiting_max = 1000\n",
            (
                "policy.request_bytes_max = 16777216 can never be reached: "
                "policy.bytes_waiting_max = 1000"
            ),
        ),
        (
            "[policy]\noutcome_reserve_bytes = 1000\n",
            (
                "policy.requests_waiting_max = 200000 can never be reached: "
                "outcome_reserve_bytes = 1000 for each is 200000000 in all, and "
                "policy.outcome_bytes_max = 134217728"
            ),
        ),
        (
            "[policy]\ntenant_outcome_bytes_max = 134_217_729\n",
            (
                "policy.tenant_outcome_bytes_max = 134217729 can never be reached: "
                "policy.outcome_bytes_max = 134217728"
            ),
        ),
        (
            "[policy]\ntenant_outcome_bytes_max = 1280\ntenant_requests_waiting_max = 11\n",
            (
                "policy.tenant_requests_waiting_max = 11 can never be reached: "
                "outcome_reserve_bytes = 128 for each is 1408 in all, and "
                "policy.tenant_outcome_bytes_max = 1280"
            ),
        ),
        (
            (
                "[policy]\ntenant_outcome_bytes_max = 128\n[policy.tenants.t]\n"
                "requests_waiting_max = 11\nrows_waiting_max = 11\nbytes_waiting_max = 11\n"
                "outcome_bytes_max = 1280\n"
            ),
            (
                "policy.tenants.t.requests_waiting_max = 11 can never be reached: "
                "outcome_reserve_bytes = 128 for each is 1408 in all, and "
                "policy.tenants.t.outcome_bytes_max = 1280"
            ),
        ),
        (
            "[policy]\nrequests_waiting_max = 10\nwindows_max = 11\n",
            (
                "policy.windows_max = 11 can never be reached: none is empty, and "
                "policy.requests_waiting_max = 10"
            ),
        ),
        (
            "[policy]\nbytes_waiting_max = 500_000_000\n",
            (
                "policy.bytes_waiting_max, outcome_bytes_max, quarantine_bytes_max, "
                "dedupe_entries_max, requests_waiting_max, quarantine_requests_max and "
                "executors_max cannot be reached together: the state would take up to 1096256768 "
                "bytes, and storage.snapshot_bytes_max = 805306368"
            ),
        ),
        (
            "[policy]\nrequest_bytes_max = 30_000_000\n[models.n]\nmax_batch_bytes = 29_000_000\n",
            (
                "policy.request_bytes_max = 30000000 can never be reached: it runs in a batch, and "
                "models.n.max_batch_bytes = 29000000"
            ),
        ),
        (
            "[policy]\nresult_bytes_max = 30_000_000\n",
            (
                "policy.result_bytes_max = 30000000 can never be reached: "
                "leader.record_bytes_max = 25165824"
            ),
        ),
        (
            "[sessions]\nforward_bytes_max = 1000\n",
            (
                "policy.request_bytes_max = 16777216 can never be reached: "
                "sessions.forward_bytes_max = 1000"
            ),
        ),
        (
            "[sessions]\nunread_bytes_max = 1000\n",
            (
                "policy.result_bytes_max = 16777216 can never be reached: "
                "sessions.unread_bytes_max = 1000"
            ),
        ),
        (
            "[sessions]\nsessions_max = 10\ncaller_sessions_max = 11\n",
            "sessions.caller_sessions_max = 11 can never be reached: sessions.sessions_max = 10",
        ),
        (
            "[server]\ncalls_max = 4000\n",
            (
                "sessions.sessions_max = 1000, feed.tails_max = 2000 and server.client_calls_max = "
                "1000 leave nothing to others: each is a call, and server.calls_max = 4000"
            ),
        ),
        (
            "[server]\nclient_calls_max = 10\ncaller_calls_max = 11\n",
            "server.caller_calls_max = 11 can never be reached: server.client_calls_max = 10",
        ),
        (
            "[server]\ncalls_max = 10\n",
            "server.streams_max = 64 can never be reached: server.calls_max = 10",
        ),
        (
            "[feed]\ntails_max = 4\n",
            (
                "policy.executors_max = 1000 can never be reached: each has a tail, and "
                "feed.tails_max = 4 of each node"
            ),
        ),
        (
            "[leader]\npending_items_max = 10\n",
            "api.submissions_max = 4096 can never be reached: leader.pending_items_max = 10",
        ),
        (
            "[models.n]\nrows_waiting_max = 10\n",
            "models.n.max_batch_size = 32 can never be reached: models.n.rows_waiting_max = 10",
        ),
        (
            "[models.n]\nbytes_waiting_max = 150_000_000\n",
            (
                "models.n.bytes_waiting_max = 150000000 can never be reached: "
                "policy.bytes_waiting_max = 134217728"
            ),
        ),
        (
            "[models.n]\nattempts_max = 11\n",
            (
                "models.n.attempts_max = 11 can never be reached: a failure follows an "
                "assignment, and models.n.assigned_max = 10"
            ),
        ),
        (
            "[models.n]\nbackoff_initial_ms = 6000\n",
            (
                "models.n.backoff_initial_ms = 6000 can never be reached: "
                "models.n.backoff_max_ms = 5000"
            ),
        ),
        (
            "[models.n]\ndefault_timeout_ms = 5\n",
            (
                "models.n.max_queue_delay_microseconds = 5000 can never be reached: requests "
                "expire at default_timeout_ms = 5, unless they state another"
            ),
        ),
    ],
)
def test_limit_that_can_never_be_reached_is_named_with_the_one_that_comes_first(
    tmp_path: Path, text: str, said: str
) -> None:
    texts = found(tmp_path, NODES + text)
    assert any(each.startswith(said) for each in texts), texts
