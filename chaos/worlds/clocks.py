"""Clocks of a simulated machine: all derive from the loop's virtual time, and each lies in its way.

What lives here: a process's monotonic clock with an origin of its own, and a
machine's wall clock, which may jump and run fast or slow. What must never live
here: real time. Called by: `chaos.worlds.sim`.
"""

from __future__ import annotations

from random import Random

from chaos.worlds.loop import VirtualLoop

_WALL_MS = 1_700_000_000_000  # a day in 2023: what a wall clock shows when virtual time is 0
_MS = 1_000_000
_UPTIME_NS_MAX = 30 * 24 * 3600 * 1_000_000_000  # a month: readings of two processes differ widely


class WallClock:
    """A machine's wall clock; it goes on while the machine's processes die."""

    def __init__(self, loop: VirtualLoop, rng: Random) -> None:
        self._loop = loop
        self._rate = 1.0
        self._since_ns = loop.now_ns
        self._then_ms = _WALL_MS + loop.now_ns // _MS + rng.randint(-500, 500)

    def read_ms(self) -> int:
        """Return what it shows."""
        passed_ms = (self._loop.now_ns - self._since_ns) / _MS
        return self._then_ms + int(passed_ms * self._rate)

    def jump(self, distance_ms: int) -> None:
        """Set it forward or back."""
        self._set(self.read_ms() + distance_ms, self._rate)

    def run_at(self, rate: float) -> None:
        """Let it run fast (above 1), slow, or stand still (0) from now on."""
        self._set(self.read_ms(), rate)

    def _set(self, wall_ms: int, rate: float) -> None:
        self._since_ns, self._then_ms, self._rate = self._loop.now_ns, wall_ms, rate


class SimClock:
    """`raftbatch.world.Clock` of one process."""

    def __init__(self, loop: VirtualLoop, rng: Random, wall: WallClock) -> None:
        self._loop = loop
        self._wall = wall
        self._origin_ns = rng.randint(1, _UPTIME_NS_MAX)

    def monotonic_ns(self) -> int:
        """Return virtual time since an origin that only this process knows."""
        return self._origin_ns + self._loop.now_ns

    def wall_ms(self) -> int:
        """Return what the machine's wall clock shows."""
        return self._wall.read_ms()
