"""Who calls: by its certificate, or by its machine; and how many sessions and other calls each has.

What lives here: that. What must never live here: what a caller may do (`rights`). Called by:
the gateway, `rights`. One thread: the loop's.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import grpc.aio

from coordinator.config import ServerLimits, SessionLimits
from coordinator.shares import CALLER
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


def note(context: Context) -> str:
    """Let what is done in this task count as its caller's (`shares`), and return who calls."""
    who = caller(context)
    CALLER.set((who,) if certificate(context)[0] else (who, context.peer()))
    return who


class Open:
    """Counts what is open of a kind, by caller.

    Args:
        kind: in the plural.
        most: of all callers together.
        own: of one caller.
        setting: the name of the latter.
        instead: of one more.
    """

    def __init__(self, kind: str, most: int, own: int, setting: str, instead: str) -> None:
        self._kind, self._setting, self._instead = kind, setting, instead
        self._most, self._own = most, own
        self._total = 0
        self._of: Counter[str] = Counter()

    def begin(self, who: str) -> None:
        """Count one more.

        Raises:
            Overloaded: definite; there are as many as may be, of all or of this caller.
        """
        if self._total >= self._most:
            raise Overloaded(
                f"{self._total} {self._kind} are open: {self._instead}", retry_after_ms=_RETRY_MS
            )
        if self._of[who] >= self._own:
            raise Overloaded(
                f"{self._of[who]} {self._kind} of {who} are open, as many as one caller may have "
                f"({self._setting}): {self._instead}",
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


def open_sessions(limits: SessionLimits) -> Open:
    """Return the count of sessions, within these bounds."""
    setting = "sessions.caller_sessions_max"
    instead = "use one of them for many requests"
    return Open("sessions", limits.sessions_max, limits.caller_sessions_max, setting, instead)


def open_calls(limits: ServerLimits) -> Open:
    """Return the count of clients' other calls, within these bounds."""
    setting = "server.caller_calls_max"
    instead = "use a session for many requests"
    return Open("calls", limits.client_calls_max, limits.caller_calls_max, setting, instead)
