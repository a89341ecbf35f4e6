"""Who is connected and who is not, and what an operator is told of it."""

import asyncio
import logging
from typing import Any

import pytest

from coordinator.raft import greeting
from coordinator.raft.door import exchange
from coordinator.raft.greeting import Hello, Refused, Welcome
from coordinator.raft.log import ReplicatedLog
from coordinator.raft.membership import Membership, Rank, founders
from coordinator.raft.messages import Beat, PeerMessage, TimeoutNow
from coordinator.raft.ports import Peers
from coordinator.raft.transport import Handlers, Transport
from coordinator.raft.transport_limits import TransportLimits
from raftbatch.ids import NodeId
from tests.unit.memory_network import Certificate, MemoryConnection, MemoryNetwork
from tests.unit.transport_nodes import (
    ADDRESSES,
    CLUSTER,
    N1,
    N2,
    N3,
    OTHER_CLUSTER,
    THREE,
    TWO,
    Node,
    pair,
    run,
    turns,
)


def test_transport_refuses_another_cluster_by_name_and_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told: list[dict[str, object]] = []

    async def main() -> None:
        network = MemoryNetwork()
        one = await Node(network, N1).begin(TWO)
        two = await Node(network, N2, cluster=OTHER_CLUSTER).begin(TWO)
        caplog.clear()
        await asyncio.sleep(30)
        assert one.heard == two.heard == []
        for node, peer in ((one, "n2"), (two, "n1")):
            refusal = node.transport.refusals[peer]
            assert refusal.reason == "permission_denied"
            assert CLUSTER in refusal.text
            assert OTHER_CLUSTER in refusal.text
            assert refusal.times > 20
        assert len(network.dials) < 60
        told.extend(record.__dict__["fields"] for record in caplog.records)
        await one.close()
        await two.close()

    with caplog.at_level(logging.INFO):
        run(main())
    assert [(each["peer"], each["reason"]) for each in told] == [
        ("n1", "permission_denied"),
        ("n2", "permission_denied"),
    ]


def test_transport_refuses_what_is_not_the_node_that_was_meant() -> None:
    async def main() -> None:
        network = MemoryNetwork()
        two = await Node(network, N2).begin(TWO)
        addresses = {N1: ADDRESSES[N1], N3: ADDRESSES[N2]}  # n3 is said to be where n2 is
        one = await Node(network, N1).begin(founders(addresses))
        await asyncio.sleep(1)
        assert one.heard == [("connected", N2, 1)]  # as a stranger, whom it does not know
        assert "n1 means to reach n3, and n2 is here" in one.transport.refusals["n3"].text
        connection = await network.connect(ADDRESSES[N2], None)
        answer = await exchange(connection, Hello(CLUSTER, N2, 1, N2))
        assert isinstance(answer, Refused)
        assert "two of that name" in answer.text
        await one.close()
        await two.close()

    run(main())


def test_transport_takes_no_other_answer_to_its_call() -> None:
    async def main() -> None:
        network = MemoryNetwork()
        one = await Node(network, N1).begin(TWO)
        answers: list[tuple[bytes, str]] = [
            (greeting.encode(Welcome(N3, 1)), "n2 was called at 127.0.0.1:2, and n3 is there"),
            (greeting.encode(Hello(CLUSTER, N1, 1, N2)), "answers with a Hello"),
            (b"HTTP/1.1 400 Bad Request\r\n", "too long"),
            (b"", "without an answer"),
        ]
        for answer, text in answers:

            async def impostor(connection: Any, answer: bytes = answer) -> None:
                await connection.read(1_000)
                connection.write(answer)
                connection.close()

            listener = await network.listen(ADDRESSES[N2], impostor, None)
            await asyncio.sleep(2.1)
            assert text in one.transport.refusals["n2"].text
            await listener.close()

        async def silent(connection: Any) -> None:
            await connection.read(1_000)

        await network.listen(ADDRESSES[N2], silent, None)
        await asyncio.sleep(10)
        assert "does not answer in time" in one.transport.refusals["n2"].text
        assert one.heard == []
        await one.close()
        await asyncio.sleep(1)
        assert all(dialled.is_closed for dialled, _ in network.connections)

    run(main())


def test_transport_refuses_the_wrong_certificate() -> None:
    async def main() -> None:
        network = MemoryNetwork()
        one = await Node(network, N1, tls=Certificate("n1")).begin(TWO)
        two = await Node(network, N2, tls=Certificate("n3")).begin(TWO)
        await asyncio.sleep(3)
        assert one.heard == []
        assert one.transport.refusals["n2"].reason == "other_certificate"
        assert "names n3, but the node says that it is n2" in one.transport.refusals["n2"].text
        await two.close()
        two = await Node(network, N2, tls=Certificate("n2")).begin(TWO)
        await asyncio.sleep(3)
        assert one.heard == [("connected", N2, 1)]
        assert [kind for kind, _, _ in two.heard] == ["connected"]
        await one.close()
        await two.close()

    run(main())


def test_transport_refuses_a_life_that_was_replaced_on_both_sides() -> None:
    async def main() -> None:
        network = MemoryNetwork()
        one, two = Node(network, N1), Node(network, N2)
        one.refuses[N2, 1] = "n2 was added again under incarnation 2"
        await one.begin(TWO)
        await two.begin(TWO)
        await asyncio.sleep(2)
        assert one.heard == []
        assert one.transport.refusals["n2"].text == "n2 was added again under incarnation 2"
        assert one.transport.refusals["n2"].reason == "stale_incarnation"
        one.refuses.clear()
        two.refuses[N1, 1] = "n1 was removed"
        await asyncio.sleep(3)
        assert all(kind != "receive" for kind, _, _ in two.heard)
        assert "n1 was removed" in one.transport.refusals["n2"].text
        assert two.transport.refusals["n1"].text == "n1 was removed"
        await one.close()
        await two.close()

    run(main())


def test_transport_drops_whom_the_log_says_and_calls_who_has_become_a_member() -> None:
    async def main() -> None:
        network = MemoryNetwork()
        one, two = await pair(network)
        two.transport.update(TWO)  # nothing has changed
        two.transport.update(TWO.removed(N1))
        await turns()
        assert two.heard == []  # it is still to be told
        two.refuses[N1, 1] = "n1 was removed"
        two.transport.drop(N3)  # who is not there
        two.transport.drop(N1)
        assert two.heard == []  # the log is not called in the midst of its own call
        await turns()
        assert two.heard == [("disconnected", N1, None)]
        assert two.counters["link.removed"] == 1
        await asyncio.sleep(1)
        assert two.heard == [("disconnected", N1, None)]
        assert "n1 was removed" in one.transport.refusals["n2"].text
        assert ("refused", N2, "n1 was removed") in one.heard
        three = await Node(network, N3).begin(THREE)
        two.transport.update(TWO.added(N3, ADDRESSES[N3], Rank.JOINING))
        await asyncio.sleep(1)
        assert two.heard[-1][:2] == ("connected", N3)
        assert ("connected", N2, 1) in three.heard
        two.transport.update(TWO)  # taken back
        await asyncio.sleep(1)
        assert two.heard[-1][:2] == ("connected", N3)
        two.refuses[N3, 1] = "n3 was removed"
        two.transport.drop(N3)
        await asyncio.sleep(6)
        assert two.heard[-1][:2] == ("disconnected", N3)
        for node in (one, two, three):
            await node.close()

    run(main())


def test_transport_that_comes_back_is_called_at_once() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        network = MemoryNetwork()
        one = await Node(network, N1).begin(TWO)
        await asyncio.sleep(20)
        calls = len(network.dials)
        one.transport._diallers[N2][0].call_now()
        await turns()
        assert len(network.dials) == calls + 1  # in vain: the next is some time away
        began = loop.time()
        two = await Node(network, N2).begin(TWO)
        await turns(60)
        assert one.heard == [("connected", N2, 1)]
        assert two.heard == [("connected", N1, 1)]
        assert loop.time() - began < 0.01
        assert two.transport.refusals == {}
        await one.close()
        await two.close()

    run(main())


def test_transport_that_nobody_calls_learns_why() -> None:
    async def main() -> None:
        network = MemoryNetwork()
        moved = TWO.moved(N2, "10.9.9.9:9")  # where it cannot be reached
        one = await Node(network, N1).begin(moved)
        two = await Node(network, N2).begin(TWO)
        await asyncio.sleep(7)
        text = two.transport.refusals["n1"].text
        assert "n1 calls n2 at 10.9.9.9:9, not the other way round: Connection refused" in text
        one.transport.update(TWO.removed(N2))
        one.refuses[N2, 1] = "n2 was removed: add it again"
        await asyncio.sleep(6)
        assert two.transport.refusals["n1"].reason == "stale_incarnation"
        assert two.heard == [("refused", N1, "n2 was removed: add it again")]
        await one.close()
        await two.close()

    run(main())


def test_transport_of_a_joiner_uses_the_seeds_until_it_knows_the_members() -> None:
    async def main() -> None:
        network = MemoryNetwork()
        two = await Node(network, N2).begin(THREE)
        joiner = await Node(network, N1, seeds=ADDRESSES).begin(Membership())
        await asyncio.sleep(1)
        assert joiner.heard == [("connected", N2, 1)]
        assert {address for address, _ in network.dials} == set(ADDRESSES.values())
        joiner.transport.update(TWO)
        await asyncio.sleep(1)
        dials = len(network.dials)
        await asyncio.sleep(5)
        assert [each[0] for each in network.dials[dials:]] == [ADDRESSES[N3]] * len(
            network.dials[dials:]
        )  # of n2, which knows of three
        assert joiner.heard == [("connected", N2, 1)]
        await joiner.close()
        await two.close()

    run(main())


def test_transport_calls_a_member_that_has_moved_at_its_new_address() -> None:
    async def main() -> None:
        network = MemoryNetwork()
        one = await Node(network, N1).begin(TWO)
        await asyncio.sleep(1)
        one.transport.update(TWO.moved(N2, "127.0.0.1:9"))
        await asyncio.sleep(2)
        assert network.dials[0][0] == ADDRESSES[N2]
        assert network.dials[-1][0] == "127.0.0.1:9"
        await one.close()

    run(main())


def test_transport_bounds_its_connections_to_strangers_and_lets_members_in() -> None:
    async def main() -> None:
        network = MemoryNetwork()
        three = await Node(network, N3, limits=TransportLimits(links_max=1)).begin(THREE)
        answers = []
        for name in ("a1", "a2", "a1", N1, N2):
            connection = await network.connect(ADDRESSES[N3], None)
            answers.append(await exchange(connection, Hello(CLUSTER, NodeId(name), 1, N3)))
        assert [type(each) for each in answers] == [Welcome, Refused, Welcome, Welcome, Welcome]
        await three.close()

    run(main())


def test_transport_says_how_it_stands_with_each_peer() -> None:
    async def main() -> None:
        network = MemoryNetwork()
        one = await Node(network, N1).begin(THREE)
        two = await Node(network, N2).begin(THREE)
        await asyncio.sleep(5)
        with_two, with_three = one.transport.states
        assert (with_two.node_id, with_two.calls, with_two.incarnation) == (N2, True, 1)
        assert with_two.connected_ms > 4_000
        assert with_two.refusal is None
        assert (with_three.incarnation, with_three.connected_ms) == (0, 0)
        assert with_three.refusal is not None
        assert not two.transport.states[0].calls
        await one.close()
        await two.close()

    run(main())


def test_transport_that_is_closed_tells_nobody_and_lets_nobody_in() -> None:
    async def main() -> None:
        network = MemoryNetwork()
        one, two = await pair(network)
        await two.transport.close()
        await asyncio.sleep(1)
        assert two.heard == []
        assert one.heard == [("disconnected", N2, None)]
        assert one.transport.refusals["n2"].reason == "no_leader"
        two.transport.send(N1, TimeoutNow(1))
        await one.close()
        await two.close()

    run(main())


def test_transport_may_be_used_inside_its_own_calls() -> None:
    """The log sends, and changes the membership, while it is handed a message."""

    async def main() -> None:
        network = MemoryNetwork()
        one, two = await pair(network)
        receive = two.receive

        def react(peer: NodeId, message: PeerMessage) -> None:
            receive(peer, message)
            two.transport.send(N1, message)
            if message == Beat(1, 2):
                two.transport.update(TWO.removed(N1))
                two.transport.drop(N1)
                two.transport.send(N1, message)

        two.receive = react  # type: ignore[method-assign]
        for number in (1, 2, 3):
            one.transport.send(N2, Beat(1, number))
        await turns()
        assert two.messages == [Beat(1, 1), Beat(1, 2)]  # the third came with them, and too late
        assert two.heard[-1] == ("disconnected", N1, None)
        await one.close()
        await two.close()

    run(main())


def test_transport_and_log_fit_each_other() -> None:
    def fit(transport: Transport, log: ReplicatedLog) -> tuple[Peers, Handlers]:
        return transport, log  # the type checker's part of this test

    assert fit is not None


def test_memory_network_is_what_these_tests_take_it_for() -> None:
    async def main() -> None:
        network = MemoryNetwork()
        network.piece_bytes = 2
        taken: list[MemoryConnection] = []

        async def take(connection: Any) -> None:
            taken.append(connection)

        await network.listen("a:1", take, None)
        one = await network.connect("a:1", None)
        await turns()
        one.write(b"abcde")
        assert await taken[0].read(10) == b"ab"
        await turns()
        assert await taken[0].read(10) == b"cde"
        one.abort()
        assert await taken[0].read(10) == b""

    run(main())
