"""One node of a benchmark's cluster: a process with a log, a disk, peers, and its own load.

The parent starts it with one JSON argument (`Spec`), writes commands to its
standard input and reads events from its standard output, one JSON object a line.
The load is made in the leader's own process, so that what is measured is the
log, and not a client's protocol.

What lives here: the node. What must never live here: what is measured
(`measures`), or when (`cluster`). Called by: `cluster`, as a module.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from statistics import median
from typing import NoReturn

from coordinator.raft.counters import Counters
from coordinator.raft.datadir import DataDirectory, StorageLimits
from coordinator.raft.door import Door
from coordinator.raft.log import LogConfig, ReplicatedLog
from coordinator.raft.membership import founders
from coordinator.raft.replication import Window
from coordinator.raft.retention import RetentionLimits
from coordinator.raft.segments.layout import Entry
from coordinator.raft.segments.limits import JournalLimits
from coordinator.raft.snapshots import SnapshotLimits, SnapshotMeta
from coordinator.raft.standing import Role
from coordinator.raft.transport import Transport
from coordinator.raft.transport_limits import TransportLimits
from raftbatch.errors import Fatal, RaftbatchError
from raftbatch.ids import ClusterId, Identity, NodeId
from raftbatch.realworld import RealWorld

_CLUSTER = ClusterId("b" * 32)
_MIB = 1 << 20
_DISK_BYTES = 256 * _MIB  # of reserve: a benchmark's disk need not have a server's room
_STORAGE = StorageLimits(
    JournalLimits(
        disk_low_bytes=_DISK_BYTES, disk_reserve_bytes=_DISK_BYTES, snapshot_bytes_max=64 * _MIB
    ),
    SnapshotLimits(snapshot_bytes_max=64 * _MIB),
    RetentionLimits(log_retention_bytes=0, log_retention_ms=0, trailing_entries=0),
)
_NEVER_BYTES = 1 << 60  # no snapshot comes in between: it would be another measurement


@dataclass(frozen=True, slots=True)
class Spec:
    """What a node is started with.

    Attributes:
        node: its id.
        directory: its data directory; created where it is missing.
        addresses: of all nodes.
    """

    node: NodeId
    directory: str
    addresses: dict[NodeId, str]


class Counting:
    """A replica that only counts, and says when this node leads and has committed so."""

    def __init__(self) -> None:
        self.index = 0
        self.log: ReplicatedLog | None = None

    def apply(self, entry: Entry) -> None:
        """Count it."""
        self.index = entry.index
        if not entry.data and self.log is not None and self.log.role is Role.LEADER:
            tell("leads", term=entry.term, at_ns=time.monotonic_ns())

    async def install(self, snapshot: SnapshotMeta, chunks: AsyncIterator[bytes]) -> None:
        """Count what it stands for."""
        async for _ in chunks:
            pass
        self.index = snapshot.index

    def capture(self) -> Iterable[bytes]:
        """Return nothing worth keeping."""
        return [b"counted"]


def tell(event: str, **values: object) -> None:
    """Write an event."""
    print(json.dumps({"event": event, **values}), flush=True)


async def load(log: ReplicatedLog, size: int, in_flight: int, seconds: float) -> None:
    """Keep so many entries in flight for so long, then tell how it went."""
    data, term = bytes(size), log.term
    took_ns: list[int] = []
    end_ns = time.monotonic_ns() + int(seconds * 1e9)

    async def worker() -> None:
        while (begun_ns := time.monotonic_ns()) < end_ns:
            await log.propose(term, data).committed()
            took_ns.append(time.monotonic_ns() - begun_ns)

    begun_ns = time.monotonic_ns()
    try:
        await asyncio.gather(*(worker() for _ in range(in_flight)))
    except RaftbatchError as error:
        tell("loaded", error=error.slug)
        return
    took_ns.sort()
    tell(
        "loaded",
        count=len(took_ns),
        seconds=(time.monotonic_ns() - begun_ns) / 1e9,
        p50_ms=median(took_ns) / 1e6,
        p99_ms=took_ns[len(took_ns) * 99 // 100] / 1e6,
    )


def state(log: ReplicatedLog) -> dict[str, object]:
    """Return what the parent may want to know."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "role": log.role.value,
        "term": log.term,
        "commit": log.commit,
        "applied": log.applied,
        "cpu_us": int((used.ru_utime + used.ru_stime) * 1e6),
        "peak_bytes": used.ru_maxrss * 1024,
        "at_ns": time.monotonic_ns(),
    }


async def serve(spec: Spec) -> None:
    """Run until the parent closes our standard input."""
    world, counters = RealWorld(), Counters()
    door = Door(world.network, spec.addresses[spec.node], None, TransportLimits(), counters)
    await door.open()
    identity = Identity(_CLUSTER, spec.node, 1)
    if not DataDirectory.is_initialised(world, spec.directory):
        members = founders(spec.addresses)
        DataDirectory.create(world, spec.directory, identity, _STORAGE, members)
    transport = Transport(
        world.network,
        world.clock,
        world.entropy,
        identity,
        door,
        None,
        spec.addresses,
        TransportLimits(),
        counters,
    )
    replica = Counting()
    log = replica.log = ReplicatedLog(
        world,
        spec.directory,
        _STORAGE,
        transport,
        replica,
        LogConfig(window=Window(), snapshot_bytes_min=_NEVER_BYTES),
        _failed,
    )
    transport.begin(log)
    tell("open", **state(log))
    commands = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    async for line in commands:
        command = json.loads(line)
        if command["do"] == "load":
            await load(log, command["bytes"], command["in_flight"], command["seconds"])
        elif command["do"] == "state":
            tell("state", **state(log))
    log.close()


def _failed(error: Fatal) -> NoReturn:
    raise SystemExit(f"the log failed: {error}")


def main() -> None:
    """Run the node that the argument describes."""
    given = json.loads(sys.argv[1])
    spec = Spec(given["node"], given["directory"], given["addresses"])
    try:
        import uvloop
    except ImportError:
        asyncio.run(serve(spec))
    else:
        uvloop.run(serve(spec))


if __name__ == "__main__":
    main()
