"""What a leader does: feeding, committing, reads, transfers; and snapshots that arrive."""

from __future__ import annotations

import pytest

from coordinator.raft.membership import encode
from coordinator.raft.messages import (
    AppendEntries,
    AppendReply,
    Beat,
    InstallSnapshot,
    RequestVote,
    SnapshotReply,
    TimeoutNow,
    VoteReply,
)
from coordinator.raft.progress import Feeding
from coordinator.raft.replication import Window
from coordinator.raft.segments.layout import Entry
from coordinator.raft.standing import Role
from coordinator.raft.timing import MS
from raftbatch.errors import Draining, NoLeader, NotLeader
from tests.scenarios.bench import Bench, T, heartbeat
from tests.scenarios.fakes import N1, N2, N3, FakeLog, FakeStore, entries, members, meta

CONFIG = encode(members(N1, N2, N3))


def test_leader_feeds_only_who_is_connected_and_probes_again_then() -> None:
    node = Bench()
    node.lead()
    node.core.disconnected(node.now_ns, N3)
    node.pass_ms(50)
    assert {to for to, _ in node.sent()} == {N2}
    node.acknowledge("n2", 3)
    assert node.core.standing.commit == 3
    node.sent()
    node.core.connected(node.now_ns, N3, 1)
    assert node.sent() == [(N3, AppendEntries(2, 2, 1, (), 3, 2))]


def test_followers_that_need_the_same_are_sent_the_same_message() -> None:
    """It is made and encoded once; who needs another part, or has heard less, gets its own."""
    node = Bench()
    node.lead()
    node.acknowledge("n2", 3)
    node.acknowledge("n3", 3)
    node.core.replicate(node.now_ns)
    node.sent()
    node.core.propose(node.now_ns, 2, b"x")
    node.core.replicate(node.now_ns)
    (_, first), (_, second) = node.sent()
    assert first is second
    node.core.disconnected(node.now_ns, N3)
    node.core.propose(node.now_ns, 2, b"y")
    node.core.replicate(node.now_ns)
    ((_, third),) = node.sent()
    assert third == AppendEntries(2, 4, 2, (Entry(5, 2, b"y"),), 3, 1)
    node.core.connected(node.now_ns, N3, 1)
    node.sent()
    node.acknowledge("n3", 3)
    missed = AppendEntries(2, 3, 2, (Entry(4, 2, b"x"),), 3, 1)
    assert node.sent() == [(N3, missed), (N3, third)]


def test_heartbeats_to_followers_that_hold_different_parts_are_different() -> None:
    node = Bench()
    node.lead()
    node.acknowledge("n2", 3)
    node.sent()
    node.pass_ms(50)
    assert node.sent() == [
        (N2, AppendEntries(2, 3, 2, (), 3, 2)),
        (N3, AppendEntries(2, 2, 1, (), 3, 2)),
    ]


def test_follower_that_is_sent_entries_later_hears_of_what_is_committed_by_then() -> None:
    """Though they are what another was sent before: its window was full at that time."""
    node = Bench(window=Window(message_bytes_max=1, in_flight_bytes_max=500))
    node.lead()
    node.acknowledge("n2", 3)
    node.acknowledge("n3", 3)
    node.core.propose(node.now_ns, 2, b"x" * 1000)
    node.core.replicate(node.now_ns)
    node.sent()
    node.acknowledge("n2", 4)
    node.core.propose(node.now_ns, 2, b"y")
    node.core.replicate(node.now_ns, tells=False)
    entry = Entry(5, 2, b"y")
    assert node.sent() == [(N2, AppendEntries(2, 4, 2, (entry,), 4, 1))]
    node.acknowledge("n2", 5)
    node.acknowledge("n3", 4)
    assert node.sent() == [(N3, AppendEntries(2, 4, 2, (entry,), 5, 1))]


def test_leader_does_not_commit_what_only_it_and_no_disk_holds() -> None:
    node = Bench()
    node.lead()
    node.log.is_instant = False
    index = node.core.propose(node.now_ns, 2, b"x")
    node.acknowledge("n2", index)
    assert node.core.standing.commit == 3
    node.log.sync()
    node.core.durable(node.now_ns)
    assert node.core.standing.commit == index


def test_news_of_a_commit_goes_with_entries_or_by_itself_when_it_is_asked_for() -> None:
    node = Bench()
    node.lead()
    node.acknowledge("n2", 3)
    node.acknowledge("n3", 3)
    node.core.replicate(node.now_ns)
    node.sent()
    index = node.core.propose(node.now_ns, 2, b"x")
    assert not node.core.replicate(node.now_ns)
    node.sent()
    node.acknowledge("n2", index)
    assert node.core.replicate(node.now_ns, tells=False), "it is still to be told"
    assert node.sent() == []
    node.core.disconnected(node.now_ns, N3)
    node.core.propose(node.now_ns, 2, b"y")
    assert node.core.replicate(node.now_ns, tells=False)
    assert [(to, message.commit) for to, message in node.sent()] == [(N2, index)]  # type: ignore[union-attr]
    assert not node.core.replicate(node.now_ns)
    assert node.sent() == [], "n2 knows, and n3 is away"
    node.acknowledge("n2", index + 1)
    assert not node.core.replicate(node.now_ns)
    assert node.sent() == [(N2, AppendEntries(2, index + 1, 2, (), index + 1, 1))]


def test_proposals_are_refused_by_who_does_not_lead_that_term() -> None:
    node = Bench()
    with pytest.raises(NoLeader):
        node.core.propose(0, 1, b"x")
    node.receive("n2", heartbeat(1))
    with pytest.raises(NotLeader) as refusal:
        node.core.propose(0, 1, b"x")
    assert refusal.value.leader == "n2"
    node.lead()
    with pytest.raises(NoLeader):
        node.core.propose(node.now_ns, 1, b"x")
    assert node.log.terms == [1, 1, 2]


def test_reads_wait_for_a_round_that_began_later() -> None:
    node = Bench()
    node.lead()
    found: list[int | None] = []
    with pytest.raises(NoLeader, match="committed nothing"):
        node.core.read(node.now_ns, found.append)
    node.acknowledge("n2", 3, round_=1)
    node.core.read(node.now_ns, found.append)
    node.core.read(node.now_ns, found.append)
    assert node.core.replication is not None
    before = node.core.replication.round
    node.core.replicate(node.now_ns)
    assert node.core.replication.round == before + 1, "one round for both"
    asked = node.core.replication.round
    node.acknowledge("n2", 3, round_=asked - 1)
    node.acknowledge("n3", 3, round_=asked - 1)
    assert found == []
    node.acknowledge("n3", 3, round_=asked)
    assert found == [3, 3]


def test_heartbeat_overtakes_entries_that_are_under_way() -> None:
    node = Bench()
    node.lead()
    node.acknowledge("n2", 2)
    node.acknowledge("n3", 3)
    assert node.core.replication is not None
    node.sent()
    node.pass_ms(50)
    round_ = node.core.replication.round
    beats = [(to, message) for to, message in node.sent() if isinstance(message, Beat)]
    assert beats == [(N2, Beat(2, round_))], (
        "n3 has everything: its heartbeat stands behind nothing"
    )


def test_follower_answers_a_heartbeat_that_overtook_entries() -> None:
    node = Bench()
    node.receive("n2", heartbeat(1))
    node.sent()
    node.now_ns += T.election_ms_min * MS - 1
    before = node.core.election.deadline_ns
    node.receive("n2", Beat(1, 7))
    assert node.sent() == [(N2, AppendReply(1, 2, 0, 0, 0, 7))]
    assert node.core.election.deadline_ns > before
    node.receive("n2", Beat(2, 8))
    assert node.sent() == [(N2, AppendReply(2, 0, 0, 0, 0, 8))], "nothing is compared in term 2 yet"


def test_reads_fail_when_leadership_ends() -> None:
    node = Bench()
    node.lead()
    node.acknowledge("n2", 3, round_=1)
    found: list[int | None] = []
    node.core.read(node.now_ns, found.append)
    node.receive("n3", heartbeat(3))
    assert found == [None]


def test_reads_are_answered_by_one_who_is_being_sent_a_snapshot() -> None:
    node = Bench(FakeLog(1, base=(50, 1)), FakeStore(meta(50, 1)))
    node.lead()
    node.acknowledge("n2", 52, round_=1)
    node.receive("n3", AppendReply(2, 0, 51, 3, 1, 1))
    assert node.core.replication is not None
    assert node.core.replication.progress[N3].feeding is Feeding.SNAPSHOT
    found: list[int | None] = []
    node.core.read(node.now_ns, found.append)
    node.core.replicate(node.now_ns)
    node.receive("n3", SnapshotReply(2, 50, 0, node.core.replication.round))
    assert found == [52]


def test_transfer_waits_until_the_heir_has_all_and_accepts_nothing_meanwhile() -> None:
    node = Bench()
    node.lead()
    ended: list[bool] = []
    node.core.hand_over(node.now_ns, N2, ended.append)
    with pytest.raises(Draining):
        node.core.propose(node.now_ns, 2, b"x")
    assert all(not isinstance(message, TimeoutNow) for _, message in node.sent())
    node.acknowledge("n3", 3)
    node.acknowledge("n2", 2)
    assert all(not isinstance(message, TimeoutNow) for _, message in node.sent())
    node.acknowledge("n2", 3)
    assert (N2, TimeoutNow(2)) in node.sent()
    node.acknowledge("n2", 3)
    assert all(not isinstance(message, TimeoutNow) for _, message in node.sent()), "told once"
    node.receive("n2", RequestVote(3, 3, 2, transfer=True))
    assert ended == [True]
    assert node.sent()[-1] == (N2, VoteReply(3, True))


def test_transfer_is_given_up_after_a_while() -> None:
    node = Bench()
    node.lead()
    ended: list[bool] = []
    node.core.hand_over(node.now_ns, N2, ended.append)
    for _ in range(T.election_ms_max // 50):
        node.pass_ms(50)
        node.acknowledge("n3", 3)
    assert ended == [False]
    assert node.core.propose(node.now_ns, 2, b"x") == 4


def test_new_transfer_ends_the_one_before() -> None:
    node = Bench()
    node.lead()
    first: list[bool] = []
    node.core.hand_over(node.now_ns, N2, first.append)
    node.core.hand_over(node.now_ns, N3, lambda moved: None)
    assert first == [False]
    assert node.core.transfer.heir == N3


def test_leadership_is_told_to_begin_only_by_the_leader() -> None:
    node = Bench()
    node.receive("n2", heartbeat(1))
    node.receive("n3", TimeoutNow(1))
    assert node.role() is Role.FOLLOWER
    node.may_lead = False
    node.receive("n2", TimeoutNow(1))
    assert node.role() is Role.FOLLOWER
    node.may_lead = True
    node.receive("n2", TimeoutNow(1))
    assert node.role() is Role.CANDIDATE


def test_old_snapshot_is_answered_with_what_is_committed() -> None:
    node = Bench()
    node.receive("n2", heartbeat(1, commit=2))
    node.sent()
    node.receive("n2", InstallSnapshot(1, 2, 1, CONFIG, 1, b"", 0, b"x", 4))
    assert node.sent() == [(N2, AppendReply(1, 2, 0, 0, 0, 4))]
    assert node.store.steps == []


@pytest.mark.parametrize(
    ("terms", "kept"),
    [((1, 1, 1, 1, 1), [1, 1, 1, 1, 1]), ((1, 1), []), ((1, 1, 1, 2, 2), [])],
)
def test_installed_snapshot_keeps_the_log_only_if_it_follows(
    terms: tuple[int, ...], kept: list[int]
) -> None:
    node = Bench(FakeLog(*terms))
    node.log.set_hard_state(3, None)
    node.receive("n2", InstallSnapshot(3, 4, 1, CONFIG, 1, b"sum", 0, b"x", 1))
    node.store.answer_all()
    assert (node.core.standing.commit, node.installed, node.log.terms) == (4, 1, kept)
    assert node.log.term(4) == 1
    assert node.sent()[-1] == (N2, AppendReply(3, 4, 0, 0, 0, 0))


def test_snapshot_that_was_overtaken_is_not_installed() -> None:
    node = Bench(FakeLog(1, 1))
    node.receive("n2", InstallSnapshot(1, 4, 1, CONFIG, 1, b"sum", 0, b"x", 1))
    node.receive("n2", AppendEntries(1, 2, 1, entries(3, 1, 1, 1), 5, 1))
    node.store.answer_all()
    assert (node.core.standing.commit, node.installed) == (5, 0)
    assert node.log.terms == [1] * 5


def test_entries_read_from_disk_go_out_once_however_late() -> None:
    node = Bench(FakeLog(1, 1, 1, 1, 1))
    node.log.kept_in_memory_from = 5
    node.lead()
    node.receive("n2", AppendReply(2, 0, 5, 2, 1, 1))
    node.acknowledge("n2", 2)
    (first, done), *_ = node.fetch.entries_asked
    assert first == 3
    node.core.disconnected(node.now_ns, N2)
    node.core.connected(node.now_ns, N2, 1)
    node.acknowledge("n2", 2)
    assert len(node.fetch.entries_asked) == 2
    node.sent()
    for _, each in node.fetch.entries_asked:
        each(entries(3, 1, 1))
    data = [m for to, m in node.sent() if isinstance(m, AppendEntries) and m.entries]
    assert [m.prev_index for m in data if m.entries[0].index == 3] == [2]
    node.receive("n3", heartbeat(3))
    done(entries(3, 1, 1))
    assert node.role() is Role.FOLLOWER, "read for a leadership that is over"


def test_read_that_comes_to_nothing_is_tried_again_with_the_next_heartbeat() -> None:
    node = Bench(FakeLog(1, 1, 1, 1, 1))
    node.log.kept_in_memory_from = 5
    node.lead()
    node.receive("n2", AppendReply(2, 0, 5, 2, 1, 1))
    node.acknowledge("n2", 2)
    node.fetch.entries_asked.pop()[1](None)
    node.pass_ms(50)
    assert [first for first, _ in node.fetch.entries_asked] == [3]


def test_snapshot_that_is_gone_is_replaced_by_the_newest() -> None:
    node = Bench(FakeLog(1, base=(50, 1)), FakeStore(meta(50, 1)))
    node.lead()
    node.receive("n2", AppendReply(2, 0, 51, 3, 1, 1))
    offset, done = node.fetch.pieces_asked.pop()
    assert offset == 0
    node.store.newest = meta(51, 1)
    done(None)
    node.pass_ms(50)
    assert node.core.replication is not None
    progress = node.core.replication.progress[N2]
    node.receive("n2", AppendReply(2, 0, progress.next - 1, 3, 1, 1))
    assert progress.snapshot == meta(51, 1)
