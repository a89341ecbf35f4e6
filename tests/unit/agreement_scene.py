"""A node's agreement over a log that a test speaks for, and a replica that is always right.

What must never live here: an expectation.
"""

from __future__ import annotations

import asyncio

from chaos.worlds.loop import VirtualLoop
from coordinator.agreement import Agreement
from coordinator.raft.membership import Membership, founders
from coordinator.raft.messages import Digests
from coordinator.raft.progress import Progress
from coordinator.raft.segments.layout import Entry
from coordinator.raft.standing import Role
from coordinator.replica import Replica
from raftbatch import records as r
from raftbatch.codec import encode_entry
from raftbatch.errors import Fatal
from raftbatch.ids import ClusterId, Identity, NodeId

NAMES = tuple(NodeId(f"n{number}") for number in range(1, 6))
ME, N2, N3, N4, N5 = NAMES


class FakeLog:
    """A log whose members hear nothing; what they are told is kept.

    Attributes:
        told: to whom, and what.
        moved: to whom leadership was to be handed.
        takes: whether an heir takes over; None: it never answers.
    """

    def __init__(self, *voters: NodeId) -> None:
        self.identity = Identity(ClusterId("0" * 32), ME, 1)
        self.role = Role.FOLLOWER
        self.membership: Membership = founders({node: f"{node}:1" for node in voters})
        self.followers: dict[NodeId, Progress] = {}
        self.told: list[tuple[NodeId, Digests]] = []
        self.moved: list[NodeId] = []
        self.takes: bool | Exception | None = True
        self.failure: Fatal | None = None

    def tell(self, peer: NodeId, digests: Digests) -> None:
        """Keep it."""
        self.told.append((peer, digests))

    async def transfer(self, heir: NodeId) -> bool:
        """Move, if the heir takes it."""
        self.moved.append(heir)
        if isinstance(self.takes, Exception):
            raise self.takes
        if self.takes is None:
            await asyncio.get_running_loop().create_future()
        return bool(self.takes)

    def fail(self, error: Fatal) -> None:
        """End."""
        assert self.failure is None
        self.failure = error


class Other:
    """A replica alone: what digests are, with what it applied."""

    def __init__(self) -> None:
        self.replica = Replica()
        self.digests: dict[int, bytes] = {}

    def apply(self, index: int, *records: r.Record) -> None:
        """Apply an entry."""
        self.replica.apply(Entry(index, 1, encode_entry(r.Entry(1, index, records))))
        self.digests[index] = self.replica.digest


class Scene:
    """A node's agreement, and what the log brings it.

    Attributes:
        log, replica, agreement: its parts.
        right: what any replica has at each index.
        retired: how often it was told to answer nobody.
    """

    def __init__(self, loop: VirtualLoop, *voters: NodeId) -> None:
        self.loop = loop
        self.process = loop.spawn("n1")
        self.log = FakeLog(*(voters or (ME, N2, N3)))
        self.replica = Replica()
        self.retired = 0
        self.agreement = Agreement(self.log, self.replica, "/data/n1", self._retire)
        self.replica.listeners.append(self.agreement)
        self.right = Other()
        self.apply(1, r.Lead("n", 0, 1))

    def _retire(self) -> None:
        self.retired += 1

    def apply(self, index: int, *records: r.Record) -> None:
        """Apply an entry, here and where nothing goes wrong."""
        chosen = records or (r.Advance(),)
        self.right.apply(index, *chosen)
        data = encode_entry(r.Entry(1, index, chosen))
        self.process.call(self.replica.apply, Entry(index, 1, data))

    def upto(self, index: int) -> None:
        """Apply plain entries up to an index."""
        for each in range(self.replica.index + 1, index + 1):
            self.apply(each)

    def flip(self) -> None:
        """Let this node's replica be another from now on."""
        digest = bytearray(self.replica.state.digest)
        digest[0] ^= 1
        self.replica.state.digest = bytes(digest)

    def hears(self, peer: NodeId, *indexes: int, wrong: str = "") -> None:
        """Let a member tell what it has: what is right, but where `wrong` says what else."""
        pairs = [
            (index, wrong.encode().ljust(16, b".") if wrong else self.right.digests[index])
            for index in indexes
        ]
        self.process.call(self.agreement.heard, peer, Digests(tuple(pairs)))

    def leads(self, **match: int) -> None:
        """Let this node lead followers that hold so much."""
        self.log.role = Role.LEADER
        for name, index in match.items():
            progress = self.log.followers[NodeId(name)] = Progress(1, 1, 0, True)
            progress.match = index
