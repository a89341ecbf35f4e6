"""What this executor and its models' processes take of the machine: CPU time and memory.

Read from Linux's own files, on a thread of its own, since a read may block. What cannot be
read is 0, as all is on another system. What lives here: those files, and their sum. What
must never live here: what is done with it. Called by: the agent, with each heartbeat.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial

from raftbatch.world import Clock, Files, Workers

_FILE_BYTES_MAX = 1 << 16
_TICKS_NS = 10_000_000  # of the times in /proc/PID/stat: hundredths of a second on every Linux
_UNLIMITED_BYTES = 1 << 60  # a control group without a limit says some such number
_PERMILLE_MAX = 1000

_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Of the control group that a container sees as its own, of both kinds."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What is taken; 0 for what cannot be told.

    Attributes:
        cpu_permille: of the CPUs that may be used, in thousandths, since the look before.
        memory_bytes: resident; pages that processes share count for each.
        memory_limit_bytes: what may be resident.
    """

    cpu_permille: int = 0
    memory_bytes: int = 0
    memory_limit_bytes: int = 0


class Meter:
    """See the module's docstring.

    Args:
        files: where the files are.
        workers: for the thread.
        clock: measures the time between two looks.
        cpus: how many may be used.

    Attributes:
        latest: what was seen last.
    """

    def __init__(self, files: Files, workers: Workers, clock: Clock, cpus: int) -> None:
        self.latest = Usage()
        self._files = files
        self._worker = workers.start("usage")
        self._clock = clock
        self._cpus = max(1, cpus)
        self._before: tuple[int, int] | None = None  # when, and the CPU time by then
        self._is_looking = False

    def look(self, pids: Sequence[int]) -> None:
        """Begin to look, unless that goes on already; `latest` follows.

        Args:
            pids: of the models' processes.
        """
        if not self._is_looking:
            self._is_looking = True
            self._worker.submit(partial(self._seen, ["self", *map(str, pids)]), self._take)

    def close(self) -> None:
        """Look no more."""
        self._worker.close()

    def _take(self, future: Future[Usage]) -> None:
        self._is_looking = False
        self.latest = future.result()

    # On the thread.

    def _seen(self, processes: Sequence[str]) -> Usage:
        cpu_ns = sum(map(self._cpu_ns, processes))
        now_ns = self._clock.monotonic_ns()
        permille = 0
        if self._before is not None and now_ns > self._before[0]:
            passed_ns = (now_ns - self._before[0]) * self._cpus
            permille = 1000 * (cpu_ns - self._before[1]) // passed_ns
        self._before = now_ns, cpu_ns
        return Usage(
            max(0, min(permille, _PERMILLE_MAX)),
            sum(map(self._resident_bytes, processes)),
            self._limit_bytes(),
        )

    def _cpu_ns(self, process: str) -> int:
        """Return the CPU time of a process and of its children that are dead."""
        # The name, in parentheses, may hold anything; the state comes behind it.
        values = self._read(f"/proc/{process}/stat").rpartition(")")[2].split()
        return sum(map(_number, values[11:15])) * _TICKS_NS

    def _resident_bytes(self, process: str) -> int:
        return self._kibibytes(f"/proc/{process}/status", "VmRSS:")

    def _limit_bytes(self) -> int:
        limits = [self._kibibytes("/proc/meminfo", "MemTotal:")]
        limits += [_number(self._read(path).strip()) for path in _LIMITS]
        return min([each for each in limits if 0 < each < _UNLIMITED_BYTES], default=0)

    def _kibibytes(self, path: str, name: str) -> int:
        """Return the number on the line that begins with a name."""
        for line in self._read(path).splitlines():
            if line.startswith(name):
                return _number(line.split()[1]) * 1024
        return 0

    def _read(self, path: str) -> str:
        """Return what is in a file; nothing where there is none, or not for us."""
        try:
            file = self._files.open(path, "read")
            try:
                return file.read_at(0, _FILE_BYTES_MAX).decode("ascii", "replace")
            finally:
                file.close()
        except OSError:
            return ""


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() else 0
