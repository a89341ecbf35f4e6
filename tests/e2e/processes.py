"""One `raftbatch serve` as a process: what it says, how it is stopped, and that it is reaped.

Used by: `cluster`, tests. Whoever starts a process owns it: leaving its context
kills it, whatever state it is in. Most are forked, see `forks`; a test of how a process begins
has it start anew.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from tempfile import TemporaryFile
from types import TracebackType
from typing import Any, Self

from tests.e2e import forks
from tests.tidy.tree import ROOT

LIMIT_S = 60.0
"""Nothing takes so long, on a busy machine too; a test that waits for ever would say nothing."""

RAFTBATCH = (sys.executable, "-m", "raftbatch")

Event = dict[str, Any]


class Process:
    """A process and the lines that it writes to standard error.

    Args:
        arguments: the command.
        environment: added to ours.
        anew: whether the interpreter is started for it, though it is one of `RAFTBATCH`.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str] | None = None,
        *,
        anew: bool = False,
    ):
        self._lines: list[str] = []
        self._begun = b""  # of a line that has not come whole
        self._is_open = True
        self._changed = threading.Condition()
        self._is_paused = False
        self._process: subprocess.Popen[bytes] | forks.Forked
        self._pipe, theirs = os.pipe()
        nothing = os.open(os.devnull, os.O_RDWR)
        try:
            if environment is None and not anew and _can_be_forked(arguments):
                given = arguments[len(RAFTBATCH) :]
                self._process = forks.begin(given, {}, (nothing, nothing, theirs))
            else:
                self._process = subprocess.Popen(
                    arguments,
                    cwd=ROOT,
                    env=os.environ | (environment or {}),
                    stdin=nothing,
                    stdout=nothing,
                    stderr=theirs,
                )
        finally:
            os.close(nothing)
            os.close(theirs)
        os.set_blocking(self._pipe, False)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Kill it, wherever it is, and wait for it."""
        self.kill()

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    @property
    def is_up(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    @property
    def said(self) -> str:
        """Everything that it wrote so far."""
        with self._changed:
            self._take()
            return self.unlocked()

    @property
    def events(self) -> list[Event]:
        """What it logged so far."""
        with self._changed:
            self._take()
            return [json.loads(line) for line in self._lines if line.startswith("{")]

    def logged(self, event: str) -> list[Event]:
        """Return what it logged under a name."""
        return [each for each in self.events if each["event"] == event]

    def wait_for(self, event: str, *, count: int = 1) -> Event:
        """Return the n-th event of a name, once it is logged; fail where the process ends first."""
        self.until(lambda: len(self.logged(event)) >= count or not self.is_up, event)
        found = self.logged(event)
        assert len(found) >= count, f"it ended without {event}:\n{self.said}"
        return found[count - 1]

    def until(self, holds: Callable[[], bool], what: str, limit_s: float = LIMIT_S) -> None:
        """Wait until something holds that its lines, or its end, bring about."""
        with self._changed:
            assert self._changed.wait_for(holds, limit_s), f"no {what}:\n{self.unlocked()}"

    def unlocked(self) -> str:
        """Return all lines; for whoever holds the lock already."""
        return "\n".join(self._lines)

    def send(self, number: signal.Signals) -> None:
        """Send a signal, if it has not ended."""
        if self.is_up:
            self._process.send_signal(number)

    def pause(self) -> None:
        """Let it stand still."""
        self._is_paused = True
        self.send(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self._is_paused = False
        self.send(signal.SIGCONT)

    def kill(self) -> None:
        """End it at once."""
        self.send(signal.SIGKILL)
        self._end()

    def terminate(self) -> int:
        """Ask it to stop; return its exit status."""
        self.send(signal.SIGTERM)
        return self.ended()

    def ended(self) -> int:
        """Return its exit status, once it has ended by itself."""
        try:
            self._process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"it has not ended:\n{self.said}") from None
        return self._end()

    def _end(self) -> int:
        status = self._process.wait(LIMIT_S)
        self._reader.join(LIMIT_S)
        with self._changed:
            self._is_open = False
            if self._pipe >= 0:
                os.close(self._pipe)
                self._pipe = -1
        return status

    def _read(self) -> None:
        """Take what it writes as it comes, so that whoever waits for it hears of it."""
        ready = select.poll()
        ready.register(self._pipe, select.POLLIN)
        is_over = False
        while not is_over:
            ready.poll()
            with self._changed:
                self._take()
                is_over = not self._is_open
        self._process.wait()
        with self._changed:
            self._changed.notify_all()

    def _take(self) -> None:
        """Take all that it has written by now; the lock is held.

        Whoever looks does so too, and not the reader alone: what it wrote before it answered
        somebody else is there then, however late the reader's turn comes.
        """
        while self._is_open:
            try:
                data = os.read(self._pipe, 1 << 16)
            except BlockingIOError:
                return
            self._is_open = bool(data)
            *whole, self._begun = (self._begun + data).split(b"\n")
            if not data and self._begun:  # it has ended within a line
                whole.append(self._begun)
            self._lines += [line.decode("utf-8", "replace") for line in whole]
            self._changed.notify_all()


def run(
    *arguments: str, stdin: str | None = None, anew: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run a `raftbatch` command to its end; `anew` is as that of `Process`."""
    environment = {"COLUMNS": "200", "TERM": "dumb"}
    command = [*RAFTBATCH, *arguments]
    if stdin is None and not anew and _can_be_forked(command):
        return _run_forked(arguments, environment)
    return subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | environment,
        timeout=LIMIT_S,
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )


def _run_forked(
    arguments: Sequence[str], environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    with TemporaryFile() as nothing, TemporaryFile() as output, TemporaryFile() as complaints:
        streams = (nothing.fileno(), output.fileno(), complaints.fileno())
        process = forks.begin(arguments, environment, streams)
        try:
            status = process.wait(LIMIT_S)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait(LIMIT_S)
        said = []
        for file in (output, complaints):
            file.seek(0)
            said.append(file.read().decode())
    return subprocess.CompletedProcess([*RAFTBATCH, *arguments], status, *said)


def _can_be_forked(command: Sequence[str]) -> bool:
    return forks.ARE_THERE and tuple(command[: len(RAFTBATCH)]) == RAFTBATCH
