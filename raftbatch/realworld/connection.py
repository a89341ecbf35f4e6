"""One TCP or TLS connection, as an asyncio protocol: works under asyncio and uvloop.

What lives here: how bytes come and go. What must never live here: a decision.
Called by: `raftbatch.realworld.network`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import cast

from raftbatch.realworld.tls import explain
from raftbatch.world import Buffer, Receiver

_ROOM_BYTES = 16 << 10  # read at once before the connection is handed over: a greeting
_UNREAD_BYTES_MAX = 64 << 10  # more is left to the kernel, which slows the sender down
_QUEUED_BYTES_HIGH = 64 << 10
_CLOSE_S = 5.0  # for what is queued to be sent, and for the other end's part of a TLS close


class RealConnection(asyncio.BufferedProtocol):
    """A connection; see `raftbatch.world.Connection`."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._peer = "unknown"
        self._certificate_name: str | None = None
        self._certificate_uris: tuple[str, ...] = ()
        self._room = memoryview(bytearray(_ROOM_BYTES))
        self._unread = bytearray()
        self._receiver: Receiver | None = None
        self._is_reading_paused = False
        self._is_writing_paused = False
        self._is_over = False
        self._error: OSError | None = None
        self._waiters: list[asyncio.Future[None]] = []
        self._closing: asyncio.TimerHandle | None = None

    # raftbatch.world.Connection

    @property
    def peer(self) -> str:
        """The other end's `host:port`."""
        return self._peer

    @property
    def certificate_name(self) -> str | None:
        """The verified certificate's common name; None also where it has several, or none."""
        return self._certificate_name

    @property
    def certificate_uris(self) -> tuple[str, ...]:
        """The verified certificate's URIs."""
        return self._certificate_uris

    async def read(self, length_max: int) -> bytes:
        """Return what has arrived."""
        while not self._unread:
            if self._is_over:
                if self._error is not None:
                    raise _as_connection_error(self._error)
                return b""
            await self._change()
        part = bytes(self._unread[:length_max])
        del self._unread[:length_max]
        self._pause_reading(len(self._unread) >= _UNREAD_BYTES_MAX)
        return part

    def hand_over(self, receiver: Receiver) -> None:
        """Hand over, with what has arrived."""
        self._receiver = receiver
        rest = memoryview(bytes(self._unread))
        self._unread.clear()
        while rest:
            room = receiver.buffer()
            length = min(len(room), len(rest))
            room[:length] = rest[:length]
            rest = rest[length:]
            receiver.received(length)
        self._pause_reading(False)
        if self._is_over:
            self._loop.call_soon(receiver.lost, self._error)

    def write(self, data: Buffer) -> None:
        """Hand over to the transport's queue."""
        if self._transport is not None and not self._is_over:
            self._transport.write(data)

    def write_many(self, buffers: Sequence[Buffer]) -> None:
        """Hand over to the transport's queue; asyncio joins them before Python 3.12."""
        if self._transport is not None and not self._is_over:
            self._transport.writelines(buffers)

    @property
    def queued_bytes(self) -> int:
        """What the transport still holds."""
        if self._transport is None or self._is_over:
            return 0
        return self._transport.get_write_buffer_size()

    @property
    def is_full(self) -> bool:
        """Whether the transport is above its high-water mark."""
        return self._is_writing_paused

    def close(self) -> None:
        """Let the transport send what it holds; give up after some seconds."""
        if self._transport is None or self._is_over:
            return
        self._transport.close()
        if self._closing is None:
            self._closing = self._loop.call_later(_CLOSE_S, self._transport.abort)

    def abort(self) -> None:
        """Drop the connection now."""
        if self._transport is not None:
            self._transport.abort()

    # asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin; with TLS, once the handshake is done."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is not of that class
        self._peer = address_text(transport.get_extra_info("peername"))
        certificate = transport.get_extra_info("peercert")
        self._certificate_name = _common_name(certificate)
        self._certificate_uris = _uris(certificate)
        self._transport.set_write_buffer_limits(high=_QUEUED_BYTES_HIGH)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's name
        """Return where to read to."""
        return self._room if self._receiver is None else self._receiver.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Take in what was read."""
        if self._receiver is not None:
            self._receiver.received(nbytes)
            return
        self._unread += self._room[:nbytes]
        self._pause_reading(len(self._unread) >= _UNREAD_BYTES_MAX)
        self._changed()

    def eof_received(self) -> bool:
        """End: no coordinator goes on writing once it has closed."""
        if self._receiver is not None:
            self.abort()  # what is queued is for nobody
        return False

    def pause_writing(self) -> None:
        """Take in that the queue is long."""
        self._is_writing_paused = True

    def resume_writing(self) -> None:
        """Take in that the queue is short again."""
        self._is_writing_paused = False
        if self._receiver is not None:
            self._receiver.writable()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        if self._closing is not None:
            self._closing.cancel()
        self._is_over = True
        if exc is not None:
            self._error = explain(exc) if isinstance(exc, OSError) else OSError(str(exc))
        self._changed()
        if self._receiver is not None:
            self._receiver.lost(self._error)

    def _pause_reading(self, pause: bool) -> None:
        if pause == self._is_reading_paused or self._transport is None or self._is_over:
            return
        self._is_reading_paused = pause
        if self._transport.is_closing():
            pass  # there is nothing more to read, and asyncio would complain
        elif pause:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    async def _change(self) -> None:
        waiter = self._loop.create_future()
        self._waiters.append(waiter)
        await waiter

    def _changed(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


def _as_connection_error(error: OSError) -> ConnectionError:
    """Return it as what breaking a connection is, whatever the kernel calls it."""
    return error if isinstance(error, ConnectionError) else ConnectionError(*error.args)


def _common_name(certificate: object) -> str | None:
    """Return the one common name of a certificate in the form of `SSLSocket.getpeercert`."""
    if not isinstance(certificate, dict):
        return None
    names = [
        value
        for part in certificate.get("subject", ())
        for key, value in part
        if key == "commonName"
    ]
    return str(names[0]) if len(names) == 1 else None


def _uris(certificate: object) -> tuple[str, ...]:
    """Return the URIs among the alternative names of a certificate in that form."""
    if not isinstance(certificate, dict):
        return ()
    names = certificate.get("subjectAltName", ())
    return tuple(str(value) for kind, value in names if kind == "URI")


def address_text(address: object) -> str:
    """Return `host:port` of what a socket gave, `unknown` when it is gone already."""
    match address:
        case (str(host), int(port), *_):
            return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        case _:
            return "unknown"
