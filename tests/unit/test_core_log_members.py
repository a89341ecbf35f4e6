"""The facade of one node: what it is told of changes of the membership, and how it ends of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chaos.worlds.loop import VirtualLoop
from coordinator.raft.membership import Member, Rank
from raftbatch.errors import (
    Draining,
    InvalidRequest,
    NotLeader,
    OutcomeUnknown,
    Overloaded,
    Removed,
)
from raftbatch.ids import NodeId
from tests.scenarios.fakes import N1, N2, N3, members
from tests.unit.test_core_log import Bench

JOINED = Member(N2, 1, "n2:1", Rank.JOINING)


@pytest.fixture
def bench() -> Iterator[Bench]:
    with VirtualLoop() as loop:
        yield Bench(loop)


def join(bench: Bench, node: NodeId = N2, rank: Rank = Rank.JOINING) -> object:
    """Add a node; return what comes of it."""
    return bench.outcome(lambda: bench.log.add(node, f"{node}:1", rank))


def test_member_is_added_once_that_is_committed_and_peers_are_told(bench: Bench) -> None:
    assert bench.log.membership == members(N1)
    assert bench.peers.told == [members(N1)]
    assert join(bench) == JOINED
    assert bench.log.membership.get(N2) == JOINED
    assert bench.peers.told[-1] == bench.log.membership
    assert bench.log.applied == bench.log.commit
    assert bench.replica.words == [], "what is the log's own is empty to the replica"


def test_member_that_is_added_again_is_another_life(bench: Bench) -> None:
    join(bench)
    assert join(bench) == Member(N2, 2, "n2:1", Rank.JOINING)
    assert bench.log.admits(N2, 2) is None
    assert bench.log.admits(N2, 1) == "n2 was added again, as incarnation 2"


def test_member_is_moved_and_removed(bench: Bench) -> None:
    join(bench)
    assert bench.outcome(lambda: bench.log.move(N2, "other:1")) is None
    member = bench.log.membership.get(N2)
    assert member is not None
    assert member.address == "other:1"
    assert bench.outcome(lambda: bench.log.remove(N2)) is None
    assert bench.log.membership.get(N2) is None
    assert bench.log.admits(N2, 1) == "n2 was removed from the cluster, as incarnation 1"
    assert bench.log.admits(N2, 2) is None
    assert bench.log.admits(N3, 1) is None, "this node may be behind"
    assert join(bench) == Member(N2, 2, "n2:1", Rank.JOINING)


def test_member_that_cannot_be_changed_is_refused(bench: Bench) -> None:
    assert isinstance(bench.outcome(lambda: bench.log.remove(N2)), InvalidRequest)
    assert isinstance(bench.outcome(lambda: bench.log.remove(N1)), InvalidRequest)
    join(bench)
    error = bench.outcome(lambda: bench.log.promote(N2))
    assert isinstance(error, Overloaded)
    assert error.retry_after_ms > 0


def test_membership_is_found_again_after_a_restart_and_behind_a_snapshot(bench: Bench) -> None:
    join(bench, rank=Rank.LEARNER)
    found = bench.log.membership
    bench.machine.kill(power=True)
    bench.start()
    assert bench.log.membership == found
    assert bench.peers.told[0] == found


def test_node_that_a_peer_refuses_for_good_ends(bench: Bench) -> None:
    proposal = bench.propose(b"x")
    bench.world.call(bench.log.refused, N2, "n1 was removed from the cluster, as incarnation 1")
    (failure,) = bench.failures
    assert isinstance(failure, Removed)
    assert "n2 says so" in str(failure)
    assert "empty its directory and start it with --join" in str(failure)
    assert isinstance(bench.outcome(proposal.committed), OutcomeUnknown)
    bench.world.call(bench.log.refused, N2, "again")
    assert bench.failures == [failure]


def test_leader_alone_cannot_leave(bench: Bench) -> None:
    """Nor hand over: there is nobody."""
    error = bench.outcome(lambda: bench.log.transfer(N2))
    assert isinstance(error, InvalidRequest)
    assert not isinstance(error, NotLeader | Draining)
