"""One core of three over fakes, for unit tests: events go in, messages come out.

What lives here: `Bench`. What must never live here: a disk, or a second core.
Called by: unit tests of the core and of its shell.
"""

from __future__ import annotations

from coordinator.raft.core import Core
from coordinator.raft.election import Phase
from coordinator.raft.messages import AppendEntries, AppendReply, Message, PreVoteReply, VoteReply
from coordinator.raft.replication import Window
from coordinator.raft.standing import Role
from coordinator.raft.timing import MS, Timing
from raftbatch.ids import NodeId
from tests.scenarios.fakes import N1, N2, N3, FakeFetch, FakeLog, FakeStore, taken

T = Timing()


class Bench:
    """See the module's docstring: n1 of three."""

    def __init__(self, log: FakeLog | None = None, store: FakeStore | None = None) -> None:
        self.log = log or FakeLog(1, 1)
        self.store = store or FakeStore()
        self.fetch = FakeFetch()
        self.now_ns = 0
        self.may_lead = True
        self.installed = 0
        self.core = Core(
            N1,
            1,
            self.log,
            self.store,
            self.fetch,
            T,
            Window(message_bytes_max=1),
            lambda bound: 0,
            lambda: self.may_lead,
            self._has_installed,
            0,
        )
        for peer in (N2, N3):
            self.core.connected(0, peer, 1)

    def _has_installed(self) -> None:
        self.installed += 1

    def role(self) -> Role:
        """Its role."""
        return self.core.standing.role

    def receive(self, sender: str, message: Message) -> None:
        """Receive a message."""
        self.core.receive(self.now_ns, NodeId(sender), message)

    def sent(self) -> list[tuple[NodeId, Message]]:
        """Take what was sent."""
        return taken(self.core.standing)

    def pass_ms(self, duration_ms: int, step_ms: int = 50) -> None:
        """Let time pass, with a tick each so many ms."""
        for _ in range(duration_ms // step_ms):
            self.now_ns += step_ms * MS
            self.core.tick(self.now_ns)

    def lead(self) -> None:
        """Become the leader of term 2."""
        while self.core.election.phase is Phase.WAITING:
            self.pass_ms(50)
        self.receive("n2", PreVoteReply(2, True, 1))
        self.receive("n2", VoteReply(2, True))
        assert self.role() is Role.LEADER
        self.sent()

    def acknowledge(self, sender: str, match: int, round_: int = 0) -> None:
        """Receive an acknowledgement."""
        self.receive(sender, AppendReply(self.core.standing.term, match, 0, 0, 0, round_))


def heartbeat(term: int, commit: int = 0) -> AppendEntries:
    """Return one that follows n1's log."""
    return AppendEntries(term, 2, 1, (), commit, 1)
