"""What numbers of a configuration are at most: found where it is read, with key and bound."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import grpc
import pytest

from coordinator.api import ApiConfig
from coordinator.bounds import OWN, most
from coordinator.config import ServerLimits, SessionLimits, load_node
from coordinator.feed import FeedConfig
from coordinator.leader import LeaderConfig
from coordinator.raft.log import LogConfig
from coordinator.raft.replication import Window
from coordinator.raft.retention import RetentionLimits
from coordinator.raft.segments.limits import JournalLimits
from coordinator.raft.snapshots import SnapshotLimits
from coordinator.raft.timing import Timing
from coordinator.raft.transport_limits import TransportLimits
from coordinator.rpc.port import options
from raftbatch.errors import InvalidRequest
from raftbatch.settings import Model, Policy, TenantLimits
from raftbatch.v1 import dispatch_pb2, error_pb2
from tests.unit.test_config import FILES, GOOD, write

TABLES: dict[str, tuple[type, ...]] = {
    "timing": (Timing,),
    "log": (Window, LogConfig),
    "storage": (JournalLimits, RetentionLimits, SnapshotLimits),
    "transport": (TransportLimits,),
    "server": (ServerLimits,),
    "sessions": (SessionLimits,),
    "leader": (LeaderConfig,),
    "api": (ApiConfig,),
    "feed": (FeedConfig,),
    "policy": (Policy,),
    "policy.tenants.t": (TenantLimits,),
    "models.m": (Model,),
}
LEAST = "requests_waiting_max = 1\nrows_waiting_max = 1\nbytes_waiting_max = 1\n"


def numbers() -> Iterator[tuple[str, str]]:
    """Yield each number that a file may hold, as table and key."""
    for table, kinds in TABLES.items():
        for kind in kinds:
            yield from [(table, each.name) for each in fields(kind) if each.type == "int"]


def text_of(table: str, key: str, value: int) -> str:
    """Return a file in which one number is told."""
    own = f"{key} = {value}\n"
    if "tenants" in table:
        own += "".join([line for line in LEAST.splitlines(True) if not line.startswith(f"{key} ")])
    return f"{GOOD}[{table}]\n{own}"


@pytest.mark.parametrize("beyond", [1, 1 << 62])
def test_number_beyond_its_bound_is_refused_with_key_and_bound(tmp_path: Path, beyond: int) -> None:
    found = list(numbers())
    assert {table for table, _ in found} == set(TABLES)
    assert set(OWN) <= {f"{table}.{key}" for table, key in found}
    for table, key in found:
        bound = most(table, key)
        value = max(bound + 1, beyond)
        with pytest.raises(InvalidRequest) as caught:
            load_node(FILES, write(tmp_path, text_of(table, key, value)), "n1")
        said = f": {table}.{key} is {value}, which is more than {bound}"
        assert caught.value.message.endswith(said), (table, key)


def test_numbers_at_their_bounds_fit_where_they_go() -> None:
    server = {each.name: most("server", each.name) for each in fields(ServerLimits)}
    server |= {
        "transfer_ms_max": 1,
        "drain_ms_max": 1,
        "stream_bytes_max": server["message_bytes_max"],
    }

    async def made() -> None:
        grpc.aio.server(
            options=options(ServerLimits(**server)), maximum_concurrent_rpcs=server["calls_max"]
        )

    asyncio.run(made())
    dispatch_pb2.JoinReply(lease_ms=most("leader", "lease_ms"))
    error_pb2.Error(retry_after_ms=most("leader", "retry_ms"))
