"""A cluster whose every step is taken by hand: nodes, links, time, and what must always hold.

What lives here: queues of messages, who is connected, and the checks after each
event: one leader a term, the same entry at an index on all that apply it,
committed means durable on a majority. What must never live here: a command
(`language`), a node's inside (`node`). Called by: `language`, unit tests.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from chaos.worlds.stepped import StepClock
from coordinator.raft.membership import founders
from coordinator.raft.messages import AppendEntries, Message
from coordinator.raft.replication import Window
from coordinator.raft.standing import Role
from coordinator.raft.timing import MS
from raftbatch.ids import NodeId
from tests.scenarios.node import Node
from tests.scenarios.words import in_words

_STEP_MS = 5
_TICKS_MAX = 100  # each of 50 ms at most, before a timer fires
_MESSAGES_MAX = 2000
"""Delivered by one `stabilize`: more is a storm, which is a failure."""


class Broken(AssertionError):
    """What must always hold does not."""


class Cluster:
    """See the module's docstring.

    Args:
        names: of the nodes that found it: voters.
        window: how much is under way to a follower.
        piece_bytes: of a snapshot, in one message.

    Attributes:
        nodes: by id, in order.
        trace: what has happened, for the caller to take.
        queues: by (sender, receiver): what is under way.
        muted: directions in which messages vanish without a sign.
        sent_total: messages that were sent, ever.
        is_quiet: whether messages are left out of the trace.
    """

    def __init__(
        self, names: Sequence[str], window: Window | None = None, piece_bytes: int = 1 << 20
    ) -> None:
        self.clock = StepClock()
        self.window = window or Window()
        self.piece_bytes = piece_bytes
        ids = [NodeId(name) for name in sorted(names)]
        self.founders = founders({each: f"{each}:1" for each in ids})
        self.trace: list[str] = []
        self.muted: set[tuple[str, str]] = set()
        self.sent_total = 0
        self.is_quiet = False
        self.leaders: dict[int, NodeId] = {}
        self._started_ns = self.clock.monotonic_ns()
        self._cut: set[frozenset[str]] = set()
        self._committed: dict[int, int] = {}  # index to term
        self.nodes = {each: Node(self, each) for each in ids}
        pairs = [(a, b) for a in ids for b in ids if a != b]
        self.queues: dict[tuple[str, str], deque[Message]] = {pair: deque() for pair in pairs}
        self._connected: set[tuple[str, str]] = set()
        for each in ids:
            self.start(each)
        self.trace.clear()

    def __getitem__(self, name: str) -> Node:
        """Return a node."""
        return self.nodes[NodeId(name)]

    # What a node needs of it.

    def send(self, sender: NodeId, to: NodeId, message: Message) -> None:
        """Put a message under way, where there is a connection."""
        self.sent_total += 1
        if (sender, to) in self._connected and (sender, to) not in self.muted:
            self.queues[sender, to].append(message)

    def tell(self, line: str) -> None:
        """Add a line to the trace."""
        if self.is_quiet:
            passed_ms = (self.clock.monotonic_ns() - self._started_ns) // MS
            line = f"+{passed_ms} ms {line}"
        self.trace.append(line)

    def stopped(self, node: Node) -> None:
        """Break the connections of a node that runs no more."""
        for other in self.nodes:
            if other != node.id:
                self._break(node.id, other)

    def check(self, node: Node) -> None:
        """See the module's docstring.

        Raises:
            Broken: it does not hold.
        """
        standing = node.running.standing
        if standing.role is Role.LEADER:
            other = self.leaders.setdefault(standing.term, node.id)
            if other != node.id:
                raise Broken(f"{other} and {node.id} both lead term {standing.term}")
        terms = node.terms()
        for index, term in terms.items():
            if 0 < index <= standing.commit and self._committed.setdefault(index, term) != term:
                raise Broken(
                    f"{node.id} has {index}@{term} committed, "
                    f"another had {index}@{self._committed[index]}"
                )
        for index in range(node.data.journal.first_index, standing.commit + 1):
            holders = [
                other.id
                for other in self.nodes.values()
                if other.durable_terms().get(index) == terms[index]
                or min(other.durable_terms(), default=0) > index
            ]
            # Once the membership has changed, only the leader's own can be held against this.
            voters = {*standing.membership.voters}
            is_telling = standing.role is Role.LEADER or standing.membership == self.founders
            if is_telling and len(voters & {*holders}) <= len(voters) // 2:
                raise Broken(f"{node.id} has {index} committed, which only {holders} hold")

    # Steps.

    def start(self, name: str) -> None:
        """Start a node that is down, and connect it to who is up."""
        node = self[name]
        node.start()
        for other in self.nodes:
            self._join(node.id, other)

    def cut(self, a: str, b: str) -> None:
        """Break the connection, which both notice, and let there be none."""
        self._cut.add(frozenset((a, b)))
        self._break(NodeId(a), NodeId(b))

    def join(self, a: str, b: str) -> None:
        """Let there be a connection again."""
        self._cut.discard(frozenset((a, b)))
        self._join(NodeId(a), NodeId(b))

    def deliver(self, sender: str, to: str, most: int = 1 << 30) -> int:
        """Deliver what is under way between two nodes; return how much."""
        queue = self.queues[sender, to]
        count = min(len(queue), most)
        for _ in range(count):
            if not queue:
                break  # the connection broke
            self.hand_in(sender, to, queue.popleft())
        return count

    def hand_in(self, sender: str, to: str, message: Message) -> None:
        """Let a node receive a message."""
        if not self.is_quiet:
            self.tell(f"{sender} -> {to} {in_words(message)}")
        node = self[to]
        if node.core is None:
            return
        core = node.running
        self._check_one_sender(sender, message)
        node.event(lambda: core.receive(node.now_ns, NodeId(sender), message))

    def stabilize(self, *among: str) -> None:
        """Deliver everything, and what it brings about, without letting time pass.

        Raises:
            Broken: there is no end to it.
        """
        for _ in range(_MESSAGES_MAX):
            pairs = [
                pair
                for pair, queue in self.queues.items()
                if queue and (not among or {*pair} <= {*among})
            ]
            if not pairs:
                return
            self.deliver(*pairs[0], 1)
        raise Broken(f"{_MESSAGES_MAX} messages, and no end")

    def run(self, duration_ms: int, *paused: str) -> None:
        """Let time pass: nodes tick when they are due, messages take 5 ms. Prints changes only."""
        self.is_quiet, was_quiet = True, self.is_quiet
        for _ in range(duration_ms // _STEP_MS):
            self.clock.advance_ms(_STEP_MS)
            for pair, count in [(pair, len(queue)) for pair, queue in self.queues.items()]:
                if pair[1] not in paused:
                    self.deliver(*pair, count)
            for node in self.nodes.values():
                if node.id in paused or node.core is None:
                    continue
                if node.now_ns >= node.core.deadline_ns:
                    self.tick(node.id)
        self.is_quiet = was_quiet

    def tick(self, name: str) -> None:
        """Let a node judge its timers."""
        self[name].event(self[name].tick)

    def time_out(self, name: str) -> None:
        """Let time pass until a node's election timer fires; only that node ticks."""
        core, sent_total = self[name].running, self.sent_total
        assert core.standing.role is not Role.LEADER, f"{name} leads"
        for _ in range(_TICKS_MAX):
            left_ms = (core.election.deadline_ns - self.clock.monotonic_ns()) // MS
            self.clock.advance_ms(max(0, min(left_ms, 50)))
            self.tick(name)
            if self.sent_total > sent_total:
                return
        raise Broken(f"{name} asks for no vote")

    # Inside.

    def _join(self, a: NodeId, b: NodeId) -> None:
        if a == b or (a, b) in self._connected or frozenset((a, b)) in self._cut:
            return
        if self[a].core is None or self[b].core is None:
            return
        self._connected |= {(a, b), (b, a)}
        for one, other in ((a, b), (b, a)):
            self._told(one, connected=other)

    def _break(self, a: NodeId, b: NodeId) -> None:
        if (a, b) not in self._connected:
            return
        self._connected -= {(a, b), (b, a)}
        for one, other in ((a, b), (b, a)):
            self.queues[one, other].clear()
            self._told(one, disconnected=other)

    def _told(
        self, one: NodeId, *, connected: NodeId | None = None, disconnected: NodeId | None = None
    ) -> None:
        node = self[one]
        if node.core is None:
            return
        core = node.running
        if connected is not None:
            life = self[connected].identity.incarnation
            node.event(lambda: core.connected(node.now_ns, connected, life))
        if disconnected is not None:
            node.event(lambda: core.disconnected(node.now_ns, disconnected))

    def _check_one_sender(self, sender: str, message: Message) -> None:
        """Hold that only one node ever sends entries in a term."""
        if isinstance(message, AppendEntries) and sender in self.nodes:
            other = self.leaders.setdefault(message.term, NodeId(sender))
            if other != sender:
                raise Broken(f"{other} and {sender} both append in term {message.term}")
