"""Who calls, and how many sessions and other calls each may have."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.config import ServerLimits, SessionLimits
from coordinator.rpc.callers import caller, open_calls, open_sessions
from raftbatch.errors import Overloaded


class Call:
    """What gRPC knows of a call."""

    def __init__(self, peer: str, *names: bytes) -> None:
        self._peer = peer
        self._names = names

    def peer(self) -> str:
        """Return from where it comes."""
        return self._peer

    def auth_context(self) -> dict[str, Any]:
        """Return what its certificate says."""
        return {"x509_common_name": self._names} if self._names else {}


def test_caller_is_its_certificate_or_its_machine() -> None:
    calls = [Call("ipv4:10.0.0.1:5", b"web"), Call("ipv4:10.0.0.2:5", b"web")]
    assert {caller(each) for each in calls} == {"certificate web"}  # type: ignore[arg-type]
    machines = [Call("ipv4:10.0.0.1:5"), Call("ipv4:10.0.0.1:6"), Call("ipv6:%5B::1%5D:5")]
    found = [caller(each) for each in machines]  # type: ignore[arg-type]
    assert found == ["ipv4:10.0.0.1", "ipv4:10.0.0.1", "ipv6:%5B::1%5D"]


def test_no_caller_takes_all_sessions() -> None:
    sessions = open_sessions(SessionLimits(sessions_max=3, caller_sessions_max=2))
    sessions.begin("a")
    sessions.begin("a")
    with pytest.raises(Overloaded, match=r"2 sessions of a are open.*caller_sessions_max") as found:
        sessions.begin("a")
    assert found.value.retry_after_ms > 0
    sessions.begin("b")
    for who in ("b", "c"):
        with pytest.raises(Overloaded, match="3 sessions are open"):
            sessions.begin(who)
    sessions.end("a")
    sessions.begin("c")
    sessions.end("b")
    sessions.begin("a")
    assert sessions._of == {"a": 2, "c": 1}


def test_no_caller_takes_all_calls() -> None:
    calls = open_calls(ServerLimits(client_calls_max=3, caller_calls_max=2))
    calls.begin("a")
    calls.begin("a")
    with pytest.raises(Overloaded, match=r"2 calls of a are open.*caller_calls_max.*use a session"):
        calls.begin("a")
    calls.begin("b")
    with pytest.raises(Overloaded, match="3 calls are open: use a session"):
        calls.begin("c")
