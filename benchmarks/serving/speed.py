"""What a whole cluster does under load, as a client of the SDK sees it, and what that costs.

What lives here: loads and their figures. What must never live here: a process (`cluster`),
printing (`bench_e2e`). Called by: `bench_e2e`.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import median

from benchmarks.replication.yardsticks import round_trip_ms, sync_ms
from benchmarks.serving.cluster import cpu_s, memory_bytes, part_of, running
from benchmarks.serving.loop import run
from benchmarks.serving.tables import Figures
from benchmarks.serving.texts import TEXT_BYTES, text
from raftbatch.client import AsyncClient
from raftbatch.local import LocalCluster

_WARM_S = 1.0  # before each measure: windows, buffers and the processor's caches fill


@dataclass(frozen=True, slots=True)
class Case:
    """A load.

    Attributes:
        name: to call it by.
        model: `echo`, or `quick`, whose windows gather nothing.
        in_flight: requests under way at all times.
    """

    name: str
    model: str
    in_flight: int


CASES = (
    Case("256 in flight", "echo", 256),
    Case("1024 in flight", "echo", 1024),
    Case("one at a time", "quick", 1),
    Case("one at a time, windows of 5 ms", "echo", 1),
)


class _Load:
    """So many requests in flight, each sent as soon as one is answered.

    Args:
        client: through which.
        case: what.

    Attributes:
        took_ns: of each that was answered since `begin`.
        batches: of those before: how many were in each.
    """

    def __init__(self, client: AsyncClient, case: Case) -> None:
        self.took_ns: list[int] = []
        self.batches: Counter[int] = Counter()
        self._client = client
        self._case = case
        self._is_warm = self._is_over = False
        self._numbers = count()

    async def run(self) -> None:
        """Send until `end` is called, and all are answered."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._case.in_flight):
                group.create_task(self._one_after_the_other())

    def begin(self) -> None:
        """Measure from now on."""
        self._is_warm = True

    def end(self) -> list[int]:
        """Send no more; return what was measured, in order."""
        self._is_over = True
        found, self.took_ns = self.took_ns, []
        return sorted(found)

    async def _one_after_the_other(self) -> None:
        infer, model, numbers = self._client.infer, self._case.model, self._numbers
        while not self._is_over:
            inputs = {"text": text(next(numbers))}
            begun_ns = time.monotonic_ns()
            result = await infer(model, inputs)
            if self._is_warm:
                self.took_ns.append(time.monotonic_ns() - begun_ns)
            else:  # to look at the run takes time
                self.batches[result.run.batch] += 1


async def _measured(cluster: LocalCluster, case: Case, seconds: float) -> Figures:
    """Return what a load came to."""
    async with AsyncClient(cluster.addresses) as client:
        load = _Load(client, case)
        running_load = asyncio.create_task(load.run())
        await asyncio.sleep(_WARM_S)
        leader = await asyncio.to_thread(cluster.leader)
        entries = await asyncio.to_thread(_entries, cluster, leader)
        before, own_s = cpu_s(cluster), time.process_time()
        load.begin()
        begun_ns = time.monotonic_ns()
        await asyncio.sleep(seconds)
        took_s = (time.monotonic_ns() - begun_ns) / 1e9
        took_ns = load.end()
        spent = {"client": time.process_time() - own_s}
        for name, used_s in cpu_s(cluster).items():
            part = part_of(name, leader)
            spent[part] = spent.get(part, 0.0) + used_s - before[name]
        entries = await asyncio.to_thread(_entries, cluster, leader) - entries
        await running_load
    answered = len(took_ns)
    return {
        "case": case.name,
        "requests_per_second": answered / took_s,
        "p50_ms": took_ns[answered // 2] / 1e6,
        "p99_ms": took_ns[answered * 99 // 100] / 1e6,
        "requests_per_batch": median(load.batches.values()),
        "requests_per_entry": answered / entries,
        **{f"cpu_us_{part}": used_s / answered * 1e6 for part, used_s in sorted(spent.items())},
        "cpu_us": sum(spent.values()) / answered * 1e6,
        "cores": sum(spent.values()) / took_s,
    }


def _entries(cluster: LocalCluster, leader: str) -> int:
    """Return how many entries the leader has made."""
    return cluster.statuses()[leader].counters["leader_entries_total"]


def loads(directory: Path, seconds: float, rounds: int) -> list[Figures]:
    """Return what each load came to: medians of so many rounds, in one cluster, by turns."""
    found: dict[str, list[Figures]] = {case.name: [] for case in CASES}
    with running(directory) as cluster:
        for _ in range(rounds):
            for case in CASES:
                found[case.name].append(run(_measured(cluster, case, seconds)))
        peak = max(memory_bytes(cluster).values())
    yardstick_ms = sync_ms(directory, TEXT_BYTES, 200) + round_trip_ms(TEXT_BYTES, 200)
    rows = [{"case": name, **_middle(each)} for name, each in found.items()]
    for row in rows:
        row["p50_ratio"] = row["p50_ms"] / yardstick_ms
        row["sync_and_round_trip_ms"] = yardstick_ms
        row["memory_mb_most"] = peak / 1e6
    return rows


def _middle(rounds: list[Figures]) -> Figures:
    """Return the medians of several rounds, field by field."""
    return {name: median([each[name] for each in rounds]) for name in rounds[0] if name != "case"}
