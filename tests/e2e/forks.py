"""Processes of `raftbatch` that begin at once: forked from one that has imported it all.

    process = begin(["status", "--config", file], {}, (nothing, output, output))
    process.wait(30.0)

Most of what a process costs that only starts is the import of the program, more than half a second
of a processor for a node. A fork takes over that and nothing else: no thread, no loop, no
descriptor. It is a process as any other; what begins before `raftbatch.cli.main` does is left to
tests that start it anew.

Python draws once a process how it hashes texts, which its forks share. Nodes of one cluster must
not: a replica whose state hung on the order of a set would be equal to the others. So there are
several forkers, which take turns.

What lives here: such processes, and what forks them. What must never live here: what they are for.
Called by: `processes`.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from importlib import import_module
from itertools import count

from raftbatch.realworld.process import quiet_grpc
from tests.tidy.tree import ROOT

ARE_THERE = hasattr(os, "pidfd_open")

_FORKERS = 3
_END_S = 30.0
_BYTES_MAX = 1 << 17  # of a message: what a command is given
_ALL_OF_IT = (
    "coordinator.config",
    "coordinator.rpc.http",
    "coordinator.server",
    "executor.server",
    "raftbatch.__main__",
    "raftbatch.cli.main",
    "raftbatch.cli.waiting",
    "raftbatch.v1.gateway_pb2_grpc",
    "uvloop",
)


class Forked:
    """A process, with as much of `subprocess.Popen` as its owner needs.

    Args:
        forker: its parent.
        pid: its number, which is nobody else's before it is reaped.
        descriptor: of the process; it can be read from once that has ended.
    """

    def __init__(self, forker: _Forker, pid: int, descriptor: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._forker = forker
        self._descriptor = descriptor
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        """Return its exit status, less than 0 for a signal; None: it has not ended."""
        return self._status(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit status, once it has ended.

        Raises:
            subprocess.TimeoutExpired: it has not, in so many seconds.
        """
        status = self._status(timeout)
        if status is None:
            raise subprocess.TimeoutExpired(["raftbatch"], timeout or 0.0)
        return status

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it has not ended."""
        with self._lock:
            if self.returncode is None:
                signal.pidfd_send_signal(self._descriptor, number)

    def _status(self, timeout_s: float | None) -> int | None:
        ready = select.poll()
        with self._lock:
            if self.returncode is not None:
                return self.returncode
            ready.register(self._descriptor, select.POLLIN)
        if not ready.poll(None if timeout_s is None else timeout_s * 1000):
            return None
        with self._lock:
            if self.returncode is None:
                self.returncode = self._forker.reap(self.pid)
                os.close(self._descriptor)
            return self.returncode


class _Forker:
    """A process that forks others, and what is said to it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            number = theirs.fileno()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.e2e.forks", str(number)],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                pass_fds=[number],
                start_new_session=True,  # an interrupt is for whoever asks, who ends it
            )

    def fork(
        self, arguments: Sequence[str], environment: Mapping[str, str], streams: Sequence[int]
    ) -> Forked:
        """Start a process."""
        asked = {"arguments": list(arguments), "environment": dict(environment)}
        with self._lock:
            socket.send_fds(self._socket, [json.dumps(asked).encode()], list(streams))
            said, [descriptor], _, _ = socket.recv_fds(self._socket, 64, 1)
        return Forked(self, int(said), descriptor)

    def reap(self, pid: int) -> int:
        """Return the exit status of a process that has ended."""
        with self._lock:
            self._socket.send(json.dumps({"reap": pid}).encode())
            return int(self._socket.recv(64))

    def end(self) -> None:
        """End it, and all that it forked and nobody has reaped."""
        self._socket.close()
        self._process.wait(_END_S)


_forkers: list[_Forker] = []
_turns = count()
_lock = threading.Lock()


def begin(
    arguments: Sequence[str], environment: Mapping[str, str], streams: Sequence[int]
) -> Forked:
    """Start a process of `raftbatch`.

    Args:
        arguments: of the command.
        environment: what it is to find there beside ours.
        streams: descriptors of its standard input, output and error, which stay the caller's.
    """
    with _lock:
        if not _forkers:
            # All at once: they import beside each other.
            _forkers.extend(_Forker() for _ in range(_FORKERS))
            atexit.register(_end)
        turn = next(_turns)
    return _forkers[turn % _FORKERS].fork(arguments, environment, streams)


def _end() -> None:
    for forker in _forkers:
        forker.end()


# In the forker.


def main() -> None:
    """Fork and reap as is asked, until nobody asks any more; then end all."""
    channel = socket.socket(fileno=int(sys.argv[1]))
    channel.set_inheritable(False)
    quiet_grpc()
    for each in _ALL_OF_IT:
        import_module(each)
    gc.freeze()  # else a look at what is garbage would copy it all
    running: set[int] = set()
    while True:
        message, streams, _, _ = socket.recv_fds(channel, _BYTES_MAX, 3)
        if not message:
            break
        asked = json.loads(message)
        if "reap" in asked:
            pid, status = os.waitpid(asked["reap"], 0)
            running.remove(pid)
            channel.send(str(os.waitstatus_to_exitcode(status)).encode())
            continue
        if not (pid := os.fork()):
            channel.close()
            _be(asked["arguments"], asked["environment"], streams)
            return
        running.add(pid)
        descriptor = os.pidfd_open(pid)
        socket.send_fds(channel, [str(pid).encode()], [descriptor])
        for stream in (*streams, descriptor):
            os.close(stream)
    for pid in running:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _be(arguments: list[str], environment: dict[str, str], streams: list[int]) -> None:
    """Become the process: return, or raise what ends it, once it is over."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.update(environment)
    program = import_module("raftbatch.__main__")
    sys.modules["__main__"] = program  # by which the command knows its name
    sys.argv = [str(program.__file__), *arguments]
    program.main()


if __name__ == "__main__":
    main()
