"""A node of stock pysyncobj 0.3.17 in the simulated world, its files modelled as they behave.

Its journal never syncs: a kill leaves all that was written, a power cut takes any
number of the last changes, and the vote apart from them. Compaction clears the
journal and writes it anew. Its dump is a real file, in a folder of the run's, and
loses nothing, which is kinder than the world.

What lives here: the node, its journal and transport, and what pysyncobj must be
told of time and chance. What must never live here: a check, or a mended fault.
Called by: `chaos.suites.raft_stock`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any

from pysyncobj import SyncObj, SyncObjConf, replicated, syncobj
from pysyncobj.journal import Journal
from pysyncobj.transport import Transport

from chaos.worlds.ends import Port
from chaos.worlds.loop import VirtualLoop
from coordinator.raft.syncobj import Peer
from raftbatch.ids import NodeId

_CLOCK_READ_S = 0.0002  # virtual time passes as the clock is read, or its busy loops never end


class StockDisk:
    """What a machine keeps of a journal: as written, and as last surely on disk."""

    def __init__(self, rng: Random) -> None:
        self.entries: list[Any] = []
        self.meta: dict[str, Any] = {}
        self.changes: list[Callable[[list[Any]], None]] = []
        self.metas: list[dict[str, Any]] = [{}]
        self._rng = rng
        self._kept: list[Any] = []

    def change(self, change: Callable[[list[Any]], None]) -> None:
        """Change the entries."""
        change(self.entries)
        self.changes.append(change)

    def lose_power(self) -> None:
        """Keep any number of the changes since the last time, and any of the metas."""
        kept = list(self._kept)
        for change in self.changes[: self._rng.randint(0, len(self.changes))]:
            change(kept)
        self.entries = kept
        self.meta = dict(self._rng.choice(self.metas))
        self._kept = list(kept)
        self.changes, self.metas = [], [dict(self.meta)]


class StockJournal(Journal):
    """pysyncobj's FileJournal as its files behave; the names are the base's."""

    def __init__(self, disk: StockDisk) -> None:
        self._disk = disk
        self._meta = dict(disk.meta)

    def add(self, command: bytes, idx: int, term: int) -> None:
        """Append."""
        entry = (command, idx, term)
        self._disk.change(lambda entries: entries.append(entry))

    def clear(self) -> None:
        """Remove all."""
        self._disk.change(lambda entries: entries.clear())

    def deleteEntriesFrom(self, entryFrom: int) -> None:  # noqa: N802, N803
        """Remove the end."""
        self._disk.change(lambda entries: entries.__delitem__(slice(entryFrom, None)))

    def deleteEntriesTo(self, entryTo: int) -> None:  # noqa: N802, N803
        """Remove the beginning: as the original does, all of it first."""
        rest = self._disk.entries[entryTo:]
        self.clear()
        for entry in rest:
            self.add(*entry)

    def __getitem__(self, idx: Any) -> Any:
        """Return entries by position."""
        return self._disk.entries[idx]

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._disk.entries)

    def _destroy(self) -> None:
        pass

    def setRaftCommitIndex(self, raftCommitIndex: int) -> None:  # noqa: N802, N803
        """Note the commit index; written once a second."""
        self._meta["commit"] = raftCommitIndex

    def getRaftCommitIndex(self) -> int:  # noqa: N802
        """Return it."""
        return int(self._meta.get("commit", 1))

    def setCurrentTerm(self, term: int, votedForNodeId: object = None) -> None:  # noqa: N802, N803
        """Write term and vote."""
        self._meta |= {"term": term, "vote": votedForNodeId}
        self.onOneSecondTimer()

    def getCurrentTerm(self) -> int:  # noqa: N802
        """Return the term."""
        return int(self._meta.get("term", 0))

    def getVotedForNodeId(self) -> object:  # noqa: N802
        """Return the vote."""
        return self._meta.get("vote")

    def onOneSecondTimer(self) -> None:  # noqa: N802
        """Write the meta file."""
        self._disk.meta = dict(self._meta)
        self._disk.metas.append(dict(self._meta))


class _Transport(Transport):
    """pysyncobj's transport over a port."""

    def __init__(self, port: Port) -> None:
        super().__init__(None, None, [])
        self._port = port

    def send(self, node: Peer, message: object) -> bool:
        """Send."""
        peer = NodeId(node.id)
        self._port.send(peer, message)
        return self._port.is_connected(peer)


class StockNode(SyncObj):
    """A list of numbers.

    Attributes:
        led_term, seen_commit: the checker's.
        applied: the list.
    """

    def __init__(
        self,
        node: NodeId,
        nodes: Sequence[NodeId],
        port: Port,
        conf: SyncObjConf,
        applies: Callable[[NodeId, int, bytes], None],
    ) -> None:
        self.led_term = 0
        self.seen_commit = 1
        self.raft_transport = _Transport(port)
        self.applies = applies
        others = [Peer(each) for each in nodes if each != node]
        super().__init__(
            Peer(node), others, conf=conf, nodeClass=Peer, transport=self.raft_transport
        )
        self.applied: list[int] = []  # after the constructor: so it is part of the state

    @replicated  # type: ignore[untyped-decorator]
    def append(self, number: int) -> None:
        """Take in a number."""
        self.applied.append(number)

    @property
    def raft_log(self) -> Any:
        """Its journal."""
        return self._SyncObj__raftLog

    @property
    def raft_state(self) -> int:
        """Its role."""
        return int(self._SyncObj__raftState)

    def _SyncObj__doApplyCommand(self, command: bytes) -> object:  # noqa: N802
        self.applies(NodeId(self.selfNode.id), self.raftLastApplied + 1, bytes(command))
        return SyncObj._SyncObj__doApplyCommand(self, command)

    # As an endpoint of the links.

    def receive(self, peer: NodeId, message: object) -> None:
        """Take a message."""
        self.raft_transport._onMessageReceived(Peer(peer), message)

    @property
    def incarnation(self) -> int:
        """The only one."""
        return 1

    def admits(self, peer: NodeId, incarnation: int) -> str | None:
        """Admit all."""
        return None

    def refused(self, peer: NodeId, why: str) -> None:
        """Nobody is."""

    def connected(self, peer: NodeId, incarnation: int) -> None:
        """Take in a connection."""
        self.raft_transport._onNodeConnected(Peer(peer))

    def disconnected(self, peer: NodeId) -> None:
        """Take in its end."""
        self.raft_transport._onNodeDisconnected(Peer(peer))


class _NoPoller:
    """There is nothing to poll."""

    def subscribe(self, *_: object) -> None:
        """Do nothing."""

    def unsubscribe(self, *_: object) -> None:
        """Do nothing."""

    def poll(self, _: float) -> None:
        """Do nothing."""


@contextmanager
def simulated(loop: VirtualLoop, rng: Random, disks: dict[str, StockDisk]) -> Iterator[None]:
    """Let pysyncobj take time, chance and journals from the simulation meanwhile."""
    latest = 0.0

    def now() -> float:
        nonlocal latest
        latest = max(latest + _CLOCK_READ_S, loop.time())
        return latest

    names = {
        "monotonicTime": now,
        "random": rng,
        "createPoller": lambda _: _NoPoller(),
        "createJournal": lambda path: StockJournal(disks[path]),
    }
    before = {name: getattr(syncobj, name) for name in names}
    level = syncobj.logger.level
    syncobj.logger.setLevel(logging.CRITICAL)  # it warns of each thing that it does wrong
    try:
        for name, value in names.items():
            setattr(syncobj, name, value)
        yield
    finally:
        syncobj.logger.setLevel(level)
        for name, value in before.items():
            setattr(syncobj, name, value)
