"""Where a benchmark ran: figures mean nothing without the machine and its disk.

What lives here: the facts, none of which names the machine or its owner. Called
by: every benchmark.
"""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

_IN_MEMORY = {"tmpfs", "ramfs", "devtmpfs"}


@dataclass(frozen=True, slots=True)
class Machine:
    """What the figures depend on.

    Attributes:
        cpu: model name.
        cores: CPUs this process may use.
        memory_bytes: of the whole machine.
        kernel: its name and release.
        filesystem: type of the one that holds the measured files, and its mount options.
        python: implementation and version.
        event_loop: `uvloop` or `asyncio`.
        load_before: runnable processes on average over a minute, before the run.
    """

    cpu: str
    cores: int
    memory_bytes: int
    kernel: str
    filesystem: str
    python: str
    event_loop: str
    load_before: float

    @property
    def in_memory(self) -> bool:
        """Return whether the file system is no disk, so that a sync costs nothing there."""
        return self.filesystem.partition(" ")[0] in _IN_MEMORY

    def facts(self) -> dict[str, str | int | float]:
        """Return the attributes by name."""
        return asdict(self)


def look(directory: Path, event_loop: str) -> Machine:
    """Return the facts of this machine, and of the file system at `directory`."""
    affinity = getattr(os, "sched_getaffinity", None)
    return Machine(
        cpu=_cpu(),
        cores=len(affinity(0)) if affinity else os.cpu_count() or 1,
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        kernel=f"{platform.system()} {platform.release()}",
        filesystem=_filesystem(directory),
        python=f"{platform.python_implementation()} {platform.python_version()}",
        event_loop=event_loop,
        load_before=round(os.getloadavg()[0], 2),
    )


@contextmanager
def scratch(beside: Path) -> Iterator[Path]:
    """Give an empty directory below `beside`, and remove it with all that was put into it."""
    beside.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix=".benchmark-", dir=beside))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _cpu() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in text.splitlines() if "model name" in line]
    return names[0] if names else platform.machine()


def _filesystem(directory: Path) -> str:
    """Return type and options of the mount that holds the directory: the longest that fits."""
    try:
        lines = Path("/proc/mounts").read_text(encoding="utf-8").splitlines()
    except OSError:
        return "unknown"
    place = directory.resolve()
    found = ("", "unknown")
    for line in lines:
        _, mount, kind, options, *_ = line.split(" ")
        # Equal mount points lie on top of each other, the last one visible.
        if place.is_relative_to(mount) and len(mount) >= len(found[0]):
            found = (mount, f"{kind} ({options})")
    return found[1]
