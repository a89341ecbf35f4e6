"""Faults of one process that are made within it: syncs and writes that fail, a clock that errs.

A library of ours is loaded into the process before all others (`preload.c`), and reads what to do
from a file that is changed here while the process runs. It is made by the C compiler of the
machine, at the start of a world.

What lives here: that library's making, and its file. What must never live here: a process. Called
by: `chaos.worlds.processes`. Linux only.
"""

from __future__ import annotations

import mmap
import shutil
import struct
import subprocess
import time
from dataclasses import astuple, dataclass
from pathlib import Path

from chaos.worlds.owners import Unable

_SOURCE = Path(__file__).with_name("preload.c")
_COMPILERS = ("cc", "gcc", "clang")
_FORM = struct.Struct("9q")
_FILE = "RAFTBATCH_FAULTS"


def compiler() -> str | None:
    """Return the C compiler of this machine; None: there is none."""
    return next((found for each in _COMPILERS if (found := shutil.which(each))), None)


def make_library(folder: Path) -> Path | None:
    """Make the library in a folder; None where there is no compiler.

    Raises:
        Unable: the compiler fails.
    """
    cc = compiler()
    if cc is None:
        return None
    library = folder / "preload.so"
    command = [cc, "-shared", "-fPIC", "-O2", "-Wall", "-o", str(library), str(_SOURCE), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unable(f"{' '.join(command)}: {done.stderr.strip()}")
    return library


@dataclass(frozen=True, slots=True)
class Faults:
    """What is wrong with a process's syncs and clock; by default nothing.

    Attributes:
        sync_delay_ns: before each fsync and fdatasync.
        sync_errno: with which each fails, in place of being done; 0: it is done.
        sync_kills: 1: the process dies by SIGKILL in place of it.
        sync_skip: so many are left alone first; less than 0: some were not.
        clock_from_ns: since when the clock goes wrong by `clock_ppm`.
        clock_ahead_ns: how much it is ahead; behind, if negative.
        clock_ppm: how much faster it goes, of a million; slower, if negative.
        write_errno: with which each write at an offset fails; 0: it is done.
        write_skip: so many are left alone first; less than 0: some were not.
    """

    sync_delay_ns: int = 0
    sync_errno: int = 0
    sync_kills: int = 0
    sync_skip: int = 0
    clock_from_ns: int = 0
    clock_ahead_ns: int = 0
    clock_ppm: int = 0
    write_errno: int = 0
    write_skip: int = 0


class Preload:
    """The faults of one process, which may begin and end while they hold.

    Args:
        library: to be loaded.
        file: to be made, through which it is told.
    """

    def __init__(self, library: Path, file: Path) -> None:
        self._library = library
        self._file = file
        file.write_bytes(bytes(_FORM.size))
        with file.open("r+b") as opened:
            self._told = mmap.mmap(opened.fileno(), _FORM.size)

    def environment(self) -> dict[str, str]:
        """Return the variables that a process must have for it."""
        return {"LD_PRELOAD": str(self._library), _FILE: str(self._file)}

    def tell(self, faults: Faults) -> None:
        """Let these hold from now on, in place of those before."""
        self._told[:] = _FORM.pack(*astuple(faults))

    def told(self) -> Faults:
        """Return what holds now, with what is left of `sync_skip`."""
        return Faults(*_FORM.unpack(self._told[:]))

    def drift(self, ppm: int) -> None:
        """Let the clock go faster by this from now on."""
        self.tell(Faults(clock_from_ns=time.time_ns(), clock_ppm=ppm))

    def close(self) -> None:
        """Let go of the file."""
        self._told.close()
