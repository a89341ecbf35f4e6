"""TCP: dialling and listening.

What lives here: sockets, their options, and how they are accepted. What must
never live here: a decision. Called by: `raftbatch.realworld`.

Sockets are accepted here rather than by the loop's own server: where descriptors
run out, asyncio stops accepting for a second and uvloop complains each turn;
here the queue of the kernel keeps who waits, and is asked again soon. The TLS
handshakes under way are few: when one more comes, the oldest is given up.
"""

from __future__ import annotations

import asyncio
import errno
import re
import socket
import ssl
from collections.abc import Awaitable, Callable

from raftbatch.realworld.connection import RealConnection, address_text
from raftbatch.realworld.tls import RealTLS, explain
from raftbatch.world import TLS, Connection

_BACKLOG = 1024  # a flood must fill this before a peer's connection is dropped by the kernel
_ACCEPTS_PER_TURN = 64  # then whoever is connected gets a turn
_STARVED_RETRY_S = 0.05  # until descriptors are looked for again
_HANDSHAKES_MAX = 256
_HANDSHAKE_S = 3.0  # some round trips of a slow network, and the arithmetic of a busy machine

_STARVED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

# What makes a dead machine known within seconds where the program itself sends nothing.
_OPTIONS: tuple[tuple[int, str, int], ...] = (
    (socket.IPPROTO_TCP, "TCP_NODELAY", 1),
    (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
    (socket.IPPROTO_TCP, "TCP_KEEPIDLE", 5),  # seconds
    (socket.IPPROTO_TCP, "TCP_KEEPINTVL", 2),
    (socket.IPPROTO_TCP, "TCP_KEEPCNT", 3),
    (socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", 6_000),  # ms; sent, and not acknowledged
    # What the kernel may hold unsent: urgent bytes wait behind no more than that.
    (socket.IPPROTO_TCP, "TCP_NOTSENT_LOWAT", 128 << 10),
)

Refused = Callable[[str, OSError], None]
Accept = Callable[[Connection], Awaitable[None]]


class RealListener:
    """Listening sockets, one for each address that a name stands for.

    Attributes:
        starved: how often there was no descriptor for a connection.
    """

    def __init__(
        self,
        sockets: list[socket.socket],
        protocol: Callable[[], asyncio.BaseProtocol],
        accept: Accept | None,
        context: ssl.SSLContext | None,
        refused: Refused | None,
    ) -> None:
        self.starved = 0
        self._loop = asyncio.get_running_loop()
        self._sockets = sockets
        self._protocol = protocol
        self._accept = accept
        self._context = context
        self._refused = refused
        self._address = address_text(sockets[0].getsockname())
        self._serving: set[asyncio.Task[None]] = set()
        # In the order in which they began. The set above keeps the tasks alive after that.
        self._handshakes: dict[asyncio.Task[None], None] = {}
        for each in sockets:
            self._loop.add_reader(each.fileno(), self._ready, each)

    @property
    def address(self) -> str:
        """The first bound address, also once it is closed."""
        return self._address

    async def close(self) -> None:
        """Stop accepting, and give up the handshakes under way."""
        sockets, self._sockets = self._sockets, []
        for each in sockets:
            self._loop.remove_reader(each.fileno())
            each.close()
        handshakes = list(self._handshakes)
        for task in handshakes:
            task.cancel()
        await asyncio.gather(*handshakes, return_exceptions=True)

    def _ready(self, listening: socket.socket) -> None:
        for _ in range(_ACCEPTS_PER_TURN):
            try:
                accepted, _ = listening.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _STARVED:
                    self._rest(listening)
                    return
                continue  # it went away while it waited
            accepted.setblocking(False)
            task = self._loop.create_task(self._serve(accepted))
            self._serving.add(task)
            task.add_done_callback(self._serving.discard)
            if self._context is not None:
                self._handshakes[task] = None
                if len(self._handshakes) > _HANDSHAKES_MAX:
                    oldest = next(iter(self._handshakes))
                    del self._handshakes[oldest]
                    oldest.cancel()

    def _rest(self, listening: socket.socket) -> None:
        """Look away for a moment: the socket stays ready, and asking at once would be a loop."""
        self.starved += 1
        self._loop.remove_reader(listening.fileno())
        self._loop.call_later(_STARVED_RETRY_S, self._look_again, listening)

    def _look_again(self, listening: socket.socket) -> None:
        if listening in self._sockets:
            self._loop.add_reader(listening.fileno(), self._ready, listening)

    async def _serve(self, accepted: socket.socket) -> None:
        peer = "unknown"
        try:
            peer = address_text(accepted.getpeername())
            connection = self._protocol()  # uvloop returns another where there is TLS
            transport, _ = await self._loop.connect_accepted_socket(
                lambda: connection,
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=_HANDSHAKE_S if self._context else None,
            )
            _set_options(transport)
        except OSError as error:
            accepted.close()
            if self._refused is not None:
                self._refused(peer, explain(error))
            return
        except asyncio.CancelledError:
            accepted.close()
            raise
        finally:
            task = asyncio.current_task()
            assert task is not None
            self._handshakes.pop(task, None)
        if self._accept is not None:
            assert isinstance(connection, RealConnection)
            await self._accept(connection)


class RealNetwork:
    """TCP, and TLS over it."""

    async def listen(
        self,
        address: str,
        accept: Accept,
        tls: TLS | None,
        refused: Refused | None = None,
    ) -> RealListener:
        """Bind every address that the name stands for, and serve."""
        sockets, context = await _listening(address), _real(tls).server if tls else None
        return RealListener(sockets, RealConnection, accept, context, refused)

    async def serve(
        self, address: str, protocol: Callable[[], asyncio.Protocol], tls: TLS | None
    ) -> RealListener:
        """Bind as above, and leave connections to their protocols."""
        sockets, context = await _listening(address), _real(tls).server if tls else None
        return RealListener(sockets, protocol, None, context, None)

    async def connect(self, address: str, tls: TLS | None) -> RealConnection:
        """Resolve and connect."""
        host, port = _split_address(address)
        context = _real(tls).client if tls else None
        try:
            connection = RealConnection()
            transport, _ = await asyncio.get_running_loop().create_connection(
                lambda: connection,
                host,
                port,
                ssl=context,
                ssl_handshake_timeout=_HANDSHAKE_S if context else None,
            )
        except OSError as error:
            raise explain(error) from error
        _set_options(transport)
        return connection


async def _listening(address: str) -> list[socket.socket]:
    """Return listening sockets, one for each address that the name stands for."""
    host, port = _split_address(address)
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, place in dict.fromkeys(found):
            where: tuple[object, ...] = place
            if sockets and not port:  # one port for all
                where = (place[0], sockets[0].getsockname()[1], *place[2:])
            sockets += _bound(family, kind, protocol, where, is_needed=not sockets)
    except OSError:
        for each in sockets:
            each.close()
        raise
    return sockets


def _set_options(transport: asyncio.BaseTransport) -> None:
    opened: socket.socket | None = transport.get_extra_info("socket")
    if opened is not None:
        for level, name, value in _OPTIONS:
            if hasattr(socket, name):
                try:
                    opened.setsockopt(level, getattr(socket, name), value)
                except OSError:
                    pass  # a kernel without that option, or gone: reading will tell


def _bound(
    family: int, kind: int, protocol: int, where: tuple[object, ...], *, is_needed: bool
) -> list[socket.socket]:
    """Return a listening socket; none where this machine has no such address and one is enough."""
    try:
        listening = socket.socket(family, kind, protocol)
    except OSError:
        if is_needed:
            raise
        return []
    try:
        listening.setblocking(False)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.bind(where)
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRNOTAVAIL and not is_needed:
            return []
        text = f"{address_text(where)}: {(error.strerror or str(error)).lower()}"
        raise OSError(error.errno, text) from None
    return [listening]


def _real(tls: TLS) -> RealTLS:
    """Return certificates made for this network: there are no others in the real world."""
    assert isinstance(tls, RealTLS)
    return tls


def _split_address(address: str) -> tuple[str, int]:
    """Split `host:port` or `[v6]:port`; an unusable one is an OSError like other bad addresses."""
    host, colon, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    try:
        host.encode("idna")  # as getaddrinfo will, whose error would be no OSError
    except UnicodeError:
        colon = ""
    if not colon or not re.fullmatch("[0-9]{1,5}", port) or int(port) > 65_535:
        raise OSError(errno.EINVAL, f"{address!r} is not host:port")
    return host, int(port)
