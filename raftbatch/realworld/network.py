"""TCP and TLS.

What lives here: connections and listeners. What must never live here: a
decision. Called by: `raftbatch.realworld`.
"""

from __future__ import annotations

import asyncio
import errno
import re
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from raftbatch.world import TLS, Buffer, Connection


@dataclass(frozen=True, slots=True)
class RealTLS:
    """TLS settings for both roles of a port."""

    server: ssl.SSLContext
    client: ssl.SSLContext


class RealConnection:
    """An asyncio stream pair."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @property
    def peer(self) -> str:
        """The other end's `host:port`."""
        return _address_text(self._writer.get_extra_info("peername"))

    @property
    def certificate_name(self) -> str | None:
        """The verified certificate's common name."""
        certificate = self._writer.get_extra_info("peercert") or {}
        for part in certificate.get("subject", ()):
            for key, value in part:
                if key == "commonName":
                    return str(value)
        return None

    async def read(self, length_max: int) -> bytes:
        """Read what has arrived."""
        try:
            return await self._reader.read(length_max)
        except ConnectionError:
            raise
        except OSError as error:  # ETIMEDOUT, EHOSTUNREACH, TLS
            raise ConnectionError(*error.args) from error

    def write(self, data: Buffer) -> None:
        """Hand over to the transport's queue."""
        self._writer.write(data)

    @property
    def queued_bytes(self) -> int:
        """What the transport still holds."""
        return self._writer.transport.get_write_buffer_size()

    async def drain(self) -> None:
        """Wait for the transport's low-water mark."""
        try:
            await self._writer.drain()
        except ConnectionError:
            raise
        except OSError as error:  # ETIMEDOUT, EHOSTUNREACH, TLS
            raise ConnectionError(*error.args) from error

    def abort(self) -> None:
        """Drop the connection now."""
        self._writer.transport.abort()


class RealListener:
    """An asyncio server."""

    def __init__(self, server: asyncio.Server) -> None:
        self._server = server
        self._address = _address_text(server.sockets[0].getsockname())

    @property
    def address(self) -> str:
        """The first bound address, also once it is closed."""
        return self._address

    async def close(self) -> None:
        """Stop accepting."""
        self._server.close()


class RealNetwork:
    """TCP through asyncio, Nagle off (asyncio's default)."""

    async def listen(
        self,
        address: str,
        accept: Callable[[Connection], Awaitable[None]],
        tls: TLS | None,
    ) -> RealListener:
        """Bind and serve."""

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await accept(RealConnection(reader, writer))

        host, port = _split_address(address)
        context = _real(tls).server if tls else None
        server = await asyncio.start_server(serve, host, port, ssl=context)
        return RealListener(server)

    async def connect(self, address: str, tls: TLS | None) -> RealConnection:
        """Resolve and connect."""
        host, port = _split_address(address)
        context = _real(tls).client if tls else None
        reader, writer = await asyncio.open_connection(host, port, ssl=context)
        return RealConnection(reader, writer)


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


def _address_text(address: object) -> str:
    """Return `host:port` of what a socket gave, `unknown` when it is gone already."""
    match address:
        case (str(host), int(port), *_):
            return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        case _:
            return "unknown"
