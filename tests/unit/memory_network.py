"""A network in memory for tests: deterministic, in the order of the loop, on virtual time.

What is written is taken, a piece at a time, unless its reader is stuck; certificates are names.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from chaos.worlds.loop import VirtualLoop
from raftbatch.world import TLS, Buffer, Connection, Receiver

T = TypeVar("T")
QUEUED_BYTES_HIGH = 64 << 10


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on virtual time: it takes none, however long it waits."""
    with VirtualLoop() as loop:
        return loop.run_until_complete(main)


@dataclass(frozen=True)
class Certificate:
    """TLS, as far as a test needs it: the name that the other end sees."""

    name: str


class MemoryConnection:
    """One end. `is_stuck`: it takes nothing in. `sent`: all that it ever wrote."""

    def __init__(self, network: "MemoryNetwork", peer: str, certificate_name: str | None) -> None:
        self.peer = peer
        self.certificate_name = certificate_name
        self.is_stuck = False
        self.is_closed = False
        self.sent = bytearray()
        self.other: MemoryConnection = self
        self._network = network
        self._loop = asyncio.get_running_loop()
        self._outgoing = bytearray()
        self._incoming = bytearray()
        self._receiver: Receiver | None = None
        self._change = asyncio.Event()
        self._is_over = False
        self._is_closing = False
        self._is_moving = False
        self._was_long = False

    async def read(self, length_max: int) -> bytes:
        while not self._incoming:
            if self._is_over:
                return b""
            self._change.clear()
            await self._change.wait()
        part = bytes(self._incoming[:length_max])
        del self._incoming[:length_max]
        return part

    def hand_over(self, receiver: Receiver) -> None:
        self._receiver = receiver
        arrived, self._incoming = bytes(self._incoming), bytearray()
        self._take(arrived)
        if self._is_over:
            self._loop.call_soon(receiver.lost, None)

    def write(self, data: Buffer) -> None:
        self.write_many([data])

    def write_many(self, buffers: Sequence[Buffer]) -> None:
        if self._is_over or self._is_closing:
            return
        data = b"".join(buffers)
        self.sent += data
        self._outgoing += data
        self._was_long |= len(self._outgoing) > QUEUED_BYTES_HIGH
        self._move_soon()

    @property
    def queued_bytes(self) -> int:
        return len(self._outgoing)

    @property
    def is_full(self) -> bool:
        return self._was_long

    def close(self) -> None:
        self._is_closing = True
        self._move_soon()

    def abort(self) -> None:
        self.is_closed = True
        self._end()
        self._loop.call_soon(self.other._end)

    def unstick(self) -> None:
        """Go on to take in."""
        self.is_stuck = False
        self.other._move_soon()

    def _move_soon(self) -> None:
        if not self._is_moving and not self._is_over:
            self._is_moving = True
            self._loop.call_soon(self._move)

    def _move(self) -> None:
        self._is_moving = False
        if self._is_over or self.other.is_stuck:
            return
        piece = bytes(self._outgoing[: self._network.piece_bytes])
        del self._outgoing[: self._network.piece_bytes]
        self.other._take(piece)
        if self._outgoing:
            self._move_soon()
        elif self._is_closing:
            self.abort()
        if self._was_long and len(self._outgoing) <= QUEUED_BYTES_HIGH // 4:
            self._was_long = False
            self._change.set()
            if self._receiver is not None and not self._is_over:
                self._receiver.writable()

    def _take(self, data: bytes) -> None:
        while data and not self._is_over:
            if self._receiver is None:
                self._incoming += data
                self._change.set()
                return
            room = self._receiver.buffer()
            length = min(len(room), len(data))
            room[:length] = data[:length]
            data = data[length:]
            self._receiver.received(length)

    def _end(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._outgoing.clear()
            self._change.set()
            if self._receiver is not None:
                self._loop.call_soon(self._receiver.lost, None)


class MemoryListener:
    """A port."""

    def __init__(self, network: "MemoryNetwork", address: str) -> None:
        self.address = address
        self._network = network

    async def close(self) -> None:
        self._network.listening.pop(self.address, None)


class MemoryNetwork:
    """See the module's docstring.

    Attributes:
        piece_bytes: most that is taken at once.
        connections: both ends of each, in the order in which they were made, the dialler's first.
        failing: addresses that cannot be reached, and with which error.
        dials: addresses that were dialled, and when, in seconds.
    """

    def __init__(self) -> None:
        self.piece_bytes = 1 << 20
        self.connections: list[tuple[MemoryConnection, MemoryConnection]] = []
        self.failing: dict[str, OSError] = {}
        self.dials: list[tuple[str, float]] = []
        self.listening: dict[
            str, tuple[Callable[[Connection], Awaitable[None]], Certificate | None]
        ] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def listen(
        self,
        address: str,
        accept: Callable[[Connection], Awaitable[None]],
        tls: TLS | None,
        refused: Callable[[str, OSError], None] | None = None,
    ) -> MemoryListener:
        if address in self.listening:
            raise OSError(98, "Address already in use")
        assert tls is None or isinstance(tls, Certificate)
        self.listening[address] = (accept, tls)
        return MemoryListener(self, address)

    async def serve(
        self, address: str, protocol: Callable[[], asyncio.Protocol], tls: TLS | None
    ) -> MemoryListener:
        raise AssertionError("no library's protocol is served here")

    async def connect(self, address: str, tls: TLS | None) -> MemoryConnection:
        loop = asyncio.get_running_loop()
        self.dials.append((address, loop.time()))
        await asyncio.sleep(0)
        if address in self.failing:
            raise self.failing[address]
        if address not in self.listening:
            raise ConnectionRefusedError(111, "Connection refused")
        accept, other_tls = self.listening[address]
        assert tls is None or isinstance(tls, Certificate)
        if (tls is None) != (other_tls is None):
            raise ConnectionError("one end has TLS, and the other not")
        number = len(self.connections) + 1
        one = MemoryConnection(self, address, other_tls.name if other_tls else None)
        two = MemoryConnection(self, f"127.0.0.1:{number}", tls.name if tls else None)
        one.other, two.other = two, one
        self.connections.append((one, two))
        task = loop.create_task(self._accept(accept, two))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return one

    @staticmethod
    async def _accept(accept: Callable[[Connection], Awaitable[None]], end: Connection) -> None:
        await accept(end)
