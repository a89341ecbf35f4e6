"""What a node answers to other coordinators, and to whom it would hand over."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

import pytest

from coordinator.config import load_node
from coordinator.node import Node, Phase
from coordinator.raft.about import About
from coordinator.raft.counters import Counters
from coordinator.raft.greeting import Adopt, Adopted, Ask, Born, Join, Joined, Refused
from coordinator.raft.log import ReplicatedLog
from coordinator.raft.membership import Member, Membership, Rank, founders
from coordinator.raft.progress import Progress
from coordinator.raft.standing import Role
from coordinator.rpc.errors import to_message
from raftbatch.errors import (
    Draining,
    InvalidRequest,
    NoLeader,
    NotLeader,
    OutcomeUnknown,
    PayloadTooLarge,
    RaftbatchError,
)
from raftbatch.ids import ClusterId, Identity, NodeId
from raftbatch.realworld import RealFiles

N1, N2, N3, N4 = (NodeId(f"n{number}") for number in range(1, 5))
CLUSTER, OTHER = ClusterId("a" * 32), ClusterId("b" * 32)
MEMBERS = founders({node: f"{node}:1" for node in (N1, N2, N3)})
FILE = """
[cluster]
name = "t"
[nodes.n1]
peer = "127.0.0.1:1"
client = "127.0.0.1:2"
[nodes.n2]
peer = "127.0.0.1:3"
client = "127.0.0.1:4"
[storage]
entry_bytes_max = 1000
"""


class FakeLog:
    """A log that leads, or says who does."""

    def __init__(self) -> None:
        self.identity = Identity(CLUSTER, N1, 1)
        self.membership = MEMBERS
        self.role = Role.LEADER
        self.leader: NodeId | None = N1
        self.term = 3
        self.error: RaftbatchError | None = None
        self.followers: dict[NodeId, Progress] = {}
        self.added: list[Rank] = []
        self.moved: list[NodeId] = []
        self.removed: list[NodeId] = []
        self.takes = True

    async def add(self, node: NodeId, address: str, rank: Rank) -> Member:
        """Add it, or fail."""
        if self.error is not None:
            raise self.error
        self.added.append(rank)
        return Member(node, 7, address, rank)

    async def remove(self, node: NodeId) -> None:
        """Remove it."""
        self.removed.append(node)

    async def transfer(self, heir: NodeId) -> bool:
        """Move, if the heir takes it."""
        if self.error is not None:
            raise self.error
        self.moved.append(heir)
        return self.takes

    def propose(self, term: int, data: bytes) -> tuple[int, bytes]:
        """Say what was proposed."""
        return term, data


@pytest.fixture
def log() -> FakeLog:
    return FakeLog()


@pytest.fixture
def node(log: FakeLog, tmp_path: Path) -> Node:
    path = tmp_path / "cluster.toml"
    path.write_text(FILE, encoding="utf-8")
    node = Node(load_node(RealFiles(), str(path), "n1"), Counters())
    node.log = cast("ReplicatedLog", log)
    node.phase = Phase.SERVING
    return node


def progress(match: int, in_flight: int = 0, connected: bool = True) -> Progress:
    """Return what a leader believes of a follower."""
    found = Progress(1, 1, 0, connected)
    found.match, found.in_flight_bytes = match, in_flight
    return found


def test_node_is_born(node: Node) -> None:
    ask = Ask(N3, bytes(16), MEMBERS)
    assert asyncio.run(node.answer(ask, None)) == Born(CLUSTER, N1, 1)


def test_node_was_adopted_by_its_own_cluster_alone(node: Node, log: FakeLog) -> None:
    adopt = Adopt(N2, CLUSTER, bytes(16), MEMBERS)
    assert asyncio.run(node.answer(adopt, None)) == Adopted(N1)
    other = Adopt(N2, OTHER, bytes(16), MEMBERS)
    assert asyncio.run(node.answer(other, None)) == Born(CLUSTER, N1, 1)
    log.identity = Identity(CLUSTER, N1, 2)  # it lost its disk after that, and joined
    assert asyncio.run(node.answer(adopt, None)) == Born(CLUSTER, N1, 2)


def test_leader_lets_a_node_join(node: Node) -> None:
    join = Join(N4, "n4:1", Rank.JOINING)
    assert asyncio.run(node.answer(join, None)) == Joined(CLUSTER, 7)


def test_node_that_was_added_as_a_learner_joins_as_one(node: Node, log: FakeLog) -> None:
    join = Join(N4, "n4:1", Rank.JOINING)
    for rank in (Rank.LEARNER, Rank.JOINING):
        log.membership = MEMBERS.added(N4, "n4:1", rank)
        assert asyncio.run(node.answer(join, None)) == Joined(CLUSTER, 7)
    asyncio.run(node.answer(Join(N3, "n3:1", Rank.JOINING), None))  # a voter that lost its disk
    assert log.added == [Rank.LEARNER, Rank.JOINING, Rank.JOINING]


def test_follower_sends_a_node_that_joins_to_the_leader(node: Node, log: FakeLog) -> None:
    log.role, log.leader = Role.FOLLOWER, N2
    log.error = NotLeader("n2 leads", leader=N2)
    reply = asyncio.run(node.answer(Join(N4, "n4:1", Rank.JOINING), None))
    assert reply == Refused("not_leader", "n2 leads", "n2:1")
    log.error, log.leader = NoLeader("nobody leads"), None
    reply = asyncio.run(node.answer(Join(N4, "n4:1", Rank.JOINING), None))
    assert reply == Refused("no_leader", "nobody leads", "")


def test_leader_that_refuses_sends_nobody_elsewhere(node: Node, log: FakeLog) -> None:
    log.error = InvalidRequest("n1 is the only voter")
    reply = asyncio.run(node.answer(Join(N1, "n1:1", Rank.JOINING), None))
    assert reply == Refused("invalid_request", "n1 is the only voter", "")


def test_entries_are_within_bounds(node: Node) -> None:
    assert cast("object", node.append(bytes(1000))) == (3, bytes(1000))
    with pytest.raises(PayloadTooLarge, match="1001 bytes is over entry_bytes_max, 1000"):
        node.append(bytes(1001))
    with pytest.raises(InvalidRequest, match="at least a byte"):
        node.append(b"")


def test_heirs_are_connected_voters_the_nearest_first(node: Node, log: FakeLog) -> None:
    log.membership = Membership(
        (*MEMBERS.members, Member(N4, 1, "n4:1", Rank.LEARNER)),
    )
    log.followers = {N2: progress(5), N3: progress(9), N4: progress(10)}
    assert node.heirs() == [N3, N2]
    log.followers = {N2: progress(9), N3: progress(9, in_flight=4)}
    assert node.heirs() == [N2, N3]
    log.followers[N2] = progress(9, connected=False)
    assert node.heirs() == [N3]
    log.role = Role.FOLLOWER
    assert node.heirs() == []


def test_transfer_goes_to_the_nearest_where_none_is_named(node: Node, log: FakeLog) -> None:
    log.followers = {N2: progress(5), N3: progress(9)}
    assert asyncio.run(node.transfer(None)) == N3
    assert asyncio.run(node.transfer(N2)) == N2
    assert log.moved == [N3, N2]
    log.takes = False
    with pytest.raises(OutcomeUnknown, match="n2 did not take over in time, and may do so yet"):
        asyncio.run(node.transfer(N2))
    log.followers = {}
    with pytest.raises(InvalidRequest, match="no other voter that is connected"):
        asyncio.run(node.transfer(None))


def test_transfer_of_another_nodes_leadership_is_refused_with_its_name(
    node: Node, log: FakeLog
) -> None:
    log.role = Role.FOLLOWER
    log.error = NotLeader("n2 leads", leader=N2)
    with pytest.raises(NotLeader, match="n2 leads"):
        asyncio.run(node.transfer(None))


def test_removal_that_leaves_no_quorum_is_refused_unless_it_is_forced(
    node: Node, log: FakeLog
) -> None:
    log.followers = {N2: progress(9), N3: progress(5, connected=False)}
    for healthy in (N1, N2):  # the leader too: it counts itself only as long as it stays
        with pytest.raises(
            InvalidRequest, match=f"without {healthy} the voters are .*, and n3 can"
        ):
            asyncio.run(node.remove(healthy))
    assert log.removed == []
    asyncio.run(node.remove(N3))  # whoever is down may always go
    asyncio.run(node.remove(N2, is_forced=True))
    assert log.removed == [N3, N2]
    log.followers[N3] = progress(5)
    asyncio.run(node.remove(N1))
    log.role = Role.FOLLOWER  # the log says who leads
    log.followers = {}
    asyncio.run(node.remove(N2))
    assert log.removed == [N3, N2, N1, N2]


def test_removal_of_who_has_no_vote_is_not_a_matter_of_quorum(node: Node, log: FakeLog) -> None:
    log.membership = Membership((*MEMBERS.members, Member(N4, 1, "n4:1", Rank.LEARNER)))
    asyncio.run(node.remove(N4))
    assert log.removed == [N4]


def test_node_that_stops_takes_nothing_and_says_so(node: Node) -> None:
    told = []
    node.on_stopping.append(lambda: told.append(node.phase))
    node.stop_taking()
    assert told == [Phase.STOPPING]
    with pytest.raises(Draining, match="n1 stops"):
        node.append(b"x")
    with pytest.raises(Draining):
        asyncio.run(node.remove(N2))


def test_node_that_has_no_log_says_for_whom_it_waits(node: Node) -> None:
    node.log = None
    node.waiting = lambda: {N2: "it does not answer"}
    with pytest.raises(NoLeader, match="n1 is starting and waits for n2: it does not answer"):
        node.append(b"x")
    state = node.state()
    assert (state.identity, state.waiting) == (None, {N2: "it does not answer"})
    assert state.term == 0


def test_clients_are_sent_to_addresses_of_the_file(node: Node) -> None:
    assert node.client_address("n2") == "127.0.0.1:4"
    assert node.client_address("n4") == ""
    assert node.client_address(None) == ""


def test_clients_are_sent_where_a_node_says_that_it_is(node: Node, log: FakeLog) -> None:
    """A peer's own word counts before the file; who has said nothing is where the file has it."""
    log.membership = MEMBERS.added(N4, "n4:1", Rank.JOINING)
    said = {N4: About("n4.example:8001"), N2: About("moved:4"), N3: About()}
    node.told = said.get
    assert node.client_addresses() == {
        N1: "127.0.0.1:2", N2: "moved:4", N3: "", N4: "n4.example:8001",
    }  # fmt: skip
    assert {each.member.node_id: each.client_address for each in node.members()}[N4] == (
        "n4.example:8001"
    )
    log.leader = N4
    error = to_message(NotLeader("go there", leader=N4), node.client_address)
    assert error.leader == "n4.example:8001"
    node.told = lambda _node: None
    assert node.client_address(N2) == "127.0.0.1:4"
    assert node.client_address(N4) == node.client_address(None) == ""
