"""The pulse of a node: how late its loop is, and how far the log was committed a moment ago.

What lives here: one timer, and what it sees. What must never live here: what follows
from it. Called by: the HTTP port; read by metrics and readiness. One thread: the loop's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from coordinator.raft.spread import MS, S, Spread
from raftbatch.world import Clock

BEAT_S = 0.1
"""Ten wake-ups a second: some ten microseconds of work."""

_BEATS_OF_COMMIT = 10  # so many beats old, and at most twice that, is what `committed` says


class Pulse:
    """See the module's docstring.

    Args:
        clock: of this node.
        commit: returns the highest index that is known to be committed.

    Attributes:
        lag_ns: by how much the loop was late, at each beat.
        committed: an index that was committed one to two seconds ago: whoever has applied
            no further is behind.
    """

    def __init__(self, clock: Clock, commit: Callable[[], int]) -> None:
        self.lag_ns = Spread((MS, 5 * MS, 10 * MS, 25 * MS, 50 * MS, 100 * MS, 250 * MS, S, 5 * S))
        self.committed = 0
        self._clock = clock
        self._commit = commit
        self._newer = 0
        self._beats = 0
        self._due_ns = 0
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Beat from now on."""
        self._wait()

    def end(self) -> None:
        """Beat no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _wait(self) -> None:
        self._due_ns = self._clock.monotonic_ns() + int(BEAT_S * S)
        self._timer = asyncio.get_running_loop().call_later(BEAT_S, self._beat)

    def _beat(self) -> None:
        self.lag_ns.add(max(0, self._clock.monotonic_ns() - self._due_ns))
        self._beats += 1
        if self._beats % _BEATS_OF_COMMIT == 0:
            self.committed, self._newer = self._newer, self._commit()
        self._wait()
