"""What a cluster of real processes is to whoever runs workloads and nemeses over it.

What lives here: that, as a protocol. What must never live here: how one is made. Called by:
`chaos.running`, workloads, nemeses.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from raftbatch.v1.admin_pb2 import StatusReply

Heal = Callable[[], None]
"""Undoes a fault. Harmless when it is called twice."""


class World(Protocol):
    """Nodes and executors, by their names. All calls block, and any thread may make them."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of the nodes."""
        ...

    @property
    def executors(self) -> tuple[str, ...]:
        """Names of the executors."""
        ...

    @property
    def addresses(self) -> tuple[str, ...]:
        """Client addresses of the nodes, that the harness reaches."""
        ...

    def start(self) -> None:
        """Start all that does not run."""
        ...

    def wait_ready(self, timeout_s: float = ...) -> None:
        """Wait until all nodes serve, one leads, and all executors have joined."""
        ...

    def leader(self) -> str | None:
        """Return who leads, of those that answer; None: nobody says so."""
        ...

    def statuses(self, timeout_s: float = ...) -> Mapping[str, StatusReply]:
        """Return what those nodes say that answer soon."""
        ...

    def is_alive(self, name: str) -> bool:
        """Return whether a process was begun, and has not ended."""
        ...

    def kill(self, name: str) -> None:
        """End a process at once."""
        ...

    def pause(self, name: str) -> None:
        """Let a process stand still."""
        ...

    def resume(self, name: str) -> None:
        """Let it go on."""
        ...

    def terminate(self, name: str) -> int:
        """Stop a process in good order; return its exit status."""
        ...

    def restart(self, name: str) -> None:
        """Start a process after its end."""
        ...

    def log_file(self, name: str) -> Path:
        """Return the log file of a process."""
        ...

    def data_dir(self, node: str) -> Path:
        """Return the data directory of a node."""
        ...

    def close(self) -> None:
        """End all of it."""
        ...


class Nemesis(Protocol):
    """A fault, by its name."""

    @property
    def name(self) -> str:
        """What it is called by."""
        ...

    @property
    def description(self) -> str:
        """What it does, in a line."""
        ...

    def act(self, world: World, rng: random.Random) -> Heal:
        """Do it; return what heals it."""
        ...
