"""A leader over a log in memory: what is appended is applied when a test says so.

The replica, the log clock and the leader are the real ones, on a virtual loop whose
time is also the node's. What must never live here: an expectation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from chaos.worlds.loop import VirtualLoop
from coordinator.core.effects import Verdicts
from coordinator.core.invariants import check
from coordinator.core.values import Batch
from coordinator.core.watch import Holding
from coordinator.leader import Leader
from coordinator.leader_parts import LeaderConfig
from coordinator.log_clock import LogClock
from coordinator.proposer import Admission, Landed
from coordinator.raft.proposals import Proposal, Proposals
from coordinator.raft.segments.layout import Entry
from coordinator.raft.segments.limits import Space
from coordinator.raft.standing import Role
from coordinator.raft.timing import MS
from coordinator.replica import Replica
from raftbatch import records as r
from raftbatch.codec import decode_entry, encode_entry
from raftbatch.errors import Fatal, NoLeader, NotLeader, OutcomeUnknown, RaftbatchError
from raftbatch.ids import ClusterId, Identity, NodeId
from raftbatch.kinds import Key
from raftbatch.settings import Model

ME, OTHER = NodeId("n1"), NodeId("n2")
MODEL = ("m", "1")
KEY: Key = ("m", "1", "a")
Answer = Landed | Verdicts | RaftbatchError


class LoopClock:
    """The loop's time, and a wall clock that stands still."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def monotonic_ns(self) -> int:
        """Return virtual time."""
        return 5_000 * MS + self._loop.now_ns

    def wall_ms(self) -> int:
        """Return some time."""
        return 1_700_000_000_000


class MemoryLog:
    """A `leader_parts.Log`: entries wait in `appended` until a test applies or loses them."""

    def __init__(self) -> None:
        self.failure: Fatal | None = None
        self.identity = Identity(ClusterId("0" * 32), ME, 1)
        self.role = Role.FOLLOWER
        self.term = 0
        self.leader: NodeId | None = None
        self.is_caught_up = False
        self.space = Space.ROOMY
        self.refusal: RaftbatchError | None = None
        self.proposals = Proposals()
        self.entries: list[Entry] = []
        self.applied = 0
        self._told: list[Callable[[], None]] = []

    def watch(self, told: Callable[[], None]) -> None:
        """Note whom to tell."""
        self._told.append(told)

    def propose(self, term: int, data: bytes) -> Proposal:
        """Append an entry."""
        if self.failure is not None:
            raise self.failure
        if self.role is not Role.LEADER or term != self.term:
            if self.leader not in (None, ME):
                raise NotLeader("another leads", leader=str(self.leader))
            raise NoLeader("nobody leads")
        if self.refusal is not None:
            raise self.refusal
        index = len(self.entries) + 1
        self.entries.append(Entry(index, term, data))
        proposal = Proposal(index, term, asyncio.get_running_loop())
        self.proposals.add(proposal)
        return proposal

    def fail(self, error: Fatal) -> None:
        """End."""
        self.failure = error
        self.proposals.end(OutcomeUnknown(f"this node stopped: {error}"))
        self.tell()

    def tell(self) -> None:
        """Tell all who watch."""
        for told in self._told:
            told()


@dataclass
class Asked:
    """What became of something that was asked: every answer that was given."""

    answers: list[Answer] = field(default_factory=list)

    def __call__(self, answer: Answer) -> None:
        """Take an answer."""
        self.answers.append(answer)

    @property
    def landed(self) -> Landed:
        """The one answer, which is no error."""
        (answer,) = self.answers
        assert isinstance(answer, Landed), answer
        return answer

    @property
    def error(self) -> RaftbatchError:
        """The one answer, which is an error."""
        (answer,) = self.answers
        assert isinstance(answer, RaftbatchError), answer
        return answer


class Scene:
    """See the module's docstring.

    Attributes:
        leader: of the node.
        asked: everything that was asked, in order.
    """

    def __init__(
        self,
        loop: VirtualLoop,
        *,
        config: LeaderConfig | None = None,
        founding: Sequence[r.Record] = (),
    ) -> None:
        self.loop = loop
        self.process = loop.spawn("n1")
        self.log = MemoryLog()
        self.replica = Replica()
        self.clock = LoopClock(loop)
        self.log_clock = LogClock(self.clock, self.replica)
        self.asked: list[Asked] = []
        self.leader = self.process.call(
            Leader,
            self.clock,
            self.log,
            self.replica,
            self.log_clock,
            config or LeaderConfig(),
            founding,
        )
        self.replica.listeners += [self.log_clock, self.leader]

    # The log's doing.

    def elect(self, *, caught_up: bool = True) -> None:
        """Let this node lead the next term."""
        log = self.log
        log.term += 1
        log.role, log.leader, log.is_caught_up = Role.LEADER, ME, caught_up
        self.process.call(log.tell)

    def depose(self, *, tell: bool = True) -> None:
        """Let another node lead the next term."""
        log = self.log
        log.term += 1
        log.role, log.leader, log.is_caught_up = Role.FOLLOWER, OTHER, False
        if tell:
            self.process.call(log.tell)

    def catch_up(self) -> None:
        """Say that all of the log before the term is applied."""
        self.log.is_caught_up = True
        self.process.call(self.log.tell)

    def lose(self, first: int) -> None:
        """Let another leader's entry stand at an index, in place of all from there on."""
        log = self.log
        del log.entries[first - 1 :]
        self.inherit(r.Lead(str(OTHER), 0, 1))

    def inherit(self, *records: r.Record, term: int = 0) -> None:
        """Let an entry of another leader be in the log."""
        term = term or self.log.term
        at_ms = max(self.replica.state.now_ms, 1)
        data = encode_entry(r.Entry(term, at_ms, records))
        self.log.entries.append(Entry(len(self.log.entries) + 1, term, data))

    def apply(self, count: int = 1 << 30) -> int:
        """Commit and apply so many entries; then let the loop do what is ready."""

        done = 0
        while self.log.applied < len(self.log.entries) and done < count:
            self.land()
            done += 1
        check(self.replica.state)
        self.loop.run_for(0)
        return done

    def land(self) -> None:
        """Commit and apply the next entry, and nothing beside that."""

        def land() -> None:
            log = self.log
            entry = log.entries[log.applied]
            log.applied += 1
            self.replica.apply(entry)
            log.proposals.applied(entry)

        self.process.call(land)

    def fail(self, why: Fatal) -> None:
        """End the log."""
        self.process.call(self.log.fail, why)

    def settle(self, ms: int = 0) -> None:
        """Apply whatever is appended, and let time pass, until nothing more is."""
        self.loop.run_for(ms / 1000)
        while self.apply():
            pass

    # What is asked.

    def begin(self, *records: r.Record) -> None:
        """Let this node lead and be ready, and land these records, each in its turn."""
        self.elect()
        self.settle()
        assert self.leader.is_ready
        for record in records:
            self.propose(record)
            self.settle()

    def admit(self, request_id: str, **fields: object) -> Asked:
        """Ask for a request to be admitted; raises what `admit` raises."""
        asked = Asked()
        self.process.call(self.leader.admit, admission(request_id, **fields), asked)
        self.asked.append(asked)
        return asked

    def admit_all(self, requests: Sequence[tuple[str, dict[str, object]]]) -> list[Asked] | None:
        """Ask for requests to be admitted together; None: they were not taken so."""
        asked = [Asked() for _ in requests]
        admissions = [admission(request_id, **fields) for request_id, fields in requests]
        if not self.process.call(self.leader.admit_all, admissions, asked):
            return None
        self.asked += asked
        return asked

    def propose(self, record: r.Record) -> Asked:
        """Ask for a record to be proposed; raises what `propose` raises."""
        asked = Asked()
        self.process.call(self.leader.propose, record, asked)
        self.asked.append(asked)
        return asked

    def beat(self, *held: Holding, executor: str = "gpu-1", tailed_index: int = 0) -> None:
        """Let an executor be heard of; raises what `heartbeat` raises."""
        incarnation = self.replica.state.executors[executor].incarnation
        self.process.call(self.leader.heartbeat, executor, incarnation, tailed_index, held)

    def turn(self) -> None:
        """Let the loop do what is ready."""
        self.loop.run_for(0)

    # What can be seen.

    def is_ready(self) -> bool:
        """Return whether the leader is."""
        return self.leader.is_ready

    def records(self, index: int) -> list[str]:
        """Return the names of the records of an entry."""
        return [type(each).__name__ for each in self.entry(index).records]

    def entry(self, index: int) -> r.Entry:
        """Return an entry, decoded."""
        return decode_entry(self.log.entries[index - 1].data)

    def check(self) -> None:
        """Expect that nobody was told twice, and that no decision was wrong."""
        assert all(len(each.answers) <= 1 for each in self.asked)
        assert self.leader.counts.stale_total == self.leader.counts.voids_total == 0


def admission(request_id: str, **fields: object) -> Admission:
    """Return a request."""
    values: dict[str, object] = {
        "key": KEY,
        "tenant": "t",
        "request_id": request_id,
        "content_hash": b"h",
        "rows": 1,
        "priority": 1,
        "timeout_ms": 0,
        "payload": b"x" * 10,
        "parameters": b"",
        "traceparent": "",
    }
    return Admission(**{**values, **fields})  # type: ignore[arg-type]


def put(**settings: object) -> r.PutModel:
    """Return a PutModel of the one version."""
    return r.PutModel(Model(*MODEL, **settings))  # type: ignore[arg-type]


def join(executor: str = "gpu-1", slots: int = 1) -> r.Join:
    """Return the Join of an executor that can run the model."""
    return r.Join(executor, 0, slots, (MODEL,), b"")


def report(batch: Batch, *, kind: int = 0, infer_ms: int = 1) -> r.Complete:
    """Return the whole report of a batch's current attempt."""
    n = len(batch.members)
    return r.Complete(
        batch.number,
        batch.assigned,
        batch.fence,
        batch.executor,
        batch.incarnation,
        True,
        *(0, 0, infer_ms * 1_000_000, 0),
        (n,),
        b"",
        batch.members,
        (kind,) * n,
        ("",) * n,
        ("",) * n,
        (b"",) * n,
    )
