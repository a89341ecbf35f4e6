"""The port between coordinators: who gets in, who does not, and what a question is answered."""

import asyncio
import logging
from collections.abc import Callable

import pytest

from coordinator.raft import greeting
from coordinator.raft.counters import Counters
from coordinator.raft.door import Door, exchange, request
from coordinator.raft.greeting import (
    GREETING_BYTES_MAX,
    LENGTH,
    Adopt,
    Adopted,
    Ask,
    Born,
    Empty,
    Greeting,
    Hello,
    Join,
    Joined,
    Refused,
    Reply,
    Request,
    Welcome,
    refused,
)
from coordinator.raft.membership import Rank, founders
from coordinator.raft.transport_limits import TransportLimits
from raftbatch.errors import CannotStart, NotLeader
from raftbatch.ids import ClusterId, NodeId, is_loopback
from raftbatch.world import Connection
from tests.unit.memory_network import Certificate, MemoryConnection, MemoryNetwork, run

CLUSTER = ClusterId("0123456789abcdef" * 2)
N1, N2, N3 = NodeId("n1"), NodeId("n2"), NodeId("n3")
TOKEN = bytes(16)
FOUNDERS = founders({N1: "127.0.0.1:1", N2: "127.0.0.1:2"})
AT = "127.0.0.1:7"
ASK = Ask(N1, TOKEN, FOUNDERS)
EMPTY = Empty(N2, TOKEN, FOUNDERS)
HELLO = Hello(CLUSTER, N1, 1, N2)


class House:
    """A door of n2, and what it let in."""

    def __init__(self, tls: Certificate | None = None, **limits: int) -> None:
        self.network = MemoryNetwork()
        self.counters = Counters()
        self.door = Door(self.network, AT, tls, TransportLimits(**limits), self.counters)
        self.hellos: list[tuple[Hello, Connection]] = []
        self.asked: list[tuple[Request, str | None]] = []
        self.reply: Callable[[], Reply] = lambda: EMPTY
        self.door.on_hello = self.welcome
        self.door.on_request = self.answer

    def welcome(self, hello: Hello, connection: Connection) -> Refused | None:
        if hello.to != N2:
            return refused("invalid_request", "I am n2")
        self.hellos.append((hello, connection))
        connection.write(greeting.encode(Welcome(N2, 1)))
        return None

    async def answer(self, request: Request, certificate: str | None) -> Reply:
        self.asked.append((request, certificate))
        await asyncio.sleep(0)
        return self.reply()

    async def say(self, data: bytes, tls: Certificate | None = None) -> MemoryConnection:
        """Connect, and say something."""
        connection = await self.network.connect(AT, tls)
        connection.write(data)
        return connection


async def heard(connection: Connection) -> Greeting | None:
    """Return the answer; None for an end without one."""
    data = b""
    while part := await connection.read(1 << 16):
        data += part
    if not data:
        return None
    assert LENGTH.unpack_from(data) == (len(data) - LENGTH.size,)
    return greeting.decode(data[LENGTH.size :])


def test_door_hands_over_a_hello_with_what_follows_it_unread() -> None:
    async def main() -> None:
        house = House()
        await house.door.open()
        house.network.piece_bytes = 1
        connection = await house.say(greeting.encode(HELLO) + b"messages")
        assert await exchange(connection, HELLO) == Welcome(N2, 1)
        [(hello, taken)] = house.hellos
        assert hello == HELLO
        assert await taken.read(1) == b"m"
        await house.door.close()
        connection.write(b"!")  # a connection that was handed over is the transport's
        assert await taken.read(1) == b"e"
        with pytest.raises(ConnectionRefusedError):
            await house.network.connect(AT, None)
        assert house.counters.values == {}

    run(main())


def test_door_says_why_a_hello_is_refused_and_closes() -> None:
    async def main() -> None:
        house = House()
        await house.door.open()
        said = await house.say(greeting.encode(Hello(CLUSTER, N1, 1, N3)))
        assert await heard(said) == Refused("invalid_request", "I am n2")
        house.door.on_hello = None
        answer = await heard(await house.say(greeting.encode(HELLO)))
        assert isinstance(answer, Refused)
        assert answer.slug == "no_leader"
        assert house.hellos == []
        assert house.counters.values == {"door.hello_refused": 2}
        await house.door.close()

    run(main())


@pytest.mark.parametrize(
    ("data", "counted"),
    [
        (b"GET / HTTP/1.1\r\nHost: n2\r\n\r\n", "door.no_greeting"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "door.no_greeting"),
        (LENGTH.pack(GREETING_BYTES_MAX + 1), "door.no_greeting"),
        (LENGTH.pack(0), "door.no_greeting"),
        (LENGTH.pack(3) + b"abc", "door.no_greeting"),
        (greeting.encode(HELLO).replace(b"\xa2n1", b"\xa2-1"), "door.bad_greeting"),
        (greeting.encode(Welcome(N1, 1)), "door.not_a_question"),
        (greeting.encode(EMPTY), "door.not_a_question"),
        (greeting.encode(HELLO)[:-1], "door.silent"),
        (b"", "door.silent"),
    ],
    ids=range(10),
)
def test_door_closes_on_anything_else_without_a_word(data: bytes, counted: str) -> None:
    async def main() -> None:
        house = House()
        await house.door.open()
        assert await heard(await house.say(data)) is None
        assert house.counters.values == {counted: 1}
        assert await exchange(await house.network.connect(AT, None), HELLO) == Welcome(N2, 1)
        await house.door.close()

    run(main())


def test_door_answers_another_version_that_it_is_one() -> None:
    async def main() -> None:
        house = House()
        await house.door.open()
        data = greeting.encode(HELLO).replace(b"raftbatch\x02", b"raftbatch\x01")
        answer = await heard(await house.say(data))
        assert isinstance(answer, Refused)
        assert "speaks version 1" in answer.text
        assert house.counters.values == {"door.other_version": 1}
        await house.door.close()

    run(main())


def test_door_counts_who_goes_away_before_a_word() -> None:
    async def main() -> None:
        house = House()
        await house.door.open()
        (await house.say(b"\0")).abort()
        await asyncio.sleep(0.1)
        assert house.counters.values == {"door.broken": 1}
        await house.door.close()

    run(main())


def test_door_closes_the_longest_silent_when_there_are_too_many() -> None:
    async def main() -> None:
        house = House(strangers_max=3)
        await house.door.open()
        silent = [await house.network.connect(AT, None) for _ in range(5)]
        assert await exchange(await house.network.connect(AT, None), HELLO) == Welcome(N2, 1)
        assert [await each.read(1) for each in silent[:3]] == [b""] * 3
        assert asyncio.get_running_loop().time() == 0.0  # closed at once, not when time was up
        assert house.counters["door.crowded_out"] == 3
        for each in silent[3:]:
            each.write(greeting.encode(HELLO))
        await asyncio.sleep(0.1)
        assert len(house.hellos) == 3  # the others were still welcome
        await house.door.close()

    run(main())


def test_door_lets_a_flood_pass_and_peers_in() -> None:
    async def main() -> None:
        house = House(strangers_max=16)
        await house.door.open()
        flood = []
        for number in range(2_000):
            flood.append(await house.network.connect(AT, None))
            if number % 100 == 50:
                peer = await house.network.connect(AT, None)
                assert await exchange(peer, HELLO) == Welcome(N2, 1)
        assert len(house.hellos) == 20
        await house.door.close()
        assert [await each.read(1) for each in flood] == [b""] * len(flood)

    run(main())


def test_door_refuses_a_certificate_of_another_and_logs_it_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        house = House(Certificate("n2"))
        await house.door.open()
        for first in (HELLO, ASK, Join(N1, "n1:1", Rank.JOINING),
                      Adopt(N1, CLUSTER, TOKEN, FOUNDERS)):  # fmt: skip
            data = greeting.encode(first)
            for _ in range(2):
                answer = await heard(await house.say(data, Certificate("n3")))
                assert isinstance(answer, Refused)
                assert answer.slug == "unauthenticated"
                assert "the certificate names n3, but the node says that it is n1" in answer.text
            connection = await house.say(data, Certificate("n1"))
            if first is HELLO:
                assert await connection.read(1)
            else:
                assert await heard(connection) == EMPTY
        assert [each[1] for each in house.asked] == ["n1"] * 3
        assert house.counters.values == {"door.other_certificate": 8}
        assert house.door.refusals.by_peer["n3"].times == 8
        await house.door.close()

    with caplog.at_level(logging.WARNING):
        run(main())
    [record] = caplog.records
    assert record.message == "peer.refused"
    assert record.__dict__["fields"]["reason"] == "other_certificate"


def test_door_answers_questions() -> None:
    async def main() -> None:
        house = House()
        await house.door.open()

        def no() -> Reply:
            raise NotLeader("go there", leader="127.0.0.1:9")

        def bug() -> Reply:
            raise KeyError("a bug")

        questions: list[tuple[Request, Callable[[], Reply], Reply]] = [
            (ASK, lambda: EMPTY, EMPTY),
            (ASK, lambda: Born(CLUSTER, N2, 1), Born(CLUSTER, N2, 1)),
            (Adopt(N1, CLUSTER, TOKEN, FOUNDERS), lambda: Adopted(N2), Adopted(N2)),
            (Join(N1, "n1:1", Rank.LEARNER), lambda: Joined(CLUSTER, 2), Joined(CLUSTER, 2)),
            (Join(N1, "n1:1", Rank.LEARNER), no, Refused("not_leader", "go there", "127.0.0.1:9")),
        ]
        for question, reply, expected in questions:
            house.reply = reply
            assert await request(house.network, AT, None, question, 1.0) == expected
        house.reply = bug
        answer = await request(house.network, AT, None, ASK, 1.0)
        assert isinstance(answer, Refused)
        assert answer.slug == "invariant"
        house.door.on_request = None
        answer = await request(house.network, AT, None, ASK, 1.0)
        assert isinstance(answer, Refused)
        assert answer.slug == "no_leader"
        assert [each[1] for each in house.asked] == [None] * 6
        await house.door.close()

    run(main())


def test_door_answers_few_questions_at_a_time_and_each_in_bounded_time() -> None:
    async def main() -> None:
        house = House(requests_max=2, request_ms=5_000)
        waiting = asyncio.Event()

        async def wait(request: Request, certificate: str | None) -> Reply:
            await waiting.wait()
            return EMPTY

        house.door.on_request = wait
        await house.door.open()
        asking = [
            asyncio.create_task(request(house.network, AT, None, ASK, 60.0)) for _ in range(3)
        ]
        answers = [await each for each in asking]
        slugs = [each.slug for each in answers if isinstance(each, Refused)]
        assert slugs == ["outcome_unknown", "outcome_unknown", "overloaded"]
        assert asyncio.get_running_loop().time() == 5.0
        late = asyncio.create_task(request(house.network, AT, None, ASK, 60.0))
        await asyncio.sleep(1)
        await house.door.close()
        with pytest.raises(ConnectionError, match="without an answer"):
            await late

    run(main())


def test_request_takes_only_an_answer_to_it_and_of_whom_it_means() -> None:
    async def main() -> None:
        house = House(Certificate("n2"))
        await house.door.open()

        async def ask(question: Request, node: NodeId | None = None) -> Reply:
            return await request(house.network, AT, Certificate("n1"), question, 1.0, node=node)

        assert await ask(ASK) == EMPTY
        assert await ask(ASK, N2) == EMPTY
        with pytest.raises(ConnectionError, match="names n2, but the node says that it is n3"):
            await ask(ASK, N3)
        house.reply = lambda: Empty(N3, TOKEN, FOUNDERS)
        with pytest.raises(ConnectionError, match="names n2, but the node says that it is n3"):
            await ask(ASK)
        house.reply = lambda: Adopted(N2)
        with pytest.raises(ConnectionError, match="Adopted is no answer to Ask"):
            await ask(ASK)
        await house.door.close()

    run(main())


def test_request_ends_in_an_os_error_whatever_happens() -> None:
    async def main() -> None:
        network = MemoryNetwork()
        with pytest.raises(ConnectionRefusedError):
            await request(network, AT, None, ASK, 1.0)

        async def silent(connection: Connection) -> None:
            await connection.read(1)

        async def rude(connection: Connection) -> None:
            connection.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        listener = await network.listen(AT, silent, None)
        with pytest.raises(TimeoutError):
            await request(network, AT, None, ASK, 1.0)
        await listener.close()
        await network.listen(AT, rude, None)
        with pytest.raises(ConnectionError, match="too long"):
            await request(network, AT, None, ASK, 1.0)
        await asyncio.sleep(0.1)
        assert [one.is_closed for one, _ in network.connections] == [True, True]

    run(main())


def test_door_says_why_it_cannot_open() -> None:
    async def main() -> None:
        house = House()
        await house.door.open()
        other = Door(house.network, AT, None, TransportLimits(), Counters())
        with pytest.raises(CannotStart, match=f"{AT}: Address already in use"):
            await other.open()
        await other.close()
        for listen in ("0.0.0.0:7", "n2.example:7", ":7", "[::]:7", "10.0.0.1:7"):
            with pytest.raises(CannotStart, match="configure certificates"):
                await Door(house.network, listen, None, TransportLimits(), Counters()).open()
        await Door(house.network, "a:1", Certificate("n2"), TransportLimits(), Counters()).open()
        insecure = Door(house.network, "b:1", None, TransportLimits(), Counters(), insecure=True)
        assert insecure.address == "b:1"
        await insecure.open()

    run(main())


def test_loopback_is_what_no_other_machine_reaches() -> None:
    for address in ("127.0.0.1:1", "127.8.8.8:1", "[::1]:1", "localhost:1"):
        assert is_loopback(address), address
    for address in ("0.0.0.0:1", "[::]:1", ":1", "localhost.example:1", "[::ffff:10.0.0.1]:1"):
        assert not is_loopback(address), address


def test_limits_that_contradict_each_other_are_refused() -> None:
    for limits in ({"ping_ms": 700}, {"dial_ms_max": 10}, {"links_max": 0}):
        with pytest.raises(ValueError, match=next(iter(limits))):
            TransportLimits(**limits)
