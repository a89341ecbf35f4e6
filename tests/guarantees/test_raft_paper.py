"""The Raft paper's sentences, each as a test of the whole core on real journals.

"In Search of an Understandable Consensus Algorithm", extended version: figure 2 and
sections 5 to 8; then the thesis, where the paper ends. The schedules are scripts of
`tests.scenarios.language`, or single messages.
"""

from __future__ import annotations

from itertools import pairwise

import pytest

from coordinator.raft.messages import AppendEntries, AppendReply, Message, RequestVote, VoteReply
from coordinator.raft.segments.layout import Entry
from coordinator.raft.standing import Role
from raftbatch.errors import Invariant
from raftbatch.ids import NodeId
from tests.scenarios.cluster import Cluster
from tests.scenarios.language import Interpreter


def play(script: str) -> Cluster:
    """Run a script; return the cluster as it is then."""
    interpreter = Interpreter()
    for line in script.strip().splitlines():
        interpreter.run(line.strip())
    return interpreter.cluster


def send(cluster: Cluster, sender: str, to: str, message: Message) -> list[Message]:
    """Deliver a message; return what goes back."""
    cluster.queues[to, sender].clear()
    cluster.hand_in(sender, to, message)
    return list(cluster.queues[to, sender])


def entries(first: int, *terms: int) -> tuple[Entry, ...]:
    """Return entries of these terms."""
    return tuple(Entry(first + at, term, b"x") for at, term in enumerate(terms))


# AppendEntries RPC, receiver implementation.


def test_append_is_refused_if_its_term_is_old() -> None:
    """'1. Reply false if term < currentTerm (5.1)', with the term, so that the leader learns."""
    cluster = play("nodes n1 n2 n3\nlog n1 1 1\nterm n1 4")
    answers = send(cluster, "n2", "n1", AppendEntries(3, 2, 1, entries(3, 3), 3, 1))
    assert answers == [AppendReply(4, 0, 0, 0, 0, 0)]
    assert cluster["n1"].log() == "1-2@1"


@pytest.mark.parametrize(("prev", "term"), [(3, 1), (9, 2), (2, 2)])
def test_follower_rejects_append_if_log_does_not_contain_entry_at_prev_index(
    prev: int, term: int
) -> None:
    """'2. Reply false if log doesn't contain an entry at prevLogIndex whose term matches
    prevLogTerm (5.3)'
    """
    cluster = play("nodes n1 n2 n3\nlog n1 1 1")
    answers = send(cluster, "n2", "n1", AppendEntries(3, prev, term, entries(prev + 1, 3), 0, 1))
    assert [each.rejected for each in answers if isinstance(each, AppendReply)] == [prev]
    assert cluster["n1"].log() == "1-2@1"


def test_conflicting_entry_and_all_that_follow_it_are_deleted() -> None:
    """'3. If an existing entry conflicts with a new one (same index but different terms), delete
    the existing entry and all that follow it (5.3)'
    """
    cluster = play("nodes n1 n2 n3\nlog n1 1 1 2 2 2")
    send(cluster, "n2", "n1", AppendEntries(3, 1, 1, entries(2, 1, 3), 0, 1))
    assert cluster["n1"].log() == "1-2@1 3@3"


def test_entries_that_are_the_same_are_not_deleted() -> None:
    """'4. Append any new entries not already in the log': and nothing else happens to the rest."""
    cluster = play("nodes n1 n2 n3\nlog n1 1 1 2 2 2")
    send(cluster, "n2", "n1", AppendEntries(2, 1, 1, entries(2, 1, 2), 0, 1))
    send(cluster, "n2", "n1", AppendEntries(2, 1, 1, (), 0, 1))
    assert cluster["n1"].log() == "1-2@1 3-5@2"


def test_commit_index_follows_the_leaders_up_to_the_last_new_entry() -> None:
    """'5. If leaderCommit > commitIndex, set commitIndex = min(leaderCommit, index of last new
    entry)': of the last that this message vouches for, not of the log.
    """
    cluster = play("nodes n1 n2 n3\nlog n1 1 1 1 1\nlog n2 1 1 1 1\nlog n3 1 1 1 1")
    send(cluster, "n2", "n1", AppendEntries(2, 2, 1, entries(3, 1), 4, 1))
    assert cluster["n1"].running.standing.commit == 3


# RequestVote RPC, receiver implementation.


def test_vote_is_refused_if_its_term_is_old() -> None:
    """'1. Reply false if term < currentTerm (5.1)'"""
    cluster = play("nodes n1 n2 n3\nterm n1 4")
    answers = send(cluster, "n2", "n1", RequestVote(3, 9, 3, transfer=False))
    assert answers == [VoteReply(4, False)]


@pytest.mark.parametrize(
    ("last", "granted"),
    [((2, 2), True), ((9, 1), False), ((1, 2), False), ((3, 2), True), ((1, 3), True)],
)
def test_voter_denies_its_vote_if_its_own_log_is_more_up_to_date(
    last: tuple[int, int], granted: bool
) -> None:
    """'the voter denies its vote if its own log is more up-to-date than that of the candidate'
    (5.4.1): the later last term, or the longer log.
    """
    cluster = play("nodes n1 n2 n3\nlog n1 1 2")
    answers = send(cluster, "n2", "n1", RequestVote(5, *last, transfer=False))
    assert answers == [VoteReply(5, granted)]


def test_each_server_votes_for_at_most_one_candidate_in_a_term() -> None:
    """'Each server will vote for at most one candidate in a given term, on a first-come-first-
    served basis' (5.2), also over a power cut.
    """
    cluster = play("nodes n1 n2 n3")
    assert send(cluster, "n2", "n1", RequestVote(2, 1, 1, False)) == [VoteReply(2, True)]
    assert send(cluster, "n3", "n1", RequestVote(2, 1, 1, False)) == [VoteReply(2, False)]
    cluster["n1"].stop(power=True)
    cluster.start("n1")
    assert send(cluster, "n3", "n1", RequestVote(2, 1, 1, False)) == [VoteReply(2, False)]
    assert send(cluster, "n2", "n1", RequestVote(2, 1, 1, False)) == [VoteReply(2, True)]


# Rules for servers.


def test_higher_term_makes_a_follower() -> None:
    """'If RPC request or response contains term T > currentTerm: set currentTerm = T, convert to
    follower (5.1)'
    """
    cluster = play("nodes n1 n2 n3\nelect n1")
    send(cluster, "n2", "n1", AppendReply(7, 0, 0, 0, 0, 0))
    standing = cluster["n1"].running.standing
    assert (standing.role, standing.term) == (Role.FOLLOWER, 7)


def test_candidate_returns_to_follower_when_another_has_won() -> None:
    """'If AppendEntries RPC received from new leader: convert to follower' (5.2)"""
    cluster = play(
        "nodes n1 n2 n3\ntimeout n1\ndeliver n1->n2\ndeliver n2->n1\nexpect n1 candidate"
    )
    send(cluster, "n3", "n1", AppendEntries(2, 1, 1, (), 0, 1))
    standing = cluster["n1"].running.standing
    assert (standing.role, standing.leader) == (Role.FOLLOWER, NodeId("n3"))


def test_leader_never_overwrites_or_deletes_entries_in_its_log() -> None:
    """'Leader Append-Only: a leader never overwrites or deletes entries in its log; it only appends
    new entries' (figure 3): not even for another that claims to lead its term.
    """
    cluster = play("nodes n1 n2 n3\nelect n1\npropose n1 a b\nstabilize")
    node = cluster["n1"]
    with pytest.raises(Invariant, match="and so does this node"):
        node.running.receive(node.now_ns, NodeId("n2"), AppendEntries(2, 1, 1, (), 0, 1))
    assert node.log() == "1@1 2-4@2"


def test_leader_retries_until_all_followers_store_all_entries() -> None:
    """'the leader retries AppendEntries RPCs indefinitely (even after it has responded to the
    client) until all followers eventually store all log entries' (5.3)
    """
    play(
        """
        nodes n1 n2 n3
        elect n1
        mute n1->n3
        propose n1 a b c
        run 2000
        expect n1 commit 5
        expect n3 log 1@1 2@2
        unmute n1->n3
        run 200
        expect n3 state a b c
        """
    )


def test_leader_counts_replicas_only_for_entries_of_its_own_term() -> None:
    """'Raft never commits log entries from previous terms by counting replicas' (5.4.2)"""
    play(
        """
        nodes n1 n2 n3 message_bytes=1
        log n1 1 1
        log n2 1
        log n3 1
        timeout n1
        deliver n1->n2
        deliver n2->n1
        deliver n1->n2
        deliver n2->n1
        expect n1 leader
        deliver n1->n2
        deliver n2->n1
        deliver n1->n2
        deliver n2->n1
        deliver n1->n2 1
        deliver n2->n1
        expect n1 match n2 2
        expect n1 commit 0
        stabilize
        expect n1 commit 3
        """
    )


def test_leader_begins_its_term_with_an_empty_entry() -> None:
    """'Raft handles this by having each leader commit a blank no-op entry into the log at the start
    of its term' (8)
    """
    cluster = play("nodes n1 n2 n3\nlog n1 1\nlog n2 1\nelect n1\nexpect n1 commit 2")
    assert cluster["n1"].data.journal.tail(2, 1)[0] == Entry(2, 2, b"")


def test_logs_that_agree_at_an_index_agree_before_it() -> None:
    """'Log Matching: if two logs contain an entry with the same index and term, then the logs are
    identical in all entries up through the given index' (figure 3)
    """
    cluster = play(
        """
        nodes n1 n2 n3
        log n1 1 1 1 4 4 5 5 6 6 6
        log n2 1 1 1 4 4 5 5 6 6
        log n3 1 1 1 2 2 2 3 3 3 3 3
        elect n1
        run 300
        """
    )
    logs = [node.terms() for node in cluster.nodes.values()]
    assert [log.get(10) for log in logs] == [6, 6, 6]
    assert all(one == other for one, other in pairwise(logs))


@pytest.mark.parametrize(
    "follower",
    [
        "1 1 1 4 4 5 5 6 6",  # (a) lacks one
        "1 1 1 4",  # (b) lacks many
        "1 1 1 4 4 5 5 6 6 6 6",  # (c) has one more
        "1 1 1 4 4 5 5 6 6 6 7 7",  # (d) has two of a later term
        "1 1 1 4 4 4 4",  # (e) lacks some and has others
        "1 1 1 2 2 2 3 3 3 3 3",  # (f) has only others
    ],
)
def test_follower_of_figure_7_ends_with_the_leaders_log(follower: str) -> None:
    """'When the leader at the top comes to power, it is possible that any of scenarios (a-f) could
    occur in follower logs' (figure 7), and 'the leader brings followers' logs into consistency'.
    """
    play(
        f"""
        nodes n1 n2 n3
        log n1 1 1 1 4 4 5 5 6 6 6
        log n2 1 1 1 4 4 5 5 6 6
        log n3 {follower}
        term n1 7
        cut n3 n1 n2
        elect n1
        join n3 n1 n2
        run 100
        expect n3 log 1-3@1 4-5@4 6-7@5 8-10@6 11@8
        """
    )


def test_snapshot_that_describes_a_prefix_keeps_what_follows() -> None:
    """'If existing log entry has same index and term as snapshot's last included entry, retain log
    entries following it and reply' (figure 13)
    """
    play(
        """
        nodes n1 n2 n3
        elect n1
        propose n1 a*900 b*900 c*900 d*900 e*900
        deliver n1->n3
        deliver n1->n2
        expect n3 commit 2
        stabilize n1 n2
        snapshot n1
        crash n3
        start n3
        expect n3 log 1@1 2-7@2
        stabilize
        expect n3 state a b c d e
        """
    )


def test_server_that_hears_its_leader_ignores_requests_for_votes() -> None:
    """'if a server receives a RequestVote request within the minimum election timeout of hearing
    from a current leader, it does not update its term or grant its vote' (thesis, 4.2.3)
    """
    cluster = play("nodes n1 n2 n3\nelect n1")
    assert send(cluster, "n3", "n2", RequestVote(9, 9, 9, transfer=False)) == []
    assert send(cluster, "n3", "n1", RequestVote(9, 9, 9, transfer=False)) == []
    assert cluster["n2"].running.standing.term == 2
    assert send(cluster, "n3", "n2", RequestVote(9, 9, 9, transfer=True)) == [VoteReply(9, True)]


def test_leader_steps_down_if_an_election_timeout_passes_without_a_majority() -> None:
    """'a leader in Raft steps down if an election timeout elapses without a successful round of
    heartbeats to a majority of its cluster' (thesis, 6.2)
    """
    play("nodes n1 n2 n3\nelect n1\nmute n2->n1\nmute n3->n1\nrun 700\nexpect n1 follower")
