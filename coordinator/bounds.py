"""What the numbers of a configuration are at most, so that all of them fit where they go.

Numbers go into options of gRPC, which are 32 bits wide, into fields of messages, into timers and
into sums. One that does not fit would be told of where it is used, by a node that has begun to
start, or by each call that it is in. What is sensible is far below; which numbers go together is
their owners' business.

What lives here: the one table of that. What must never live here: a default, or a relation of two
numbers. Called by: `config`, `founding_records`; `stated`, for settings that come while a cluster
runs. Total but for InvalidRequest.
"""

from __future__ import annotations

from dataclasses import fields

from raftbatch.errors import InvalidRequest
from raftbatch.settings import Model, Policy, TenantLimits
from raftbatch.tables import Table

INT32_MAX = (1 << 31) - 1
UINT32_MAX = (1 << 32) - 1
YEAR_MS = 366 * 86_400_000

UNITS = {"microseconds": YEAR_MS * 1000, "ms": YEAR_MS, "bytes": 1 << 50, "": INT32_MAX}
"""By the unit in a key's name; a number without a unit counts things."""

OWN = {
    # Options of gRPC.
    "server.calls_max": INT32_MAX,
    "server.connections_max": INT32_MAX,
    "server.connection_idle_ms_max": INT32_MAX,
    "server.connection_age_ms_max": INT32_MAX,
    "server.connection_grace_ms_max": INT32_MAX,
    "server.message_bytes_max": INT32_MAX,
    # Fields of messages.
    "leader.lease_ms": UINT32_MAX,
    "leader.retry_ms": UINT32_MAX,
    # Lengths in the frames of peers.
    "transport.message_bytes_max": INT32_MAX,
    # An entry travels in a message of a client, and in one of a peer.
    "storage.entry_bytes_max": INT32_MAX,
    "leader.record_bytes_max": INT32_MAX,
}
"""Those that are narrower than their unit."""


def most(table: str, key: str) -> int:
    """Return what a key is at most. Total. Deterministic.

    Args:
        table: its table's name, dotted.
        key: within it.
    """
    words = key.split("_")
    unit = next((unit for unit in UNITS if unit in words), "")
    return OWN.get(f"{table}.{key}", UNITS[unit])


def whole(table: Table, key: str) -> int:
    """Return a whole number of a table, within its bound.

    Raises:
        InvalidRequest: it is none, or more; the message names file, key and bound.
    """
    value = table.whole(key, 0)
    problem = _beyond(table.name, key, value)
    if problem:
        raise table.wrong(key, problem)
    return value


def check(table: str, settings: Policy | TenantLimits | Model) -> None:
    """Hold settings that come from elsewhere than a file against the same bounds.

    Args:
        table: what a file would call them, dotted.
        settings: whose numbers.

    Raises:
        InvalidRequest: definite; one is beyond its bound; the message names both.
    """
    for each in fields(settings):
        value = getattr(settings, each.name)
        for one in value if isinstance(value, tuple) else (value,):
            if type(one) is int and (problem := _beyond(table, each.name, one)):
                raise InvalidRequest(f"{table}.{each.name} {problem}")


def _beyond(table: str, key: str, value: int) -> str:
    bound = most(table, key)
    return f"is {value}, which is more than {bound}" if value > bound else ""
