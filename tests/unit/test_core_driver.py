"""In which order the driver does what follows from an event, and when nothing does.

A node on a simulated machine; the test is its peers.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chaos.worlds.loop import VirtualLoop
from chaos.worlds.sim import Machine, SimNode
from chaos.worlds.threads import Speed
from coordinator.raft.datadir import DataDirectory
from coordinator.raft.log import LogConfig, ReplicatedLog
from coordinator.raft.membership import Membership
from coordinator.raft.messages import (
    AppendEntries,
    AppendReply,
    Beat,
    PeerMessage,
    PreVote,
    PreVoteReply,
    RequestVote,
    VoteReply,
)
from coordinator.raft.replication import Window
from coordinator.raft.segments.layout import Entry
from coordinator.raft.standing import Role
from raftbatch.errors import Fatal
from raftbatch.ids import ClusterId, Identity, NodeId
from tests.scenarios.fakes import N1, N2, N3, members
from tests.scenarios.node import DIRECTORY, STORAGE
from tests.unit.test_core_log import Words

HUNG = Speed(usual_s=(100.0, 100.0))


class Scene:
    """A node n1 whose peers n2 and n3 say what a test lets them say.

    Attributes:
        happened: what it said and applied, in order.
    """

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.happened: list[object] = []
        self.failures: list[Fatal] = []
        self.machine = Machine(loop, 1, "n1", lambda node, why, power: None)
        self.world: SimNode = self.machine.boot()
        log = self.world.call(self._boot)
        assert log is not None
        self.log = log
        for peer in (N2, N3):
            self.world.call(log.connected, peer, 1)

    def _boot(self) -> ReplicatedLog:
        identity = Identity(ClusterId("0" * 32), N1, 1)
        DataDirectory.create(self.world, DIRECTORY, identity, STORAGE, members(N1, N2, N3))
        replica, happened = Words(), self.happened
        keep = replica.apply

        def apply(entry: Entry) -> None:
            keep(entry)
            happened.append(entry.data)

        replica.apply = apply  # type: ignore[method-assign]
        config = LogConfig(window=Window(message_bytes_max=4000, in_flight_bytes_max=4000))
        fail = self.failures.append
        return ReplicatedLog(self.world, DIRECTORY, STORAGE, self, replica, config, fail)

    def send(self, peer: NodeId, message: PeerMessage) -> None:
        """Note it; votes are given at once."""
        self.happened.append(message)
        match message:
            case PreVote(term=term):
                self.loop.call_soon(self.says, peer, PreVoteReply(term, True, term - 1))
            case RequestVote(term=term):
                self.loop.call_soon(self.says, peer, VoteReply(term, True))

    def update(self, membership: Membership) -> None:
        """They stay."""

    def drop(self, peer: NodeId) -> None:
        """They stay."""

    def says(self, peer: NodeId, message: PeerMessage) -> None:
        """Let a peer say something."""
        self.world.call(self.log.receive, peer, message)

    def took_place(self) -> list[object]:
        """Return what has happened since it was asked last."""
        happened, self.happened[:] = list(self.happened), []
        return happened


@pytest.fixture
def scene() -> Iterator[Scene]:
    with VirtualLoop() as loop:
        yield Scene(loop)


def follow(scene: Scene) -> AppendEntries:
    """Let n2 lead term 1, with two entries of which the first is committed; return the next."""
    first, second = Entry(2, 1, b"first"), Entry(3, 1, b"second")
    assert scene.log.last_index == 1, "the founders' entry"
    scene.says(N2, AppendEntries(1, 1, 1, (first, second), 2, 1))
    scene.loop.run_for(0.1)
    assert scene.log.applied == 2
    scene.took_place()
    return AppendEntries(1, 3, 1, (Entry(4, 1, b"third"),), 3, 1)


def test_follower_says_what_it_holds_before_it_applies_what_it_heard_with_it(scene: Scene) -> None:
    """The leader, and all who wait for it, wait for that; the disk is quick."""
    scene.says(N2, follow(scene))
    scene.loop.run_for(0.1)
    assert scene.took_place() == [AppendReply(1, 4, 0, 0, 0, 0), b"second"]


def test_what_follows_from_a_message_is_not_put_off(scene: Scene) -> None:
    """Not even to the next turn of the loop: what it brought is on its way to the disk."""
    message = follow(scene)
    scene.says(N2, message)
    journal = scene.log._driver.journal
    assert (journal.last_index, len(journal.waiting)) == (4, 0)


def test_follower_applies_what_comes_without_entries_at_once(scene: Scene) -> None:
    follow(scene)
    scene.machine.speed = HUNG
    scene.says(N2, AppendEntries(1, 3, 1, (), 3, 1))
    scene.loop.run_for(0.001)
    assert scene.took_place() == [b"second"]


def test_follower_whose_disk_hangs_applies_all_the_same(scene: Scene) -> None:
    """With whatever comes next, be it more entries; and its own timer comes, if nothing else."""
    message = follow(scene)
    scene.machine.speed = HUNG
    scene.says(N2, message)
    scene.loop.run_for(0.001)
    assert scene.took_place() == []
    scene.says(N2, AppendEntries(1, 4, 1, (Entry(5, 1, b"fourth"),), 3, 1))
    scene.loop.run_for(0.001)
    assert scene.took_place() == [b"second"]
    scene.says(N2, AppendEntries(1, 5, 1, (Entry(6, 1, b"fifth"),), 4, 1))
    scene.loop.run_for(0.001)
    assert scene.took_place() == []
    scene.loop.run_for(0.2)
    assert scene.took_place() == [b"third"]


def test_follower_with_much_to_apply_does_not_put_it_off(scene: Scene) -> None:
    many = tuple(Entry(index, 1, b"word") for index in range(4, 14))
    message = follow(scene)
    scene.says(N2, AppendEntries(1, 3, 1, many, 2, 1))
    scene.loop.run_for(0.1)
    scene.took_place()
    scene.machine.speed = HUNG
    scene.says(N2, AppendEntries(1, 13, 1, (Entry(14, 1, b"last"),), 13, message.round))
    scene.loop.run_for(0.001)
    assert scene.took_place() == [b"second", *(b"word" for _ in many)]


def counted(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return how often the driver does from now on what follows, in a list of one."""
    core, turns = scene.log._core, [0]
    replicate = core.replicate

    def counting(now_ns: int, *, tells: bool = True) -> bool:
        turns[0] += 1
        return replicate(now_ns, tells=tells)

    monkeypatch.setattr(core, "replicate", counting)
    return turns


def test_what_follows_from_thousands_of_messages_at_once_is_done_once_for_most(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that stood still finds so many with one read, and others wait for the loop, too."""
    message = follow(scene)
    turns = counted(scene, monkeypatch)
    for _ in range(3):
        before = turns[0]
        for _ in range(3000):
            scene.says(N2, Beat(1, message.round))
        scene.says(N2, message)
        scene.loop.run_for(0.1)
        assert turns[0] - before <= 64 + 10, "those, and what the disk and the timer bring"
    happened = scene.took_place()
    assert AppendReply(1, 4, 0, 0, 0, 0) in happened
    assert happened.count(b"second") == 1


def test_one_turn_applies_no_more_than_frames_may_wait_for(scene: Scene) -> None:
    """Though it brings many messages, and each of them commits some entries."""
    round_ = follow(scene).round
    for first in range(4, 304, 20):
        entries = tuple(Entry(index, 1, b"word") for index in range(first, first + 20))
        scene.says(N2, AppendEntries(1, first - 1, 1, entries, first + 19, round_))
    assert scene.log.applied <= 2 * 64 < scene.log.last_index == 303
    scene.loop.run_for(0.1)
    assert scene.log.applied == 303


def lead(scene: Scene) -> int:
    """Let n1 lead; return its term, when all hold its first entry and know that."""
    scene.loop.run_for(1.0)
    log = scene.log
    assert log.role is Role.LEADER
    for peer in (N2, N3):
        scene.says(peer, AppendReply(log.term, log.last_index, 0, 0, 0, 0))
    scene.loop.run_for(0.01)
    assert log.applied == log.last_index
    scene.took_place()
    return log.term


def test_leader_does_nothing_for_an_answer_that_changes_nothing(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third node of three holds an entry that the two others have committed already."""
    term = lead(scene)
    proposal = scene.world.call(scene.log.propose, term, b"word")
    assert proposal is not None
    scene.loop.run_for(0.01)
    turns = counted(scene, monkeypatch)
    scene.says(N2, AppendReply(term, proposal.index, 0, 0, 0, 0))
    scene.loop.run_for(0.001)
    assert proposal.is_resolved
    assert turns[0] > 0
    told = [each.commit for each in scene.took_place() if isinstance(each, AppendEntries)]
    assert proposal.index in told, "the news of it"
    turns[0] = 0
    scene.says(N3, AppendReply(term, proposal.index, 0, 0, 0, 0))
    scene.loop.run_for(0.001)
    assert turns[0] == 0
    assert scene.log.followers[N3].match == proposal.index


def test_leader_sends_on_when_an_answer_makes_room(scene: Scene) -> None:
    """Also where nothing is committed by it: the window of one follower was full."""
    term = lead(scene)
    for _ in range(3):
        scene.world.call(scene.log.propose, term, b"x" * 3000)
    scene.loop.run_for(0.001)
    index = scene.log.last_index
    sent = [each for each in scene.took_place() if isinstance(each, AppendEntries)]
    assert max(each.entries[-1].index for each in sent) < index
    scene.says(N3, AppendReply(term, index - 2, 0, 0, 0, 0))
    scene.says(N3, AppendReply(term, index - 1, 0, 0, 0, 0))
    scene.loop.run_for(0.001)
    sent = [each for each in scene.took_place() if isinstance(each, AppendEntries)]
    assert [each.entries[-1].index for each in sent if each.entries] == [index]


def test_leaders_read_is_answered_by_an_answer_that_changes_nothing_else(scene: Scene) -> None:
    lead(scene)
    task = scene.loop.create_task(scene.log.barrier())
    scene.loop.run_for(0.001)
    (asked, *_) = [each for each in scene.took_place() if isinstance(each, AppendEntries)]
    assert not task.done()
    scene.says(N2, AppendReply(asked.term, scene.log.last_index, 0, 0, 0, asked.round))
    scene.loop.run_for(0.001)
    assert task.result() == scene.log.applied


@pytest.mark.parametrize("proposes", [False, True])
def test_leader_that_stood_still_does_not_take_its_disk_for_hung(
    scene: Scene, proposes: bool
) -> None:
    """All nodes on one machine did: it hears its followers, of which nothing follows, and leads."""
    term = lead(scene)
    loop, process, log = scene.loop, scene.world.process, scene.log
    process.pause()
    loop.run_for(3.0)
    for peer in (N2, N3):
        reply = AppendReply(term, log.last_index, 0, 0, 0, 0)
        loop.deliver_at(loop.now_ns, process, log.receive, peer, reply)
    if proposes:
        loop.deliver_at(loop.now_ns, process, log.propose, term, b"word")
    process.resume()
    loop.run_for(0.01)
    assert (log.role, log.term) == (Role.LEADER, term)


@pytest.mark.parametrize("stalls_s", [0.0, 3.0])
def test_leader_whose_disk_hangs_steps_down_also_after_it_stood_still(
    scene: Scene, stalls_s: float
) -> None:
    """By default within 2.4 s of which the process runs: its followers answer all the time."""
    term = lead(scene)
    scene.machine.speed = HUNG
    scene.world.call(scene.log.propose, term, b"word")
    scene.world.process.pause()
    scene.loop.run_for(stalls_s)
    scene.world.process.resume()
    for _ in range(26):
        assert scene.log.term == term
        for peer in (N2, N3):
            scene.says(peer, AppendReply(term, scene.log.last_index, 0, 0, 0, 0))
        scene.loop.run_for(0.1)
    assert scene.log.role is Role.FOLLOWER
