"""The guard of a port: so many connections, so long, so many bytes; and all else is handed on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from chaos.worlds.loop import VirtualLoop
from coordinator.rpc.guard import Bounds, Guard, Guarded


class Transport(asyncio.Transport):
    """A transport that remembers how it ended."""

    is_aborted = False

    def abort(self) -> None:
        """Remember that."""
        self.is_aborted = True


class Inner(asyncio.Protocol):
    """A library's protocol that remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember it, as all below."""
        self.told.append("made")

    def data_received(self, data: bytes) -> None:
        self.told.append(data)

    def eof_received(self) -> None:
        self.told.append("eof")

    def pause_writing(self) -> None:
        self.told.append("pause")

    def resume_writing(self) -> None:
        self.told.append("resume")

    def connection_lost(self, error: Exception | None) -> None:
        self.told.append(error)


class Scene:
    """A guard, its connections, and what the library was told of each."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._process = loop.spawn("n1")
        self.inner: list[Inner] = []
        self.guard = Guard(self._make, Bounds(2, 5.0, 10))

    def _make(self) -> Inner:
        self.inner.append(Inner())
        return self.inner[-1]

    def connect(self) -> tuple[Guarded, Transport]:
        """Make a connection."""
        guarded, transport = self.guard(), Transport()
        self._process.call(guarded.connection_made, transport)
        return guarded, transport


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    with VirtualLoop() as loop:
        yield loop


def test_what_comes_is_handed_on(loop: VirtualLoop) -> None:
    scene = Scene(loop)
    guarded, transport = scene.connect()
    guarded.data_received(b"12345")
    guarded.pause_writing()
    guarded.resume_writing()
    guarded.eof_received()
    error = OSError()
    guarded.connection_lost(error)
    assert scene.inner[0].told == ["made", b"12345", "pause", "resume", "eof", error]
    assert not transport.is_aborted
    assert not scene.guard.open
    loop.run_for(10)
    assert scene.guard.cut == {"full": 0, "slow": 0, "long": 0}, "its time is over with it"


def test_connection_ends_with_its_time(loop: VirtualLoop) -> None:
    scene = Scene(loop)
    guarded, transport = scene.connect()
    loop.run_for(4.9)
    guarded.data_received(b"1")  # which gives it no more of it
    loop.run_for(0.2)
    assert transport.is_aborted
    assert scene.guard.cut["slow"] == 1


def test_more_bytes_than_may_be_are_not_handed_on(loop: VirtualLoop) -> None:
    scene = Scene(loop)
    guarded, transport = scene.connect()
    ends = []
    for data in (bytes(10), b"1"):
        guarded.data_received(data)
        ends.append(transport.is_aborted)
    assert ends == [False, True]
    assert scene.inner[0].told == ["made", bytes(10)]
    assert scene.guard.cut["long"] == 1


def test_connection_beyond_the_limit_ends_the_oldest(loop: VirtualLoop) -> None:
    scene = Scene(loop)
    guarded, transports = zip(*[scene.connect() for _ in range(4)], strict=True)
    assert [each.is_aborted for each in transports] == [True, True, False, False]
    assert (len(scene.guard.open), scene.guard.cut["full"]) == (2, 2)
    for each in guarded[:2]:
        each.connection_lost(None)
    guarded[2].connection_lost(None)
    _, fifth = scene.connect()
    assert [each.is_aborted for each in (transports[3], fifth)] == [False, False]
    assert [each.told for each in scene.inner] == [["made", None]] * 3 + [["made"]] * 2


def test_end_of_the_port_cuts_all(loop: VirtualLoop) -> None:
    scene = Scene(loop)
    ends = [scene.connect()[1] for _ in range(2)]
    scene.guard.close()
    assert [each.is_aborted for each in ends] == [True, True]
