"""A process of a cluster on this machine: begun, asked, ended, and what it said last.

It is in a session of its own, so that Ctrl-C reaches whoever began it and not it; and it ends
with that one, see `child`. What it writes is appended to its log file.

What lives here: that. What must never live here: what it is for. Called by: `cluster`, and by
harnesses, whose processes are begun and signalled otherwise.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_LOG_BYTES_MAX = 16 << 20
_TAIL_BYTES = 16 << 10
_HEAD_BYTES = 1 << 20
TAIL_LINES = 8
"""Of what a process said last, that are shown."""

KILL_S = 30.0
"""How long the kernel may take to end a process: its disk may hang."""

_ERROR = "Error: "


class ChildProcess:
    """See the module's docstring.

    Args:
        command: all of it.
        log: to which all that it says is appended.
        folder: in which it runs; None: where this one does.
        environment: all of it; None: this one's.
    """

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.log = log
        with log.open("ab") as said:
            self._begin = said.seek(0, os.SEEK_END)
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def wait(self, timeout_s: float) -> int | None:
        """Return its exit status, once it has ended; None: it has not, in that time."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def release(self) -> None:
        """Close our end of its pipe, which ends it."""
        if self._process.stdin is not None:
            self._process.stdin.close()

    def last_lines(self, bytes_max: int) -> list[str]:
        """Return the last lines that it has said, of no more bytes than these."""
        with self.log.open("rb") as log:
            end = log.seek(0, os.SEEK_END)
            log.seek(max(self._begin, end - bytes_max))
            return log.read(bytes_max).decode("utf-8", "replace").splitlines()

    def has_said(self, text: str) -> bool:
        """Return whether it wrote this; looked for in its first lines."""
        with self.log.open("rb") as log:
            log.seek(self._begin)
            return text.encode() in log.read(_HEAD_BYTES)


class LocalProcess(ChildProcess):
    """A process of a `LocalCluster`.

    Args:
        arguments: of the command `raftbatch`.
        log: its log file; at a start a long one becomes the earlier one, `NAME.log.1`.
    """

    def __init__(self, arguments: Sequence[str], log: Path) -> None:
        if log.exists() and log.stat().st_size > _LOG_BYTES_MAX:
            log.replace(log.with_suffix(".log.1"))
        super().__init__([sys.executable, *_safe(), "-m", "raftbatch.local.child", *arguments], log)

    def send(self, number: signal.Signals) -> None:
        """Send it a signal. Harmless where it has ended."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it at once. Harmless where it has ended."""
        self.send(signal.SIGKILL)
        self.wait(KILL_S)
        self.release()

    def ending(self) -> str:
        """Return how it ended; empty while it has not."""
        status = self._process.poll()
        if status is None:
            return ""
        if status >= 0:
            return f"it exited with status {status}"
        return f"it was ended by {signal.Signals(-status).name}"

    @property
    def was_ended(self) -> bool:
        """Whether a signal ended it, so that it could not say why."""
        status = self._process.poll()
        return status is not None and status < 0

    def why(self) -> str:
        """Return its last word why it ended; if it said none, the last lines of its log."""
        lines = self.last_lines(_TAIL_BYTES)
        errors = [number for number, line in enumerate(lines) if line.startswith(_ERROR)]
        if errors:
            return "\n".join(lines[errors[-1] :]).removeprefix(_ERROR)
        return "\n".join([f"{self.log} ends with", *lines[-TAIL_LINES:]])


def own_command() -> str:
    """Return how a person runs this command in another terminal, in the same folder."""
    name = sys.argv[0]
    if name.endswith("__main__.py"):
        return f"{sys.executable} -m raftbatch"
    is_found = shutil.which("raftbatch") == str(Path(name).absolute())
    return "raftbatch" if is_found else shlex.quote(name)


def _safe() -> list[str]:
    """Return the option by which a process imports as this one does.

    `-m` looks into the working directory first, where a user's `executor.py` may be; the
    installed command does not.
    """
    return [] if "" in sys.path or str(Path.cwd()) in sys.path else ["-P"]
