"""How commands find the leader, and what they say of what nobody knows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
import pytest

from coordinator.rpc.errors import abort
from raftbatch.cli.calls import CallFailed, Cluster, Target, ask, ask_leader, failed
from raftbatch.errors import (
    DiskFailed,
    Draining,
    InvalidRequest,
    NoLeader,
    NotLeader,
    OutcomeUnknown,
)
from raftbatch.v1 import admin_pb2
from raftbatch.v1.admin_pb2_grpc import AdminServicer, AdminStub, add_AdminServicer_to_server
from tests.e2e.cluster import free_ports

Answers = list[BaseException | None]


class Scripted(AdminServicer):
    """A node that answers each call of Remove with the next of its answers.

    None: it is done; a TimeoutError: never.
    """

    def __init__(self, answers: Answers, leaders: dict[str, str]) -> None:
        self.answers = answers
        self.asked = 0
        self._leaders = leaders

    async def Remove(  # noqa: N802 - the name of the call
        self, request: admin_pb2.RemoveRequest, context: Any
    ) -> Any:
        """Answer."""
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, TimeoutError):
            await asyncio.Event().wait()
        if answer is not None:
            await abort(context, answer, lambda node: self._leaders.get(node, ""))
        return admin_pb2.RemoveReply()


@asynccontextmanager
async def nodes(*answers: Answers) -> AsyncIterator[tuple[Cluster, list[Scripted]]]:
    """Serve some scripted nodes, n1 and on; yield how to ask them, and them."""
    addresses = [f"127.0.0.1:{port}" for port in free_ports(len(answers))]
    leaders = {f"n{number}": address for number, address in enumerate(addresses, start=1)}
    servers, scripted = [], []
    for address, each in zip(addresses, answers, strict=True):
        server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        scripted.append(Scripted(each, leaders))
        add_AdminServicer_to_server(scripted[-1], server)
        server.add_insecure_port(address)
        await server.start()
        servers.append(server)
    try:
        yield Cluster(tuple(Target(each) for each in addresses)), scripted
    finally:
        for server in servers:
            await server.stop(0)


async def remove(stub: AdminStub, timeout_s: float) -> Any:
    """Make the call."""
    return await stub.Remove(admin_pb2.RemoveRequest(node_id="n9"), timeout=timeout_s)


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a test."""
    asyncio.run(test())


def test_call_goes_where_it_is_sent() -> None:
    async def test() -> None:
        leads: Answers = [None]
        async with nodes([NotLeader("n3 leads", leader="n3")], [None], leads) as (cluster, found):
            await ask_leader(cluster, remove, 5.0)
            assert [each.asked for each in found] == [1, 0, 1]

    run(test)


def test_call_waits_for_a_leader() -> None:
    async def test() -> None:
        answers: Answers = [NoLeader("nobody leads"), Draining("n1 stops"), None]
        async with nodes(answers, [NoLeader("nobody leads")]) as (cluster, found):
            await ask_leader(cluster, remove, 10.0)
            assert found[0].asked == 3

    run(test)


@pytest.mark.slow
def test_call_passes_over_a_node_that_is_down() -> None:
    async def test() -> None:
        async with nodes([None]) as (cluster, found):
            down = Target(f"127.0.0.1:{free_ports(1)[0]}")
            both = Cluster((down, *cluster.targets))
            await ask_leader(both, remove, 10.0)
            assert found[0].asked == 1

    run(test)


def test_call_that_is_refused_for_good_is_made_once() -> None:
    async def test() -> None:
        async with nodes([InvalidRequest("n9 is no member")], [None]) as (cluster, found):
            with pytest.raises(CallFailed, match="n9 is no member") as caught:
                await ask_leader(cluster, remove, 5.0)
            assert caught.value.is_definite
            assert failed(caught.value).exit_code == 1
            assert [each.asked for each in found] == [1, 0]

    run(test)


@pytest.mark.parametrize("answer", [OutcomeUnknown("who knows"), DiskFailed("gone"), ValueError()])
def test_call_of_which_nobody_knows_is_made_once(answer: BaseException) -> None:
    async def test() -> None:
        async with nodes([answer], [None]) as (cluster, found):
            with pytest.raises(CallFailed) as caught:
                await ask_leader(cluster, remove, 5.0)
            assert not caught.value.is_definite
            assert failed(caught.value).exit_code == 3
            assert [each.asked for each in found] == [1, 0]

    run(test)


@pytest.mark.slow
def test_call_that_breaks_off_is_one_of_which_nobody_knows() -> None:
    async def test() -> None:
        async with nodes([TimeoutError()]) as (cluster, _):
            with pytest.raises(CallFailed) as caught:
                await ask(cluster, cluster.targets[0], remove, 3.0)  # in which it is asked
            assert not caught.value.is_definite

    run(test)


def test_call_of_nobody_there_was_never_made() -> None:
    async def test() -> None:
        cluster = Cluster((Target(f"127.0.0.1:{free_ports(1)[0]}", "n1"),))
        with pytest.raises(CallFailed, match=r"n1 at .* does not answer") as caught:
            await ask_leader(cluster, remove, 0.5)
        assert caught.value.is_definite
        assert failed(caught.value).exit_code == 1

    run(test)
