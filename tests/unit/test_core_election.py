"""Who leads: one node's side of PreVote, votes, stickiness and fast failover."""

from __future__ import annotations

import pytest

from coordinator.raft.election import Election, Phase
from coordinator.raft.messages import PreVote, PreVoteReply, RequestVote, VoteReply
from coordinator.raft.standing import Role
from coordinator.raft.timing import MS, Timing
from raftbatch.ids import NodeId
from tests.scenarios.fakes import N1, N2, N3, N4, N5, FakeLog, standing, taken

FIVE = (N1, N2, N3, N4, N5)
T = Timing()


class Candidate:
    """A node with a log of two entries of term 1, in term 1."""

    def __init__(self, *voters: NodeId, me: NodeId = N1) -> None:
        self.log = FakeLog(1, 1, voters=voters or (N1, N2, N3))
        self.standing = standing(self.log, me)
        self.may_lead = True
        self._wins = 0
        self.election = Election(self.standing, lambda: self.may_lead, self._won)

    def _won(self) -> None:
        self._wins += 1
        self.standing.role = Role.LEADER

    def wins(self) -> int:
        """How often it was elected."""
        return self._wins

    def phase(self) -> Phase:
        """What it is doing."""
        return self.election.phase

    def pass_ms(self, duration_ms: int) -> None:
        """Let time pass, and the timer be judged."""
        self.standing.now_ns += duration_ms * MS
        self.election.tick()

    def ask(self) -> None:
        """Let the timeout pass; forget the questions."""
        self.pass_ms(T.election_ms_max)
        assert self.phase() is Phase.ASKING
        taken(self.standing)

    def follow(self, leader: NodeId) -> None:
        """Hear a leader."""
        self.standing.role, self.standing.leader = Role.FOLLOWER, leader
        self.election.heard()


def test_silence_is_noticed_after_the_timeout_and_not_before() -> None:
    node = Candidate()
    node.pass_ms(T.election_ms_min - 1)
    assert taken(node.standing) == []
    node.pass_ms(1)
    assert taken(node.standing) == [(N2, PreVote(2, 2, 1)), (N3, PreVote(2, 2, 1))]
    assert node.standing.term == 1, "a pre-vote raises no term"


def test_patience_is_full_after_each_sign_of_life_and_drawn_anew_after_each_silence() -> None:
    node, drawn = Candidate(), []
    draws = iter(range(100))
    node.standing._below = lambda bound: next(draws) % bound
    node.election.wait()
    for _ in range(3):
        node.follow(N2)
        patience_ns = node.election.deadline_ns - node.standing.now_ns
        assert T.election_ms_min * MS <= patience_ns < T.election_ms_max * MS
        node.pass_ms(T.election_ms_min - 1)
        node.follow(N2)
        assert node.election.deadline_ns - node.standing.now_ns == patience_ns
        drawn.append(patience_ns)
        node.election.begin(transfer=False)
        node.election.stand_down()
    assert len(set(drawn)) == 3


def test_prevote_is_repeated_within_tens_of_ms() -> None:
    node = Candidate()
    node.ask()
    for _ in range(3):
        node.pass_ms(2 * T.retry_ms)
        assert len(taken(node.standing)) == 2


def test_majority_of_prevotes_makes_a_candidate_each_counted_once() -> None:
    node = Candidate(*FIVE)
    node.ask()
    for _ in range(3):
        node.election.on_pre_vote_reply(N2, PreVoteReply(2, True, 1))
    assert node.standing.role is Role.FOLLOWER
    node.election.on_pre_vote_reply(N3, PreVoteReply(7, True, 1))
    node.election.on_pre_vote_reply(N3, PreVoteReply(2, False, 1))
    assert node.standing.role is Role.FOLLOWER, "another question's answer, and a no"
    node.election.on_pre_vote_reply(N3, PreVoteReply(2, True, 1))
    assert (node.standing.role, node.standing.term) == (Role.CANDIDATE, 2)
    assert node.log.hard_state.vote == N1
    assert taken(node.standing)[0] == (N2, RequestVote(2, 2, 1, transfer=False))


def test_votes_are_counted_once_and_the_own_one_when_durable() -> None:
    node = Candidate(*FIVE)
    node.log.is_instant = False
    node.election.begin(transfer=False)
    for _ in range(3):
        node.election.on_vote_reply(N2, VoteReply(2, True))
    node.election.on_vote_reply(N3, VoteReply(2, False))
    assert not node.wins()
    node.election.on_vote_reply(N4, VoteReply(2, True))
    assert not node.wins(), "two of five, and the own vote could still be forgotten"
    node.log.sync()
    node.election.durable()
    assert node.wins() == 1
    node.election.durable()
    node.election.on_vote_reply(N5, VoteReply(2, True))
    assert node.wins() == 1, "won once"


def test_messages_of_an_election_depend_on_its_hard_state() -> None:
    node = Candidate()
    node.election.begin(transfer=False)
    assert {outgoing.lsn for outgoing in node.standing.outbox} == {node.log.lsn}


def test_single_voter_elects_itself_when_its_vote_is_durable() -> None:
    node = Candidate(N1)
    node.log.is_instant = False
    node.pass_ms(T.election_ms_max)
    assert not node.wins()
    node.log.sync()
    node.election.durable()
    assert node.wins() == 1


def test_lost_election_is_retried_within_tens_of_ms() -> None:
    node = Candidate()
    node.election.begin(transfer=False)
    node.election.on_vote_reply(N2, VoteReply(2, False))
    assert node.election.deadline_ns >= node.standing.now_ns + T.election_ms_min * MS
    node.election.on_vote_reply(N2, VoteReply(2, False))
    assert node.election.deadline_ns >= node.standing.now_ns + T.election_ms_min * MS
    node.election.on_vote_reply(N3, VoteReply(2, False))
    assert node.election.deadline_ns <= node.standing.now_ns + 2 * T.retry_ms * MS


def test_prevote_is_refused_while_the_leader_is_alive_and_answered_when_it_is_lost() -> None:
    node = Candidate()
    node.follow(N2)
    node.election.on_pre_vote(N3, PreVote(2, 2, 1))
    assert taken(node.standing) == [(N3, PreVoteReply(2, False, 1))]
    node.election.link_broke(N3)
    assert taken(node.standing) == []
    node.election.link_broke(N2)
    assert taken(node.standing) == [(N3, PreVoteReply(2, True, 1))]
    node.election.link_broke(N2)
    assert taken(node.standing) == [], "answered once"


def test_prevote_is_granted_once_the_leader_is_silent() -> None:
    node = Candidate()
    node.follow(N2)
    node.standing.now_ns += T.election_ms_min * MS - 1
    assert node.election.is_leader_alive
    node.standing.now_ns += 1
    node.election.on_pre_vote(N3, PreVote(2, 2, 1))
    assert taken(node.standing) == [(N3, PreVoteReply(2, True, 1))]
    assert node.log.hard_state.vote is None, "it binds nobody"


@pytest.mark.parametrize(
    ("question", "granted"),
    [
        (PreVote(1, 9, 9), False),  # not above our term
        (PreVote(2, 1, 1), False),  # a shorter log
        (PreVote(2, 9, 0), False),  # an older one
        (PreVote(2, 2, 1), True),
        (PreVote(9, 1, 2), True),
    ],
)
def test_prevote_asks_for_term_and_log(question: PreVote, granted: bool) -> None:
    node = Candidate()
    node.election.on_pre_vote(N3, question)
    assert taken(node.standing) == [(N3, PreVoteReply(question.term, granted, 1))]
    assert node.standing.term == 1


def test_lower_id_goes_first_where_both_ask() -> None:
    node = Candidate(me=N2)
    node.ask()
    node.election.on_pre_vote(N3, PreVote(2, 2, 1))
    assert node.phase() is Phase.ASKING
    node.election.on_pre_vote(N1, PreVote(2, 2, 1))
    assert node.phase() is Phase.WAITING
    node.election.on_pre_vote_reply(N3, PreVoteReply(2, True, 1))
    assert node.standing.role is Role.FOLLOWER
    assert node.election.deadline_ns <= node.standing.now_ns + 2 * T.retry_ms * MS, "not for long"


def test_lower_id_with_a_worse_log_does_not_go_first() -> None:
    node = Candidate(me=N2)
    node.ask()
    node.election.on_pre_vote(N1, PreVote(2, 1, 1))
    assert node.phase() is Phase.ASKING


def test_broken_link_to_the_leader_brings_a_question_at_once() -> None:
    node = Candidate()
    node.follow(N2)
    node.election.link_broke(N3)
    assert node.election.deadline_ns >= node.standing.now_ns + T.election_ms_min * MS
    node.election.link_broke(N2)
    assert node.election.deadline_ns <= node.standing.now_ns + T.failover_ms_max * MS
    assert not node.election.is_leader_alive
    node.follow(N2)
    assert node.election.is_leader_alive, "it was heard again"


def test_vote_is_given_once_a_term() -> None:
    node = Candidate()
    node.standing.enter(2, None)
    node.election.on_request_vote(N2, RequestVote(2, 2, 1, transfer=False))
    node.election.on_request_vote(N3, RequestVote(2, 9, 2, transfer=False))
    node.election.on_request_vote(N2, RequestVote(2, 2, 1, transfer=False))
    yes, no = VoteReply(2, True), VoteReply(2, False)
    assert taken(node.standing) == [(N2, yes), (N3, no), (N2, yes)]
    assert node.log.hard_state.vote == N2


def test_vote_gives_the_candidate_time_and_a_refusal_does_not() -> None:
    node = Candidate()
    node.standing.enter(2, None)
    node.pass_ms(100)
    before = node.election.deadline_ns
    node.election.on_request_vote(N2, RequestVote(2, 1, 1, transfer=False))
    assert node.election.deadline_ns == before
    node.election.on_request_vote(N2, RequestVote(2, 2, 1, transfer=False))
    assert node.election.deadline_ns == before + 100 * MS


def test_candidate_votes_for_nobody_else() -> None:
    node = Candidate()
    node.election.begin(transfer=False)
    taken(node.standing)
    node.election.on_request_vote(N2, RequestVote(2, 9, 2, transfer=False))
    assert taken(node.standing) == [(N2, VoteReply(2, False))]


def test_node_that_could_not_lead_asks_nobody() -> None:
    node = Candidate()
    node.may_lead = False
    node.pass_ms(T.election_ms_max)
    assert taken(node.standing) == []
    assert node.election.deadline_ns > node.standing.now_ns
    node.may_lead = True
    node.pass_ms(T.election_ms_max)
    assert len(taken(node.standing)) == 2


def test_answers_of_an_election_that_is_over_change_nothing() -> None:
    node = Candidate()
    node.election.begin(transfer=False)
    node.election.stand_down()
    node.standing.leader = N3  # another has won
    node.election.on_vote_reply(N2, VoteReply(2, True))
    node.election.on_pre_vote_reply(N2, PreVoteReply(3, True, 2))
    node.election.durable()
    assert not node.wins()
    assert node.standing.term == 2


def test_vote_that_comes_late_in_its_term_counts() -> None:
    """A voter's disk took longer than the election: the vote was given, and binds it."""
    node = Candidate()
    node.election.begin(transfer=False)
    node.election.durable()
    while node.election.phase is not Phase.ASKING:
        node.standing.now_ns = node.election.deadline_ns
        node.election.tick()
    assert node.standing.term == 2
    node.election.on_vote_reply(N2, VoteReply(2, True))
    assert node.wins()
