"""The child process of one model instance: `python -m executor.worker PARENT`.

It reads frames from standard input, runs the model, and answers on standard output;
what the model prints goes to standard error. It lives no longer than its parent: the
kernel kills it where it can, and else it ends when the pipe does, whatever it is doing.
SIGTERM and SIGINT are its parent's to act on, since an operator's terminal or supervisor
sends them to all.

What lives here: the process. What must never live here: what it runs (`runtime`).
Called by: `executor.children`; `executor.trying`, for how a process of a model is set up.
"""

from __future__ import annotations

import ctypes
import errno
import faulthandler
import logging
import os
import resource
import signal
import sys
import threading
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, BinaryIO

from executor.core.values import Failure, Outcome
from executor.frames import (
    LENGTH,
    PIPE_CLOSED,
    Batch,
    Broken,
    Failed,
    Frame,
    Load,
    Ran,
    Up,
    Warm,
    Warmed,
    decode,
    encode,
)
from executor.loading import CannotLoad
from raftbatch import logs
from raftbatch.realworld import RealClock, RealFiles

if TYPE_CHECKING:  # it needs numpy, whose absence is to be told
    from executor.runtime import Runtime

_LOG = logging.getLogger(__name__)

_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG
_OOM_SCORE = 500  # of 1000: it counts as if it took half of the machine more than it does
_EXTRA = "pip install numpy, or 'raftbatch[executor]', which brings torch too"


def main(parent: int) -> None:
    """Serve until the parent is gone."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    die_with(parent)
    commands, answers = claim_pipes()
    logs.begin(sys.stderr)
    faulthandler.enable(sys.stderr)  # where a crash was, for people
    frames: SimpleQueue[Frame] = SimpleQueue()
    threading.Thread(target=_read, args=(commands, frames), daemon=True).start()
    load = frames.get()
    assert isinstance(load, Load)
    go_first(load.memory_bytes_max)
    try:
        runtime = _runtime(load)
    except CannotLoad as error:
        if error.__cause__ is not None:
            named = logs.fields(model=load.name, version=load.version)
            _LOG.warning("model.refused", extra=named, exc_info=error.__cause__)
        _write(answers, Broken(str(error)))
        return
    _write(answers, Up(runtime.backend.device, runtime.backend.detail))
    while True:
        match frames.get():
            case Batch() as batch:
                _write(answers, _ran(batch.run, runtime.run(batch)))
                del batch  # else its payloads would be held until there is another
            case Warm(run):
                failure = runtime.warm_up()
                _write(answers, Warmed(run) if failure is None else _failed(run, failure))
            case _:
                pass


def _runtime(load: Load) -> Runtime:
    try:
        from executor.runtime import Runtime as Loaded
    except ModuleNotFoundError as error:
        raise CannotLoad(
            f"{load.name} needs {error.name}, which is not installed: {_EXTRA}"
        ) from None
    return Loaded(RealFiles(), RealClock(), load)


def _ran(run: int, found: Outcome | Failure) -> Frame:
    return _failed(run, found) if isinstance(found, Failure) else Ran(run, found)


def _failed(run: int, failure: Failure) -> Failed:
    return Failed(run, failure.code, failure.message, failure.is_lasting)


def die_with(parent: int) -> None:
    """Ask the kernel to kill this process when its parent dies; else the pipe's end tells."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    if os.getppid() != parent:  # it died before that was asked
        os._exit(1)


def go_first(memory_bytes_max: int) -> None:
    """Let the kernel end this process where memory runs out, and no other of ours.

    Args:
        memory_bytes_max: what it may take; beyond that it is refused more. 0: nothing is.
    """
    with suppress(OSError, ValueError):  # on Linux alone
        file = os.open("/proc/self/oom_score_adj", os.O_RDWR)
        try:
            if int(os.read(file, 16)) < _OOM_SCORE:
                os.write(file, str(_OOM_SCORE).encode())
        finally:
            os.close(file)
    if memory_bytes_max:
        # What is written to; address space alone, of which CUDA takes a lot, costs nothing.
        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        least = memory_bytes_max if most == resource.RLIM_INFINITY else min(memory_bytes_max, most)
        resource.setrlimit(resource.RLIMIT_DATA, (least, most))


def claim_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Keep the pipes to ourselves: a model may read standard input, and print."""
    commands, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    # What a model forks may outlive it: with our pipe in its hands it would hide our death.
    os.register_at_fork(after_in_child=partial(_let_go, commands, answers))
    return commands, answers


def _let_go(*pipes: BinaryIO) -> None:
    """Hold nothing of the parent's any more."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for pipe in pipes:
        os.dup2(nothing, pipe.fileno())
    os.close(nothing)


def _read(commands: BinaryIO, frames: SimpleQueue[Frame]) -> None:
    """Take in what the parent says, on a thread; its end is ours."""
    status = 1  # what the model leaves no memory for ends it too
    try:
        while True:
            head = commands.read(LENGTH.size)
            if len(head) < LENGTH.size:
                break
            (length,) = LENGTH.unpack(head)
            body = commands.read(length)
            if len(body) < length:
                break
            frames.put(decode(body))
            del body
        status = 0
    except OSError as error:
        status = PIPE_CLOSED if error.errno == errno.EBADF else 1
    finally:
        os._exit(status)


def write(answers: BinaryIO, data: bytes) -> None:
    """Say something to the parent; a process that cannot, by its model's doing, ends so."""
    try:
        answers.write(data)
        answers.flush()
    except OSError as error:
        if error.errno != errno.EBADF:
            raise
        os._exit(PIPE_CLOSED)


def _write(answers: BinaryIO, frame: Frame) -> None:
    try:
        data = encode(frame)
    except MemoryError:
        if not isinstance(frame, Ran):
            raise
        failed = Failed(frame.run, "out_of_memory", "no memory is left for its results", True)
        data = encode(failed)
    write(answers, data)


if __name__ == "__main__":
    main(int(sys.argv[1]))
