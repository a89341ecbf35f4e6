"""Replies that list much: never more than a message may hold, over a real socket."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import grpc.aio
import pytest

from coordinator.api import Standing
from coordinator.config import ServerLimits
from coordinator.core.values import Batch
from coordinator.inspecting import BatchState
from coordinator.loads import DeviceLoad, Load, ModelLoad
from coordinator.node import NodeState, Phase
from coordinator.overview import SHOWN_MAX, ExecutorState, ModelState, Overview, WindowState
from coordinator.rpc import entries
from raftbatch.client import ClientOptions
from raftbatch.client.engine import Engine
from raftbatch.client.link import Link
from raftbatch.client.nodes import Nodes
from raftbatch.ids import NodeId
from raftbatch.kinds import Release
from raftbatch.settings import LOAD_ITEMS_MAX, Model
from raftbatch.v1 import admin_pb2
from raftbatch.v1 import gateway_pb2 as pb
from raftbatch.v1.admin_pb2_grpc import AdminStub
from tests.e2e.scripted import ScriptedNode, run
from tests.unit.core.tables import Core

SMALL = ServerLimits(message_bytes_max=1_000_000, stream_bytes_max=1_000_000)
NAME = "\U0001d11e" * 256
"""The longest, and a kibibyte."""


def test_models_are_told_in_pages_which_the_sdk_puts_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large, small = bytes(900_000), bytes(90_000)
    models = [
        Model("m", "0", config=large),
        *[Model("m", f"{n}", config=small) for n in range(1, 9)],
    ]
    models += [Model(NAME, "1", content=small), Model(NAME, "2", config=large)]
    found = [(each, each.version == "3") for each in models]
    pages: list[int] = []

    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        monkeypatch.setattr(
            node, "models", lambda name: [x for x in found if name in ("", x[0].name)]
        )
        node.replica = cast("Any", SimpleNamespace(index=7))
        engine = Engine(Nodes([node.config.addresses.client], None), ClientOptions())
        link = Link(engine, node.config.addresses.client, channel, None, pb.Opened())
        told = link._call_of

        async def counted(call: Any) -> Any:
            reply = await told(call)
            pages.append(len(reply.models))
            return reply

        monkeypatch.setattr(link, "_call_of", counted)
        reply = await link.models("")
        assert [(x.name, x.version, x.deleting) for x in reply.models] == [
            (x.name, x.version, is_deleting) for x, is_deleting in found
        ]
        assert pages == [1, 5, 4, 1]
        pages.clear()
        assert len((await link.models("m")).models) == 9
        assert pages == [1, 5, 3]
        await engine.close()

    run(tmp_path, test, server=SMALL)


def _overview() -> Overview:
    """Return as much as is ever shown, with the longest names."""
    model = (NAME, NAME)
    load = Load(
        1,
        2,
        3,
        4,
        5,
        tuple([ModelLoad(model, 2, 1)] * LOAD_ITEMS_MAX),
        tuple([DeviceLoad(NAME, 1, 2)] * LOAD_ITEMS_MAX),
    )
    return Overview(
        (WindowState((1, 2), model, 3, 4),) * SHOWN_MAX,
        (ExecutorState(NAME, 1, 2, 0, False, False, load),) * SHOWN_MAX,
        (ModelState(model, 5, 6, False),) * SHOWN_MAX,
    )


@pytest.mark.parametrize(
    ("message_bytes_max", "shown"),
    [(1_000_000, (50, 100, 100)), (100_000_000, (100, 100, 100)), (300_000, (0, 100, 12))],
)
def test_status_is_cut_short_where_a_message_would_not_hold_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    message_bytes_max: int,
    shown: tuple[int, int, int],
) -> None:
    standing = Standing(1, 1, "n1", 9, b"", 1, 2000, 3, 4, 3000, 4000, 5, {}, 6, 7)
    told = NodeState(NodeId("n1"), "t", Phase.SERVING, {}, standing=standing, overview=_overview())

    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        monkeypatch.setattr(node, "state", lambda: told)
        any_size = [("grpc.max_receive_message_length", -1)]
        async with grpc.aio.insecure_channel(node.config.addresses.client, any_size) as large:
            reply = await AdminStub(large).Status(admin_pb2.StatusRequest())
        of = reply.scheduler
        assert (len(of.windows), len(of.executors), len(of.models)) == shown
        assert (of.windows_total, of.executors_total, of.models_total) == (2000, 3000, 4000)
        assert all(each.HasField("load") for each in of.executors) == (shown == (100, 100, 100))
        assert reply.ByteSize() <= message_bytes_max // 2

    server = ServerLimits(message_bytes_max=message_bytes_max, stream_bytes_max=message_bytes_max)
    run(tmp_path, test, server=server)


def test_batch_names_as_many_requests_as_a_message_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = Batch(1, 1, (NAME, NAME, ""), (1,), 1000, 1, 1, Release.SIZE, 1, 1, 1, 1)
    core = Core()
    core.admit("a")
    request = core.state.requests[1]._replace(name=f"{NAME}\0{NAME}")
    members = tuple([request._replace(number=n) for n in range(1, 1001)])

    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        monkeypatch.setattr(node, "state_to_read", lambda: core.state)
        monkeypatch.setattr(entries, "batch_state", lambda *_: BatchState(batch, members))
        reply = await AdminStub(channel).Batch(admin_pb2.BatchRequest(batch=1))
        assert reply.requests == 1000
        assert [each.number for each in reply.members] == [*range(1, 126)]

    run(tmp_path, test, server=SMALL)
