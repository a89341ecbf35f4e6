"""One process of a world: begun, signalled, ended, and what it said last.

It is in a session of its own, so that Ctrl-C reaches the harness and not it; and it ends with the
harness, see `raftbatch.local.child`, unless it is paused then.

What lives here: that. What must never live here: what it is for. Called by:
`chaos.worlds.processes`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parents[2]
"""Where Python finds the product, and this."""

_TAIL_BYTES = 4 << 10
_TAIL_LINES = 8
_HEAD_BYTES = 1 << 20
_KILL_S = 30.0  # of a process that the kernel cannot end at once, since its disk hangs


class Started:
    """See the module's docstring.

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
        self.log = log
        with log.open("ab") as said:
            self._begin = said.seek(0, os.SEEK_END)
            self._process = subprocess.Popen(
                enter([sys.executable, "-m", *arguments]),
                cwd=ROOT,
                env=dict(environment),
                stdin=subprocess.PIPE,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Its number, and that of the group of all that it started."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

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

    def wait(self, timeout_s: float) -> int | None:
        """Return its exit status, once it has ended; None: it has not, in that time."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        """End it at once, it alone. Harmless where it has ended.

        Raises:
            TimeoutError: the kernel does not end it.
        """
        self._process.kill()
        if self.wait(_KILL_S) is None:
            raise TimeoutError(f"{self.log.stem} does not end {_KILL_S:g} s after SIGKILL")
        self.release()

    def release(self) -> None:
        """Close our end of its pipe, which ends it."""
        if self._process.stdin is not None:
            self._process.stdin.close()

    def ending(self) -> str:
        """Return how it ended, and what it said last; empty while it has not."""
        status = self._process.poll()
        if status is None:
            return ""
        how = f"exit status {status}" if status >= 0 else signal.Signals(-status).name
        with self.log.open("rb") as log:
            end = log.seek(0, os.SEEK_END)
            log.seek(max(self._begin, end - _TAIL_BYTES))
            lines = log.read(_TAIL_BYTES).decode("utf-8", "replace").splitlines()
        return "\n".join([f"{how}; {self.log} ends with", *lines[-_TAIL_LINES:]])

    def has_said(self, text: str) -> bool:
        """Return whether it wrote this; looked for in its first lines."""
        with self.log.open("rb") as log:
            log.seek(self._begin)
            return text.encode() in log.read(_HEAD_BYTES)
