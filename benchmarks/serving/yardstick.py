"""What a processor does in a piece of its time just now, beside whatever else runs.

Two programs that share a processor's caches, or a host's cores, take more time for the same work
each. So processor time of long ago and of now are comparable only by a yardstick: some work that
is always the same, done twice a second in a process of its own, which costs a hundredth of a core.

What lives here: that process, and asking it. Called by: `endurance`; itself, as a program, which
ends with its standard input.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from statistics import median
from types import TracebackType
from typing import Self

_PAUSE_S = 0.5


class Yardstick:
    """See the module's docstring. Leaving it ends it."""

    def __enter__(self) -> Self:
        """Begin."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.median_us()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End it."""
        self._process.communicate()

    def median_us(self) -> float:
        """Return what processor time the work took in the middle, since the last call."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())


def _work() -> int:
    """Do what nodes do: allocate, copy, look up. A few milliseconds, and no page that is new."""
    found = 0
    for _ in range(10):
        rows = {str(number): bytes(1_500) for number in range(300)}
        found += len(b"".join([rows[str(number)] for number in range(0, 300, 3)]))
    return found


def _main() -> None:
    took_s: list[float] = []
    over = threading.Event()

    def measure() -> None:
        while not over.is_set():
            before_s = time.thread_time()
            _work()
            took_s.append(time.thread_time() - before_s)
            over.wait(_PAUSE_S)

    thread = threading.Thread(target=measure)
    thread.start()
    for _ in sys.stdin:
        while not took_s:
            over.wait(_PAUSE_S)
        found, took_s[:] = list(took_s), []
        print(median(found) * 1e6, flush=True)
    over.set()
    thread.join()


if __name__ == "__main__":
    _main()
