"""Whatever comes to a node's port, two honest nodes go on exchanging messages, then and after."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
import uvloop

from coordinator.raft import greeting
from coordinator.raft.greeting import Hello, Welcome
from coordinator.raft.messages import AppendEntries
from coordinator.raft.segments.layout import Entry
from raftbatch.realworld import RealConnection, RealNetwork, RealTLS, load_tls
from tests.network.certificates import Authority
from tests.network.nodes import CLUSTER, N1, N2, Run, Two, descriptors, until

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Return what runs a coroutine, once for each loop."""
    run = uvloop.run if request.param == "uvloop" else asyncio.run
    return lambda main: run(asyncio.wait_for(main, 60))


def plain(_name: str) -> None:
    """Return no certificate."""


@pytest.fixture(params=["plain", "tls"])
def tls(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], RealTLS | None]:
    """Return where a node gets its certificate from, once without."""
    if request.param == "plain":
        return plain
    authority = Authority(tmp_path)
    return lambda name: load_tls(*authority.issue(name))


def test_hostile_nobody(run: Run, tls: Callable[[str], RealTLS | None]) -> None:
    async def main() -> None:
        before = descriptors()
        two = await Two(tls).begin()
        for _ in range(20):
            await two.exchange()
        assert (two.one.connections, two.two.connections) == (1, 1)
        await two.reconnect()
        await two.exchange()
        await two.close()
        await until(lambda: descriptors() <= before + 1)  # the loop's own may have come

    run(main())


def test_hostile_garbage(run: Run, tls: Callable[[str], RealTLS | None]) -> None:
    rng = Random(5)
    hello = greeting.encode(Hello(CLUSTER, N1, 1, N2))
    garbage = [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + rng.randbytes(500),
        b"\0" * 100_000,
        b"\xff" * 100_000,
        b"\0\0\xff\xff" + rng.randbytes(65_535),
        hello[:-2] + b"\xff\xff",
        hello[:10],
        hello.replace(CLUSTER.encode(), b"0" * 32),
        *[rng.randbytes(rng.randint(1, 3_000)) for _ in range(100)],
    ]

    async def main() -> None:
        two = await Two(tls).begin()
        host, _, port = two.two.door.address.rpartition(":")

        async def throw(data: bytes) -> None:
            try:
                reader, writer = await asyncio.open_connection(host, int(port))
                writer.write(data)
                if rng.random() < 0.5:
                    writer.write_eof()
                await asyncio.wait_for(reader.read(-1), 10)
            except ConnectionError:
                return  # it was closed with our bytes unread
            writer.transport.abort()

        for start in range(0, len(garbage), 12):
            thrown = [throw(data) for data in garbage[start : start + 12]]
            await asyncio.gather(two.exchange(), *thrown)
        assert two.two.connections == 1
        await two.reconnect()
        await two.exchange()
        await two.close()

    run(main())


def test_hostile_words_within_a_connection(run: Run) -> None:
    """Who says who it is, and then breaks the protocol, loses that connection and no more."""

    async def main() -> None:
        two = await Two(plain).begin()
        network = RealNetwork()
        for number in range(20):
            impostor = await network.connect(two.two.door.address, None)
            impostor.write(greeting.encode(Hello(CLUSTER, N1, 1, N2)))
            impostor.write(Random(number).randbytes(200_000))
            answer = greeting.encode(Welcome(N2, 1))
            data = b""
            try:
                while len(data) < len(answer) and (part := await impostor.read(100)):
                    data += part
                while await impostor.read(1 << 16):
                    pass
            except ConnectionError:
                pass  # it was closed with our bytes unread
            impostor.abort()
        await two.connected()
        await two.reconnect()
        await two.exchange()
        await two.close()

    run(main())


def test_hostile_halves_of_connections_and_of_handshakes(
    run: Run, tls: Callable[[str], RealTLS | None]
) -> None:
    async def main() -> None:
        two = await Two(tls, strangers_max=20, greeting_ms=500).begin()
        host, _, port = two.two.door.address.rpartition(":")
        halves: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        for _ in range(300):
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(b"\0" if len(halves) % 2 else b"\x16\x03\x01")
            halves.append((reader, writer))
            if len(halves) % 50 == 0:
                await two.exchange()
        await two.reconnect()
        await two.exchange()
        for reader, writer in halves:  # each is closed by the node in bounded time
            try:
                await asyncio.wait_for(reader.read(-1), 10)
            except ConnectionError:
                pass
            writer.transport.abort()
        await two.exchange()
        await two.close()

    run(main())


def test_hostile_slow_reader_takes_little_memory(
    run: Run, tls: Callable[[str], RealTLS | None]
) -> None:
    async def main() -> None:
        two = await Two(tls, bulk_bytes_max=4 << 20).begin()
        connection = two.two.transport._peers[N1].link._connection  # type: ignore[union-attr]
        assert isinstance(connection, RealConnection)
        assert connection._transport is not None
        connection._transport.pause_reading()  # n2 reads no more, and goes on living
        most = 0
        before = two.one.connections
        data = bytes(1 << 20)
        number = 0
        while not two.one.counters["link.slow_bulk"]:
            number += 1
            entry = Entry(number, 1, data)
            two.one.transport.send(N2, AppendEntries(1, number - 1, 1, (entry,), 0, 1))
            most = max(most, two.one.transport.states[0].queued_bytes)
            await asyncio.sleep(0)
        assert most < 6 << 20
        await until(lambda: two.one.connections > before and two.are_connected)
        while not two.one.answers.empty():
            two.one.answers.get_nowait()
        await two.exchange()
        await two.close()

    run(main())


def flood(what: str, loop: str, count: int) -> str:
    """Run the other process; return what it says."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.network.flood", what, loop, str(count)],
        cwd=ROOT, timeout=120, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_hostile_crowd(loop: str) -> None:
    assert "strangers" in flood("crowd", loop, 10_000)


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_hostile_starvation(loop: str) -> None:
    assert "connected again" in flood("starve", loop, 100)
