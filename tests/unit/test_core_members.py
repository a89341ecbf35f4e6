"""Changes of the membership, as one core sees them: what counts, what is heard, what is refused."""

from __future__ import annotations

import pytest

from coordinator.raft.changes import Add, Move, Promote, Remove
from coordinator.raft.election import Phase
from coordinator.raft.membership import Rank, encode
from coordinator.raft.messages import (
    AppendEntries,
    AppendReply,
    PreVote,
    PreVoteReply,
    RequestVote,
    TimeoutNow,
    VoteReply,
)
from coordinator.raft.segments.layout import Entry
from coordinator.raft.standing import Role
from coordinator.raft.timing import MS
from raftbatch.errors import Draining, InvalidRequest, Invariant, NoLeader, NotLeader, Overloaded
from tests.scenarios.bench import Bench, T, heartbeat
from tests.scenarios.fakes import N1, N2, N3, N4, N5, FakeLog, members

THREE = members(N1, N2, N3)
JOIN_N4 = Add(N4, "n4:1", Rank.JOINING)


class Leader(Bench):
    """n1 of three, which leads term 2 and has committed its first entry, 3."""

    def __init__(self) -> None:
        super().__init__()
        self.lead()
        self.acknowledge("n2", 3)
        self.acknowledge("n3", 3)
        self.sent()

    def change(self, change: Add | Promote | Remove | Move) -> int:
        """Make a change."""
        return self.core.change(self.now_ns, change)

    def commit(self) -> int:
        """Return the commit index."""
        return self.core.standing.commit

    def settled(self, change: Add | Promote | Remove | Move) -> None:
        """Make a change, and let the voters acknowledge it."""
        index = self.change(change)
        for voter in self.core.standing.peers:
            self.acknowledge(voter, index)
        self.core.replicate(self.now_ns)
        assert self.commit() == index


# What counts.


def test_joiner_does_not_count_until_it_votes() -> None:
    node = Leader()
    node.settled(JOIN_N4)
    node.core.connected(node.now_ns, N4, 1)
    index = node.core.propose(node.now_ns, 2, b"x")
    node.acknowledge("n4", index)
    assert node.commit() < index
    node.acknowledge("n2", index)
    assert node.commit() == index


def test_removed_voter_counts_no_more_from_the_append_on() -> None:
    node = Leader()
    index = node.change(Remove(N3))
    node.acknowledge("n3", index)
    assert node.commit() < index
    node.acknowledge("n2", index)
    assert node.commit() == index


def test_leader_that_removed_itself_does_not_count_itself() -> None:
    node = Leader()
    index = node.change(Remove(N1))
    node.acknowledge("n2", index)
    assert node.commit() < index
    with pytest.raises(Draining, match="was removed"):
        node.core.propose(node.now_ns, 2, b"x")
    node.acknowledge("n3", index)
    assert (node.commit(), node.role()) == (index, Role.FOLLOWER)
    assert node.core.standing.why_removed == "n1 was removed from the cluster, as incarnation 1"
    sent = node.sent()
    assert (N2, TimeoutNow(2)) in sent, "the first of those that hold most"
    commits = [to for to, m in sent if isinstance(m, AppendEntries) and m.commit == index]
    assert {*commits} == {N2, N3}
    node.pass_ms(5000)
    assert node.sent() == [], "it asks nobody for a vote"


def test_quorum_that_is_heard_is_one_of_voters() -> None:
    """A leader that only hears learners steps down."""
    node = Leader()
    node.settled(JOIN_N4)
    node.core.connected(node.now_ns, N4, 1)
    for _ in range(2 * T.election_ms_max // 50):
        node.pass_ms(50)
        node.acknowledge("n4", 1)
    assert node.role() is Role.FOLLOWER


def test_read_is_answered_by_voters_alone() -> None:
    node = Leader()
    node.settled(JOIN_N4)
    node.core.connected(node.now_ns, N4, 1)
    found: list[int | None] = []
    node.core.read(node.now_ns, found.append)
    node.core.replicate(node.now_ns)
    assert node.core.replication is not None
    node.acknowledge("n4", 4, round_=node.core.replication.round)
    assert found == []
    node.acknowledge("n2", 4, round_=node.core.replication.round)
    assert found == [4]


def test_votes_of_learners_and_strangers_count_for_nothing() -> None:
    learner = THREE.added(N4, "n4:1", Rank.LEARNER)
    log = FakeLog(1)
    log.append(1, encode(learner), is_config=True)
    node = Bench(log)
    for stranger_id in (N4, N5):
        node.core.connected(0, stranger_id, 1)
    while node.core.election.phase is Phase.WAITING:
        node.pass_ms(50)
    asked = [to for to, message in node.sent() if isinstance(message, PreVote)]
    assert asked == [N2, N3]
    for stranger in ("n4", "n5"):
        node.receive(stranger, PreVoteReply(2, True, 1))
    assert node.role() is Role.FOLLOWER
    node.receive("n2", PreVoteReply(2, True, 1))
    assert node.role() is Role.CANDIDATE
    for stranger in ("n4", "n5"):
        node.receive(stranger, VoteReply(2, True))
    assert node.role() is Role.CANDIDATE
    node.receive("n2", VoteReply(2, True))
    assert node.role() is Role.LEADER


def test_what_another_life_of_a_member_says_counts_for_nothing() -> None:
    """Votes, pre-votes and acknowledgements are tied to the incarnation of the connection."""
    node = Bench()
    node.core.disconnected(0, N2)
    node.core.connected(0, N2, 2)
    while node.core.election.phase is Phase.WAITING:
        node.pass_ms(50)
    node.receive("n2", PreVoteReply(2, True, 1))
    assert node.role() is Role.FOLLOWER
    node.receive("n3", PreVoteReply(2, True, 1))
    node.receive("n2", VoteReply(2, True))
    assert node.role() is Role.CANDIDATE
    node.receive("n3", VoteReply(2, True))
    assert node.role() is Role.LEADER
    node.sent()
    node.acknowledge("n2", 3)
    assert node.core.standing.commit == 0
    node.pass_ms(50)
    assert {to for to, _ in node.sent()} == {N3}, "it is not fed either"


def test_late_acknowledgement_of_a_replaced_life_counts_for_nothing() -> None:
    node = Leader()
    node.core.disconnected(node.now_ns, N3)
    node.pass_ms(400)
    node.receive("n2", AppendReply(2, 3, 0, 0, 0, 99))
    index = node.change(Add(N3, "n3:1", Rank.JOINING))
    node.core.connected(node.now_ns, N3, 1)
    node.acknowledge("n3", index)
    assert node.core.replication is not None
    assert (node.core.replication.progress[N3].incarnation, node.commit()) == (2, 3)
    assert node.core.replication.progress[N3].match == 0
    node.core.disconnected(node.now_ns, N3)
    node.core.connected(node.now_ns, N3, 2)
    node.acknowledge("n3", 1)
    assert node.core.replication.progress[N3].match == 1


# Who is heard.


def test_leader_that_this_node_does_not_know_is_followed() -> None:
    node = Bench(FakeLog())
    node.core.connected(0, N5, 1)
    node.receive("n5", AppendEntries(3, 0, 0, (Entry(1, 3, b"x"),), 0, 1))
    assert node.core.standing.leader == N5
    assert (N5, AppendReply(3, 1, 0, 0, 0, 1)) in node.sent()


def test_vote_is_given_by_log_and_term_alone() -> None:
    """Also to a candidate that this node does not know, and by one that is no voter."""
    log = FakeLog(1)
    log.append(1, encode(members(N2, N3)), is_config=True)
    node = Bench(log)
    node.core.connected(0, N5, 1)
    node.receive("n5", PreVote(2, 2, 1))
    node.receive("n5", RequestVote(2, 2, 1, transfer=False))
    assert node.sent() == [(N5, PreVoteReply(2, True, 1)), (N5, VoteReply(2, True))]


def test_life_that_is_over_is_heard_no_more_once_that_is_committed() -> None:
    node = Bench()
    node.receive("n2", AppendEntries(2, 2, 1, (), 0, 1))
    removed = Entry(3, 2, encode(THREE.removed(N3)), is_config=True)
    node.receive("n2", AppendEntries(2, 2, 1, (removed,), 2, 1))
    node.core.disconnected(node.now_ns, N2)
    node.now_ns += 1000 * MS
    node.sent()
    node.receive("n3", PreVote(3, 9, 2))
    assert node.sent() == [(N3, PreVoteReply(3, True, 2))], "it may be elected yet"
    node.core.connected(node.now_ns, N2, 1)
    node.receive("n2", AppendEntries(2, 3, 2, (), 3, 1))
    node.core.disconnected(node.now_ns, N2)
    node.now_ns += 1000 * MS
    node.sent()
    node.receive("n3", PreVote(3, 9, 2))
    node.receive("n3", RequestVote(9, 9, 2, transfer=True))
    assert (node.sent(), node.core.standing.term) == ([], 2)
    node.core.disconnected(node.now_ns, N3)
    node.core.connected(node.now_ns, N3, 2)
    node.receive("n3", PreVote(3, 9, 2))
    assert [to for to, _ in node.sent()] == [N3], "its next life is another"


def test_connection_of_a_removed_node_is_closed_once_the_leader_has_told_it() -> None:
    node = Leader()
    node.settled(Remove(N3))
    assert node.core.replication is not None
    assert N3 not in node.core.replication.followers.leaving
    told = [m.commit for to, m in node.sent() if to == N3 and isinstance(m, AppendEntries)]
    assert told[-1] == 4
    node.pass_ms(50)
    assert node.core.standing.unwelcome == [N3]


def test_removed_node_is_fed_until_it_knows() -> None:
    """What it lacks is sent to it, if it is not much, and it is not dropped before."""
    node = Leader()
    node.core.disconnected(node.now_ns, N3)
    node.core.connected(node.now_ns, N3, 1)
    node.change(Remove(N3))
    node.acknowledge("n2", 4)
    assert node.core.replication is not None
    assert N3 in node.core.replication.followers.leaving
    node.pass_ms(50)
    assert node.core.standing.unwelcome == []
    node.sent()
    node.acknowledge("n3", 3, round_=2)
    node.pass_ms(50)
    told = [m for to, m in node.sent() if to == N3 and isinstance(m, AppendEntries)]
    assert any(m.entries and m.entries[-1].index == 4 and m.commit == 4 for m in told)
    assert N3 not in node.core.replication.followers.leaving


# What is refused.


def test_changes_are_refused_while_one_is_open() -> None:
    node = Leader()
    node.change(JOIN_N4)
    for change in (Remove(N3), Move(N2, "other:1"), Add(N5, "n5:1", Rank.LEARNER)):
        with pytest.raises(Overloaded, match="not yet committed") as refusal:
            node.change(change)
        assert refusal.value.retry_after_ms > 0
    node.acknowledge("n2", 4)
    node.change(Move(N2, "other:1"))


def test_changes_are_refused_before_an_entry_of_the_leaders_term_is_committed() -> None:
    """O. Ongaro, 'bug in single-server membership changes': raft-dev, 2015."""
    node = Bench()
    node.lead()
    with pytest.raises(Overloaded, match="nothing of its own term"):
        node.core.change(node.now_ns, JOIN_N4)
    node.acknowledge("n2", 3)
    node.core.change(node.now_ns, JOIN_N4)


def test_changes_are_refused_during_a_transfer_and_by_a_follower() -> None:
    node = Leader()
    node.core.hand_over(node.now_ns, N2, lambda moved: None)
    with pytest.raises(Draining):
        node.change(JOIN_N4)
    node.receive("n2", heartbeat(3))
    with pytest.raises(NotLeader):
        node.change(JOIN_N4)
    node.core.standing.leader = None
    with pytest.raises(NoLeader):
        node.change(JOIN_N4)


def test_leadership_is_handed_to_voters_only() -> None:
    node = Leader()
    node.settled(JOIN_N4)
    with pytest.raises(InvalidRequest, match="n2, n3"):
        node.core.hand_over(node.now_ns, N4, lambda moved: None)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (Remove(N5), "n5 is no member"),
        (Promote(N2), "n2 votes already"),
        (Promote(N5), "n5 is no member"),
        (Move(N5, "n5:1"), "n5 is no member"),
        (Add(N4, "n4:1", Rank.VOTER), "must catch up as a learner"),
        (Add(N1, "n1:1", Rank.JOINING), "n1 leads"),
        (Add(N4, "", Rank.JOINING), "no address"),
    ],
)
def test_changes_that_cannot_be_are_refused(change: Add | Remove, why: str) -> None:
    node = Leader()
    with pytest.raises(InvalidRequest, match=why):
        node.change(change)
    assert node.core.standing.membership == THREE


def test_member_that_answers_is_not_replaced() -> None:
    """Another machine may have been given its name."""
    node = Leader()
    with pytest.raises(Overloaded, match="give this one another name"):
        node.change(Add(N3, "n3:1", Rank.JOINING))
    node.core.disconnected(node.now_ns, N3)
    node.change(Add(N3, "n3:1", Rank.JOINING))


# Catching up.


def test_joiner_is_promoted_once_it_has_caught_up_and_one_at_a_time() -> None:
    node = Leader()
    node.settled(JOIN_N4)
    node.settled(Add(N5, "n5:1", Rank.JOINING))
    node.core.connected(node.now_ns, N4, 1)
    node.core.connected(node.now_ns, N5, 1)
    votes = []
    for match in (3, 5, 5):
        for joiner in ("n4", "n5"):
            node.acknowledge(joiner, match)
        node.pass_ms(50)
        votes.append(len(node.core.standing.voters))
    assert votes == [3, 4, 4], "first they lack an entry, then n4's promotion is open"
    for voter in ("n2", "n3", "n5"):
        node.acknowledge(voter, 6)
    node.pass_ms(50)
    assert node.core.standing.voters == (N1, N2, N3, N4, N5)


def test_joiner_that_takes_long_has_not_caught_up() -> None:
    """It must hold within an election timeout what there was at the begin of a round."""
    node = Leader()
    node.settled(JOIN_N4)
    node.core.connected(node.now_ns, N4, 1)
    for _ in range(T.election_ms_min // 50):
        node.pass_ms(50)
        for each in (N2, N3, N4):
            node.acknowledge(each, 3 if each == N4 else 4)
    node.acknowledge("n4", 4)
    index = node.core.propose(node.now_ns, 2, b"x")
    node.pass_ms(50)
    assert N4 not in node.core.standing.voters, "its first round took too long: another begins"
    node.acknowledge("n2", index)
    node.acknowledge("n4", index)
    node.pass_ms(50)
    assert N4 in node.core.standing.voters


def test_learner_is_promoted_when_asked_for_and_fit() -> None:
    node = Leader()
    node.settled(Add(N4, "n4:1", Rank.LEARNER))
    with pytest.raises(Overloaded, match="not caught up"):
        node.change(Promote(N4))
    node.core.connected(node.now_ns, N4, 1)
    node.acknowledge("n4", 4)
    node.pass_ms(50)
    assert N4 not in node.core.standing.voters
    node.change(Promote(N4))
    assert N4 in node.core.standing.voters


# Damage.


def test_membership_that_cannot_be_read_is_never_stored() -> None:
    node = Bench()
    with pytest.raises(Invariant, match="sent entry 3"):
        node.receive("n2", AppendEntries(2, 2, 1, (Entry(3, 2, b"no", is_config=True),), 0, 1))
    assert node.log.last_index == 2
