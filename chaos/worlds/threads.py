"""Worker threads in virtual time: a job begins, runs at one instant, and is reported later.

A job has a duration, drawn when it begins. It runs whole at one moment of that
time: the first, the last, or any between; so a process that dies meanwhile leaves
it done and untold, or not done. A death in its midst comes through the disk's
hooks, or from `chaos.worlds.sim.Machine.kill`, which lets running jobs get
anywhere first. Threads of a paused process stand still too.

What lives here: workers and how long their jobs take. What must never live here:
what a job does. Called by: `chaos.worlds.sim`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from chaos.worlds.hooks import Crash
from chaos.worlds.loop import VirtualLoop
from chaos.worlds.process import NS, Process
from raftbatch.world import Behind

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Speed:
    """How long a job takes, in seconds.

    Args:
        usual_s: the range most are drawn from: an fsync of a healthy SSD.
        slow_s: the range the others are drawn from: a drive that collects its garbage.
        slow_chance: how many those are, of 1.
    """

    usual_s: tuple[float, float] = (0.0001, 0.005)
    slow_s: tuple[float, float] = (0.5, 1.5)
    slow_chance: float = 0.0

    def draw_s(self, rng: Random) -> float:
        """Return a duration."""
        return rng.uniform(*(self.slow_s if rng.random() < self.slow_chance else self.usual_s))


@dataclass(slots=True)
class _Job:
    """A job: `run` does it, `report` tells the loop."""

    run: Callable[[], None]
    report: Callable[[], None]
    has_run: bool = False


class SimWorker:
    """A `raftbatch.world.Worker` without a thread."""

    def __init__(
        self, loop: VirtualLoop, process: Process, rng: Random, speed: Callable[[], Speed]
    ) -> None:
        self._loop = loop
        self._process = process
        self._rng = rng
        self._speed = speed
        self._closed = False
        self._waiting: deque[_Job] = deque()
        self._running: _Job | None = None

    def submit(
        self, job: Callable[[], T], done: Callable[[Future[T]], None], behind: Behind = None
    ) -> None:
        """Queue a job; after `close`, or in a dead process, it is dropped."""
        if self._closed or not self._process.alive:
            return
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(job())
            except Crash:
                raise
            except BaseException as error:  # noqa: BLE001 - as a thread pool does: the future has it
                future.set_exception(error)
            else:
                if behind is not None:
                    behind()

        self._waiting.append(_Job(run, lambda: done(future)))
        self._begin()

    def close(self) -> bool:
        """Drop what has not begun; the running job ends at once."""
        self._closed = True
        self._waiting.clear()
        job, self._running = self._running, None
        if job is not None:
            self._run(job)
        return True

    @property
    def is_busy(self) -> bool:
        """Whether a job has begun and has not run."""
        return self._running is not None and not self._running.has_run

    def run_now(self) -> None:
        """Let the running job get as far as it can: its process is about to die."""
        if self._running is not None:
            try:
                self._run(self._running)
            except Crash:
                pass  # it got this far

    def _begin(self) -> None:
        if self._running is not None or not self._waiting:
            return
        job = self._running = self._waiting.popleft()
        now_ns, duration_ns = self._loop.now_ns, int(self._speed().draw_s(self._rng) * NS)
        part = self._rng.choice((0.0, self._rng.random(), 1.0))
        run_ns = now_ns + int(duration_ns * part)
        self._loop.deliver_at(run_ns, self._process, self._run, job)
        self._loop.deliver_at(now_ns + duration_ns, self._process, self._report, job)

    def _run(self, job: _Job) -> None:
        if not job.has_run:
            job.has_run = True
            job.run()

    def _report(self, job: _Job) -> None:
        if job is self._running:
            assert job.has_run, "a job is reported after it has run"
            self._running = None
            self._begin()  # a thread does not wait for the loop to hear of its last job
            job.report()


class SimWorkers:
    """Starts workers of one process.

    Attributes:
        started: all of them, closed ones too, in the order they were started.
    """

    def __init__(
        self, loop: VirtualLoop, process: Process, rng: Random, speed: Callable[[], Speed]
    ) -> None:
        self.started: list[SimWorker] = []
        self._loop = loop
        self._process = process
        self._rng = rng
        self._speed = speed

    def start(self, name: str) -> SimWorker:
        """Return a new worker."""
        worker = SimWorker(self._loop, self._process, self._rng, self._speed)
        self.started.append(worker)
        return worker
