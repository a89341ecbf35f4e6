"""The core as a whole: terms before roles before messages, stalls and CheckQuorum."""

from __future__ import annotations

import pytest

from coordinator.raft.election import Phase
from coordinator.raft.messages import (
    AppendEntries,
    AppendReply,
    InstallSnapshot,
    Message,
    PreVoteReply,
    RequestVote,
    SnapshotReply,
    TimeoutNow,
    VoteReply,
)
from coordinator.raft.standing import Role
from coordinator.raft.timing import MS
from raftbatch.errors import Invariant, NoSpace
from raftbatch.ids import NodeId
from tests.scenarios.bench import Bench, T, heartbeat
from tests.scenarios.fakes import N1, N2, N3, FakeLog


def test_strangers_are_ignored() -> None:
    node = Bench()
    before = node.core.election.deadline_ns
    for message in (heartbeat(9), RequestVote(9, 9, 9, transfer=True), VoteReply(9, True)):
        node.receive("n9", message)
        node.receive("n1", message)
    node.core.connected(0, NodeId("n9"), 1)
    node.core.disconnected(0, NodeId("n9"))
    assert node.sent() == []
    assert (node.core.standing.term, node.core.election.deadline_ns) == (1, before)


@pytest.mark.parametrize(
    "message",
    [
        heartbeat(2),
        AppendReply(2, 0, 0, 0, 0, 0),
        SnapshotReply(2, 1, 0, 0),
        VoteReply(2, False),
        PreVoteReply(2, False, 2),
        TimeoutNow(2),
    ],
)
def test_higher_term_is_taken_over_from_any_message(message: Message) -> None:
    node = Bench()
    node.receive("n2", message)
    assert node.core.standing.term == 2
    assert node.log.hard_state.vote in (None, N1)


def test_leader_and_candidate_of_an_earlier_term_are_told() -> None:
    node = Bench(FakeLog(1, 3))
    snapshot = InstallSnapshot(2, 9, 1, b"", 1, b"", 0, b"", 1)
    for message in (heartbeat(2), snapshot):
        node.receive("n2", message)
        assert node.sent() == [(N2, AppendReply(3, 0, 0, 0, 0, 0))]
    node.receive("n2", RequestVote(2, 9, 2, transfer=False))
    assert node.sent() == [(N2, VoteReply(3, False))]
    for old in (AppendReply(2, 9, 0, 0, 0, 0), VoteReply(2, True), TimeoutNow(2)):
        node.receive("n2", old)
    assert node.sent() == []


def test_deposed_leader_steps_down_and_gives_the_next_one_time() -> None:
    node = Bench()
    node.lead()
    node.receive("n2", AppendReply(5, 0, 0, 0, 0, 0))
    assert (node.role(), node.core.standing.term, node.core.replication) == (Role.FOLLOWER, 5, None)
    assert node.core.election.deadline_ns >= node.now_ns + T.election_ms_min * MS


def test_two_leaders_of_a_term_stop_the_node() -> None:
    node = Bench()
    node.lead()
    with pytest.raises(Invariant, match="leads term 2, and so does"):
        node.receive("n3", heartbeat(2))


def test_candidate_follows_the_winner_and_forgets_what_it_compared_before() -> None:
    node = Bench(FakeLog(1, 1, 1, 1))
    node.receive("n2", AppendEntries(1, 4, 1, (), 0, 1))
    assert node.core.appending.verified == 4
    node.core.disconnected(0, N2)
    node.pass_ms(50)
    node.receive("n3", PreVoteReply(2, True, 1))
    assert node.role() is Role.CANDIDATE
    node.sent()
    node.receive("n3", AppendEntries(2, 2, 1, (), 4, 1))
    assert (node.role(), node.core.standing.leader) == (Role.FOLLOWER, N3)
    assert node.sent() == [(N3, AppendReply(2, 2, 0, 0, 0, 1))]
    assert node.core.standing.commit == 2


def test_check_quorum_deposes_a_leader_that_hears_nobody() -> None:
    node = Bench()
    node.lead()
    node.pass_ms(T.election_ms_max - 50)
    assert node.role() is Role.LEADER
    node.pass_ms(100)
    assert node.role() is Role.FOLLOWER
    assert node.core.standing.term == 2


def test_check_quorum_is_content_with_one_of_two() -> None:
    node = Bench()
    node.lead()
    for _ in range(40):
        node.pass_ms(50)
        node.acknowledge("n3", 0)
    assert node.role() is Role.LEADER


def test_stall_is_no_reason_for_an_election() -> None:
    node = Bench()
    node.receive("n2", heartbeat(1))
    node.sent()
    node.now_ns += 2000 * MS
    node.core.tick(node.now_ns)
    assert node.sent() == [], "what has arrived meanwhile is read first"
    node.pass_ms(100)
    assert len(node.sent()) == 2, "nothing had arrived"


def test_stall_does_not_depose_a_leader_whose_answers_were_not_read() -> None:
    node = Bench()
    node.lead()
    node.now_ns += 2000 * MS
    node.core.tick(node.now_ns)
    assert node.role() is Role.LEADER
    node.acknowledge("n2", 0)
    node.pass_ms(T.election_ms_max - 50)
    assert node.role() is Role.LEADER
    node.pass_ms(100)
    assert node.role() is Role.FOLLOWER


@pytest.mark.parametrize("leads", [True, False])
def test_node_that_is_always_slow_judges_all_the_same(leads: bool) -> None:
    """Each tick comes after a stall; the leader, or the follower's leader, is gone."""
    node = Bench()
    if leads:
        node.lead()
    else:
        node.receive("n2", heartbeat(1))
    node.sent()
    node.pass_ms(1600, step_ms=200)
    assert node.role() is Role.FOLLOWER
    assert not leads or node.core.replication is None
    assert node.sent()


def test_disk_without_room_refuses_leadership() -> None:
    node = Bench()
    node.log.refusal = NoSpace("full")
    while node.core.election.phase is Phase.WAITING:
        node.pass_ms(50)
    node.receive("n2", PreVoteReply(2, True, 1))
    node.receive("n2", VoteReply(2, True))
    assert node.role() is Role.FOLLOWER
    assert node.core.election.deadline_ns >= node.now_ns + T.election_ms_min * MS
