"""What stands between a socket and the library that speaks HTTP: bounds that hold whatever comes.

A connection serves one request. It may take so long in all, from its first byte to the last
of the answer, and bring so many bytes; there may be so many of them, and when one more comes
the oldest ends, since whoever means it is answered at once. So half a request, a reader that
does not read and a flood cost a little memory, for seconds, and keep nobody else out.

What lives here: those bounds. What must never live here: HTTP. Called by: `rpc.http`. One
thread: the loop's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of the connections to one port.

    Attributes:
        connections_max: at one time.
        lifetime_s: of each.
        bytes_max: that each may bring.
    """

    connections_max: int
    lifetime_s: float
    bytes_max: int


class Guard:
    """Makes the protocols of one port, and holds them within its bounds.

    Args:
        inner: makes a protocol of the library's.
        bounds: as above.

    Attributes:
        cut: how many connections were closed before their time, by why: `full`, `slow`,
            `long`.
        open: those that are there.
    """

    def __init__(self, inner: Callable[[], asyncio.Protocol], bounds: Bounds) -> None:
        self.cut = {"full": 0, "slow": 0, "long": 0}
        self.open: dict[Guarded, None] = {}
        self.inner = inner
        self.bounds = bounds

    def __call__(self) -> Guarded:
        """Return the protocol of a new connection."""
        return Guarded(self)

    def close(self) -> None:
        """Cut all that are left."""
        for each in list(self.open):
            each.abort()


class Guarded(asyncio.Protocol):
    """One connection within its bounds; see `asyncio.Protocol` for its methods.

    Args:
        guard: of its port.
    """

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._inner: asyncio.Protocol | None = None
        self._transport: asyncio.Transport | None = None
        self._left = guard.bounds.bytes_max
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin; where there are as many as may be, the oldest makes room."""
        guard = self._guard
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass of it
        if len(guard.open) >= guard.bounds.connections_max:
            next(iter(guard.open)).cut("full")
        guard.open[self] = None
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(guard.bounds.lifetime_s, self.cut, "slow")
        self._inner = guard.inner()
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Hand on what came, as long as it is little."""
        if self._inner is None:
            return
        self._left -= len(data)
        if self._left < 0:
            self.cut("long")
            return
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        """Hand on that no more will come."""
        return self._inner.eof_received() if self._inner is not None else None

    def connection_lost(self, error: Exception | None) -> None:
        """End."""
        self._guard.open.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
        inner, self._inner = self._inner, None
        if inner is not None:
            inner.connection_lost(error)

    def pause_writing(self) -> None:
        """Hand on that the other end does not read."""
        if self._inner is not None:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Hand on that it does again."""
        if self._inner is not None:
            self._inner.resume_writing()

    def cut(self, why: str) -> None:
        """Close before its time; see `Guard.cut`."""
        self._guard.cut[why] += 1
        self.abort()

    def abort(self) -> None:
        """Close at once."""
        self._guard.open.pop(self, None)
        assert self._transport is not None
        self._transport.abort()
