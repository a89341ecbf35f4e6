"""What the replicated log can be told to do otherwise.

What lives here: its settings. What must never live here: what follows from them.
Called by: `log`, `driver`, configuration. Total. Deterministic.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from coordinator.raft.replication import Window
from coordinator.raft.timing import Timing


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Settings of the replicated log.

    Attributes:
        timing: timers.
        window: how much is under way to a follower.
        snapshot_bytes_min: entries applied since the last snapshot, in bytes, before
            another is taken; or twice the last snapshot's size, if that is more. An entry
            counts as 1,024 at least. Smaller ones restart faster and write more.
        stagger_bytes: added for each place of this node in the order of ids, and
            for the leader once more than all, so that nodes do not pause together.
    """

    timing: Timing = field(default_factory=Timing)
    window: Window = field(default_factory=Window)
    snapshot_bytes_min: int = 64 << 20
    stagger_bytes: int = 8 << 20
