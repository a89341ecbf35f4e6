"""The real workers and connections, which report to the asyncio loop."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial

import pytest

from raftbatch.realworld import RealConnection, RealNetwork, RealWorker, RealWorkers
from raftbatch.world import Connection, Listener


async def submitted(worker: RealWorker, job: Callable[[], object]) -> Future[object]:
    """Submit a job and wait for its report."""
    reported: asyncio.Future[Future[object]] = asyncio.get_running_loop().create_future()
    worker.submit(job, reported.set_result)
    assert not reported.done(), "reported inside submit"
    return await reported


def test_worker_runs_on_its_thread_and_reports_in_order_on_the_loop() -> None:
    async def main() -> None:
        worker = RealWorkers().start("disk")
        events: list[tuple[int, str]] = []

        def done(future: Future[tuple[int, str]]) -> None:
            assert threading.current_thread() is threading.main_thread()
            events.append(future.result())

        def job(number: int) -> tuple[int, str]:
            return number, threading.current_thread().name

        for number in range(50):
            worker.submit(partial(job, number), done)
        await submitted(worker, lambda: None)
        worker.close()
        assert [number for number, _ in events] == list(range(50))
        assert {name.partition("_")[0] for _, name in events} == {"disk"}

    asyncio.run(main())


def test_worker_tells_before_it_does_what_is_behind_a_job() -> None:
    """Nobody waits for that; and it is done before the next job, but not behind one that failed."""
    told = threading.Event()
    found: list[object] = []

    def behind() -> None:
        found.append(told.wait(30.0))

    def fail() -> None:
        raise ValueError("no")

    async def main() -> None:
        worker = RealWorkers().start("w")
        worker.submit(lambda: 5, lambda future: told.set(), behind)
        assert (await submitted(worker, lambda: list(found))).result() == [True]
        worker.submit(fail, lambda future: found.append(future.exception()), behind)
        await submitted(worker, lambda: None)
        assert len(found) == 2
        assert isinstance(found[1], ValueError)
        worker.close()

    asyncio.run(main())


def test_worker_reports_what_a_job_raises() -> None:
    def job() -> None:
        raise KeyboardInterrupt  # even what is no Exception belongs to the job

    async def main() -> None:
        worker = RealWorkers().start("w")
        future = await submitted(worker, job)
        assert isinstance(future.exception(), KeyboardInterrupt)
        assert (future.done(), future.cancelled()) == (True, False)
        with pytest.raises(KeyboardInterrupt):
            future.result()
        assert (await submitted(worker, lambda: 5)).result() == 5
        worker.close()

    asyncio.run(main())


def test_worker_close_waits_for_the_running_job_and_drops_all_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    join = threading.Thread.join

    def join_at_last(self: threading.Thread, timeout: float | None = None) -> None:
        go_on.set()  # the job may end once `close` waits for it, not before
        join(self, timeout)

    async def main() -> None:
        worker = RealWorkers().start("w")
        events: list[str] = []

        def running() -> None:
            begun.set()
            go_on.wait()
            events.append("ran")

        worker.submit(running, lambda _: events.append("reported"))
        worker.submit(lambda: events.append("waiting ran"), lambda _: events.append("reported"))
        assert begun.wait(60)
        monkeypatch.setattr(threading.Thread, "join", join_at_last)
        worker.close()
        assert events == ["ran"]
        worker.close()
        worker.submit(lambda: events.append("late ran"), lambda _: events.append("reported"))
        await turns()
        assert events == ["ran"]

    asyncio.run(main())


def test_worker_drops_a_report_that_the_loop_has_not_come_to() -> None:
    async def main() -> None:
        worker = RealWorkers().start("w")
        events: list[str] = []
        ended = threading.Event()
        worker.submit(lambda: None, lambda _: events.append("reported"))
        worker.submit(ended.set, lambda _: events.append("reported"))
        assert ended.wait(60)
        worker.close()
        await turns()
        assert events == []

    asyncio.run(main())


def test_worker_outlives_its_loop() -> None:
    started, release = threading.Event(), threading.Event()

    def running() -> None:
        started.set()
        release.wait()

    async def main() -> RealWorker:
        worker = RealWorkers().start("w")
        worker.submit(running, lambda _: None)
        assert started.wait(60)
        return worker

    worker = asyncio.run(main())
    release.set()
    worker.close()


def test_worker_close_leaves_a_job_that_does_not_end_to_itself() -> None:
    """It says so, and again each time until the job has ended."""
    begun, go_on = threading.Event(), threading.Event()

    def stuck() -> None:
        begun.set()
        go_on.wait()

    async def main() -> None:
        worker = RealWorker("w", asyncio.get_running_loop(), close_s=0)
        worker.submit(stuck, lambda _: None)
        assert begun.wait(60)
        assert not worker.close()
        go_on.set()
        worker.thread.join(60)
        assert worker.close()

    asyncio.run(main())


def test_process_ends_although_a_job_does_not() -> None:
    """As on a disk that hangs."""
    script = """
import asyncio, threading
from raftbatch.realworld import RealWorker

async def main():
    begun = threading.Event()
    worker = RealWorker("w", asyncio.get_running_loop(), close_s=0)
    worker.submit(lambda: (begun.set(), threading.Event().wait()), print)
    begun.wait()
    print(worker.close())

asyncio.run(main())
"""
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "False\n", "")


class Echo:
    """A server that sends back what comes, and can tell when all its connections have ended."""

    def __init__(self) -> None:
        self.network = RealNetwork()
        self._serving: set[asyncio.Event] = set()

    async def listen(self, address: str = "127.0.0.1:0") -> Listener:
        """Begin to serve."""
        return await self.network.listen(address, self.accept, None)

    async def connect(self, listener: Listener) -> Connection:
        """Return a connection that has been accepted: the first byte has come back."""
        connection = await self.network.connect(listener.address, None)
        connection.write(b"?")
        assert await connection.read(1) == b"?"
        return connection

    async def accept(self, connection: Connection) -> None:
        """Serve one connection until the other end closes."""
        ended = asyncio.Event()
        self._serving.add(ended)
        try:
            while data := await connection.read(1 << 16):
                connection.write(data)
        except ConnectionError:
            pass  # the other end aborted
        connection.abort()
        ended.set()

    async def ended(self) -> None:
        """Return once every connection has ended and its socket is closed."""
        for ended in self._serving:
            await ended.wait()
        await turns()


async def turns() -> None:
    """Let the loop do all it has at hand."""
    for _ in range(5):
        await asyncio.sleep(0)


def test_network_carries_bytes_both_ways() -> None:
    async def main() -> None:
        echo = Echo()
        listener = await echo.listen()
        assert not listener.address.endswith(":0")
        connection = await echo.connect(listener)
        assert connection.peer == listener.address
        assert connection.certificate_name is None
        sent = bytes(range(256)) * 4096
        connection.write(sent)
        received = b""
        while len(received) < len(sent):
            part = await connection.read(1 << 16)
            assert 1 <= len(part) <= 1 << 16
            received += part
        assert received == sent
        assert connection.queued_bytes == 0
        connection.abort()
        await listener.close()
        assert listener.address == connection.peer
        await echo.ended()

    asyncio.run(main())


def test_network_abort_ends_both_readers() -> None:
    async def main() -> None:
        echo = Echo()
        listener = await echo.listen()
        connection = await echo.connect(listener)
        reading = asyncio.create_task(connection.read(1))
        await turns()
        connection.abort()
        assert await reading == b""
        connection.write(b"into the void")
        connection.abort()
        await echo.ended()
        await listener.close()

    asyncio.run(main())


def test_network_stops_accepting_but_keeps_what_it_accepted() -> None:
    async def main() -> None:
        echo = Echo()
        listener = await echo.listen()
        connection = await echo.connect(listener)
        await listener.close()
        with pytest.raises(ConnectionRefusedError):
            await echo.network.connect(listener.address, None)
        connection.write(b"2")
        assert await connection.read(1) == b"2"
        connection.abort()
        await echo.ended()

    asyncio.run(main())


def test_network_refuses_an_address_in_use() -> None:
    async def main() -> None:
        echo = Echo()
        listener = await echo.listen()
        with pytest.raises(OSError, match="address already in use"):
            await echo.listen(listener.address)
        await listener.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    "address",
    ["", "host", "host:", "host:x", "host:-1", "host:65536", "host:²", f"host:{'9' * 5000}",
     f"{'a' * 64}:1", "a..b:1"],
    ids=range(10),
)  # fmt: skip
def test_network_answers_a_bad_address_with_an_os_error(address: str) -> None:
    async def main() -> None:
        echo = Echo()
        with pytest.raises(OSError, match="is not host:port"):
            await echo.network.connect(address, None)
        with pytest.raises(OSError, match="is not host:port"):
            await echo.listen(address)

    asyncio.run(main())


def test_network_speaks_ipv6() -> None:
    async def main() -> None:
        echo = Echo()
        try:
            listener = await echo.listen("[::1]:0")
        except OSError as error:
            pytest.skip(f"no IPv6 here: {error}")
        assert listener.address.startswith("[::1]:")
        connection = await echo.connect(listener)
        assert connection.peer == listener.address
        connection.abort()
        await listener.close()
        await echo.ended()

    asyncio.run(main())


def test_connection_that_breaks_is_always_a_connection_error() -> None:
    async def main() -> None:
        echo = Echo()
        listener = await echo.listen()
        connection = await echo.connect(listener)
        assert isinstance(connection, RealConnection)
        connection.connection_lost(TimeoutError(110, "as the kernel reports a silent peer"))
        with pytest.raises(ConnectionError, match="silent peer"):
            await connection.read(1)
        connection.abort()
        await listener.close()
        await echo.ended()

    asyncio.run(main())
