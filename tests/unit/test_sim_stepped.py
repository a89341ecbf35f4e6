"""The stepped world does what it is told, when it is told, and nothing else."""

from concurrent.futures import Future
from random import Random

import pytest

from chaos.worlds.disk import Crash, SimDisk
from chaos.worlds.stepped import SeededEntropy, SimWorld, StepClock, StepWorker, StepWorkers
from raftbatch.world import World


class Recorder:
    """Jobs and reports that write down that they were called."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def submit(self, worker: StepWorker, name: str) -> None:
        """Submit a job that returns its name."""

        def job() -> str:
            self.events.append(f"run {name}")
            return name

        def done(future: Future[str]) -> None:
            self.events.append(f"done {future.result()}")

        worker.submit(job, done)


def test_worker_runs_and_reports_only_when_told() -> None:
    worker, recorder = StepWorker("w"), Recorder()
    recorder.submit(worker, "1")
    recorder.submit(worker, "2")
    assert recorder.events == []
    assert not worker.deliver_one()
    assert worker.run_one()
    assert worker.run_one()
    assert not worker.run_one()
    assert (worker.waiting, worker.finished) == (0, 2)
    assert worker.deliver_one()
    assert recorder.events == ["run 1", "run 2", "done 1"]
    assert worker.deliver_one()
    assert not worker.deliver_one()


def test_worker_hands_on_what_a_job_raises() -> None:
    def job() -> None:
        raise ValueError("no")

    futures: list[Future[None]] = []
    worker = StepWorker("w")
    worker.submit(job, futures.append)
    worker.run_all()
    with pytest.raises(ValueError, match="no"):
        futures[0].result()


def test_worker_whose_job_crashes_reports_nothing() -> None:
    def job() -> None:
        raise Crash

    futures: list[Future[None]] = []
    worker = StepWorker("w")
    worker.submit(job, futures.append)
    with pytest.raises(Crash):
        worker.run_one()
    worker.run_all()
    assert futures == []


def test_worker_drops_all_on_close() -> None:
    worker, recorder = StepWorker("w"), Recorder()
    recorder.submit(worker, "1")
    recorder.submit(worker, "2")
    worker.run_one()
    worker.close()
    worker.close()
    recorder.submit(worker, "3")
    worker.run_all()
    assert recorder.events == ["run 1"]


def test_worker_run_all_takes_new_jobs_too() -> None:
    worker, recorder = StepWorker("w"), Recorder()
    worker.submit(lambda: 1, lambda _: recorder.submit(worker, "2"))
    recorder.submit(worker, "1")
    worker.run_all()
    assert recorder.events == ["run 1", "done 1", "run 2", "done 2"]


def test_workers_offer_every_step_that_can_be_taken() -> None:
    workers, recorder = StepWorkers(), Recorder()
    first, second = workers.start("a"), workers.start("b")
    assert workers.steps() == []
    recorder.submit(first, "1")
    recorder.submit(second, "2")
    second.run_one()
    recorder.submit(second, "3")
    assert workers.steps() == [first.run_one, second.run_one, second.deliver_one]
    workers.run_all()
    assert sorted(recorder.events) == ["done 1", "done 2", "done 3", "run 1", "run 2", "run 3"]
    again = workers.start("a")
    assert workers["a"] is again


def test_clock_moves_only_by_hand() -> None:
    clock = StepClock(monotonic_ns=5, wall_ms=100)
    clock.advance_ms(3)
    assert (clock.monotonic_ns(), clock.wall_ms()) == (3_000_005, 103)
    clock.set_wall_ms(7)
    assert (clock.monotonic_ns(), clock.wall_ms()) == (3_000_005, 7)
    with pytest.raises(AssertionError):
        clock.advance_ms(-1)


def test_entropy_depends_on_the_seed_alone() -> None:
    draws = [SeededEntropy(Random(seed)).random_bytes(16) for seed in (1, 1, 2)]
    assert draws[0] == draws[1] != draws[2]


def test_world_is_one_and_its_disk_outlives_it() -> None:
    world: World = SimWorld(1)
    world.files.open("/a", "create").write_at(0, [b"x"])
    assert isinstance(world.files, SimDisk)
    world.files.crash(power=False)
    assert SimWorld(2, world.files).files.read("/a") == b"x"
    with pytest.raises(NotImplementedError, match="#3"):
        _ = world.network
