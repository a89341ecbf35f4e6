"""A simulated world whose every step the test takes itself.

What lives here: workers that run a job only when told to, a clock moved by
hand, seeded entropy, and `SimWorld`, which ties them to a `SimDisk`. What must
never live here: threads, real time, an unseeded draw. Called by: the
simulation, and tests that need one certain interleaving.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from random import Random
from typing import TypeVar

from chaos.worlds.disk import SimDisk
from chaos.worlds.hooks import Crash
from raftbatch.world import Behind, Network

T = TypeVar("T")

Step = Callable[[], bool]


class StepClock:
    """Time that stands still until it is moved."""

    def __init__(self, monotonic_ns: int = 1_000_000_000, wall_ms: int = 1_700_000_000_000) -> None:
        self._monotonic_ns = monotonic_ns
        self._wall_ms = wall_ms

    def monotonic_ns(self) -> int:
        """Return the monotonic time."""
        return self._monotonic_ns

    def wall_ms(self) -> int:
        """Return the wall time."""
        return self._wall_ms

    def advance_ms(self, duration_ms: int) -> None:
        """Let time pass, on both clocks."""
        assert duration_ms >= 0, "monotonic time does not go back"
        self._monotonic_ns += duration_ms * 1_000_000
        self._wall_ms += duration_ms

    def set_wall_ms(self, wall_ms: int) -> None:
        """Make the wall clock jump, either way."""
        self._wall_ms = wall_ms


class SeededEntropy:
    """Random bytes that are the same for the same generator."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng

    def random_bytes(self, length: int) -> bytes:
        """Return the next `length` bytes."""
        return self._rng.randbytes(length)


class StepWorker:
    """A worker without a thread: running a job and reporting it are two steps, taken apart.

    A job between the two is one that has ended on its thread while the loop was
    busy; a job not yet run may as well be in progress. A job that raises `Crash`
    raises it out of `run_one`: nobody is left to be told.

    Attributes:
        name: the thread's.
        is_stuck: whether a job is to be taken for one that does not end.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_stuck = False
        self._closed = False
        self._waiting: deque[Callable[[], None]] = deque()
        self._finished: deque[Callable[[], None]] = deque()

    def submit(
        self, job: Callable[[], T], done: Callable[[Future[T]], None], behind: Behind = None
    ) -> None:
        """Queue a job; after `close` it is dropped."""

        def run() -> None:
            future: Future[T] = Future()
            try:
                future.set_result(job())
            except Crash:
                raise
            except BaseException as error:  # noqa: BLE001 - as a thread pool does: the future has it
                future.set_exception(error)
            else:
                if behind is not None:
                    behind()
            self._finished.append(lambda: done(future))

        if not self._closed:
            self._waiting.append(run)

    def close(self) -> bool:
        """Drop what has not run and what has not been reported."""
        self._closed = True
        self._waiting.clear()
        self._finished.clear()
        return not self.is_stuck

    @property
    def waiting(self) -> int:
        """How many jobs have not run."""
        return len(self._waiting)

    @property
    def finished(self) -> int:
        """How many have run and are not reported."""
        return len(self._finished)

    def run_one(self) -> bool:
        """Run the next job, now; return whether there was one."""
        return _take(self._waiting)

    def deliver_one(self) -> bool:
        """Report the next job that has run; return whether there was one."""
        return _take(self._finished)

    def run_all(self) -> None:
        """Run and report, each job at once, until nothing is left, new jobs included."""
        while self.run_one() or self.deliver_one():
            while self.deliver_one():
                pass


class StepWorkers:
    """Starts workers, and takes their steps in any order.

    Attributes:
        started: all workers, closed ones too, in the order they were started.
    """

    def __init__(self) -> None:
        self.started: list[StepWorker] = []

    def start(self, name: str) -> StepWorker:
        """Return a new worker."""
        worker = StepWorker(name)
        self.started.append(worker)
        return worker

    def __getitem__(self, name: str) -> StepWorker:
        """Return the worker that was last started under a name."""
        return next(worker for worker in reversed(self.started) if worker.name == name)

    def steps(self) -> list[Step]:
        """Return each step that can be taken now: the simulation chooses one."""
        runs = [worker.run_one for worker in self.started if worker.waiting]
        return runs + [worker.deliver_one for worker in self.started if worker.finished]

    def run_all(self) -> None:
        """Take all steps, new ones included, reports first."""
        while steps := self.steps():
            steps[-1]()


class SimWorld:
    """All simulated ports of one process, drawn from one seed.

    Args:
        seed: decides every draw; each port has a generator of its own, so that
            one port's draws do not shift another's.
        disk: the disk that an earlier process left; a new one otherwise.
    """

    def __init__(self, seed: int, disk: SimDisk | None = None) -> None:
        self.clock = StepClock()
        self.entropy = SeededEntropy(Random(f"entropy {seed}"))
        self.files = disk or SimDisk(Random(f"disk {seed}"))
        self.workers = StepWorkers()

    @property
    def network(self) -> Network:
        """None yet."""
        raise NotImplementedError("a stepped world has no network: #3 brings the simulated one")


def _take(steps: deque[Callable[[], None]]) -> bool:
    if not steps:
        return False
    steps.popleft()()
    return True
