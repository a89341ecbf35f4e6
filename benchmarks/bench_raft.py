"""The consensus core alone: proposals a second, in one loop, without a disk or a network.

Three cores over logs in memory that are durable at once, joined by queues, on
one asyncio loop (uvloop where it is installed). What is measured is the CPU that
consensus costs; a disk and a network only make it slower. Also: what three whole
nodes that do nothing cost. `python -m benchmarks.bench_raft [--json FILE]`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from benchmarks.machine import look, scratch
from coordinator.raft.core import Core
from coordinator.raft.datadir import DataDirectory, StorageLimits
from coordinator.raft.log import LogConfig, ReplicatedLog
from coordinator.raft.membership import Membership, encode, founders
from coordinator.raft.messages import Message, PeerMessage
from coordinator.raft.replication import Window
from coordinator.raft.retention import RetentionLimits
from coordinator.raft.segments.layout import Entry, HardState
from coordinator.raft.segments.limits import JournalLimits
from coordinator.raft.segments.tail import Tail
from coordinator.raft.segments.terms import Terms
from coordinator.raft.snapshots import SnapshotLimits, SnapshotMeta
from coordinator.raft.standing import Role
from coordinator.raft.timing import Timing
from raftbatch.errors import Fatal
from raftbatch.ids import ClusterId, Identity, NodeId
from raftbatch.realworld import RealWorld

NODES = [NodeId("n1"), NodeId("n2"), NodeId("n3")]
FOUNDERS = founders({node: f"{node}:1" for node in NODES})
FIRST = Entry(0, 0, encode(FOUNDERS), is_config=True)
TAIL_BYTES_MAX = 8 << 20


class MemoryLog:
    """A `ports.Log` that is durable as soon as it is written."""

    def __init__(self) -> None:
        self.hard_state = HardState(0, None)
        self.last_index = 0
        self.lsn = 0
        self._tail = Tail(0)
        self._terms = Terms(0, 0)

    @property
    def durable(self) -> int:
        """All of it."""
        return self.lsn

    @property
    def first_index(self) -> int:
        """As far as the tail reaches; followers are never further behind here."""
        return self._tail.first

    @property
    def durable_index(self) -> int:
        """The last."""
        return self.last_index

    @property
    def last_term(self) -> int:
        """Of the last entry."""
        return self._terms.newest

    def term(self, index: int) -> int | None:
        """Of an entry."""
        return self._terms.of(index) if 0 <= index <= self.last_index else None

    def config(self, index: int) -> Entry:
        """The only one."""
        assert index >= 0
        return FIRST

    def append(self, term: int, data: bytes, *, is_config: bool = False) -> int:
        """Add an entry."""
        assert not is_config
        self.lsn += 1
        self.last_index += 1
        self._terms.append(self.last_index, term)
        self._tail.append(Entry(self.last_index, term, data), self.lsn)
        if self._tail.size > TAIL_BYTES_MAX:
            self._tail.evict(self.lsn, TAIL_BYTES_MAX)
        return self.lsn

    def set_hard_state(self, term: int, vote: NodeId | None) -> int:
        """Change it."""
        self.lsn += 1
        self.hard_state = HardState(term, vote)
        return self.lsn

    def truncate(self, index: int) -> int:
        """Nothing is taken back here."""
        raise NotImplementedError

    def reset(self, index: int, term: int) -> int:
        """Nothing is replaced here."""
        raise NotImplementedError

    def tail(self, first: int, bytes_max: int) -> tuple[Entry, ...]:
        """Return entries."""
        return self._tail.slice(first, bytes_max)


class Nothing:
    """No snapshots, and no reads that take time."""

    newest = None

    def __getattr__(self, name: str) -> object:
        raise NotImplementedError(name)


@dataclass
class Cluster:
    """Three cores on one loop."""

    cores: dict[NodeId, Core] = field(default_factory=dict)
    inboxes: dict[NodeId, deque[tuple[NodeId, Message]]] = field(default_factory=dict)
    messages: int = 0
    is_due: bool = False

    def start(self) -> None:
        """Elect n1."""
        nothing = Nothing()
        for node in NODES:
            self.inboxes[node] = deque()
            self.cores[node] = Core(
                node,
                1,
                MemoryLog(),
                nothing,  # type: ignore[arg-type]
                nothing,  # type: ignore[arg-type]
                Timing(),
                Window(),
                lambda bound: bound // 2,
                lambda: True,
                lambda: None,
                time.monotonic_ns(),
            )
        for node in NODES:
            for peer in NODES:
                if peer != node:
                    self.cores[node].connected(time.monotonic_ns(), peer, 1)
        self.cores[NODES[0]].election.begin(transfer=False)
        while self.leader.standing.commit == 0:
            self.pump()

    @property
    def leader(self) -> Core:
        """The one that was elected."""
        return self.cores[NODES[0]]

    def pump(self) -> None:
        """Hand out what waits, once around."""
        self.is_due = False
        now_ns = time.monotonic_ns()
        for node, core in self.cores.items():
            inbox, self.inboxes[node] = self.inboxes[node], deque()
            for sender, message in inbox:
                core.receive(now_ns, sender, message)
            core.durable(now_ns)
            core.replicate(now_ns)
            self.messages += len(core.standing.outbox)
            for outgoing in core.standing.outbox:
                self.inboxes[outgoing.to].append((node, outgoing.message))
            core.standing.outbox.clear()


async def proposals(size: int, in_flight: int, seconds: float) -> tuple[float, float]:
    """Return committed proposals a second, and messages a proposal."""
    cluster = Cluster()
    cluster.start()
    assert cluster.leader.standing.role is Role.LEADER
    data = bytes(size)
    term, log = cluster.leader.standing.term, cluster.leader.standing.log
    begin, done = time.perf_counter(), 0
    first, cluster.messages = log.last_index, 0
    while (elapsed := time.perf_counter() - begin) < seconds:
        waiting = log.last_index - cluster.leader.standing.commit
        for _ in range(in_flight - waiting):
            cluster.leader.propose(time.monotonic_ns(), term, data)
        cluster.pump()
        await asyncio.sleep(0)
        done = cluster.leader.standing.commit - first
    return done / elapsed, cluster.messages / done


class Idler:
    """A replica that is never given anything but what marks a term."""

    def apply(self, entry: Entry) -> None:
        """Do nothing."""

    async def install(self, snapshot: SnapshotMeta, chunks: AsyncIterator[bytes]) -> None:
        """Do nothing."""

    def capture(self) -> Iterable[bytes]:
        """Hold nothing."""
        return ()


class Wire:
    """Hands messages to the others on the same loop."""

    def __init__(self, self_id: NodeId, logs: dict[NodeId, ReplicatedLog]) -> None:
        self._self_id = self_id
        self._logs = logs

    def send(self, peer: NodeId, message: PeerMessage) -> None:
        """Deliver with the next turn of the loop."""
        loop = asyncio.get_running_loop()
        loop.call_soon(self._logs[peer].receive, self._self_id, message)

    def update(self, membership: Membership) -> None:
        """All are connected."""

    def drop(self, peer: NodeId) -> None:
        """All stay so."""


async def idle(seconds: float, directory: Path) -> float:
    """Return the share of a core that three whole nodes, over real files, take to do nothing."""
    world, logs = RealWorld(), dict[NodeId, ReplicatedLog]()
    journal = JournalLimits(
        segment_bytes=1 << 20,
        disk_low_bytes=1 << 23,
        disk_reserve_bytes=1 << 22,
        snapshot_bytes_max=1 << 20,
    )
    limits = StorageLimits(journal, SnapshotLimits(1 << 20), RetentionLimits(0, 0, 0))
    for node in NODES:
        path = str(directory / node)
        identity = Identity(ClusterId("0" * 32), node, 1)
        DataDirectory.create(world, path, identity, limits, FOUNDERS)
        logs[node] = ReplicatedLog(
            world, path, limits, Wire(node, logs), Idler(), LogConfig(), _fail
        )
    for node in NODES:
        for peer in NODES:
            if peer != node:
                logs[node].connected(peer, 1)
    await asyncio.sleep(2)
    leaders = [log for log in logs.values() if log.role is Role.LEADER]
    assert len(leaders) == 1
    begin = time.process_time()
    await asyncio.sleep(seconds)
    spent = time.process_time() - begin
    for log in logs.values():
        log.close()
    return spent / seconds


def _fail(fatal: Fatal) -> None:
    raise fatal


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    cases = [(200, 1), (200, 64), (200, 1000), (2048, 1000), (48 * 1024, 64)]
    with scratch(Path.cwd()) as directory:  # first: a heap full of what the loads left costs more
        share = asyncio.run(idle(10.0, directory))
    print(f"three nodes that do nothing: {share:.2%} of a core")
    found: dict[str, list[tuple[float, float]]] = {}
    for _ in range(chosen.rounds):  # alternating, so that a slow minute meets all cases
        for size, in_flight in cases:
            once = asyncio.run(proposals(size, in_flight, 1.0))
            found.setdefault(f"{size} B x {in_flight}", []).append(once)
    print(f"{'size x in flight':>20} {'proposals/s':>14} {'min':>10} {'max':>10} {'messages':>9}")
    report: dict[str, object] = {"machine": look(Path.cwd(), "asyncio").facts()}
    report["idle_share_of_a_core"] = share
    for name, figures in found.items():
        rates = sorted(rate for rate, _ in figures)
        per = median(messages for _, messages in figures)
        print(
            f"{name:>20} {median(rates):>14,.0f} {rates[0]:>10,.0f} {rates[-1]:>10,.0f} {per:>9.2f}"
        )
        report[name] = {"proposals_per_second": median(rates), "messages_per_proposal": per}
    if chosen.json:
        chosen.json.write_text(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
