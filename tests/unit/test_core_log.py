"""The facade of one node: what proposals are told, and a state machine that raises.

With one voter, so that every step is the test's; clusters are the simulation's.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from dataclasses import replace

import pytest

from chaos.worlds.loop import VirtualLoop
from chaos.worlds.sim import Machine, SimNode
from chaos.worlds.threads import Speed
from coordinator.raft.datadir import DataDirectory
from coordinator.raft.log import LogConfig, ReplicatedLog
from coordinator.raft.membership import Membership
from coordinator.raft.messages import PeerMessage
from coordinator.raft.proposals import Proposal, Proposals
from coordinator.raft.replication import Window
from coordinator.raft.segments.layout import Entry
from coordinator.raft.snapshots import SnapshotMeta
from coordinator.raft.standing import Role
from coordinator.raft.timing import MS
from raftbatch.errors import Fatal, Invariant, NotLeader, OutcomeUnknown, RaftbatchError
from raftbatch.ids import ClusterId, Identity, NodeId
from raftbatch.world import Buffer
from tests.scenarios.fakes import N1, members
from tests.scenarios.node import DIRECTORY, STORAGE


class Words:
    """A state machine that keeps words, and chokes on `poison`."""

    def __init__(self) -> None:
        self.words: list[bytes] = []

    def apply(self, entry: Entry) -> None:
        """Keep a word."""
        if entry.data == b"poison":
            raise ValueError("poison")
        if entry.data:
            self.words.append(entry.data)

    async def install(self, snapshot: SnapshotMeta, chunks: AsyncIterator[bytes]) -> None:
        """Take over a snapshot."""
        self.words = b"".join([chunk async for chunk in chunks]).split()

    def capture(self) -> Iterable[Buffer]:
        """Return the words."""
        return [b" ".join(self.words)]


class NoPeers:
    """There are none that could be reached.

    Attributes:
        told: every membership it was told of.
    """

    def __init__(self) -> None:
        self.told: list[Membership] = []

    def send(self, peer: NodeId, message: PeerMessage) -> None:
        """Nobody is there."""
        raise AssertionError(f"{message} to {peer}")

    def update(self, membership: Membership) -> None:
        """They stay away."""
        self.told.append(membership)

    def drop(self, peer: NodeId) -> None:
        """Nobody is there."""


class Bench:
    """A machine, and the node on it."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.machine = Machine(loop, 1, "n1", lambda node, why, power: None)
        self.failures: list[Fatal] = []
        self.replica = Words()
        self.log = self.start()

    def start(self) -> ReplicatedLog:
        """Begin a process."""
        self.world: SimNode = self.machine.boot()
        self.peers = NoPeers()
        self.replica = Words()
        log = self.world.call(self._boot)
        assert log is not None
        self.log = log
        self.loop.run_for(2.0)
        return log

    def _boot(self) -> ReplicatedLog:
        if not DataDirectory.is_initialised(self.world, DIRECTORY):
            identity = Identity(ClusterId("0" * 32), N1, 1)
            DataDirectory.create(self.world, DIRECTORY, identity, STORAGE, members(N1))
        return ReplicatedLog(
            self.world,
            DIRECTORY,
            STORAGE,
            self.peers,
            self.replica,
            LogConfig(window=Window(message_bytes_max=4000, in_flight_bytes_max=4000)),
            self.failures.append,
        )

    def propose(self, data: bytes) -> Proposal:
        """Propose."""
        proposal = self.world.call(self.log.propose, self.log.term, data)
        assert proposal is not None
        return proposal

    def outcome(self, wait: Callable[[], Awaitable[object]]) -> object:
        """Return what a wait comes to: a value or an error."""

        async def waited() -> object:
            try:
                return await wait()
            except (RaftbatchError, Fatal) as error:
                return error

        return self.loop.run_until_complete(waited())


@pytest.fixture
def bench() -> Iterator[Bench]:
    with VirtualLoop() as loop:
        yield Bench(loop)


def test_t08_poison_stops_the_node_and_is_applied_once_everywhere(bench: Bench) -> None:
    """T08, faults 9 and 21: what raised was applied again with each tick, on that replica alone."""
    good, poison, after = (bench.propose(word) for word in (b"x", b"poison", b"y"))
    assert bench.outcome(good.committed) is None
    for lost in (poison, after):
        error = bench.outcome(lost.committed)
        assert isinstance(error, OutcomeUnknown)
        assert not error.definite
    assert bench.replica.words == [b"x"]
    (failure,) = bench.failures
    assert isinstance(failure, Invariant)
    with pytest.raises(Invariant):
        bench.propose(b"z")


def test_t08_poison_read_from_disk_stops_the_node_too(bench: Bench) -> None:
    bench.propose(b"poison")
    bench.loop.run_for(1.0)
    bench.machine.kill(power=True)
    bench.failures.clear()
    bench.start()
    assert [type(failure) for failure in bench.failures] == [Invariant]
    assert bench.replica.words == []


def test_t08_waiter_that_fails_changes_nothing(bench: Bench) -> None:
    """T08, fault 9: a callback that raised made the entry be applied again."""

    async def wait(proposal: Proposal) -> None:
        await proposal.committed()
        raise ValueError("the waiter's own fault")

    proposal = bench.propose(b"x")
    with pytest.raises(ValueError, match="the waiter's own fault"):
        bench.loop.run_until_complete(wait(proposal))
    assert bench.outcome(bench.propose(b"y").committed) is None
    assert bench.replica.words == [b"x", b"y"]
    assert bench.failures == []


def test_restart_applies_everything_once(bench: Bench) -> None:
    for word in (b"a", b"b", b"c"):
        assert bench.outcome(bench.propose(word).committed) is None
    bench.machine.kill(power=True)
    bench.start()
    assert bench.replica.words == [b"a", b"b", b"c"]


def test_barrier_returns_what_is_applied(bench: Bench) -> None:
    proposal = bench.propose(b"x")
    index = bench.outcome(bench.log.barrier)
    assert isinstance(index, int)
    assert index >= proposal.index - 1, "what was acknowledged before"
    assert bench.outcome(proposal.committed) is None
    assert bench.outcome(bench.log.barrier) == proposal.index == bench.log.applied


def test_closed_log_says_that_it_does_not_know(bench: Bench) -> None:
    proposal = bench.propose(b"x")
    bench.world.call(bench.log.close)
    assert isinstance(bench.outcome(proposal.committed), OutcomeUnknown)


def _outcome(proposal: Proposal) -> RaftbatchError | None:
    """Return what the proposal was told by now."""
    assert proposal.is_resolved
    return proposal.error


@pytest.fixture
def waiting() -> Iterator[tuple[Proposals, Callable[[int, int], Proposal]]]:
    """Proposals, and what adds one at an index and term."""
    with VirtualLoop() as loop:
        proposals = Proposals()

        def add(index: int, term: int) -> Proposal:
            proposal = Proposal(index, term, loop)
            proposals.add(proposal)
            return proposal

        yield proposals, add


Waiting = tuple[Proposals, Callable[[int, int], Proposal]]


def test_t19_proposal_that_a_snapshot_stands_for_is_unknown(waiting: Waiting) -> None:
    """T19, fault 30: it was never told anything."""
    proposals, add = waiting
    inside, behind = add(3, 1), add(9, 1)
    proposals.installed(5, 1)
    assert isinstance(_outcome(inside), OutcomeUnknown)
    assert not behind.is_resolved


def test_t18_proposal_is_told_when_another_entry_is_applied_in_its_place(waiting: Waiting) -> None:
    """T18, fault 30: it was never told anything."""
    proposals, add = waiting
    mine, other = add(3, 1), add(4, 1)
    proposals.applied(Entry(3, 1, b"mine"))
    proposals.applied(Entry(4, 2, b"other"))
    assert _outcome(mine) is None
    error = _outcome(other)
    assert isinstance(error, NotLeader)
    assert error.definite


def test_proposal_whose_place_is_taken_here_may_still_be_committed(waiting: Waiting) -> None:
    """Another node may hold the entry that was taken back here, lead later, and commit it."""
    _, add = waiting
    early = add(3, 1)
    add(3, 4)
    error = _outcome(early)
    assert isinstance(error, OutcomeUnknown)
    assert not error.definite


def test_proposal_tells_all_who_wait_once_and_never_at_once() -> None:
    """Also whoever asks late; a waiter that was cancelled changes nothing for the others."""
    with VirtualLoop() as loop:
        proposal = Proposal(3, 1, loop)
        told: list[object] = []
        waiters = [loop.create_task(proposal.committed()) for _ in range(3)]
        proposal.when_resolved(told.append)
        loop.run_for(0.1)
        waiters[0].cancel()
        loop.run_for(0.1)
        proposal.resolve(None)
        proposal.resolve(OutcomeUnknown("too late"))
        proposal.when_resolved(told.append)
        assert told == []
        loop.run_for(0.1)
        assert told == [None, None]
        assert [waiter.cancelled() for waiter in waiters] == [True, False, False]
        assert [waiter.exception() for waiter in waiters[1:]] == [None, None]
        assert loop.run_until_complete(proposal.committed()) is None


def test_proposal_that_failed_says_so_to_all() -> None:
    with VirtualLoop() as loop:
        proposal, why = Proposal(3, 1, loop), OutcomeUnknown("why")
        told: list[object] = []
        early = loop.create_task(proposal.committed())
        proposal.when_resolved(told.append)
        loop.run_for(0.1)
        proposal.resolve(why)
        late = loop.create_task(proposal.committed())
        loop.run_for(0.1)
        assert (early.exception(), late.exception(), told) == (why, why, [why])


def test_window_that_a_follower_could_not_take_in_is_refused() -> None:
    window = Window(message_bytes_max=4000, in_flight_bytes_max=4000)
    with pytest.raises(ValueError, match=r"pending_bytes_max = 20000 is less than .* = 20001"):
        window.check_fits(replace(STORAGE.journal, entry_bytes_max=12_001))
    window.check_fits(replace(STORAGE.journal, entry_bytes_max=12_000))


def test_read_of_a_lone_voter_is_answered_though_a_heartbeat_comes_first(bench: Bench) -> None:
    core, now_ns = bench.log._core, bench.world.clock.monotonic_ns()
    found: list[int | None] = []
    core.read(now_ns, found.append)
    core.tick(now_ns + 50 * MS)
    core.replicate(now_ns + 50 * MS)
    assert found == [bench.log.commit]


def leads(bench: Bench) -> bool:
    """Whether the node leads."""
    return bench.log.role is Role.LEADER


def test_leader_whose_disk_hangs_lets_another_lead(bench: Bench) -> None:
    assert leads(bench)
    bench.machine.speed = Speed(usual_s=(100.0, 100.0))
    proposal = bench.propose(b"x")
    bench.loop.run_for(2.0)
    assert leads(bench), "a slow disk is none that hangs"
    bench.loop.run_for(1.0)
    assert not leads(bench)
    bench.loop.run_for(30.0)
    assert not leads(bench), "it does not stand either"
    bench.machine.speed = Speed()
    bench.loop.run_for(100.0)
    assert leads(bench)
    assert bench.outcome(proposal.committed) is None
