"""Whom a node calls, and how it goes on when a call goes wrong."""

import asyncio

import pytest

from coordinator.raft.door import exchange
from coordinator.raft.greeting import Hello, Refused, Welcome
from coordinator.raft.membership import Membership, founders
from coordinator.raft.transport_limits import TransportLimits
from raftbatch.ids import NodeId
from raftbatch.world import TLS, Connection
from tests.unit.memory_network import MemoryNetwork
from tests.unit.transport_nodes import (
    ADDRESSES,
    CLUSTER,
    N1,
    N2,
    N3,
    THREE,
    TWO,
    Node,
    run,
    turns,
)


def test_dialler_survives_an_error_that_it_does_not_know(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        network = MemoryNetwork()
        one = await Node(network, N1).begin(TWO)
        two = await Node(network, N2).begin(TWO)
        await turns(100)

        async def broken(address: str, tls: TLS | None) -> Connection:
            raise ValueError("embedded null character")

        with monkeypatch.context() as patched:
            patched.setattr(network, "connect", broken)
            one.transport.drop(N2)
            await asyncio.sleep(3)
        one.heard.clear()
        await asyncio.sleep(3)
        assert ("connected", N2, 1) in one.heard
        await one.close()
        await two.close()

    run(main())
    assert "dial.failed" in caplog.text


def test_removed_member_is_called_no_more() -> None:
    async def main() -> None:
        network = MemoryNetwork()
        one = await Node(network, N1).begin(TWO)
        await asyncio.sleep(3)
        one.transport.update(founders({N1: ADDRESSES[N1]}))
        await asyncio.sleep(3)
        before = len(network.dials)
        await asyncio.sleep(60)
        assert len(network.dials) == before
        await one.close()

    run(main())


def test_stranger_that_cannot_be_called_is_let_in_until_it_is_known() -> None:
    """A leader that has joined since is whom a node hears of it from, and of all else."""

    async def main() -> None:
        network = MemoryNetwork()
        seeds = {N2: ADDRESSES[N2]}
        one = await Node(network, N1, seeds=seeds).begin(Membership())
        three = await Node(network, N3).begin(THREE)
        await asyncio.sleep(6)
        assert one.heard == [("connected", N3, 1)]
        assert three.heard == [("connected", N1, 1)]
        one.transport.update(THREE)
        await asyncio.sleep(6)
        assert one.heard == [("connected", N3, 1)]  # it calls now, and keeps what there is
        await three.close()
        await asyncio.sleep(1)
        three = await Node(network, N3).begin(THREE)
        await asyncio.sleep(3)
        assert one.heard[-1] == ("connected", N3, 1)
        assert one.counters["dial.calls"] > 1
        for node in (one, three):
            await node.close()

    run(main())


def test_strangers_of_higher_ids_are_bounded_too() -> None:
    async def main() -> None:
        network = MemoryNetwork()
        one = await Node(network, N1, limits=TransportLimits(links_max=1)).begin(TWO)
        answers = []
        for name in ("n8", "n9", "n8"):
            connection = await network.connect(ADDRESSES[N1], None)
            answers.append(await exchange(connection, Hello(CLUSTER, NodeId(name), 1, N1)))
        assert [type(each) for each in answers] == [Welcome, Refused, Welcome]
        await one.close()

    run(main())
