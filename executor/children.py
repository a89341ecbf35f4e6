"""Child processes as the executor sees them: started, told, heard, killed.

What lives here: the parent's end of the pipes. What must never live here: when one is
started or killed (`agent`). Called by: the agent, on its loop.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from typing import Protocol

from executor.frames import LENGTH, PIPE_CLOSED, Frame, Load, encode, heard
from executor.loading import said

_BUFFER_BYTES = 1 << 20
_FRAME_BYTES_MAX = 2 << 30  # results of a batch, and what goes with them; more is none of ours
_LAST_WORDS_S = 5.0  # for a process that says nothing any more to end by itself
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


class Child(Protocol):
    """A process that runs one instance of a model."""

    @property
    def pid(self) -> int:
        """Its number."""
        ...

    def send(self, frame: Frame) -> None:
        """Tell it something. Never blocks: it is told one batch at a time."""
        ...

    async def receive(self) -> Frame | None:
        """Return what it says next; None: it says nothing any more."""
        ...

    def kill(self) -> None:
        """Kill it. Harmless where it is dead."""
        ...

    async def dead(self) -> str:
        """Return how it ended, once it has."""
        ...


class Children(Protocol):
    """Where child processes come from."""

    async def start(self, load: Load) -> Child:
        """Start one, which begins to load a model."""
        ...


def cpus() -> int:
    """Return how many CPUs this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # on Linux alone
        return os.cpu_count() or 1


def ended(status: int) -> str:
    """Return how a process ended, by its exit status, which a signal makes negative. Total."""
    if status == PIPE_CLOSED:
        return "it closed file descriptors that are not its own, and the pipe to us with them"
    if status >= 0:
        return f"it exited with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:  # most of the real-time ones have no name
        name = f"signal {-status}"
    hint = ", as the kernel does where memory runs out" if name == "SIGKILL" else ""
    return f"it was ended by {name}{hint}"


class RealChildren:
    """Starts processes of this Python."""

    async def start(self, load: Load) -> Child:
        """Start one. Raises OSError where it cannot be started."""
        environment = dict(os.environ)
        for name in _THREADS:
            environment.setdefault(name, str(load.threads))
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "executor.worker",
                str(os.getpid()),
                stdin=PIPE,
                stdout=PIPE,
                limit=_BUFFER_BYTES,
                env=environment,
                start_new_session=True,  # what it starts itself is killed with it, and not we
            )
        except RuntimeError as error:  # uvloop's, of a pipe that closes meanwhile
            raise OSError(str(error)) from error
        child = _RealChild(process)
        child.send(load)
        return child


class _RealChild:
    def __init__(self, process: Process) -> None:
        self._process = process
        assert process.stdin is not None
        assert process.stdout is not None
        self._in, self._out = process.stdin, process.stdout
        self._why, self._is_buried = "", False

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, frame: Frame) -> None:
        # uvloop raises where the pipe has closed and the death is not known yet.
        if self._process.returncode is None and not self._in.is_closing():
            with suppress(RuntimeError):
                self._in.write(encode(frame))

    async def receive(self) -> Frame | None:
        try:
            (length,) = LENGTH.unpack(await self._out.readexactly(LENGTH.size))
            if length > _FRAME_BYTES_MAX:
                self._distrust(f"a frame of {length} bytes")
                return None
            body = await self._out.readexactly(length)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        try:
            return heard(body)
        except Exception as error:  # noqa: BLE001 - whatever a model wrote there
            self._distrust(said(error))
            return None

    def kill(self) -> None:
        if self._process.returncode is None:
            self._kill_all()

    async def dead(self) -> str:
        # One that has closed its pipe can be told nothing, and may go on for ever.
        try:
            status = await asyncio.wait_for(self._process.wait(), _LAST_WORDS_S)
        except TimeoutError:
            self._why = self._why or "it closed the pipe to its executor"
            self._kill_all()
            status = await self._process.wait()
        if not self._is_buried:
            self._is_buried = True
            self._kill_all()  # what it started, and left behind
        self._in.close()
        return self._why or ended(status)

    def _distrust(self, what: str) -> None:
        """Kill what says something that the child of an executor never says."""
        self._why = f"it wrote into the pipe to its executor: {what}"
        self._kill_all()

    def _kill_all(self) -> None:
        """Kill it, and all that it started and that has made no session of its own."""
        with suppress(ProcessLookupError, PermissionError):  # it was quicker
            os.killpg(self._process.pid, signal.SIGKILL)
