"""What peers say of themselves: where clients reach them, and where their files differ."""

from __future__ import annotations

import asyncio
import logging

import pytest

from coordinator.raft.about import NOTHING, About
from coordinator.raft.membership import Membership, founders
from tests.unit.memory_network import MemoryNetwork
from tests.unit.transport_nodes import ADDRESSES, N1, N2, THREE, TWO, Node, run


def _about(client: str, heartbeat_ms: int = 50) -> About:
    return About(client, "", (("timing.heartbeat_ms", heartbeat_ms),))


async def _two(one: About, two: About) -> tuple[Node, Node]:
    network = MemoryNetwork()
    nodes = Node(network, N1, about=one), Node(network, N2, about=two)
    for node in nodes:
        await node.begin(TWO)
    await asyncio.sleep(3)
    return nodes


def test_peers_tell_each_other_where_clients_reach_them() -> None:
    async def main() -> None:
        one, two = await _two(_about("a:1"), _about("b:2"))
        assert one.transport.acquaintance.of(N2) == _about("b:2")
        assert two.transport.acquaintance.of(N1) == _about("a:1")
        await two.close()
        await asyncio.sleep(3)
        found = one.transport.acquaintance.of(N2)
        assert found is not None, "a member's word holds while it is down"
        assert found.client == "b:2"
        assert one.counters["transport.file_differs"] == 0
        await one.close()

    run(main())


def test_peer_that_comes_back_says_what_holds_now() -> None:
    async def main() -> None:
        network = MemoryNetwork()
        one = await Node(network, N1, about=_about("a:1")).begin(TWO)
        for client in ("b:2", "b:3"):
            two = await Node(network, N2, about=_about(client)).begin(TWO)
            await asyncio.sleep(3)
            found = one.transport.acquaintance.of(N2)
            assert found is not None
            assert found.client == client
            await two.close()
        await one.close()

    run(main())


def test_peers_that_are_no_members_are_forgotten_when_they_go() -> None:
    async def main() -> None:
        one, two = await _two(_about("a:1"), _about("b:2"))
        one.transport.update(founders({N1: ADDRESSES[N1]}))
        assert one.transport.acquaintance.of(N2) is not None
        await two.close()
        await asyncio.sleep(3)
        assert one.transport.acquaintance.of(N2) is None
        assert one.transport.acquaintance.differs(N2) == ""
        await one.close()

    run(main())


def test_files_that_differ_are_told_of_once_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        network = MemoryNetwork()
        one = await Node(network, N1, about=_about("a:1")).begin(TWO)
        for _ in range(3):
            two = await Node(network, N2, about=_about("b:2", 100)).begin(TWO)
            await asyncio.sleep(3)
            assert one.heard[-1][0] == "connected", "it is no reason to refuse it"
            await two.close()
            await asyncio.sleep(1)
        assert one.counters["transport.file_differs"] == 3
        [state] = one.transport.states
        text = "timing.heartbeat_ms is 50 in the file of n1, and 100 in n2's"
        assert state.differs == text
        said = [each for each in caplog.records if each.message == "peer.differs"]
        of_one = [each.__dict__["fields"] for each in said if "file of n1" in _text(each)]
        assert of_one == [{"peer": "n2", "keys": ["timing.heartbeat_ms"], "text": text}]
        two = await Node(network, N2, about=_about("b:2")).begin(TWO)
        await asyncio.sleep(3)
        assert one.transport.states[0].differs == ""
        for node in (one, two):
            await node.close()

    with caplog.at_level(logging.WARNING):
        run(main())


def _text(record: logging.LogRecord) -> str:
    return str(record.__dict__["fields"]["text"])


def test_transport_that_says_nothing_of_itself_is_a_peer_all_the_same() -> None:
    async def main() -> None:
        one, two = await _two(NOTHING, _about("b:2"))
        assert two.transport.acquaintance.of(N1) == NOTHING
        assert one.transport.states[0].differs == ""
        one.transport.update(Membership(THREE.members))
        for node in (one, two):
            await node.close()

    run(main())
