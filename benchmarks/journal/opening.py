"""Opening a journal and reading it back, each time in a process of its own.

A process of its own, because the peak of a process's memory never falls again. As
a script this is that process: it opens the journal in a directory, reads it
back or traces its memory if asked to, and prints one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import resource
import subprocess
import sys
import time
import tracemalloc
from concurrent.futures import Future
from pathlib import Path

from coordinator.raft.journal import Journal
from coordinator.raft.segments.layout import Entry
from coordinator.raft.segments.limits import JournalLimits
from raftbatch.errors import Fatal
from raftbatch.realworld import RealWorld

READ_BYTES = 1 << 20
_RSS_UNIT_BYTES = 1 if sys.platform == "darwin" else 1024  # what ru_maxrss counts in


def open_apart(directory: Path, *, cold: bool, mode: str = "open") -> dict[str, float]:
    """Open the journal in another process; return that one's figures.

    Args:
        directory: of the journal.
        cold: ask the kernel to forget the files first.
        mode: `open`, `read` to read all entries back too, or `trace` to count what the
            open journal keeps in memory (which slows opening down).
    """
    if cold:
        forget(directory)
    command = [sys.executable, "-m", "benchmarks.journal.opening", str(directory), mode]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def forget(directory: Path) -> None:
    """Ask the kernel to drop the files' pages, where it can be asked."""
    for path in directory.iterdir():
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)  # only clean pages are dropped
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


async def _measure(directory: str, mode: str) -> dict[str, float]:
    world = RealWorld()
    gc.collect()
    if mode == "trace":
        tracemalloc.start()
    before = _resident_bytes("VmRSS")
    start = time.perf_counter()
    journal = Journal(
        world, directory, JournalLimits(), on_durable=lambda _: None, on_failed=_give_up
    )
    figures = {"open_s": time.perf_counter() - start}
    figures["peak_bytes"] = _resident_bytes("VmHWM") - before
    figures["entries"] = journal.last_index
    if mode == "trace":
        gc.collect()
        figures["kept_bytes"], figures["traced_peak_bytes"] = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    if mode == "read":
        figures |= await _read_back(journal)
    journal.close()
    return figures


async def _read_back(journal: Journal) -> dict[str, float]:
    """Read every entry, one request at a time."""
    loop = asyncio.get_running_loop()
    start = time.perf_counter()
    index = journal.first_index
    size = 0
    while index <= journal.last_index:
        answered: asyncio.Future[tuple[Entry, ...]] = loop.create_future()

        def done(
            future: Future[tuple[Entry, ...]],
            answered: asyncio.Future[tuple[Entry, ...]] = answered,
        ) -> None:
            answered.set_result(future.result())

        journal.read(index, READ_BYTES, done)
        entries = await answered
        assert entries[0].index == index
        index += len(entries)
        size += sum(len(entry.data) for entry in entries)
    return {"read_s": time.perf_counter() - start, "read_bytes": size}


def _resident_bytes(field: str) -> int:
    """Return this process's resident memory, now (VmRSS) or at its peak (VmHWM).

    Not ru_maxrss where it can be helped: a process begins with that of its parent.
    """
    try:
        text = Path("/proc/self/status").read_text(encoding="utf-8")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _RSS_UNIT_BYTES
    return int(text.partition(f"{field}:")[2].split(maxsplit=1)[0]) * 1024


def _give_up(error: Fatal) -> None:
    raise error


def main() -> None:
    """Measure once and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory")
    parser.add_argument("mode", choices=["open", "read", "trace"])
    arguments = parser.parse_args()
    print(json.dumps(asyncio.run(_measure(arguments.directory, arguments.mode))))


if __name__ == "__main__":
    main()
