"""Who calls: by its certificate, or by its machine; and how many sessions each has.

What lives here: that. What must never live here: what a caller may do (`rights`). Called by:
the gateway, `rights`. One thread: the loop's.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import grpc.aio

from coordinator.config import SessionLimits
from raftbatch.errors import Overloaded

Context = grpc.aio.ServicerContext[Any, Any]

_RETRY_MS = 100
_FULL_RETRY_MS = 1000


def certificate(context: Context) -> tuple[str | None, list[str]]:
    """Return the common name and the URIs of the certificate that the caller has shown."""
    found = context.auth_context()
    names = [each.decode(errors="replace") for each in found.get("x509_common_name", ())]
    uris = [each.decode(errors="replace") for each in found.get("peer_uri", ())]
    return names[0] if len(names) == 1 else None, uris


def caller(context: Context) -> str:
    """Return how to call who calls: by its certificate's name, or else by its machine."""
    name, _ = certificate(context)
    return f"certificate {name}" if name else context.peer().rpartition(":")[0]


class OpenSessions:
    """Counts the sessions that are open, by caller.

    Args:
        limits: bounds.
    """

    def __init__(self, limits: SessionLimits) -> None:
        self._limits = limits
        self._total = 0
        self._of: Counter[str] = Counter()

    def begin(self, who: str) -> None:
        """Count one more.

        Raises:
            Overloaded: definite; there are as many as may be, of all or of this caller.
        """
        limits = self._limits
        if self._total >= limits.sessions_max:
            raise Overloaded(
                f"{self._total} sessions are open: use one of them for many requests",
                retry_after_ms=_RETRY_MS,
            )
        if self._of[who] >= limits.caller_sessions_max:
            raise Overloaded(
                f"{self._of[who]} sessions of {who} are open, as many as one caller may have "
                "(sessions.caller_sessions_max): use one of them for many requests",
                retry_after_ms=_FULL_RETRY_MS,
            )
        self._total += 1
        self._of[who] += 1

    def end(self, who: str) -> None:
        """Count one less."""
        self._total -= 1
        self._of[who] -= 1
        if not self._of[who]:
            del self._of[who]
