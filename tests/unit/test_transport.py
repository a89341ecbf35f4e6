"""The transport between nodes, in virtual time over a network in memory."""

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from coordinator.raft import greeting, wire
from coordinator.raft.frames import CHUNK_BYTES_MAX
from coordinator.raft.greeting import Hello, Welcome
from coordinator.raft.messages import AppendEntries, Beat, PeerMessage, TimeoutNow
from coordinator.raft.transport_limits import TransportLimits
from raftbatch.ids import NodeId
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
    bulk,
    ends,
    pair,
    run,
    turns,
)


def test_transport_connects_all_once_and_exchanges_messages() -> None:
    async def main() -> None:
        network = MemoryNetwork()
        nodes = [await Node(network, name).begin(THREE) for name in (N1, N2, N3)]
        await asyncio.sleep(3)
        taken = [two for _, two in network.connections if not two.is_closed]
        assert len(taken) == 3
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
        sent: list[PeerMessage] = []
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
        sent = bytes(ends(one, two)[0].sent)
        at = sent.index(b"".join(wire.encode(Beat(1, 1))))
        # Behind what the connection had taken already, and that is little.
        assert at < 5 * CHUNK_BYTES_MAX
        await one.close()
        await two.close()

    run(main())


def test_transport_writes_at_once_and_then_once_for_the_rest_of_a_turn() -> None:
    async def main() -> None:
        network = MemoryNetwork()
        one, two = await pair(network)
        connection = ends(one, two)[0]
        writes: list[int] = []
        write_many = connection.write_many

        def count(buffers: Sequence[bytes]) -> None:
            writes.append(len(buffers))
            write_many(buffers)

        connection.write_many = count  # type: ignore[method-assign,assignment]
        for number in range(1, 51):
            one.transport.send(N2, Beat(1, number))
            one.transport.send(N2, bulk(number, 10))
        assert len(writes) == 1
        await turns()
        assert len(writes) == 2
        assert len(two.messages) == 100
        await one.close()
        await two.close()

    run(main())


def test_transport_tells_of_a_broken_connection_at_once_and_makes_a_new_one() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        network = MemoryNetwork()
        one, two = await pair(network)
        ends(one, two)[1].abort()
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
        old = ends(one, two)
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
        receiver = old[1]._receiver
        assert receiver is not None
        taken = (
            len(greeting.encode(Hello(CLUSTER, N1, 1, N2))) + two.counters["link.bytes_received"]
        )
        data = old[0].sent[taken:]
        receiver.buffer()[: len(data)] = data
        receiver.received(len(data))
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
        times = [when for address, when in network.dials if address == ADDRESSES[N2]]
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
        ends(one, two)[0].abort()
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
        hung = ends(one, two)
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


def test_transport_reads_what_has_come_before_it_judges_silence() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        network = MemoryNetwork()
        one, two = await pair(network)
        link = one.transport._peers[N2].link
        assert link is not None
        mine, _ = ends(one, two)
        mine.is_stuck = True
        for _ in range(100):
            await asyncio.sleep(0.05 if link._silent_ticks < 8 else 0)
        assert link._ticking is not None  # with the next it is two seconds and more
        loop.call_at(link._ticking.when(), mine.unstick)  # at that very instant, but later
        await asyncio.sleep(1)
        assert one.heard == []
        await one.close()
        await two.close()

    run(main())


@pytest.mark.parametrize("urgent", [False, True])
def test_transport_gives_up_who_does_not_read_before_memory_is_full(urgent: bool) -> None:
    async def main() -> None:
        network = MemoryNetwork()
        limits = TransportLimits(bulk_bytes_max=1_000_000, urgent_bytes_max=100_000)
        one, two = await pair(network, limits=limits)
        ends(one, two)[1].is_stuck = True
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
        ends(one, two)[1].is_stuck = True  # its own pings go on
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
        ends(one, two)[0].write(data)
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

        def fail(peer: NodeId, message: PeerMessage) -> None:
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
