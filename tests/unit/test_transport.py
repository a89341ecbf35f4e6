"""The transport between nodes, in virtual time over a network in memory."""

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from chaos.worlds.stepped import SeededEntropy
from coordinator.raft import greeting, wire
from coordinator.raft.counters import Counters
from coordinator.raft.door import Door, exchange
from coordinator.raft.frames import CHUNK_BYTES_MAX
from coordinator.raft.greeting import Hello, Refused, Welcome
from coordinator.raft.membership import Membership, Rank, founders
from coordinator.raft.messages import AppendEntries, Beat, Message, TimeoutNow
from coordinator.raft.segments.layout import Entry
from coordinator.raft.transport import Transport
from coordinator.raft.transport_limits import TransportLimits
from raftbatch.ids import ClusterId, Identity, NodeId
from tests.unit.memory_network import Certificate, MemoryConnection, MemoryNetwork
from tests.unit.memory_network import run as run_virtual

CLUSTER = ClusterId("0123456789abcdef" * 2)
OTHER_CLUSTER = ClusterId("fedcba9876543210" * 2)
N1, N2, N3 = NodeId("n1"), NodeId("n2"), NodeId("n3")
ADDRESSES = {N1: "127.0.0.1:1", N2: "127.0.0.1:2", N3: "127.0.0.1:3"}
THREE = founders(ADDRESSES)
TWO = founders({N1: ADDRESSES[N1], N2: ADDRESSES[N2]})


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a test in bounded time."""
    run_virtual(asyncio.wait_for(main, 1_000))


class LoopClock:
    """The clock of the loop."""

    def monotonic_ns(self) -> int:
        return int(asyncio.get_running_loop().time() * 1e9)

    def wall_ms(self) -> int:
        return 0


class Node:
    """A node: its transport, and what its log hears."""

    def __init__(
        self,
        network: MemoryNetwork,
        name: NodeId,
        *,
        cluster: ClusterId = CLUSTER,
        incarnation: int = 1,
        tls: Certificate | None = None,
        seeds: dict[NodeId, str] | None = None,
        limits: TransportLimits | None = None,
    ) -> None:
        limits = limits or TransportLimits()
        self.name = name
        self.heard: list[tuple[str, NodeId, object]] = []
        self.refuses: dict[tuple[NodeId, int], str] = {}
        self.counters = Counters()
        self._has_changed = asyncio.Event()
        self.door = Door(network, ADDRESSES[name], tls, limits, self.counters)
        self.transport = Transport(
            network,
            LoopClock(),
            SeededEntropy(Random(name)),
            Identity(cluster, name, incarnation),
            self.door,
            tls,
            seeds or {},
            limits,
            self.counters,
        )

    async def begin(self, membership: Membership) -> "Node":
        await self.door.open()
        self.transport.update(membership)
        self.transport.begin(self)
        return self

    async def close(self) -> None:
        await self.transport.close()
        await self.door.close()

    def receive(self, peer: NodeId, message: Message) -> None:
        self.heard.append(("receive", peer, message))

    def connected(self, peer: NodeId, incarnation: int) -> None:
        self.heard.append(("connected", peer, incarnation))

    def disconnected(self, peer: NodeId) -> None:
        self.heard.append(("disconnected", peer, None))
        self._has_changed.set()

    async def change(self) -> None:
        """Return once it has lost a connection."""
        await self._has_changed.wait()

    def admits(self, node: NodeId, incarnation: int) -> str | None:
        return self.refuses.get((node, incarnation))

    def refused(self, peer: NodeId, why: str) -> None:
        self.heard.append(("refused", peer, why))

    @property
    def messages(self) -> list[object]:
        return [message for kind, _, message in self.heard if kind == "receive"]


async def pair(network: MemoryNetwork, **options: Any) -> tuple[Node, Node]:
    """Return two nodes that are connected."""
    one = await Node(network, N1, **options).begin(TWO)
    two = await Node(network, N2, **options).begin(TWO)
    await asyncio.sleep(3)
    assert one.heard[-1] == ("connected", N2, 1)
    assert two.heard[-1] == ("connected", N1, 1)
    for node in (one, two):
        node.heard.clear()
    return one, two


async def turns(number: int = 20) -> None:
    """Let the loop do what it has at hand, without time passing."""
    for _ in range(number):
        await asyncio.sleep(0)


def bulk(first: int, *lengths: int) -> AppendEntries:
    """Return a message with entries of such lengths."""
    entries = tuple(
        Entry(index, 1, bytes([index % 256]) * length)
        for index, length in enumerate(lengths, start=first)
    )
    return AppendEntries(1, first - 1, 1, entries, 0, 0)


def test_transport_connects_all_once_and_exchanges_messages() -> None:
    async def main() -> None:
        network = MemoryNetwork()
        nodes = [await Node(network, name).begin(THREE) for name in (N1, N2, N3)]
        await asyncio.sleep(3)
        assert len(network.connections) == 3
        for node in nodes:
            others = [name for name in ADDRESSES if name != node.name]
            assert sorted(node.heard) == [("connected", other, 1) for other in others]
            for other in others:
                node.transport.send(other, TimeoutNow(int(node.name[1])))
        await turns()
        for node in nodes:
            got = [(peer, message) for kind, peer, message in node.heard if kind == "receive"]
            expected = [(other, TimeoutNow(int(other[1]))) for other in sorted(ADDRESSES)]
            assert sorted(got) == [each for each in expected if each[0] != node.name]
            await node.close()
        await turns()
        assert all(one.is_closed or two.is_closed for one, two in network.connections)

    run(main())


@pytest.mark.parametrize("piece_bytes", [1, 1_000, 1 << 20])
def test_transport_keeps_the_order_of_each_lane(piece_bytes: int) -> None:
    async def main() -> None:
        network = MemoryNetwork()
        one, two = await pair(network)
        network.piece_bytes = piece_bytes
        length = 300 if piece_bytes == 1 else 100_000
        sent: list[Message] = []
        for number in range(1, 21):
            for message in (bulk(number, length), Beat(1, number)):
                sent.append(message)
                one.transport.send(N2, message)
            await asyncio.sleep(0)
        await turns(20_000 if piece_bytes == 1 else 10_000)
        for kind in (AppendEntries, Beat):
            assert [each for each in two.messages if isinstance(each, kind)] == [
                each for each in sent if isinstance(each, kind)
            ]
        await one.close()
        await two.close()

    run(main())


def test_transport_lets_what_is_urgent_overtake_what_is_bulk() -> None:
    async def main() -> None:
        network = MemoryNetwork()
        network.piece_bytes = 10_000
        one, two = await pair(network)
        one.transport.send(N2, bulk(1, 3_000_000))
        await turns()
        one.transport.send(N2, Beat(1, 1))
        await turns(2_000)
        assert [type(each) for each in two.messages] == [Beat, AppendEntries]
        sent = bytes(network.connections[0][0].sent)
        at = sent.index(b"".join(wire.encode(Beat(1, 1))))
        # Behind what the connection had taken already, and that is little.
        assert at < 5 * CHUNK_BYTES_MAX
        await one.close()
        await two.close()

    run(main())


def test_transport_writes_once_for_all_that_is_sent_in_a_turn() -> None:
    async def main() -> None:
        network = MemoryNetwork()
        one, two = await pair(network)
        connection = network.connections[0][0]
        writes: list[int] = []
        write_many = connection.write_many

        def count(buffers: Sequence[bytes]) -> None:
            writes.append(len(buffers))
            write_many(buffers)

        connection.write_many = count  # type: ignore[method-assign,assignment]
        for number in range(1, 51):
            one.transport.send(N2, Beat(1, number))
            one.transport.send(N2, bulk(number, 10))
        assert writes == []
        await turns()
        assert len(writes) == 1
        assert len(two.messages) == 100
        await one.close()
        await two.close()

    run(main())


def test_transport_tells_of_a_broken_connection_at_once_and_makes_a_new_one() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        network = MemoryNetwork()
        one, two = await pair(network)
        network.connections[-1][1].abort()
        before = loop.time()
        await turns()
        assert loop.time() == before
        assert one.heard == [("disconnected", N2, None)]
        assert two.heard == [("disconnected", N1, None)]
        one.transport.send(N2, TimeoutNow(1))
        assert one.counters["transport.dropped"] == 1
        await asyncio.sleep(0.05)
        assert one.heard[1:] == [("connected", N2, 1)]
        assert two.heard[1:] == [("connected", N1, 1)]
        assert two.messages == []
        await one.close()
        await two.close()

    run(main())


def test_transport_drops_what_a_replaced_connection_still_had() -> None:
    async def main() -> None:
        network = MemoryNetwork()
        network.piece_bytes = 1_000
        one, two = await pair(network)
        one.transport.send(N2, Beat(1, 1))
        one.transport.send(N2, bulk(1, 50_000))
        await turns(3)  # the beginning is there
        old = network.connections[-1]
        hello = greeting.encode(Hello(CLUSTER, N1, 2, N2))
        new = await network.connect(ADDRESSES[N2], None)
        new.write(hello)
        await turns()
        assert two.heard == [
            ("receive", N1, Beat(1, 1)),
            ("disconnected", N1, None),
            ("connected", N1, 2),
        ]
        assert old[1].is_closed
        # Even what the old one's reader is handed from now on.
        old[1]._receiver.received(0)  # type: ignore[union-attr]
        new.write(b"\0\0\0\0\0")
        await turns()
        assert len(two.heard) == 3
        assert two.counters["link.replaced"] == 1
        await one.close()
        await two.close()

    run(main())


def test_transport_calls_again_sooner_and_later_up_to_a_bound_with_jitter() -> None:
    async def main() -> None:
        network = MemoryNetwork()
        one = await Node(network, N1).begin(TWO)
        await asyncio.sleep(20)
        times = [when for _, when in network.dials]
        gaps = [later - sooner for sooner, later in pairwise(times)]
        for number, gap in enumerate(gaps):
            longest = min(0.020 * 2**number, 1.0)
            assert longest / 2 <= gap <= longest, (number, gap)
        assert len({round(gap, 4) for gap in gaps[6:]}) > 10
        assert one.transport.states[0].refusal is not None
        assert one.transport.states[0].refusal.reason == "unreachable"
        two = await Node(network, N2).begin(TWO)
        await asyncio.sleep(1)
        assert one.heard == [("connected", N2, 1)]
        assert one.transport.refusals == {}
        await asyncio.sleep(5)
        dials = len(network.dials)
        network.connections[-1][0].abort()
        await asyncio.sleep(0.02)
        assert len(network.dials) == dials + 1  # quickly, as it has lived for long
        await one.close()
        await two.close()

    run(main())


def test_transport_does_not_call_all_the_time_where_each_connection_ends_at_once() -> None:
    async def main() -> None:
        network = MemoryNetwork()
        one = await Node(network, N1).begin(TWO)

        async def rude(connection: Any) -> None:
            await connection.read(1_000)
            connection.write(greeting.encode(Welcome(N2, 1)) + b"GET / HTTP/1.1")
            connection.close()

        await network.listen(ADDRESSES[N2], rude, None)
        await asyncio.sleep(60)
        assert 60 < len(network.dials) < 130
        assert len(network.dials) - one.counters["link.unknown_frame"] <= 1  # one is under way
        assert [kind for kind, _, _ in one.heard[:4]] == ["connected", "disconnected"] * 2
        await one.close()

    run(main())


def test_transport_pings_and_gives_up_who_is_silent() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        network = MemoryNetwork()
        one, two = await pair(network)
        await asyncio.sleep(60)
        assert one.heard == two.heard == []  # the quietest connection lives on
        hung = network.connections[-1]
        before = loop.time()
        hung[0].is_stuck = hung[1].is_stuck = True  # as where a machine has lost its power
        for node in (one, two):
            await node.change()
        assert 1.9 < loop.time() - before < 2.6
        assert one.heard[0] == ("disconnected", N2, None)
        assert one.counters["link.silent"] + two.counters["link.silent"] >= 1
        await asyncio.sleep(1)
        assert one.heard[-1] == ("connected", N2, 1)
        await one.close()
        await two.close()

    run(main())


def test_transport_never_takes_its_own_pause_for_the_peers() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        network = MemoryNetwork()
        one, two = await pair(network)
        loop.now_ns += 500 * 10**9  # type: ignore[attr-defined]  # nothing ran for long
        await asyncio.sleep(5)
        assert one.heard == two.heard == []
        await one.close()
        await two.close()

    run(main())


@pytest.mark.parametrize("urgent", [False, True])
def test_transport_gives_up_who_does_not_read_before_memory_is_full(urgent: bool) -> None:
    async def main() -> None:
        network = MemoryNetwork()
        limits = TransportLimits(bulk_bytes_max=1_000_000, urgent_bytes_max=100_000)
        one, two = await pair(network, limits=limits)
        network.connections[-1][1].is_stuck = True
        most = 0
        for number in range(1, 20_000):
            one.transport.send(N2, Beat(1, number) if urgent else bulk(number, 20_000))
            await asyncio.sleep(0)
            most = max(most, one.transport.states[0].queued_bytes)
            if one.heard:
                break
        assert one.heard == [("disconnected", N2, None)]
        name = "link.slow_urgent" if urgent else "link.slow_bulk"
        assert one.counters[name] == 1
        assert 90_000 < most < 1_300_000
        await asyncio.sleep(0.1)
        assert one.heard[1:] == [("connected", N2, 1)]  # the next one, where it reads
        await one.close()
        await two.close()

    run(main())


def test_transport_gives_up_a_peer_that_lives_but_does_not_read() -> None:
    async def main() -> None:
        network = MemoryNetwork()
        one, two = await pair(network, limits=TransportLimits(silent_ms=100_000))
        network.connections[-1][1].is_stuck = True  # its own pings go on
        one.transport.send(N2, bulk(1, 1_000_000))
        await asyncio.sleep(9)
        assert one.heard == []
        await asyncio.sleep(2)
        assert one.heard[0] == ("disconnected", N2, None)
        assert one.counters["link.stalled"] == 1
        await one.close()
        await two.close()

    run(main())


def test_transport_sends_one_message_beyond_the_bound_where_nothing_waits() -> None:
    async def main() -> None:
        network = MemoryNetwork()
        one, two = await pair(network, limits=TransportLimits(bulk_bytes_max=1_000))
        one.transport.send(N2, bulk(1, 2_000_000))
        await turns(100)
        assert two.messages == [bulk(1, 2_000_000)]
        await one.close()
        await two.close()

    run(main())


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "unknown_frame"),
        (b"\0\0\0\x01\x07x", "unknown_frame"),
        (b"\0\0\0\x04\x01\0\0\0\0", "bad_message"),
        (b"\0\0\0\x07\x01\0\0\0\x03\x92\x63\x01", "unknown_message"),
        (b"\0\0\0\x05\x02\xff\xff\xff\xffx", "long_message"),
        (greeting.encode(Hello(CLUSTER, N1, 1, N2)), "unknown_frame"),
    ],
    ids=range(6),
)
def test_transport_ends_the_connection_of_who_breaks_the_protocol(data: bytes, reason: str) -> None:
    async def main() -> None:
        network = MemoryNetwork()
        one, two = await pair(network)
        one.transport.send(N2, Beat(1, 1))
        await turns()
        network.connections[-1][0].write(data)
        await turns()
        assert two.heard == [("receive", N1, Beat(1, 1)), ("disconnected", N1, None)]
        assert two.counters[f"link.{reason}"] == 1
        await asyncio.sleep(3)
        assert two.heard[2:] == [("connected", N1, 1)]
        await one.close()
        await two.close()

    run(main())


def test_transport_survives_a_handler_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        network = MemoryNetwork()
        one, two = await pair(network)

        def fail(peer: NodeId, message: Message) -> None:
            raise KeyError("a bug")

        two.receive = fail  # type: ignore[method-assign]
        one.transport.send(N2, Beat(1, 1))
        one.transport.send(N2, Beat(1, 2))
        await turns()
        assert two.heard == [("disconnected", N1, None)]
        assert two.counters["link.handler_failed"] == 1
        await one.close()
        await two.close()

    run(main())
    assert [record.message for record in caplog.records] == ["message.failed"]


def test_transport_refuses_another_cluster_by_name_and_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
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
        await one.close()
        await two.close()

    with caplog.at_level(logging.INFO):
        run(main())
    told = [record.__dict__["fields"] for record in caplog.records]
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
        assert one.heard == two.heard == []
        assert "n1 means to reach n3, and n2 is here" in one.transport.refusals["n3"].text
        for hello, text in (
            (Hello(CLUSTER, N2, 1, N2), "two of one name"),
            (Hello(CLUSTER, N3, 1, N2), "n2 calls n3"),
        ):
            connection = await network.connect(ADDRESSES[N2], None)
            answer = await exchange(connection, hello)
            assert isinstance(answer, Refused)
            assert text in answer.text
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
        assert one.heard[-1] == ("refused", N2, "n1 was removed")
        assert two.transport.refusals["n1"].text == "n1 was removed"
        await one.close()
        await two.close()

    run(main())


def test_transport_drops_who_is_a_member_no_more_and_calls_who_has_become_one() -> None:
    async def main() -> None:
        network = MemoryNetwork()
        one, two = await pair(network)
        two.transport.update(TWO)  # nothing has changed
        await turns()
        assert two.heard == []
        two.transport.update(TWO.removed(N1))
        await turns()
        assert two.heard == []  # it has still to hear that it is removed
        two.transport.drop(N1)
        assert two.heard == []  # the log is not called in the midst of its own call
        await turns()
        assert two.heard == [("disconnected", N1, None)]
        assert two.counters["link.removed"] == 1
        await asyncio.sleep(1)
        three = await Node(network, N3).begin(THREE)
        two.transport.update(TWO.added(N3, ADDRESSES[N3], Rank.JOINING))
        await asyncio.sleep(1)
        assert ("connected", N3, 1) in two.heard
        assert ("connected", N2, 1) in three.heard
        two.transport.update(TWO)
        await asyncio.sleep(1)
        assert three.heard[-1] == ("connected", N2, 1)  # taken back, but nothing says: removed
        two.transport.update(TWO.added(N1, ADDRESSES[N1], Rank.LEARNER))
        two.transport.drop(N1)
        await turns()
        assert two.heard[-1] == ("disconnected", N1, None)  # its next life is another
        for node in (one, two, three):
            await node.close()

    run(main())


def test_transport_of_a_joiner_uses_the_seeds_until_it_knows_the_members() -> None:
    async def main() -> None:
        network = MemoryNetwork()
        two = await Node(network, N2).begin(THREE)
        joiner = await Node(network, N1, seeds=ADDRESSES).begin(Membership())
        await asyncio.sleep(1)
        assert joiner.heard == [("connected", N2, 1)]
        assert {address for address, _ in network.dials} == {ADDRESSES[N2], ADDRESSES[N3]}
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


def test_transport_bounds_its_connections() -> None:
    async def main() -> None:
        network = MemoryNetwork()
        three = await Node(network, N3, limits=TransportLimits(links_max=1)).begin(THREE)
        answers = []
        for name in (N1, N2, N1):
            connection = await network.connect(ADDRESSES[N3], None)
            answers.append(await exchange(connection, Hello(CLUSTER, name, 1, N3)))
        assert [type(each) for each in answers] == [Welcome, Refused, Welcome]
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

        def react(peer: NodeId, message: Message) -> None:
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
