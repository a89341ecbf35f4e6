"""The loop on virtual time: order, processes that die and pause, and errors that are not lost."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from chaos.worlds.hooks import Crash
from chaos.worlds.loop import Stuck, VirtualLoop
from chaos.worlds.process import current_process


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    with VirtualLoop() as loop:
        yield loop


def test_time_jumps_to_the_next_timer_and_then_to_the_deadline(loop: VirtualLoop) -> None:
    times: list[float] = []
    loop.call_later(3600.0, lambda: times.append(loop.time()))
    loop.call_at(0.25, lambda: times.append(loop.time()))
    loop.run_until(7200.0)
    assert times == [0.25, 3600.0]
    assert loop.time() == 7200.0
    assert loop.events == 2


def test_callbacks_of_one_instant_come_in_the_order_they_were_asked_for(loop: VirtualLoop) -> None:
    order: list[object] = []
    for number in range(100):
        loop.call_at(1.0, order.append, number)
    loop.call_soon(order.append, "soon")
    loop.call_later(0, order.append, "also soon")
    loop.call_later(-5, order.append, "late")
    loop.run_until(1.0)
    assert order == ["soon", "also soon", "late", *range(100)]


def test_cancelled_timer_does_not_come(loop: VirtualLoop) -> None:
    order: list[int] = []
    loop.call_later(1.0, order.append, 1).cancel()
    loop.call_soon(order.append, 2).cancel()
    loop.call_later(1.0, order.append, 3)
    loop.run_for(2.0)
    assert order == [3]
    assert loop.events == 1


def test_step_runs_one_callback(loop: VirtualLoop) -> None:
    order: list[int] = []
    loop.call_later(5.0, order.append, 1)
    loop.call_later(5.0, order.append, 2)
    assert loop.step()
    assert (order, loop.time()) == ([1], 5.0)
    assert loop.step()
    assert not loop.step()


def test_asyncio_works_as_usual(loop: VirtualLoop) -> None:
    async def main() -> list[str]:
        told: list[str] = []
        queue: asyncio.Queue[str] = asyncio.Queue(1)

        async def put() -> None:
            for word in ("a", "b"):
                await asyncio.sleep(1.0)
                await queue.put(word)

        async with asyncio.TaskGroup() as group:
            group.create_task(put())
            told += [await queue.get(), await queue.get()]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2.0):
                await queue.get()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(queue.get(), 3.0)
        assert asyncio.get_running_loop() is loop
        return told

    assert loop.run_until_complete(main()) == ["a", "b"]
    assert loop.time() == 7.0


def test_run_forever_ends_when_told(loop: VirtualLoop) -> None:
    def again() -> None:
        loop.call_later(1.0, again)

    again()
    loop.call_later(10.5, loop.stop)
    loop.run_forever()
    assert loop.time() == 10.5


def test_deadlock_is_said(loop: VirtualLoop) -> None:
    with pytest.raises(Stuck, match="nothing is left"):
        loop.run_until_complete(loop.create_future())


def test_busy_waiting_is_said(loop: VirtualLoop) -> None:
    def spin() -> None:
        loop.call_soon(spin)

    spin()
    with pytest.raises(Stuck, match="without time passing"):
        loop.run_for(1.0)


def test_threads_are_refused(loop: VirtualLoop) -> None:
    with pytest.raises(RuntimeError, match=r"World\.workers"):
        loop.run_until_complete(asyncio.to_thread(print))


def test_error_in_a_callback_ends_the_run(loop: VirtualLoop) -> None:
    def fail() -> None:
        raise ValueError("no")

    loop.call_later(1.0, fail)
    with pytest.raises(ValueError, match="no"):
        loop.run_for(2.0)


async def _fail() -> None:
    raise ValueError("no")


def test_error_in_a_task_ends_the_run_if_nobody_looks(loop: VirtualLoop) -> None:
    task = loop.create_task(_fail())
    with pytest.raises(ValueError, match="no"):
        loop.run_for(2.0)
    assert task.done()


def test_error_in_a_task_ends_the_run_at_its_close_at_the_latest() -> None:
    def run() -> None:
        with VirtualLoop() as loop:
            loop.create_task(_fail())
            loop.run_for(0.5)

    with pytest.raises(ValueError, match="no"):
        run()


def test_error_in_a_task_is_its_awaiter_s(loop: VirtualLoop) -> None:
    async def main() -> None:
        task = asyncio.create_task(_fail())
        await asyncio.sleep(0.5)
        with pytest.raises(ValueError, match="no"):
            await task

    loop.run_until_complete(main())
    loop.run_for(5.0)


def test_everything_belongs_to_the_process_that_began_it(loop: VirtualLoop) -> None:
    one, two = loop.spawn("one"), loop.spawn("two")
    seen: list[object] = []
    gate = loop.create_future()

    async def wait() -> None:
        await asyncio.sleep(1.0)
        seen.append(current_process())
        await gate  # completed by another
        seen.append(current_process())
        await asyncio.create_task(deeper())

    async def deeper() -> None:
        seen.append(current_process())
        loop.call_soon(lambda: seen.append(current_process()))

    tasks = [process.call(lambda: loop.create_task(wait())) for process in (one, two)]
    loop.after(2.0, gate.set_result, None)
    loop.run_for(3.0)
    assert seen == [one, two] * 4
    assert all(task.done() for task in tasks)
    assert current_process() is None


def test_called_process_finds_the_loop_running(loop: VirtualLoop) -> None:
    process = loop.spawn("n1")
    assert process.call(asyncio.get_running_loop) is loop
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()
    found: list[object] = []
    loop.call_soon(lambda: found.append(process.call(asyncio.get_running_loop)))
    loop.call_soon(lambda: found.append(asyncio.get_running_loop()))
    loop.run_for(0.0)
    assert found == [loop, loop]


def test_dead_process_runs_nothing_not_even_its_finally(loop: VirtualLoop) -> None:
    process = loop.spawn("n1")
    told: list[str] = []
    gate = loop.create_future()

    async def life() -> None:
        try:
            await gate
        finally:
            told.append("finally")

    def begin() -> asyncio.Task[None]:
        loop.call_soon(told.append, "soon")
        loop.call_later(1.0, told.append, "timer")
        return loop.create_task(life())

    task = process.call(begin)
    loop.run_for(0.5)
    process.kill()
    loop.call_soon(gate.set_result, None)
    loop.deliver_at(loop.now_ns, process, told.append, "input")
    loop.run_for(10.0)
    assert told == ["soon"]
    assert not task.done()


def test_error_of_a_process_that_died_in_it_is_dropped(loop: VirtualLoop) -> None:
    process = loop.spawn("n1")

    def die() -> None:
        process.kill()
        raise Crash("at the disk")

    async def die_later() -> None:
        await asyncio.sleep(1.0)
        die()

    process.call(loop.call_soon, die)
    loop.run_for(1.0)
    process = loop.spawn("n2")
    process.call(lambda: loop.create_task(die_later()))
    loop.run_for(10.0)
    assert not process.alive


def test_crash_of_a_living_process_ends_the_run(loop: VirtualLoop) -> None:
    """Whoever raises `Crash` must kill the process first: see `Machine`."""

    def fail() -> None:
        raise Crash("nobody knows")

    loop.spawn("n1").call(loop.call_soon, fail)
    with pytest.raises(Crash):
        loop.run_for(1.0)


@pytest.mark.parametrize(
    ("timers_first", "order"),
    [(False, ["soon", "input", "timer"]), (True, ["soon", "timer", "input"])],
)
def test_paused_process_goes_on_where_it_was(
    loop: VirtualLoop, timers_first: bool, order: list[str]
) -> None:
    process, other = loop.spawn("n1"), loop.spawn("n2")
    told: list[str] = []
    process.call(loop.call_later, 1.0, told.append, "timer")
    loop.deliver_at(2_000_000_000, process, told.append, "input")
    process.call(loop.call_soon, told.append, "soon")
    other.call(loop.call_later, 1.5, told.append, "other")
    process.pause()
    loop.run_for(5.0)
    assert told == ["other"]
    process.resume(timers_first=timers_first)
    loop.run_for(0.0)
    assert told == ["other", *order]


def test_close_disposes_of_tasks_without_a_word() -> None:
    """Warnings are errors here: an abandoned task would say so."""

    async def stubborn() -> None:
        try:
            await asyncio.sleep(10.0)
        finally:
            raise Crash("a dead process's clean-up")

    with VirtualLoop() as loop:
        process = loop.spawn("n1")
        process.call(lambda: loop.create_task(stubborn()))
        loop.create_task(stubborn())
        loop.run_for(1.0)
    assert loop.is_closed()
