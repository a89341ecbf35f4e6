"""The thesis's sentences on changes of the membership, each as a test of the core on real journals.

D. Ongaro, "Consensus: Bridging Theory and Practice", chapter 4. The schedules are scripts of
`tests.scenarios.language`.
"""

from __future__ import annotations

from coordinator.raft.messages import PreVote, PreVoteReply, RequestVote, VoteReply
from tests.guarantees.test_raft_paper import play, send


def test_each_server_uses_the_new_configuration_as_soon_as_it_is_in_its_log() -> None:
    """'The new configuration takes effect on each server as soon as it is added to that server's
    log', and so 'servers do not wait for configuration entries to be committed' (4.1)
    """
    play(
        """
        nodes n1 n2 n3
        elect n1
        remove n1 n3
        expect n1 members n1 n2
        deliver n1->n2
        expect n2 members n1 n2
        expect n2 commit 2
        """
    )


def test_server_falls_back_to_the_previous_configuration() -> None:
    """'a log entry for a configuration change can be removed (if leadership changes); in this case,
    a server must be prepared to fall back to the previous configuration in its log' (4.1)
    """
    play(
        """
        nodes n1 n2 n3
        elect n1
        cut n1 n2 n3
        remove n1 n3
        expect n1 members n1 n2
        elect n2
        join n1 n2 n3
        stabilize
        expect n1 members n1 n2 n3
        """
    )


def test_next_change_waits_until_the_one_before_is_committed() -> None:
    """'The configuration change is complete once the Cnew entry is committed' (4.1): only then may
    another be started.
    """
    play(
        """
        nodes n1 n2 n3 n4
        elect n1
        remove n1 n4
        remove n1 n3
        expect n1 members n1 n2 n3
        stabilize
        remove n1 n3
        expect n1 members n1 n2
        """
    )


def test_server_accepts_appends_of_a_leader_that_is_not_in_its_configuration() -> None:
    """'A server accepts AppendEntries requests from a leader that is not part of the server's
    latest configuration. Otherwise, a new server could never be added to the cluster' (4.1)
    """
    play(
        """
        nodes n1 n2
        elect n1
        add n1 n3
        stabilize
        boot n3
        expect n3 members no voter
        stabilize
        expect n3 members n1 n2, joining n3
        """
    )


def test_server_grants_its_vote_to_a_candidate_that_is_not_in_its_configuration() -> None:
    """'A server also grants its vote to a candidate that is not part of the server's latest
    configuration (if the candidate has a sufficiently up-to-date log and a current term)' (4.1)
    """
    cluster = play("nodes n1 n2\nboot n3\nrun 1000")
    cluster["n1"].stop()
    term = cluster["n2"].running.standing.term
    answers = send(cluster, "n3", "n2", PreVote(term + 1, 9, term))
    assert answers == [PreVoteReply(term + 1, True, term)]
    answers = send(cluster, "n3", "n2", RequestVote(term + 1, 9, term, transfer=False))
    assert answers == [VoteReply(term + 1, True)]


def test_new_server_catches_up_before_it_counts() -> None:
    """'a new server joins the cluster as a non-voting member. The leader replicates log entries to
    it, but it is not yet counted towards majorities for voting or commitment purposes' (4.2.1)
    """
    play(
        """
        nodes n1 n2
        elect n1
        add n1 n3
        stabilize
        propose n1 a
        stabilize
        expect n1 commit 4
        boot n3
        run 300
        expect n1 members n1 n2 n3
        """
    )


def test_leader_that_is_removed_steps_down_once_that_is_committed() -> None:
    """'a leader that is removed from the configuration steps down once the Cnew entry is
    committed', and until then 'it replicates log entries but does not count itself in majorities'
    (4.2.2)
    """
    play(
        """
        nodes n1 n2 n3
        elect n1
        remove n1 n1
        deliver n1->n2
        deliver n2->n1
        expect n1 leader
        expect n1 commit 2
        run 300
        expect n1 down
        """
    )


def test_removed_server_still_starts_elections_until_that_is_committed() -> None:
    """'a server that is not part of its own latest configuration should still start new elections,
    as it might still be needed until the Cnew entry is committed. It does not count its own vote
    in elections unless it is part of its latest configuration' (4.2.2)
    """
    play(
        """
        nodes n1 n2
        elect n1
        cut n1 n2
        remove n1 n1
        run 1500
        expect n1 follower
        join n1 n2
        run 1500
        expect leader n2
        expect n1 down
        """
    )


def test_removed_servers_disrupt_nobody() -> None:
    """'servers should not be able to disrupt a cluster whose leader is receiving heartbeats'
    (4.2.3): and those that were removed not at all, whatever they claim.
    """
    cluster = play(
        """
        nodes n1 n2 n3
        elect n1
        cut n3 n1 n2
        remove n1 n3
        run 1000
        """
    )
    cluster["n2"].running.connected(cluster["n2"].now_ns, cluster["n3"].id, 1)
    assert send(cluster, "n3", "n2", RequestVote(99, 99, 99, transfer=True)) == []
    assert cluster["n2"].running.standing.term == 2
    cluster.join("n3", "n1")
    assert cluster["n3"].core is None, "it is told so when it connects, and ends"
