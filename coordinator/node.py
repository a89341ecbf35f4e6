"""One node, as those see it who ask something of it: clients, operators, other coordinators.

It is there from before the log is opened until after it is closed, so that
whoever asks in between gets an answer that says what is going on.

What lives here: its phase, what it may be asked in which, and its state in one
value. What must never live here: bytes of a protocol (`rpc`), starting and
stopping (`server`). Called by: `rpc`, `server`. One thread: the loop's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from coordinator.access import Access
from coordinator.api import Api, Standing
from coordinator.config import NodeConfig
from coordinator.core.state import State
from coordinator.founding import adopted, born
from coordinator.loads import Load
from coordinator.opaque import OpaqueReplica
from coordinator.overview import Overview, overview
from coordinator.raft.about import About
from coordinator.raft.acquaintance import PeerState
from coordinator.raft.counters import Counters
from coordinator.raft.greeting import Adopt, Ask, Join, Joined, Reply, Request, refused
from coordinator.raft.log import ReplicatedLog
from coordinator.raft.membership import Member, Rank
from coordinator.raft.progress import Progress
from coordinator.raft.proposals import Proposal
from coordinator.raft.standing import Role
from coordinator.replica import Replica
from coordinator.scheduler import Scheduler
from raftbatch.errors import (
    Draining,
    InvalidRequest,
    NoLeader,
    OutcomeUnknown,
    PayloadTooLarge,
    RaftbatchError,
)
from raftbatch.ids import Identity, NodeId
from raftbatch.settings import Model


class Phase(Enum):
    """Where a node is in its life."""

    STARTING = "starting"
    SERVING = "serving"
    STOPPING = "stopping"


@dataclass(frozen=True, slots=True)
class MemberState:
    """A member, and what the leader believes of it.

    Attributes:
        member: the member.
        client_address: where clients reach it, as far as this node knows.
        progress: where this node leads, and it is another; else None.
    """

    member: Member
    client_address: str
    progress: Progress | None


@dataclass(frozen=True, slots=True)
class NodeState:
    """How it stands with a node; empty values for what it does not know yet."""

    node_id: NodeId
    cluster_name: str
    phase: Phase
    waiting: Mapping[NodeId, str]
    identity: Identity | None = None
    role: str = ""
    term: int = 0
    leader: str = ""
    leader_address: str = ""
    commit: int = 0
    applied: int = 0
    digest: bytes = b""
    members: tuple[MemberState, ...] = ()
    peers: tuple[PeerState, ...] = ()
    space: str = ""
    counters: Mapping[str, int] = field(default_factory=dict)
    standing: Standing | None = None
    overview: Overview | None = None


class Node:
    """See the module's docstring.

    Attributes:
        config: what the node was told.
        counters: of all that happens.
        phase: see `Phase`.
        log: from when it is opened on.
        replica: what it feeds.
        scheduler: from then on; never where the entries mean nothing.
        waiting: returns for whom a node that starts waits, and why.
        peers: returns how it stands with the other coordinators.
        told: returns what a peer has said of itself; None where it has said nothing yet.
        access: the roles of certificates.
        on_stopping: called once the node takes nothing new any more.
    """

    def __init__(self, config: NodeConfig, counters: Counters) -> None:
        self.config = config
        self.counters = counters
        self.phase = Phase.STARTING
        self.log: ReplicatedLog | None = None
        self.replica = OpaqueReplica() if config.cluster.is_opaque else Replica()
        self.scheduler: Scheduler | None = None
        self.waiting: Callable[[], Mapping[NodeId, str]] = dict
        self.peers: Callable[[], list[PeerState]] = list
        self.told: Callable[[NodeId], About | None] = lambda _node: None
        self.access = Access(
            config.cluster, lambda: self.log.membership if self.log is not None else None
        )
        self.on_stopping: list[Callable[[], None]] = []

    # What it is.

    def state(self) -> NodeState:
        """Return how it stands, as far as this node knows."""
        name, cluster = self.config.node_id, self.config.cluster.name
        if self.log is None:
            return NodeState(name, cluster, self.phase, self.waiting())
        log = self.log
        return NodeState(
            name,
            cluster,
            self.phase,
            {},
            log.identity,
            log.role.value,
            log.term,
            log.leader or "",
            self.client_address(log.leader),
            log.commit,
            log.applied,
            self.replica.digest,
            self.members(),
            tuple(self.peers()),
            log.space.name.lower(),
            self._counts(),
            self.scheduler.api.standing() if self.scheduler is not None else None,
            overview(self.replica.state, self.loads())
            if isinstance(self.replica, Replica)
            else None,
        )

    def loads(self) -> dict[str, Load]:
        """Return what live executors have to do, by id; nothing where this node does not lead."""
        scheduler, replica = self.scheduler, self.replica
        if scheduler is None or not isinstance(replica, Replica) or not scheduler.leader.is_ready:
            return {}
        return scheduler.api.loads.of(replica.state.executors)

    def _counts(self) -> dict[str, int]:
        found = dict(self.counters.values)
        if self.scheduler is not None:
            counts = dataclasses.asdict(self.scheduler.leader.counts)
            found |= {f"leader_{name}": count for name, count in counts.items()}
            counts = dataclasses.asdict(self.scheduler.agreement.counts)
            found |= {f"digest_{name}": count for name, count in counts.items()}
        return found

    def members(self) -> tuple[MemberState, ...]:
        """Return who belongs to the cluster, by the newest membership in this node's log.

        Raises:
            NoLeader: definite; the node has no log yet.
        """
        log = self._opened()
        followers = log.followers
        return tuple(
            MemberState(each, self.client_address(each.node_id), followers.get(each.node_id))
            for each in log.membership.members
        )

    def client_address(self, node: str | None) -> str:
        """Return where clients reach a node, by its own word, else by the file; empty: unknown."""
        name = NodeId(node or "")
        told = self.told(name)
        if told is not None and told.client:
            return told.client
        found = self.config.cluster.nodes.get(name)
        return found.client if found else ""

    def client_addresses(self) -> dict[NodeId, str]:
        """Return where clients reach each member, and each node of the file, in their order."""
        nodes = set(self.config.cluster.nodes)
        if self.log is not None:
            nodes |= {member.node_id for member in self.log.membership.members}
        return {node: self.client_address(node) for node in sorted(nodes)}

    @property
    def leader(self) -> str:
        """Who leads, as far as this node knows, perhaps itself; empty: nobody."""
        return "" if self.log is None else self.log.leader or ""

    def watch_leader(self, told: Callable[[], None]) -> None:
        """Call back whenever another leads. Raises NoLeader; the node has no log yet."""
        self._opened().watch(told)

    # What clients ask.

    def append(self, data: bytes) -> Proposal:
        """Propose an entry.

        Raises:
            NotLeader, NoLeader, Draining, NoSpace, Overloaded, PayloadTooLarge, InvalidRequest:
                definite.
            Fatal: the log has ended.
        """
        log = self._taking()
        limit = self.config.storage.journal.entry_bytes_max
        if not data:
            raise InvalidRequest("an entry needs at least a byte")
        if len(data) > limit:
            raise PayloadTooLarge(f"an entry of {len(data)} bytes is over entry_bytes_max, {limit}")
        return log.propose(log.term, data)

    def models(self, name: str) -> list[tuple[Model, bool]]:
        """Return model versions, in order, and which of them are being deleted.

        Args:
            name: of the model; empty: all.

        Raises:
            NoLeader: definite; the node has no log yet, or nothing in it.
        """
        self._opened()
        if not isinstance(self.replica, Replica):
            return []
        state = self.state_to_read()
        if not state.term:  # the first Lead brings the first models
            raise NoLeader(f"{self.config.node_id} has heard of no leader yet", retry_after_ms=100)
        return [
            (state.models[each], each in state.deleting)
            for each in sorted(state.models)
            if name in ("", each[0])
        ]

    @property
    def api(self) -> Api:
        """What clients and executors ask of the scheduler; while it stops, it says so by itself.

        Raises:
            NoLeader: definite; the node has no log yet.
        """
        self._opened()
        if self.scheduler is None:
            raise InvalidRequest(f"{self.config.node_id} replicates entries that mean nothing")
        return self.scheduler.api

    def log_to_read(self) -> ReplicatedLog:
        """Return the log.

        Raises:
            NoLeader, Draining: definite; the node starts, or stops.
        """
        return self._taking()

    def state_to_read(self) -> State:
        """Return the scheduler's state, by what this node has applied.

        Raises:
            NoLeader, InvalidRequest, Draining: definite; there is none yet, or never, or it erred.
        """
        self._opened()
        if self.scheduler is not None and self.scheduler.has_erred:
            raise Draining(f"{self.config.node_id} stops: its state is not to be trusted")
        if not isinstance(self.replica, Replica):
            raise InvalidRequest(f"{self.config.node_id} replicates entries that mean nothing")
        return self.replica.state

    # What operators ask; each raises what `ReplicatedLog` says, and `Draining` while it stops.

    async def add(self, node: NodeId, address: str, rank: Rank) -> Member:
        """Add a node."""
        return await self._taking().add(node, address, rank)

    async def promote(self, node: NodeId) -> None:
        """Let a learner vote."""
        await self._taking().promote(node)

    async def remove(self, node: NodeId, *, is_forced: bool = False) -> None:
        """Remove a member.

        Raises:
            InvalidRequest: definite; too few of the voters that stay are connected, and it is
                not forced.
        """
        log = self._taking()
        if not is_forced and log.role is Role.LEADER and node in log.membership.voters:
            self._check_quorum_without(node, log)
        await log.remove(node)

    def _check_quorum_without(self, node: NodeId, log: ReplicatedLog) -> None:
        """Refuse what would leave a cluster that can commit nothing, not even its mending."""
        voters = [each for each in log.membership.voters if each != node]
        followers, own = log.followers, self.config.node_id
        silent = [
            each
            for each in voters
            if each != own and not (each in followers and followers[each].is_connected)
        ]
        needed = len(voters) // 2 + 1
        if voters and len(voters) - len(silent) < needed:
            raise InvalidRequest(
                f"without {node} the voters are {', '.join(voters)}, of which {needed} are needed, "
                f"and {', '.join(silent)} cannot be reached: nothing could be committed any more. "
                "Start those first, or remove one of them; --force removes it all the same"
            )

    async def move(self, node: NodeId, address: str) -> None:
        """Note another address of a member."""
        await self._taking().move(node, address)

    async def transfer(self, heir: NodeId | None) -> NodeId:
        """Hand leadership over, to the voter that holds most where none is named; return to whom.

        Raises:
            OutcomeUnknown: it was not taken in time; the heir may take over yet.
        """
        log = self._taking()
        if heir == self.config.node_id and log.role is Role.LEADER:
            return heir
        chosen = heir or next(iter(self.heirs()), None)
        if chosen is None:
            if log.role is Role.LEADER:
                raise InvalidRequest("there is no other voter that is connected")
            chosen = self.config.node_id  # refused, with the leader's name
        if not await log.transfer(chosen):
            raise OutcomeUnknown(f"{chosen} did not take over in time, and may do so yet")
        return chosen

    def heirs(self) -> list[NodeId]:
        """Return to whom leadership could be handed, who holds most first; none if it is not ours.

        Of those that hold the same the one with the least on its way is the quickest.
        """
        log = self.log
        if log is None or log.role is not Role.LEADER:
            return []
        voters = [
            (-progress.match, progress.in_flight_bytes, node)
            for node, progress in log.followers.items()
            if progress.is_connected and node in log.membership.voters
        ]
        return [node for _, _, node in sorted(voters)]

    # What other coordinators ask.

    async def answer(self, request: Request, _certificate: str | None) -> Reply:
        """Answer a question at the door; see `door.OnRequest`."""
        log = self._opened()
        match request:
            case Ask():
                return born(log.identity)
            case Adopt():
                return adopted(log.identity, request)
            case Join(node_id=node, address=address, rank=rank):
                try:
                    member = await self.add(node, address, log.membership.rank_of(node, rank))
                except RaftbatchError as error:
                    leader = log.membership.get(NodeId(error.leader or log.leader or ""))
                    hint = leader.address if leader and log.role is not Role.LEADER else ""
                    return refused(error.slug, error.message, hint)
                return Joined(log.identity.cluster_id, member.incarnation)

    # Its end.

    def stop_taking(self) -> None:
        """Take nothing new from now on; what is under way goes on."""
        self.phase = Phase.STOPPING
        for told in list(self.on_stopping):
            told()

    def _opened(self) -> ReplicatedLog:
        if self.log is None:
            waits = "; ".join(f"{node}: {why}" for node, why in self.waiting().items())
            text = f"{self.config.node_id} is starting{f' and waits for {waits}' if waits else ''}"
            raise NoLeader(text, retry_after_ms=500)
        return self.log

    def _taking(self) -> ReplicatedLog:
        log = self._opened()
        if self.phase is Phase.STOPPING:
            raise Draining(f"{self.config.node_id} stops", retry_after_ms=100)
        return log
