"""Tries a model in a process of its own, so that whatever ends that is something to tell.

    tried -> python -m executor.trying -> steps, each before it begins -> Checked

What the model writes to standard output or error goes to standard error. What lives here:
both ends of that process. What must never live here: what is tried (`checking`). Called by:
`raftbatch models check`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import Callable
from dataclasses import astuple, replace
from typing import Any, cast

import msgpack

from executor.checking import ENDED, Checked, Problem, Trial, steps
from executor.children import ended
from executor.collate import Form
from executor.frames import LENGTH, Load, decode, encode
from executor.model import Tensor
from executor.worker import claim_pipes, die_with, go_first, write
from raftbatch.realworld import RealClock, RealFiles


async def tried(load: Load, rows_max: int, say: Callable[[str], None]) -> Checked:
    """Return what comes of a model.

    Args:
        load: what to load.
        rows_max: rows of its largest batch.
        say: is handed what it writes.
    """
    command = (sys.executable, "-m", "executor.trying", str(os.getpid()), str(rows_max))
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    saying = asyncio.ensure_future(_say(process.stderr, say))
    found = Checked(load.name, problem=Problem(ENDED, f"{load.name} does not load"))
    is_last, status = False, 0
    try:
        process.stdin.write(encode(load))
        process.stdin.close()
        while True:
            (length,) = LENGTH.unpack(await process.stdout.readexactly(LENGTH.size))
            is_last, found = _unpacked(await process.stdout.readexactly(length))
    except (asyncio.IncompleteReadError, ConnectionError):
        status = await process.wait()
        await saying
    finally:
        saying.cancel()
        if process.returncode is None:
            process.kill()
            await process.wait()
    return found if is_last else _with_end(found, ended(status))


async def _say(stream: asyncio.StreamReader, say: Callable[[str], None]) -> None:
    while data := await stream.read(1 << 16):
        say(data.decode("utf-8", "replace"))


def _with_end(found: Checked, how: str) -> Checked:
    """Say how the process ended in the place of what was under way."""

    def said(problem: Problem | None) -> Problem | None:
        if problem is None or problem.code != ENDED:
            return problem
        return Problem(ENDED, f"{problem.message}: it ended its process: {how}")

    trials = tuple([replace(each, problem=said(each.problem)) for each in found.trials])
    return replace(found, problem=said(found.problem), trials=trials)


def _packed(found: Checked, *, is_last: bool) -> bytes:
    body = cast("bytes", msgpack.packb((is_last, *astuple(found)), unicode_errors="replace"))
    return LENGTH.pack(len(body)) + body


def _unpacked(body: bytes) -> tuple[bool, Checked]:
    given: tuple[Any, ...] = msgpack.unpackb(body, use_list=False)
    is_last, *fields, of_form, outputs, of_trials, problem = given
    form = None
    if of_form is not None:
        inputs, gives, has_batch_axis = of_form
        form = Form(_tensors(inputs), _tensors(gives), has_batch_axis)
    trials = tuple([_trial((*each[:-1], _problem(each[-1]))) for each in of_trials])
    values: tuple[Any, ...] = (*fields, form, outputs, trials, _problem(problem))
    return is_last, Checked(*values)


def _trial(values: tuple[Any, ...]) -> Trial:
    return Trial(*values)


def _tensors(given: tuple[Any, ...]) -> tuple[Tensor, ...]:
    return tuple([Tensor(*each) for each in given])


def _problem(given: tuple[str, str, str] | None) -> Problem | None:
    return None if given is None else Problem(*given)


def main(parent: int, rows_max: int) -> None:
    """Be that process."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # it says nothing of Ctrl-C
    die_with(parent)
    commands, answers = claim_pipes()
    (length,) = LENGTH.unpack(commands.read(LENGTH.size))
    load = decode(commands.read(length))
    assert isinstance(load, Load)
    go_first(load.memory_bytes_max)
    found: Checked | None = None
    for found in steps(RealFiles(), RealClock(), load, rows_max):
        write(answers, _packed(found, is_last=False))
    assert found is not None
    sys.stderr.flush()
    write(answers, _packed(found, is_last=True))
    os._exit(0)  # threads that the model left need not be waited for


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
