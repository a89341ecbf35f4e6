"""What an executor takes of the machine, by files that a test writes; and once by real ones."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar, cast

import pytest

from executor.core.instances import At
from executor.core.machine import Machine
from executor.core.values import DeviceMemory
from executor.load import load_of
from executor.usage import Meter, Usage
from raftbatch.realworld import RealClock, RealFiles
from raftbatch.world import Behind, File, Files

T = TypeVar("T")

STATUS = "Name:\tpython\nVmPeak:\t  900 kB\nVmRSS:\t  {kib} kB\nThreads:\t3\n"
STAT = "77 (a) b (c)) S 1 77 77 0 -1 4194304 9 9 9 9 {user} {system} {reaped} 0 20 0 1 0 5\n"


class TextFile:
    """A file that holds a text."""

    def __init__(self, text: str) -> None:
        self._text = text

    def read_at(self, offset: int, length: int) -> bytes:
        """Return it."""
        return self._text.encode()[offset : offset + length]

    def close(self) -> None:
        """Do nothing."""


class TextFiles:
    """Files by their paths."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def open(self, path: str, mode: str) -> File:
        """Open one."""
        if path not in self.texts:
            raise FileNotFoundError(path)
        return cast("File", TextFile(self.texts[path]))

    def process(self, name: str, *, kib: int, ticks: int, reaped: int = 0) -> None:
        """Let a process be there, with its memory, its CPU time, and that of its dead."""
        self.texts[f"/proc/{name}/status"] = STATUS.format(kib=kib)
        stat = STAT.format(user=ticks - 1, system=1, reaped=reaped)
        self.texts[f"/proc/{name}/stat"] = stat


class Here:
    """A worker, and where it comes from, that does everything at once."""

    def start(self, name: str) -> Here:
        """Return it."""
        return self

    def submit(
        self, job: Callable[[], T], done: Callable[[Future[T]], None], behind: Behind = None
    ) -> None:
        """Do it."""
        future: Future[T] = Future()
        future.set_result(job())
        assert behind is None
        done(future)

    def close(self) -> bool:
        """Do nothing."""
        return True


class Clock:
    """Time as a test sets it."""

    now_ns = 5

    def monotonic_ns(self) -> int:
        """Return it."""
        return self.now_ns

    def wall_ms(self) -> int:
        """Return none."""
        return 0


@pytest.fixture
def files() -> TextFiles:
    """Return the files of a machine with an executor and a child."""
    found = TextFiles()
    found.process("self", kib=1000, ticks=10)
    found.process("42", kib=500, ticks=100)
    found.texts["/proc/meminfo"] = "MemTotal:       4000 kB\nMemFree: 1 kB\n"
    return found


def test_usage_is_that_of_all_processes_over_the_cpus_that_may_be_used(files: TextFiles) -> None:
    clock = Clock()
    meter = Meter(cast("Files", files), Here(), clock, 2)
    meter.look([42])
    assert meter.latest == Usage(0, 1500 << 10, 4000 << 10)
    clock.now_ns += 1_000_000_000
    files.process("42", kib=600, ticks=150)  # half a second of one CPU in a second of two
    meter.look([42])
    assert meter.latest == Usage(250, 1600 << 10, 4000 << 10)
    clock.now_ns += 1_000_000_000
    del files.texts["/proc/42/stat"]  # it died: what it took is its parent's by now
    files.process("self", kib=1000, ticks=10, reaped=170)
    meter.look([])
    assert meter.latest.cpu_permille == 100
    clock.now_ns += 1
    files.process("self", kib=1000, ticks=900)
    meter.look([])
    assert meter.latest.cpu_permille == 1000, "never more than all"


def test_smallest_limit_counts_and_none_is_no_limit(files: TextFiles) -> None:
    meter = Meter(cast("Files", files), Here(), Clock(), 1)
    files.texts["/sys/fs/cgroup/memory.max"] = "max\n"
    files.texts["/sys/fs/cgroup/memory/memory.limit_in_bytes"] = "9223372036854771712\n"
    meter.look([])
    assert meter.latest.memory_limit_bytes == 4000 << 10
    files.texts["/sys/fs/cgroup/memory.max"] = "2048000\n"
    meter.look([])
    assert meter.latest.memory_limit_bytes == 2_048_000


def test_what_cannot_be_read_is_zero() -> None:
    meter = Meter(cast("Files", TextFiles()), Here(), Clock(), 1)
    meter.look([1, 2])
    assert meter.latest == Usage()


@pytest.mark.skipif(sys.platform != "linux", reason="reads the files of Linux")
def test_real_files_are_read() -> None:
    meter = Meter(RealFiles(), Here(), RealClock(), 1)
    meter.look([os.getpid()])
    found = meter.latest
    assert found.memory_bytes > 2 << 20
    assert found.memory_limit_bytes > found.memory_bytes


def test_load_says_what_runs_and_on_what() -> None:
    machine = Machine("gpu-1", [("m", "1"), ("m", "1"), ("n", "2")])
    machine.instances[0].at = At.RUNNING
    machine.instances[1].at = At.IDLE
    device = DeviceMemory("cuda:0", 5, 9)
    found = load_of(machine, Usage(7, 8, 9), {0: device, 1: device})
    assert [(each.name, each.instances, each.busy) for each in found.models] == [
        ("m", 2, 1),
        ("n", 1, 0),
    ]
    assert (found.cpu_permille, found.memory_bytes, found.memory_limit_bytes) == (7, 8, 9)
    [told] = found.devices
    assert (told.device, told.memory_bytes, told.memory_limit_bytes) == ("cuda:0", 5, 9)
