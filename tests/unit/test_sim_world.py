"""Machines and the worlds of their processes: what dies with a process, and what stays."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Iterator
from concurrent.futures import Future
from itertools import pairwise

import pytest

from chaos.worlds.hooks import Crash, Fault, Faults
from chaos.worlds.loop import VirtualLoop
from chaos.worlds.sim import Machine, SimNode
from chaos.worlds.threads import Speed
from raftbatch.world import World


class Bench:
    """A machine, and what became of its processes."""

    def __init__(self, loop: VirtualLoop, seed: int = 1) -> None:
        self.loop = loop
        self.deaths: list[tuple[str, bool]] = []
        self.machine = Machine(loop, seed, "n1", self._died)

    def _died(self, node: SimNode, why: str, power: bool) -> None:
        assert not node.alive
        assert self.machine.node is None
        self.deaths.append((why, power))


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    with VirtualLoop() as loop:
        yield loop


@pytest.fixture
def bench(loop: VirtualLoop) -> Bench:
    return Bench(loop)


def write(world: World, path: str, data: bytes, *, sync: bool = True) -> None:
    """Write a file, durably or not."""
    file = world.files.open(path, "create")
    file.write_at(0, [data])
    world.files.sync_directory("/")
    if sync:
        file.datasync()


def test_world_has_all_ports_but_a_network_of_bytes(bench: Bench) -> None:
    world: World = bench.machine.boot()
    assert world.files.list("/") == []
    assert len(world.entropy.random_bytes(16)) == 16
    with pytest.raises(NotImplementedError, match="links"):
        _ = world.network


def test_each_life_has_its_own_draws_and_the_same_seed_the_same(loop: VirtualLoop) -> None:
    def draws() -> list[tuple[bytes, int]]:
        machine = Bench(loop, 7).machine
        found = []
        for _ in range(2):
            node = machine.boot()
            found.append((node.entropy.random_bytes(8), node.clock.monotonic_ns()))
            machine.kill(power=False)
        return found

    first, again = draws(), draws()
    assert first == again
    assert first[0] != first[1]


def test_clocks_go_with_virtual_time_and_only_the_wall_clock_can_lie(bench: Bench) -> None:
    clock, wall = bench.machine.boot().clock, bench.machine.wall
    monotonic_ns, wall_ms = clock.monotonic_ns(), clock.wall_ms()

    def passed() -> tuple[int, int]:
        return (clock.monotonic_ns() - monotonic_ns) // 1_000_000, clock.wall_ms() - wall_ms

    bench.loop.run_for(1.0)
    assert passed() == (1000, 1000)
    wall.jump(-60_000)
    assert passed() == (1000, -59_000)
    wall.run_at(10.0)
    bench.loop.run_for(1.0)
    assert passed() == (2000, -49_000)
    wall.run_at(0.0)
    bench.loop.run_for(1.0)
    assert passed() == (3000, -49_000)
    bench.machine.kill(power=True)
    assert bench.machine.boot().clock.wall_ms() == clock.wall_ms(), "the machine's, not the life's"


def test_kill_keeps_what_was_written_and_power_loss_what_was_synced(bench: Bench) -> None:
    machine = bench.machine
    node = machine.boot()
    write(node, "/synced", b"s")
    write(node, "/cached", b"c", sync=False)
    machine.kill(power=False)
    assert machine.disk.read("/cached") == b"c"
    for _ in range(20):
        write(machine.boot(), f"/{machine.lives}", b"x", sync=False)
        machine.kill(power=True)
    assert machine.disk.read("/synced") == b"s"
    contents = {machine.disk.read(f"/{life}") for life in range(2, 22)}
    assert contents == {b"", b"x"}, "written back or not, by chance"
    assert bench.deaths[:2] == [("killed", False), ("power lost", True)]


def test_power_loss_reaches_a_machine_without_a_process(bench: Bench) -> None:
    write(bench.machine.boot(), "/cached", b"c" * 5000, sync=False)
    bench.machine.kill(power=False)
    bench.machine.disk.rng.seed(2)
    bench.machine.kill(power=True)
    assert bench.machine.disk.read("/cached") != b"c" * 5000
    assert bench.deaths == [("killed", False)]


def test_wiped_machine_has_an_empty_disk_with_the_same_hooks(bench: Bench) -> None:
    write(bench.machine.boot(), "/a", b"durable")
    with pytest.raises(AssertionError, match="lives"):
        bench.machine.wipe()
    bench.machine.kill(power=False)
    bench.machine.wipe()
    world = bench.machine.boot()
    assert world.files.list("/") == []
    bench.machine.arm(Faults(Fault("any", 1, errno.EIO)))
    with pytest.raises(OSError, match="Input/output"):
        world.files.open("/b", "create")


def test_dead_process_reaches_nothing(bench: Bench) -> None:
    node = bench.machine.boot()
    write(node, "/a", b"a")
    file = node.files.open("/a", "write")
    told: list[str] = []
    worker = node.process.call(node.workers.start, "w")
    node.process.call(worker.submit, lambda: told.append("job"), lambda _: told.append("done"))
    bench.machine.speed = Speed((10.0, 10.0))
    bench.machine.kill(power=False)
    bench.machine.boot()
    for action in (lambda: node.files.exists("/a"), file.size, lambda: node.files.remove("/a")):
        with pytest.raises(Crash):
            action()
    before = list(told)  # the running job may have got somewhere before the end
    worker.submit(lambda: told.append("late job"), lambda _: told.append("late done"))
    bench.loop.run_for(60.0)
    assert told == before
    assert "done" not in told


def test_crash_in_a_callback_kills_the_world_first(bench: Bench) -> None:
    machine = bench.machine
    node = machine.boot()
    told: list[str] = []

    async def life() -> None:
        await asyncio.sleep(1.0)
        try:
            write(node, "/a", b"a")
        finally:
            told.append("unwinding")  # as a stack does that a dying process never unwinds
            try:
                node.files.open("/b", "create")
            except Crash:
                told.append("but cut off")

    machine.arm(Faults(Fault("datasync", 1, Crash)))
    machine.power = True
    node.process.call(lambda: bench.loop.create_task(life()))
    bench.loop.run_for(2.0)
    assert told == ["unwinding", "but cut off"]
    assert bench.deaths == [("datasync /a", True)]
    assert not machine.disk.exists("/b")


def test_exit_ends_the_process_at_once(bench: Bench) -> None:
    node = bench.machine.boot()
    told: list[str] = []

    def stop() -> None:
        bench.loop.call_soon(told.append, "after")
        try:
            node.exit("the disk failed")
        finally:
            told.append("unwinding")

    node.process.call(bench.loop.call_soon, stop)
    bench.loop.run_for(1.0)
    assert (told, bench.deaths) == (["unwinding"], [("the disk failed", False)])
    assert bench.machine.boot().alive


def test_call_survives_the_death_of_the_process_it_calls(bench: Bench) -> None:
    node = bench.machine.boot()
    assert node.call(len, "four") == 4
    assert node.call(node.exit, "asked to") is None
    bench.loop.run_for(0.0)
    assert bench.deaths == [("asked to", False)]


def test_armed_fault_outlives_its_process_until_it_is_disarmed(bench: Bench) -> None:
    machine = bench.machine
    disarm = machine.arm(Faults(Fault("open", 1, errno.EIO, onwards=True)))
    write(machine.boot(), "/a", b"a")
    for _ in range(2):
        assert machine.node is not None
        with pytest.raises(OSError, match="injected"):
            machine.node.files.open("/a", "read")
        machine.kill(power=False)
        machine.boot()
    disarm()
    disarm()
    assert machine.node is not None
    assert machine.node.files.open("/a", "read").size() == 1


def test_worker_takes_time_and_keeps_order(bench: Bench) -> None:
    bench.machine.speed = Speed((1.0, 2.0))
    node = bench.machine.boot()
    told: list[tuple[str, float]] = []

    def submit(name: str) -> None:
        def done(future: Future[str]) -> None:
            told.append((future.result(), bench.loop.time()))

        node.process.call(worker.submit, lambda: name, done)

    worker = node.process.call(node.workers.start, "w")
    for name in ("1", "2", "3"):
        submit(name)
    assert told == []
    bench.loop.run_for(10.0)
    assert [name for name, _ in told] == ["1", "2", "3"]
    times = [0.0, *(time for _, time in told)]
    assert all(1.0 <= b - a <= 2.0 for a, b in pairwise(times))


def test_worker_hands_on_what_a_job_raises(bench: Bench) -> None:
    def job() -> None:
        raise KeyboardInterrupt

    futures: list[Future[None]] = []
    node = bench.machine.boot()
    node.process.call(node.workers.start("w").submit, job, futures.append)
    bench.loop.run_for(1.0)
    assert isinstance(futures[0].exception(), KeyboardInterrupt)


def test_worker_close_ends_the_running_job_and_drops_all_else(bench: Bench) -> None:
    bench.machine.speed = Speed((1.0, 1.0))
    node = bench.machine.boot()
    worker = node.workers.start("w")
    told: list[str] = []
    for name in ("1", "2"):
        worker.submit(lambda name=name: told.append(name), lambda _: told.append("done"))  # type: ignore[misc]
    worker.close()
    assert told == ["1"]
    worker.submit(lambda: told.append("3"), lambda _: told.append("done"))
    bench.loop.run_for(5.0)
    assert told == ["1"]


def test_slow_disk_is_slow_by_its_chance(bench: Bench) -> None:
    bench.machine.speed = Speed(slow_chance=0.3)
    node = bench.machine.boot()
    worker = node.workers.start("w")
    times = [0.0]
    for _ in range(200):
        worker.submit(lambda: None, lambda _: times.append(bench.loop.time()))
    bench.loop.run_for(1000.0)
    slow = [b - a for a, b in pairwise(times) if b - a >= 0.5]
    assert len(times) == 201
    assert 30 < len(slow) < 90
    assert max(slow) <= 1.5


def test_paused_process_has_paused_threads(bench: Bench) -> None:
    node = bench.machine.boot()
    told: list[str] = []
    node.process.call(
        node.workers.start("w").submit, lambda: told.append("job"), lambda _: told.append("done")
    )
    node.process.pause()
    bench.loop.run_for(60.0)
    assert told == []
    node.process.resume()
    bench.loop.run_for(0.0)
    assert told == ["job", "done"]


def test_kill_leaves_a_running_job_done_half_done_or_not_begun(loop: VirtualLoop) -> None:
    """So that a crash falls between a write and its sync, too."""
    found: dict[str, int] = {}
    for seed in range(300):
        bench = Bench(loop, seed)
        node = bench.machine.boot()
        bench.machine.speed = Speed((1.0, 1.0))
        told: list[str] = []
        node.workers.start("w").submit(
            lambda node=node: write(node, "/a", b"a" * 2000),  # type: ignore[misc]
            lambda _, told=told: told.append("done"),  # type: ignore[misc]
        )
        loop.run_for(0.5)
        bench.machine.kill(power=False)
        disk = bench.machine.disk
        length = len(disk.read("/a")) if disk.exists("/a") else -1
        state = {-1: "no file", 0: "no content", 2000: "all written"}.get(length, "torn")
        found[state] = found.get(state, 0) + 1
        assert told == []
    assert set(found) == {"no file", "no content", "all written", "torn"}
