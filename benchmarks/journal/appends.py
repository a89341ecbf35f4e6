"""The journal under a closed loop of appends, and what they cost the loop.

A number of appends waits at all times: whenever `durable` rises, as many new
ones are made, then `flush` is called, as at the end of a turn. How they gather
is set by the beginning (see `Arrival`) and stays so. The journal is the
real one on the real ports; only its worker is wrapped, to read clocks around
each job and each callback. What lives here: one run. What must never live here:
a verdict.
"""

from __future__ import annotations

import asyncio
import shutil
import threading
import time
from array import array
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TypeVar

from benchmarks.journal.bare import Payloads, settle
from coordinator.raft.journal import Journal
from coordinator.raft.segments.limits import JournalLimits
from coordinator.raft.segments.recovery import create
from raftbatch.errors import Fatal
from raftbatch.ids import ClusterId, Identity, NodeId
from raftbatch.realworld import RealClock, RealEntropy, RealFiles, RealNetwork, RealWorkers
from raftbatch.world import Behind, Worker

T = TypeVar("T")
U = TypeVar("U")


class Arrival(StrEnum):
    """How the waiting appends are spread at the beginning, and by that for ever."""

    TOGETHER = "together"
    """All at once: each group holds all of them, and nothing can go on beside a sync."""
    STAGGERED = "staggered"
    """In two halves: one gathers while the other is first synced; they may come to share groups."""


@dataclass(slots=True)
class Clocks:
    """Where time went, in seconds.

    Attributes:
        begun: set once the worker's thread has begun its first job.
        loop_s: of the loop's thread, in appends, flush and callbacks; waiting for the
            interpreter's lock counts, waiting for events does not.
        job_s: of the worker's thread in its jobs.
        job_cpu_s: of it, without waiting for the disk or the interpreter's lock.
    """

    begun: threading.Event = field(default_factory=threading.Event)
    loop_s: float = 0.0
    job_s: float = 0.0
    job_cpu_s: float = 0.0


class _TimedWorker:
    """A worker that adds to the clocks."""

    def __init__(self, worker: Worker, clocks: Clocks) -> None:
        self._worker = worker
        self._clocks = clocks

    def submit(
        self, job: Callable[[], T], done: Callable[[Future[T]], None], behind: Behind = None
    ) -> None:
        """Submit both, each between two readings."""
        clocks = self._clocks

        def timed(run: Callable[[], U]) -> U:
            start, start_cpu = time.perf_counter(), time.thread_time()
            clocks.begun.set()
            try:
                return run()
            finally:
                clocks.job_s += time.perf_counter() - start
                clocks.job_cpu_s += time.thread_time() - start_cpu

        def timed_done(future: Future[T]) -> None:
            start = time.perf_counter()
            done(future)
            clocks.loop_s += time.perf_counter() - start

        timed_behind = None if behind is None else partial(timed, behind)
        self._worker.submit(partial(timed, job), timed_done, timed_behind)

    def close(self) -> bool:
        """Close the worker within."""
        return self._worker.close()


@dataclass(slots=True)
class TimedWorkers:
    """Workers whose time is counted, all into the same clocks."""

    clocks: Clocks
    _workers: RealWorkers = field(default_factory=RealWorkers)

    def start(self, name: str) -> Worker:
        """Start a worker for the loop that runs now."""
        return _TimedWorker(self._workers.start(name), self.clocks)


class TimedWorld:
    """All real ports, the workers' time counted in `clocks`."""

    def __init__(self) -> None:
        self.clocks = Clocks()
        self.clock = RealClock()
        self.entropy = RealEntropy()
        self.files = RealFiles()
        self.workers = TimedWorkers(self.clocks)
        self.network = RealNetwork()


@dataclass(frozen=True, slots=True)
class JournalRun:
    """What one run took.

    Attributes:
        seconds: from the first append to the last that became durable.
        groups: records of each group, in order.
        latencies_s: of each append, until `on_durable` said so.
        loop_s: see `Clocks`; with what this harness itself does, two readings an append.
        loop_cpu_s: CPU time of the loop's thread over the whole run, the event loop's
            own work included.
        job_s: see `Clocks`.
        job_cpu_s: see `Clocks`.
    """

    seconds: float
    groups: list[int]
    latencies_s: array[float]
    loop_s: float
    loop_cpu_s: float
    job_s: float
    job_cpu_s: float


class ClosedLoop:
    """Keeps `waiting` appends on their way until `total` are durable.

    Args:
        payloads: what to append, in turn.
        waiting: appends that are not durable, at all times but the end.
        total: appends in all.
        arrival: how they gather.
    """

    def __init__(self, payloads: Payloads, waiting: int, total: int, arrival: Arrival) -> None:
        self._first = waiting if arrival is Arrival.TOGETHER else (waiting + 1) // 2
        self._records = payloads.records
        self._waiting = waiting
        self._total = total
        self._durable = 0
        self._appended_at = array("d")
        self._durable_at: list[tuple[int, float]] = []
        self._finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.journal: Journal

    def on_durable(self, lsn: int) -> None:
        """Take note, and put as many appends in the place of those that are done."""
        self._durable_at.append((lsn, time.perf_counter()))
        self._durable = lsn
        if lsn < self._total:
            self._top_up(self._waiting)
        else:
            self._finished.set_result(None)

    def on_failed(self, error: Fatal) -> None:
        """End the run."""
        self._finished.set_exception(error)

    def _top_up(self, waiting: int) -> None:
        append, stamp, now = self.journal.append, self._appended_at.append, time.perf_counter
        records, first = self._records, len(self._appended_at)
        for number in range(first, min(self._durable + waiting, self._total)):
            stamp(now())
            append(1, records[number % len(records)])
        self.journal.flush()

    async def run(self, clocks: Clocks) -> JournalRun:
        """Run to the end. The journal is fresh: its LSNs count the appends."""
        cpu = time.thread_time()
        begin = time.perf_counter()
        self._top_up(self._first)
        clocks.loop_s += time.perf_counter() - begin
        clocks.begun.wait()  # else the first group would take the second half too
        second = time.perf_counter()
        self._top_up(self._waiting)
        clocks.loop_s += time.perf_counter() - second
        await self._finished
        cpu = time.thread_time() - cpu
        groups, latencies, before = [], array("d"), 0
        for lsn, at in self._durable_at:
            groups.append(lsn - before)
            latencies.extend(at - since for since in self._appended_at[before:lsn])
            before = lsn
        return JournalRun(
            seconds=self._durable_at[-1][1] - begin,
            groups=groups,
            latencies_s=latencies,
            loop_s=clocks.loop_s,
            loop_cpu_s=cpu,
            job_s=clocks.job_s,
            job_cpu_s=clocks.job_cpu_s,
        )


async def run_journal(
    directory: Path,
    payloads: Payloads,
    waiting: int,
    total: int,
    *,
    arrival: Arrival = Arrival.TOGETHER,
    keep: bool = False,
) -> JournalRun:
    """Run appends through a fresh journal in `directory`, which is removed unless `keep`."""
    world, limits = TimedWorld(), JournalLimits()
    identity = Identity(ClusterId("b" * 32), NodeId("n1"), 1)
    create(world, str(directory), identity, limits.segment_bytes)
    settle(directory.parent)
    loop = ClosedLoop(payloads, waiting, total, arrival)
    loop.journal = Journal(
        world,
        str(directory),
        limits,
        on_durable=loop.on_durable,
        on_failed=loop.on_failed,
    )
    try:
        return await loop.run(world.clocks)
    finally:
        loop.journal.close()
        if not keep:
            shutil.rmtree(directory)
