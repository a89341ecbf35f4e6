"""Whom a node calls, and how it goes on when a call goes wrong."""

import asyncio

import pytest

from coordinator.raft.membership import founders
from raftbatch.world import TLS, Connection
from tests.unit.memory_network import MemoryNetwork
from tests.unit.transport_nodes import ADDRESSES, N1, N2, TWO, Node, run, turns


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
