"""Bounds of everything that happens between coordinators' sockets.

What lives here: the settings and their relations. What must never live here:
what is done when a bound is reached. Called by: `door`, `transport`,
configuration. Total. Deterministic.
"""

from __future__ import annotations

from dataclasses import dataclass

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class TransportLimits:
    """Bounds, in bytes, numbers and milliseconds.

    Attributes:
        strangers_max: connections whose first words have not come yet. When one
            more comes, the oldest is closed: peers speak at once, so that those
            who wait are those who do not.
        greeting_ms: how long the first words may take, on either end. Some round
            trips of the slowest network, and a TLS handshake.
        requests_max: questions of first start and joining that are being answered.
        request_ms: how long an answer may take: a join waits for a commit.
        message_bytes_max: longest message. Must exceed the largest entry, and the
            largest group of entries.
        bulk_bytes_max: entries and snapshots that may wait for a peer to read
            them. Must exceed the window of a follower, or healthy ones lose
            their connection.
        urgent_bytes_max: all other messages that may wait.
        ping_ms: how long an end may be silent before it says that it lives.
        silent_ms: how long nothing may come before the connection is given up;
            several pings.
        stalled_ms: how long what waits may not get any shorter.
        dial_ms_min: how long until a connection that was lost is tried again.
        dial_ms_max: the most that this grows to, doubling: how late a peer that
            comes back may be found.
        links_max: connections to nodes that are, as far as this one knows, no members.

    Raises:
        ValueError: they cannot hold together; the message names the two.
    """

    strangers_max: int = 256
    greeting_ms: int = 2_000
    requests_max: int = 32
    request_ms: int = 30_000
    message_bytes_max: int = 64 * _MIB
    bulk_bytes_max: int = 64 * _MIB
    urgent_bytes_max: int = 4 * _MIB
    ping_ms: int = 250
    silent_ms: int = 2_000
    stalled_ms: int = 10_000
    dial_ms_min: int = 20
    dial_ms_max: int = 1_000
    links_max: int = 16

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} = {getattr(self, name)} is below 1")
        if self.ping_ms * 3 > self.silent_ms:
            raise ValueError(
                f"silent_ms = {self.silent_ms} is less than three times ping_ms = {self.ping_ms}: "
                "one late ping would cost a connection"
            )
        if self.dial_ms_max < self.dial_ms_min:
            raise ValueError(
                f"dial_ms_max = {self.dial_ms_max} is less than dial_ms_min = {self.dial_ms_min}"
            )
