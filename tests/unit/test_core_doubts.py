"""The core beside peers that are late, wrong or full: what it must not believe, keep or ask."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coordinator.raft.election import Phase
from coordinator.raft.membership import encode
from coordinator.raft.messages import (
    TERM_LEAP_MAX,
    AppendEntries,
    AppendReply,
    InstallSnapshot,
    Message,
    PreVoteReply,
    SnapshotReply,
    TimeoutNow,
    VoteReply,
)
from coordinator.raft.replication import Window
from coordinator.raft.standing import Role
from coordinator.raft.timing import MS
from coordinator.raft.uncommitted import Uncommitted
from raftbatch.errors import Invariant, Overloaded
from tests.scenarios.bench import Bench, T, heartbeat
from tests.scenarios.fakes import N1, N2, N3, FakeLog, FakeStore, entries, members, meta

CONFIG = encode(members(N1, N2, N3))


def piece(term: int, round_: int, data: bytes = b"abc", *, index: int = 9) -> InstallSnapshot:
    """Return the first piece of a snapshot of six bytes."""
    return InstallSnapshot(term, index, 1, CONFIG, 6, b"sum", 0, data, round_)


def answer_all(node: Bench, *working: str) -> None:
    """End what waits for the store: of it only these steps work."""
    while node.store.is_waiting:
        node.store.answer(worked=node.store.steps[-1] in working)


def test_late_vote_lets_nobody_lead_a_term_twice() -> None:
    node = Bench()
    node.lead()
    node.pass_ms(T.election_ms_max + 100)
    assert node.role() is Role.FOLLOWER, "nobody was heard"
    assert node.core.standing.term == 2
    node.receive("n3", VoteReply(2, True))
    assert node.role() is Role.FOLLOWER


def test_votes_of_a_term_without_elections_count_for_nothing() -> None:
    node = Bench(FakeLog())
    assert node.core.standing.term == 0
    for voter in ("n2", "n3"):
        node.receive(voter, VoteReply(0, True))
    assert node.role() is Role.FOLLOWER


def test_round_of_one_leader_is_not_answered_to_the_next() -> None:
    node = Bench()
    node.receive("n2", piece(2, 50))
    node.receive("n3", AppendEntries(3, 2, 1, (), 0, 1))
    node.sent()
    node.store.answer_all()
    rounds = [message.round for _, message in node.sent() if isinstance(message, SnapshotReply)]
    assert rounds == [0]


@pytest.mark.parametrize(
    "message", [AppendReply(2, 3, 0, 0, 0, 99), SnapshotReply(2, 9, 3, 99)], ids=["append", "piece"]
)
def test_round_that_was_never_asked_proves_no_read(message: Message) -> None:
    node = Bench()
    node.lead()
    node.acknowledge("n2", 3, round_=1)
    node.receive("n3", message)
    found: list[int | None] = []
    node.core.read(node.now_ns, found.append)
    node.core.replicate(node.now_ns)
    assert found == []


def test_acknowledgement_of_what_was_never_sent_commits_nothing() -> None:
    node = Bench()
    node.lead()
    node.acknowledge("n2", 10**9)
    node.core.propose(node.now_ns, 2, b"x")
    node.core.replicate(node.now_ns)
    assert node.core.standing.commit < 3


def test_acknowledgement_of_an_earlier_term_counts_for_nothing() -> None:
    node = Bench()
    node.lead()
    node.receive("n2", AppendReply(1, 3, 0, 0, 0, 0))
    assert node.core.standing.commit < 3
    node.receive("n2", AppendReply(2, 3, 0, 0, 0, 0))
    assert node.core.standing.commit == 3


def test_entries_read_for_an_earlier_connection_are_not_sent() -> None:
    node = Bench(FakeLog(1, 1, 1, 1, 1))
    node.log.kept_in_memory_from = 5
    node.lead()
    for _ in range(2):
        node.core.disconnected(node.now_ns, N2)
        node.core.connected(node.now_ns, N2, 1)
        node.receive("n2", AppendReply(2, 0, 5, 2, 1, 1))
        node.acknowledge("n2", 2)
    (_, first), (_, second) = node.fetch.entries_asked
    node.sent()
    first(entries(3, 1, 1))
    assert node.sent() == [], "they are being read anew"
    second(entries(3, 1, 1))
    assert any(isinstance(m, AppendEntries) and m.entries for _, m in node.sent())
    assert len(node.fetch.entries_asked) == 2


def test_second_leader_of_a_term_stops_who_hears_both() -> None:
    node = Bench()
    node.receive("n2", AppendEntries(2, 2, 1, entries(3, 2), 0, 1))
    with pytest.raises(Invariant, match="n2 leads term 2, and so does n3"):
        node.receive("n3", AppendEntries(2, 2, 1, entries(3, 1), 3, 1))


@pytest.mark.parametrize(
    "message",
    [AppendEntries(2, 2, 1, entries(3, 7), 3, 1), replace(piece(2, 1), index_term=7)],
    ids=["append", "piece"],
)
def test_what_is_of_a_later_term_than_its_leader_stops_the_node(message: Message) -> None:
    node = Bench()
    with pytest.raises(Invariant, match="of a later term than its sender's"):
        node.receive("n2", message)
    assert node.log.last_term == 1


def test_term_that_leaves_no_room_is_approached_in_steps() -> None:
    node = Bench()
    for steps in (1, 2):
        node.receive("n2", TimeoutNow((1 << 63) - 1))
        assert node.core.standing.term == 1 + steps * TERM_LEAP_MAX
    assert node.role() is Role.FOLLOWER, "what it said is not heard"


def test_snapshot_finished_by_who_leads_by_then_is_told_to_nobody() -> None:
    node = Bench(FakeLog(1, 1))
    node.receive("n2", piece(1, 1, b"abcdef", index=2))
    while node.core.election.phase is Phase.WAITING:
        node.pass_ms(50)
    node.receive("n2", PreVoteReply(2, True, 1))
    node.receive("n2", VoteReply(2, True))
    assert node.role() is Role.LEADER
    node.sent()
    node.store.answer_all()
    assert all(to != N1 for to, _ in node.sent())


def test_snapshot_that_does_not_fit_is_asked_for_seldom() -> None:
    node = Bench()
    asked = 0
    for round_ in range(1, 21):
        node.now_ns += 50 * MS
        node.receive("n2", piece(1, round_, b""))
        answer_all(node, "begin 9@1", "write ")
        if any(isinstance(message, SnapshotReply) for _, message in node.sent()):
            asked += 1
            node.receive("n2", piece(1, round_))
            answer_all(node)
    assert asked == 1


def test_leader_without_room_steps_down() -> None:
    node = Bench()
    node.lead()
    node.acknowledge("n2", 3, 1)
    node.may_lead = False
    node.pass_ms(50)
    assert node.role() is Role.FOLLOWER


def test_who_was_restarted_behind_an_installed_snapshot_says_so() -> None:
    node = Bench(FakeLog(base=(4, 1)), FakeStore(meta(4, 1)))
    node.receive("n2", replace(piece(1, 4, b"", index=4), size=1))
    assert node.sent() == [(N2, AppendReply(1, 4, 0, 0, 0, 4))]


def test_piece_read_for_a_leadership_that_is_over_is_not_sent() -> None:
    node = Bench(FakeLog(1, base=(50, 1)), FakeStore(meta(50, 1)))
    node.lead()
    node.receive("n3", AppendReply(2, 0, 51, 3, 1, 1))
    [(_, done)] = node.fetch.pieces_asked
    node.receive("n2", heartbeat(3))
    node.sent()
    done(b"abc")
    assert node.sent() == []


def test_leader_whose_entries_no_majority_takes_refuses_more() -> None:
    node = Bench(window=Window(message_bytes_max=1, uncommitted_bytes_max=1000))
    node.lead()
    node.core.propose(node.now_ns, 2, bytes(2000))
    with pytest.raises(Overloaded, match="wait for a majority"):
        node.core.propose(node.now_ns, 2, b"x")
    node.acknowledge("n2", node.log.last_index)
    node.core.propose(node.now_ns, 2, b"x")


def test_uncommitted_counts_what_is_committed_no_more() -> None:
    waiting = Uncommitted(200, 25)
    for index in (5, 6):
        waiting.check(40)
        waiting.add(index, 40)
    with pytest.raises(Overloaded) as refusal:
        waiting.check(40)
    assert refusal.value.retry_after_ms == 25
    waiting.committed(5)
    waiting.check(40)
    waiting.committed(9)
    assert waiting.bytes == 0


@pytest.mark.parametrize("name", ["message_bytes_max", "in_flight_bytes_max"])
def test_window_without_a_byte_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="without a byte"):
        replace(Window(), **{name: 0})
