"""A cluster of real processes on loopback: nothing here needs root, and no network can be cut.

What lives here: `raftbatch.local.LocalCluster` as a world. What must never live here: a fault that
it cannot make. Called by: `chaos.running`.
"""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

from raftbatch.local import LocalCluster


class LoopbackWorld(LocalCluster):
    """See the module's docstring. A paused process is woken before it is ended.

    Args:
        directory: where all of it is.
        config: the cluster's.
    """

    def __init__(self, directory: Path, config: Path) -> None:
        super().__init__(directory, config=config)
        self._paused: set[str] = set()

    def leader(self, timeout_s: float = 0.0) -> str | None:  # type: ignore[override]
        """Return who leads now, as a majority says; None: nobody."""
        return self.look_for_leader() or None

    def pause(self, name: str) -> None:
        """Let a process stand still."""
        if self.is_alive(name):
            self._paused.add(name)
            os.kill(self.pid(name), signal.SIGSTOP)

    def resume(self, name: str) -> None:
        """Let it go on."""
        if name in self._paused:
            self._paused.discard(name)
            if self.is_alive(name):
                os.kill(self.pid(name), signal.SIGCONT)

    def close(self, timeout_s: float = 15.0) -> None:
        """End all of it."""
        for name in tuple(self._paused):
            self.resume(name)
        super().close(timeout_s)

    def wipe(self, node: str) -> None:
        """Remove the data of a node that has ended."""
        shutil.rmtree(self.data_dir(node))
