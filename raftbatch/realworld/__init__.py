"""The real world: the operating system behind the ports of `raftbatch.world`.

What lives here: the one package where the product calls `os`, sockets, threads
and clocks. What must never live here: a decision. Called by: composition roots
and offline tools; everything below them is handed the ports.
"""

from __future__ import annotations

from raftbatch.realworld.connection import RealConnection
from raftbatch.realworld.files import GivenFiles, RealFile, RealFiles, RealLock
from raftbatch.realworld.network import RealListener, RealNetwork
from raftbatch.realworld.process import RealClock, RealEntropy, RealProcess, RealWorker, RealWorkers
from raftbatch.realworld.tls import RealTLS, load_tls

__all__ = [
    "GivenFiles",
    "RealClock",
    "RealConnection",
    "RealEntropy",
    "RealFile",
    "RealFiles",
    "RealListener",
    "RealLock",
    "RealNetwork",
    "RealProcess",
    "RealTLS",
    "RealWorker",
    "RealWorkers",
    "RealWorld",
    "load_tls",
]


class RealWorld:
    """All real ports."""

    def __init__(self) -> None:
        self.clock = RealClock()
        self.entropy = RealEntropy()
        self.files = RealFiles()
        self.workers = RealWorkers()
        self.network = RealNetwork()
