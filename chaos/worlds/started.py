"""One process of a world: begun, signalled, ended, and what it said last.

It is in a session of its own, so that Ctrl-C reaches the harness and not it; and it ends with the
harness, see `raftbatch.local.child`, unless it is paused then.

What lives here: what is done to its whole group. What must never live here: what it is for.
Called by: `chaos.worlds.processes`.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from raftbatch.local.processes import KILL_S, TAIL_LINES, ChildProcess

ROOT = Path(__file__).parents[2]
"""Where Python finds the product, and this."""

_TAIL_BYTES = 4 << 10


class Started(ChildProcess):
    """See the module's docstring. Its `pid` is that of the group of all that it started.

    Args:
        arguments: of a Python that runs a module: `-m` is there already.
        log: to which all that it says is appended.
        enter: makes of its command one that runs where it belongs, as the same process.
        environment: all of it.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        log: Path,
        enter: Callable[[Sequence[str]], Sequence[str]],
        environment: Mapping[str, str],
    ) -> None:
        command = enter([sys.executable, "-m", *arguments])
        super().__init__(command, log, ROOT, dict(environment))

    def send(self, number: signal.Signals) -> None:
        """Send a signal to it and what it started. Harmless where it has ended."""
        if self.is_alive:
            with suppress(ProcessLookupError):  # somebody else waits for it too
                os.killpg(self.pid, number)

    def pause(self) -> None:
        """Stop it and what it started with SIGSTOP, and wait until it stands still, or ends."""
        self.send(signal.SIGSTOP)
        if self.is_alive:
            with suppress(ChildProcessError):  # somebody else has waited for its end
                # Looked at, not taken: its end is for whoever waits for that.
                os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def terminated(self) -> None:
        """Send it alone SIGTERM. Harmless where it has ended."""
        self._process.send_signal(signal.SIGTERM)

    def terminate(self, timeout_s: float) -> int:
        """Stop it with SIGTERM; return its exit status.

        Raises:
            TimeoutError: it has not ended in that time.
        """
        self.terminated()
        status = self.wait(timeout_s)
        if status is None:
            raise TimeoutError(f"{self.log.stem} has not ended {timeout_s:g} s after SIGTERM")
        self.release()
        return status

    def kill(self) -> None:
        """End it at once, it alone. Harmless where it has ended.

        Raises:
            TimeoutError: the kernel does not end it.
        """
        self._process.kill()
        if self.wait(KILL_S) is None:
            raise TimeoutError(f"{self.log.stem} does not end {KILL_S:g} s after SIGKILL")
        self.release()

    def ending(self) -> str:
        """Return how it ended, and what it said last; empty while it has not."""
        status = self._process.poll()
        if status is None:
            return ""
        how = f"exit status {status}" if status >= 0 else signal.Signals(-status).name
        lines = self.last_lines(_TAIL_BYTES)
        return "\n".join([f"{how}; {self.log} ends with", *lines[-TAIL_LINES:]])
