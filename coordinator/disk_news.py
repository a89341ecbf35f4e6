"""What a node's log file says of the room on its disk: a line for each change, from the start on.

    disk.filled    less is free than one of the two bounds; with what is refused meanwhile
    disk.freed     there is more room again; with what is refused still, if anything

What lives here: one timer, and those lines. What must never live here: what follows from it
(`raft.journal`, `leader`). Called by: the composition root. One thread: the loop's.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from coordinator.raft.segments.limits import JournalLimits, Space
from coordinator.raft.segments.writer import Disk
from raftbatch.ids import Identity
from raftbatch.logs import fields

_LOG = logging.getLogger(__name__)

LOOK_S = 5.0
"""A disk at a bound crosses it often: that is a line in so many seconds at most."""

_REFUSED = {
    Space.ROOMY: "",
    Space.LOW: "new requests, where this node leads (no_space)",
    Space.RESERVE: "all entries: this node leads no more, and stands for nobody (no_space)",
}


class Log(Protocol):
    """What is looked at of a `ReplicatedLog`; see there."""

    @property
    def identity(self) -> Identity:
        """Whose log it is."""
        ...

    @property
    def space(self) -> Space:
        """How much room the disk has left."""
        ...

    @property
    def disk(self) -> Disk:
        """What the writing thread has seen of the disk."""
        ...


class DiskNews:
    """See the module's docstring.

    Args:
        log: that is looked at.
        directory: of the node's data.
        limits: the two bounds.
    """

    def __init__(self, log: Log, directory: str, limits: JournalLimits) -> None:
        self._log = log
        self._directory = directory
        self._limits = limits
        self._said = Space.ROOMY
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Look now, and again and again."""
        self._look()
        self._timer = asyncio.get_running_loop().call_later(LOOK_S, self.begin)

    def end(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        """Say what has changed since the last look."""
        said, space = self._said, self._log.space
        self._said = space
        if space is not said:
            _LOG.log(
                logging.INFO if space is Space.ROOMY else logging.WARNING,
                "disk.filled" if space > said else "disk.freed",
                extra=fields(
                    node=self._log.identity.node_id,
                    directory=self._directory,
                    free_bytes=self._log.disk.space_left,
                    disk_low_bytes=self._limits.disk_low_bytes,
                    disk_reserve_bytes=self._limits.disk_reserve_bytes,
                    space=space.name.lower(),
                    refused=_REFUSED[space],
                ),
            )
