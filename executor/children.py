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

from executor.frames import LENGTH, Frame, Load, decode, encode

_BUFFER_BYTES = 1 << 20
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
            return decode(await self._out.readexactly(length))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    def kill(self) -> None:
        if self._process.returncode is None:
            try:
                self._process.kill()
            except ProcessLookupError:
                pass  # it was quicker

    async def dead(self) -> str:
        status = await self._process.wait()
        self._in.close()
        if status >= 0:
            return f"it exited with status {status}"
        name = signal.Signals(-status).name
        hint = ", as the kernel does where memory runs out" if name == "SIGKILL" else ""
        return f"it was ended by {name}{hint}"
