"""What a connection asks of the kernel, and that its end comes whatever the other end does."""

import asyncio
import socket

import pytest
import uvloop

from raftbatch.realworld import RealConnection, RealNetwork
from raftbatch.realworld import connection as connections
from raftbatch.world import Connection
from tests.network.nodes import Run

# What makes a dead machine known within seconds, and lets what is urgent wait behind little.
OPTIONS = {
    "TCP_NODELAY": (socket.IPPROTO_TCP, 1),
    "SO_KEEPALIVE": (socket.SOL_SOCKET, 1),
    "TCP_KEEPIDLE": (socket.IPPROTO_TCP, 5),  # seconds, as below
    "TCP_KEEPINTVL": (socket.IPPROTO_TCP, 2),
    "TCP_KEEPCNT": (socket.IPPROTO_TCP, 3),
    "TCP_USER_TIMEOUT": (socket.IPPROTO_TCP, 6_000),  # ms
    "TCP_NOTSENT_LOWAT": (socket.IPPROTO_TCP, 128 << 10),
}


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Return what runs a coroutine, once for each loop."""
    run = uvloop.run if request.param == "uvloop" else asyncio.run
    return lambda main: run(asyncio.wait_for(main, 60))


def _option(connection: Connection, name: str) -> int:
    assert isinstance(connection, RealConnection)
    assert connection._transport is not None
    opened: socket.socket = connection._transport.get_extra_info("socket")
    level, _ = OPTIONS[name]
    return opened.getsockopt(level, getattr(socket, name))


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="not Linux")
def test_sockets_of_both_ends_have_the_options(run: Run) -> None:
    async def main() -> None:
        network = RealNetwork()
        accepted: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()

        async def accept(connection: Connection) -> None:
            accepted.set_result(connection)

        listener = await network.listen("127.0.0.1:0", accept, None)
        dialled = await network.connect(listener.address, None)
        ends = {"dialled": dialled, "accepted": await accepted}
        found = {
            end: {name: _option(connection, name) for name in OPTIONS}
            for end, connection in ends.items()
        }
        for connection in ends.values():
            connection.abort()
        await listener.close()
        for end, values in found.items():
            for name, (_, value) in OPTIONS.items():
                # Of a switch the kernel says no more than that it is on.
                is_so = values[name] == value or (value == 1 and values[name])
                assert is_so, f"{name} of the {end} end is {values[name]}"

    run(main())


def test_close_gives_up_who_does_not_read(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is queued for it would keep the descriptor for as long as it likes."""
    monkeypatch.setattr(connections, "_CLOSE_S", 0.1)

    async def main() -> None:
        network = RealNetwork()
        idle = socket.socket()
        idle.bind(("127.0.0.1", 0))
        idle.listen()
        connection = await network.connect(f"127.0.0.1:{idle.getsockname()[1]}", None)
        connection.write(bytes(32 << 20))  # more than both kernels' buffers take
        connection.close()
        try:
            async with asyncio.timeout(20):
                while await connection.read(1):
                    pass
        finally:
            connection.abort()
            idle.close()

    run(main())
