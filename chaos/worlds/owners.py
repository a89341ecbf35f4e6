"""Names for what a harness makes on a machine, by which it is found after the harness is gone.

A name says who made it: `rbchaos-<pid>-<start>`, and then what it is, where `start` is when that
process began, in the kernel's ticks: another process of the same pid is another one. Nothing is
touched whose name is not of this form, and nothing of a process that lives.

Processes bear theirs in the variable `RAFTBATCH_CHAOS` of their environment, which whatever they
start inherits.

What lives here: such names, ending processes, the error of a machine that cannot. What must never
live here: what is named. Called by: the modules beside this one that make something.
"""

from __future__ import annotations

import os
import re
import select
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

PREFIX = "rbchaos"
VARIABLE = "RAFTBATCH_CHAOS"

_NAME = re.compile(rf"{PREFIX}-(\d+)-(\d+)(?![\w.])")
_END_S_MAX = 10.0  # for a killed process to be gone


class Unable(OSError):
    """The machine does not do what a world needs; of the product nothing was found out."""


def own_name() -> str:
    """Return the name of what this process makes."""
    return f"{PREFIX}-{os.getpid()}-{started(os.getpid())}"


def owner_of(text: str) -> str:
    """Return the name of an owner at the beginning of this; empty: there is none. Total."""
    match = _NAME.match(text)
    return match[0] if match else ""


def owner_in(text: str) -> str:
    """Return the name of an owner that begins a part of this path; empty: there is none. Total."""
    return next((owner for part in text.split("/") if (owner := owner_of(part))), "")


def lives(owner: str) -> bool:
    """Return whether the process that bears this name is alive."""
    match = _NAME.fullmatch(owner)
    return match is not None and started(int(match[1])) == int(match[2])


def started(pid: int) -> int | None:
    """Return when a process began; None if it is gone, or a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is a name, in parentheses, that may hold anything.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def processes(is_meant: Callable[[int], bool]) -> Iterator[int]:
    """Yield a descriptor of each process that is meant, for the caller to close.

    Args:
        is_meant: whether the process of this number is; it may raise OSError where that has ended.
    """
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            descriptor = os.pidfd_open(int(entry))
        except (ProcessLookupError, OSError):  # the latter: a thread, or gone
            continue
        try:
            # Looked at after the descriptor was opened: it is of the process that we hold.
            found = is_meant(int(entry))
        except OSError:
            found = False
        if found:
            yield descriptor
        else:
            os.close(descriptor)


def end_processes(is_meant: Callable[[int], bool], what: str) -> int:
    """Kill all processes that are meant, until there are none; return how many there were.

    Raises:
        Unable: one does not end, of what is named so.
    """
    ended = 0
    # A process may start another while we look.
    while ends := list(processes(is_meant)):
        try:
            for end in ends:
                try:
                    signal.pidfd_send_signal(end, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            for end in ends:
                if not select.select([end], [], [], _END_S_MAX)[0]:
                    raise Unable(f"{what}: a process there does not end")
        finally:
            for end in ends:
                os.close(end)
        ended += len(ends)
    return ended


def clean() -> list[str]:
    """End the processes of owners that are gone; return those owners, once for each process."""
    found: list[str] = []

    def is_orphan(pid: int) -> bool:
        owner = _borne(pid)
        if not owner or lives(owner):
            return False
        found.append(owner)
        return True

    end_processes(is_orphan, "what a harness left behind")
    return found


def _borne(pid: int) -> str:
    """Return the owner that a process names in its environment; empty: none, or it is a zombie."""
    beginning = f"{VARIABLE}="
    if started(pid) is None:
        return ""
    for pair in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
        if pair.startswith(beginning.encode()):
            return owner_of(pair.decode("utf-8", "replace").removeprefix(beginning))
    return ""
