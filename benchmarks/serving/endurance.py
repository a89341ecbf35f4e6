"""Very many requests through one cluster, and whether it is as at the beginning then.

What lives here: the load, samples while it lasts, and what they must say. What must never live
here: a process (`cluster`), printing (`bench_endurance`). Called by: `bench_endurance`.

Retention and compaction are made short by the configuration, so that each happens many times. The
run is a row of *stretches* of equally many requests, each with a sample at its end. What grows
until retention is over for the first time, and until allocators have what they need, is in the
first quarter of them: only processor time is compared with that.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from benchmarks.serving.cluster import (
    cpu_s,
    disk_bytes,
    files_open,
    memory_bytes,
    part_of,
    resident_bytes,
    running,
)
from benchmarks.serving.loop import run
from benchmarks.serving.tables import Figures, bound
from benchmarks.serving.texts import text
from benchmarks.serving.yardstick import Yardstick
from raftbatch.client import AsyncClient
from raftbatch.local import LocalCluster
from raftbatch.local.looking import agreed

STRETCHES_MIN = 4
_IN_FLIGHT = 256
_MOST = 1.1
_CLIENT = "client"

_SETTINGS = {
    "policy": {"outcome_retention_ms": 4_000, "dedupe_retention_ms": 8_000},
    "storage": {
        "segment_bytes": 16 << 20,
        "log_retention_bytes": 64 << 20,
        "trailing_bytes_max": 32 << 20,
    },
    "log": {"snapshot_bytes_min": 32 << 20, "stagger_bytes": 4 << 20},
}


@dataclass(frozen=True, slots=True)
class Sample:
    """How it stood at the end of a stretch, by process; `client` is this one.

    Attributes:
        requests: served by then, in all.
        per_s: of this stretch, each second.
        p50_ms: of this stretch.
        p99_ms: the same.
        load: runnable processes on the machine, on average over a minute.
        yardstick_us: processor time of some work that is always the same, meanwhile.
        cpu_us: processor time for each request of the stretch, by what a process is at its end:
            client, leader, followers, executor, child.
        memory: resident bytes.
        files: open descriptors.
        disk: bytes of each node's directory, and of what it has said: on average over the
            stretch, since it goes up and down by segments.
        disk_most: the most of them.
        entries: of the log, that the leader has applied.
        outcomes: that the leader knows, with those of which it knows the id alone.
    """

    requests: int
    per_s: float
    p50_ms: float
    p99_ms: float
    load: float
    yardstick_us: float
    cpu_us: dict[str, float]
    memory: dict[str, int]
    files: dict[str, int]
    disk: dict[str, float]
    disk_most: int
    entries: int
    outcomes: int

    def row(self) -> Figures:
        """Return it in one line: of the nodes the largest."""
        nodes = max(self.memory[node] for node in self.disk)
        others = [name for name in self.memory if name not in self.disk]
        return {
            "requests": self.requests,
            "per_s": self.per_s,
            "p50_ms": self.p50_ms,
            "p99_ms": self.p99_ms,
            "cpu_us": sum(self.cpu_us.values()),
            "leader_us": self.cpu_us["leader"],
            "yard_us": self.yardstick_us,
            "node_MB": nodes / 1e6,
            **{f"{name}_MB": self.memory[name] / 1e6 for name in others},
            "disk_MB": max(self.disk.values()) / 1e6,
            "most_MB": self.disk_most / 1e6,
            "files": sum(self.files.values()),
            "entries": self.entries,
            "outcomes": self.outcomes,
            "load": self.load,
        }


class _Load:
    """Requests, so many in flight at all times; each is acknowledged by the SDK.

    Args:
        client: through which.
        requests: how many, in all.
        stretch: after how many of them to call back.
        at_end: called then, with how long each of these took, in ns.
        meanwhile: called a hundred times as often.
    """

    def __init__(
        self,
        client: AsyncClient,
        requests: int,
        stretch: int,
        at_end: Callable[[list[int]], None],
        meanwhile: Callable[[], None],
    ) -> None:
        self._client = client
        self._left = requests
        self._stretch = stretch
        self._often = max(1, stretch // 100)
        self._at_end = at_end
        self._meanwhile = meanwhile
        self._took_ns: list[int] = []

    async def run(self) -> None:
        """Send all, and wait for their outcomes."""
        async with asyncio.TaskGroup() as group:
            for _ in range(_IN_FLIGHT):
                group.create_task(self._one_after_the_other())

    async def _one_after_the_other(self) -> None:
        while self._left:
            self._left -= 1
            inputs = {"text": text(self._left)}
            begun_ns = time.monotonic_ns()
            await self._client.infer("echo", inputs)
            self._took_ns.append(time.monotonic_ns() - begun_ns)
            if len(self._took_ns) % self._often == 0:
                self._meanwhile()
            if len(self._took_ns) == self._stretch:
                self._at_end(self._took_ns)
                self._took_ns.clear()  # not a new one: whoever made it would hold the old one


class _Sampler:
    """Looks at all processes, at the end of each stretch.

    Args:
        cluster: whose.
        yardstick: of processor time.
        told: given each sample.

    Attributes:
        samples: until now.
    """

    def __init__(
        self, cluster: LocalCluster, yardstick: Yardstick, told: Callable[[Sample], None]
    ) -> None:
        self.samples: list[Sample] = []
        self._cluster = cluster
        self._yardstick = yardstick
        self._told = told
        self._requests = 0
        self._disk: list[dict[str, int]] = []
        self._before = self._cpu_s()
        self._begun_ns = time.monotonic_ns()

    def look_at_disks(self) -> None:
        """Note what nodes have on the disk: in a millisecond."""
        self._disk.append(disk_bytes(self._cluster))

    def look(self, took_ns: list[int]) -> None:
        """Take a sample: in a hundredth of a second, in which nothing is sent."""
        cluster, count = self._cluster, len(took_ns)
        now_ns, spent = time.monotonic_ns(), self._cpu_s()
        took_ns.sort()
        self._requests += count
        disks, self._disk = self._disk, []
        found = cluster.statuses()
        statuses = found.values()
        sample = Sample(
            requests=self._requests,
            per_s=count / (now_ns - self._begun_ns) * 1e9,
            p50_ms=took_ns[count // 2] / 1e6,
            p99_ms=took_ns[count * 99 // 100] / 1e6,
            load=os.getloadavg()[0],
            yardstick_us=self._yardstick.median_us(),
            cpu_us=self._cpu_us(spent, agreed(found), count),
            memory={_CLIENT: resident_bytes(os.getpid()), **memory_bytes(cluster)},
            files={_CLIENT: len(os.listdir("/proc/self/fd")), **files_open(cluster)},
            disk={node: mean([each[node] for each in disks]) for node in cluster.nodes},
            disk_most=max(max(each.values()) for each in disks),
            entries=max(each.applied for each in statuses),
            outcomes=max(each.scheduler.outcomes for each in statuses),
        )
        self.samples.append(sample)
        self._told(sample)
        self._before, self._begun_ns = self._cpu_s(), time.monotonic_ns()

    def _cpu_us(self, spent: dict[str, float], leader: str, count: int) -> dict[str, float]:
        """Return the processor time of each request by parts, which a leader may change."""
        parts: dict[str, float] = {}
        for name, until_s in spent.items():
            part = name if name == _CLIENT else part_of(name, leader)
            used_us = (until_s - self._before[name]) / count * 1e6
            parts[part] = parts.get(part, 0.0) + used_us
        return parts

    def _cpu_s(self) -> dict[str, float]:
        return {_CLIENT: time.process_time(), **cpu_s(self._cluster)}


def endured(
    directory: Path, requests: int, stretch: int, told: Callable[[Sample], None]
) -> list[Sample]:
    """Serve so many requests, and return how it stood after each stretch.

    Args:
        directory: empty, on a disk.
        requests: how many; a multiple of `stretch`.
        stretch: of how many each is.
        told: given each sample as it is taken.
    """

    async def served(cluster: LocalCluster, sampler: _Sampler) -> None:
        async with AsyncClient(cluster.addresses) as client:
            await _Load(client, requests, stretch, sampler.look, sampler.look_at_disks).run()

    with Yardstick() as yardstick, running(directory, settings=_SETTINGS) as cluster:
        sampler = _Sampler(cluster, yardstick, told)
        run(served(cluster, sampler))
    return sampler.samples


def line(samples: list[Sample]) -> list[Figures]:
    """Return what must be as it was, and whether it is.

    Memory, disk and descriptors in the last quarter of the run by those in the second one;
    processor time a request in the last tenth by that in the first; also as many times the
    yardstick's, which takes more on a machine that is busier by now.
    """
    quarter, tenth = len(samples) // 4, max(1, len(samples) // 10)
    second, last = samples[quarter : 2 * quarter], samples[-quarter:]
    first, ended = samples[:tenth], samples[-tenth:]

    def used(s: Sample) -> dict[str, float]:
        return {"all": sum(s.cpu_us.values()), **s.cpu_us}

    def used_by_yardstick(s: Sample) -> dict[str, float]:
        return {name: used_us / s.yardstick_us for name, used_us in used(s).items()}

    return [
        *_grown("processor time", first, ended, used),
        *_grown("the same by the yardstick", first, ended, used_by_yardstick),
        *_grown("memory", second, last, lambda s: s.memory),
        *_grown("disk", second, last, lambda s: s.disk),
        *_grown("descriptors", second, last, lambda s: s.files),
    ]


def _grown(
    what: str,
    before: list[Sample],
    after: list[Sample],
    by: Callable[[Sample], Mapping[str, float]],
) -> Iterator[Figures]:
    """Yield for each process how much more it has of something than before."""
    for name in by(before[0]):
        now, then = (mean([by(each)[name] for each in some]) for some in (after, before))
        yield bound(f"{what}, {name}", now / then, most=_MOST)
