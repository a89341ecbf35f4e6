"""One connection on which two coordinators exchange messages, from the greeting to its end.

It reads frames, hands messages on, and writes what is to be sent, a little at a
time, so that what is urgent never waits for much. It says that this end lives
where nothing else does, and ends the connection of a peer that is silent, does
not read, or breaks the protocol. Its own pauses are never taken for the peer's:
silence is counted in ticks of this loop, judged after what has arrived is read.

What lives here: the life of a connection. What must never live here: whose it is
(`transport`), a decision about a message. Called by: `transport`. One thread:
the loop's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from coordinator.raft import wire
from coordinator.raft.counters import Counters
from coordinator.raft.frames import Inbox, Outbox
from coordinator.raft.greeting import Malformed
from coordinator.raft.messages import BULK, PeerMessage
from coordinator.raft.transport_limits import TransportLimits
from raftbatch.world import Connection

_LOG = logging.getLogger(__name__)

_WRITE_BYTES_MAX = 128 << 10  # of bulk, at once: urgent bytes that come meanwhile wait behind it


class Link:
    """See the module's docstring. A `raftbatch.world.Receiver`; idle until `begin`.

    Args:
        connection: greeted, its next byte the first of a frame.
        limits: bounds.
        counters: counts messages, bytes and reasons.
        on_message: given each message that comes.
        on_over: told once why the link has ended; it may be called inside `send`.

    Attributes:
        is_over: whether it has ended; then nothing is handed on any more.
    """

    def __init__(
        self,
        connection: Connection,
        limits: TransportLimits,
        counters: Counters,
        on_message: Callable[[PeerMessage], None],
        on_over: Callable[[str], None],
    ) -> None:
        self.is_over = False
        self._connection = connection
        self._limits = limits
        self._counters = counters
        self._on_message = on_message
        self._on_over = on_over
        self._loop = asyncio.get_running_loop()
        self._outbox = Outbox()
        self._inbox = Inbox(limits.message_bytes_max, self._take)
        self._is_pump_due = False
        self._has_written = False
        self._silent_ticks = 0
        self._stalled_ticks = 0
        self._ticking: asyncio.TimerHandle | None = None

    @property
    def queued_bytes(self) -> int:
        """What the peer has not read yet, as far as this end knows."""
        outbox = self._outbox
        return outbox.urgent_bytes + outbox.bulk_bytes + self._connection.queued_bytes

    def begin(self) -> None:
        """Take the connection over, with what has come on it already."""
        self._ticking = self._loop.call_later(self._limits.ping_ms / 1000, self._tick)
        self._connection.hand_over(self)

    def send(self, message: PeerMessage) -> None:
        """Write a message at once; what follows in this turn of the loop goes together at its end.

        Or when there is room. Most often one message is all that a turn brings: it need not wait.
        """
        if self.is_over:
            return
        buffers, outbox = wire.encode(message), self._outbox
        if isinstance(message, BULK):
            outbox.add_bulk(buffers)
            # One alone may be larger: it has to go somehow.
            if outbox.bulk_bytes > self._limits.bulk_bytes_max and outbox.bulk_messages > 1:
                self.end("slow_bulk")
        else:
            outbox.add_urgent(buffers)
            if outbox.urgent_bytes > self._limits.urgent_bytes_max:
                self.end("slow_urgent")
        if not self._is_pump_due:
            self._pump_soon()
            self._write()

    def end(self, reason: str) -> None:
        """End it, for a reason in a few words with underscores. Harmless when called twice."""
        if self.is_over:
            return
        self.is_over = True
        if self._ticking is not None:
            self._ticking.cancel()
        self._connection.abort()
        self._counters.add(f"link.{reason}")
        self._on_over(reason)

    # raftbatch.world.Receiver

    def buffer(self) -> memoryview:
        """Return where to read to."""
        return self._inbox.buffer()

    def received(self, length: int) -> None:
        """Hand on the messages that are whole now."""
        if self.is_over:
            return
        self._silent_ticks = 0
        self._counters.add("link.bytes_received", length)
        try:
            self._inbox.received(length)
        except Malformed as error:
            self.end(error.reason)

    def writable(self) -> None:
        """Write on."""
        self._pump_soon()

    def lost(self, error: OSError | None) -> None:
        """End: the connection has."""
        self.end("closed" if error is None else "broken")

    def _take(self, data: memoryview) -> bool:
        """Hand on a message; return whether to go on."""
        message = wire.decode(data)
        self._counters.add("link.messages_received")
        try:
            self._on_message(message)
        except Exception:  # noqa: BLE001 - whatever it is, others' connections must live on
            _LOG.exception("message.failed")
            self.end("handler_failed")
        return not self.is_over

    def _pump_soon(self) -> None:
        if not self._is_pump_due and not self.is_over:
            self._is_pump_due = True
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        self._is_pump_due = False
        self._write()

    def _write(self) -> None:
        """Write until the connection is full, what is urgent first."""
        connection, outbox = self._connection, self._outbox
        while outbox and not connection.is_full and not self.is_over:
            buffers = outbox.take(_WRITE_BYTES_MAX)
            connection.write_many(buffers)
            self._has_written = True
            self._stalled_ticks = 0
            self._counters.add("link.bytes_sent", sum(map(len, buffers)))

    def _tick(self) -> None:
        """Say that this end lives, and judge whether the other does."""
        self._ticking = self._loop.call_later(self._limits.ping_ms / 1000, self._tick)
        if not self._has_written and not self._outbox:
            self._outbox.add_ping()
            self._pump_soon()
        self._has_written = False
        self._silent_ticks += 1
        self._stalled_ticks += 1
        # Two turns later, as the log does: one to read sockets, one to hand in what was read.
        self._loop.call_soon(self._loop.call_soon, self._judge)

    def _judge(self) -> None:
        limits = self._limits
        if self._silent_ticks * limits.ping_ms > limits.silent_ms:
            self.end("silent")
        elif self._outbox and self._stalled_ticks * limits.ping_ms > limits.stalled_ms:
            self.end("stalled")
