"""Memory limits for real processes, by control groups.

What lives here: making and removing such groups, and finding those that a harness left behind.
What must never live here: who is limited. Called by: `chaos.worlds.processes`, `python -m chaos
clean`. Needs root, and the memory controller: of the first version of control groups, or of the
second where that is free to be used.
"""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import count
from pathlib import Path

from chaos.worlds.owners import Unable, end_processes, lives, own_name, owner_of

_FIRST = Path("/sys/fs/cgroup/memory")
_SECOND = Path("/sys/fs/cgroup")
_number = count()


def _root() -> Path | None:
    """Return the folder in which groups can be made; None: there is none."""
    if (_FIRST / "memory.limit_in_bytes").exists() or (_FIRST / "cgroup.procs").exists():
        return _FIRST
    control = _SECOND / "cgroup.subtree_control"
    has = control.read_text("utf-8").split() if control.exists() else []
    return _SECOND if "memory" in has else None


def missing() -> str:
    """Return why memory cannot be limited here; nothing if it can."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "needs root"
    root = _root()
    if root is None:
        return "no memory controller"
    probe = root / f"{own_name()}-probe"
    try:
        probe.mkdir(exist_ok=True)
        has_limit = any((probe / name).exists() for name in _LIMITS)
        probe.rmdir()
    except OSError as error:
        return f"no control group can be made: {error.strerror}"
    return "" if has_limit else "the memory controller has no limits"


_LIMITS = ("memory.limit_in_bytes", "memory.max")


class MemoryGroup:
    """A limit for the memory of processes, and of what they start.

    Args:
        word: ends its name.
        limit_bytes: of all of them together; whoever goes beyond is killed by the kernel.
        pids: the processes. Those that have ended are left out.
    """

    def __init__(self, word: str, limit_bytes: int, pids: list[int]) -> None:
        root = _root()
        if root is None:
            raise Unable(missing())
        self._root = root
        self._folder = root / f"{own_name()}-{next(_number)}-{word}"
        self._folder.mkdir()
        limit = next(self._folder / name for name in _LIMITS if (self._folder / name).exists())
        limit.write_text(str(limit_bytes))
        for pid in pids:
            _move(pid, self._folder)

    def close(self) -> None:
        """Lift it; the processes go on without. Harmless when called twice."""
        if self._folder.exists():
            _empty(self._folder, self._root)
            self._folder.rmdir()


def clean() -> list[str]:
    """Remove the groups of harnesses that are gone, and what is in them; return their names."""
    root = _root()
    found = [] if root is None else sorted(root.glob("rbchaos-*"))
    removed = []
    for folder in found:
        owner = owner_of(folder.name)
        if owner and not lives(owner):
            members = set(_members(folder))
            end_processes(members.__contains__, folder.name)
            folder.rmdir()
            removed.append(str(folder))
    return removed


def _empty(folder: Path, into: Path) -> None:
    # A process may start another while we look.
    while members := _members(folder):
        for pid in members:
            _move(pid, into)


def _members(folder: Path) -> list[int]:
    return [int(pid) for pid in (folder / "cgroup.procs").read_text("utf-8").split()]


def _move(pid: int, folder: Path) -> None:
    with suppress(ProcessLookupError):
        (folder / "cgroup.procs").write_text(str(pid))
