"""Ports of this machine: which are free, and whether one is.

Free ones are taken from below those that the kernel gives to connections: a node that is down
for a while finds its port free when it comes back.

What lives here: that. What must never live here: who is given one. Called by: `cluster`.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable

from raftbatch.errors import CannotStart
from raftbatch.world import Entropy

_FIRST, _LAST = 10_000, 32_000
_TRIES = 4_000


def free_ports(count: int, entropy: Entropy, host: str = "127.0.0.1") -> list[int]:
    """Return different ports on which nobody listens at this moment.

    Raises:
        CannotStart: there are none to be found.
    """
    found: list[int] = []
    for _ in range(_TRIES):
        if len(found) == count:
            return found
        drawn = int.from_bytes(entropy.random_bytes(4), "big")
        port = _FIRST + drawn % (_LAST - _FIRST)
        if port not in found and is_free(f"{host}:{port}"):
            found.append(port)
    raise CannotStart(f"no free ports were found on {host}")


def taken(addresses: Iterable[str]) -> list[str]:
    """Return those at which somebody listens, or nobody can."""
    return [each for each in addresses if not is_free(each)]


def is_free(address: str) -> bool:
    """Return whether one could listen at a `host:port` now."""
    host, _, port = address.rpartition(":")
    try:
        found = socket.getaddrinfo(
            host.removeprefix("[").removesuffix("]"), int(port), type=socket.SOCK_STREAM
        )
        for family, kind, protocol, _name, place in found[:1]:
            with socket.socket(family, kind, protocol) as one:
                # As servers do: connections that have ended are no hindrance.
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                one.bind(place)
                one.listen(1)
    except OSError:
        return False
    return True
