"""The pulse: how late the loop is, and what was committed a moment ago."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chaos.worlds.loop import VirtualLoop
from coordinator.pulse import BEAT_S, Pulse
from coordinator.raft.spread import MS


class Clock:
    """The loop's time, and what a test adds to it."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self.late_ns = 0

    def monotonic_ns(self) -> int:
        """Return it."""
        return self._loop.now_ns + self.late_ns

    def wall_ms(self) -> int:
        """Return none."""
        return 0


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    with VirtualLoop() as loop:
        yield loop


def test_lag_is_by_how_much_a_beat_is_late(loop: VirtualLoop) -> None:
    clock = Clock(loop)
    pulse = Pulse(clock, lambda: 0)
    loop.spawn("n1").call(pulse.begin)
    loop.run_for(10.5 * BEAT_S)
    assert (pulse.lag_ns.count, pulse.lag_ns.total) == (10, 0)
    clock.late_ns += 30 * MS
    loop.run_for(BEAT_S)
    assert (pulse.lag_ns.count, pulse.lag_ns.total) == (11, 30 * MS)
    pulse.end()
    loop.run_for(10 * BEAT_S)
    assert pulse.lag_ns.count == 11


def test_committed_is_one_to_two_seconds_old(loop: VirtualLoop) -> None:
    commit = 5
    pulse = Pulse(Clock(loop), lambda: commit)
    loop.spawn("n1").call(pulse.begin)
    loop.run_for(1.05)
    assert pulse.committed == 0, "a node that has just begun is not held to what it found"
    commit = 7
    loop.run_for(1)
    assert pulse.committed == 5
    loop.run_for(1)
    assert pulse.committed == 7
