"""Faults over any file system, the real one above all.

What lives here: `FaultyFiles`, which passes every operation through the hooks
of `chaos.worlds.hooks` and hands it on. What must never live here: a file
system. Called by: tests that need `ENOSPC at the 7th write` on real files.
`chaos.worlds.disk.SimDisk` has the same hooks of its own, for there a failed
sync must also lose data; wrap it only to give one process faults of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from chaos.worlds.hooks import Hook, Hooked, Torn
from raftbatch.world import Buffer, File, Files, Lock, OpenMode

T = TypeVar("T")


class FaultyFiles(Hooked):
    """A file system whose operations can be made to fail.

    A write that the hook fails has written the first half of its bytes, as one
    that meets a full disk does. A failed datasync is not passed on. A `Crash`
    leaves what the operating system has: a kill, not a loss of power.

    Args:
        files: the file system behind.
        fault: called before each operation.
        fault_after: called after each.
    """

    def __init__(
        self, files: Files, fault: Hook | None = None, fault_after: Hook | None = None
    ) -> None:
        super().__init__(fault, fault_after)
        self._files = files

    def open(self, path: str, mode: OpenMode) -> File:
        """Open, or fail."""
        operation = "create" if mode == "create" else "open"
        file = self.through(operation, path, lambda: self._files.open(path, mode))
        return _FaultyFile(self, path, file)

    def exists(self, path: str) -> bool:
        """Return whether the name is there, or fail."""
        return self.through("exists", path, lambda: self._files.exists(path))

    def list(self, path: str) -> list[str]:
        """Return the names, or fail."""
        return self.through("list", path, lambda: self._files.list(path))

    def make_directory(self, path: str) -> None:
        """Create all that is missing, as one operation, or fail."""
        self.through("make_directory", path, lambda: self._files.make_directory(path))

    def rename(self, source: str, target: str) -> None:
        """Rename, or fail."""
        self.through("rename", source, lambda: self._files.rename(source, target))

    def remove(self, path: str) -> None:
        """Remove, or fail."""
        self.through("remove", path, lambda: self._files.remove(path))

    def sync_directory(self, path: str) -> None:
        """Sync, or fail."""
        self.through("sync_directory", path, lambda: self._files.sync_directory(path))

    def space_left(self, path: str) -> int:
        """Return the free bytes, or fail."""
        return self.through("space_left", path, lambda: self._files.space_left(path))

    def lock(self, path: str) -> Lock:
        """Lock, or fail."""
        return self.through("lock", path, lambda: self._files.lock(path))

    def through(self, operation: str, path: str, action: Callable[[], T]) -> T:
        """Pass one operation through the hooks."""
        self.before(operation, path)
        result = action()
        self.after(operation, path)
        return result


class _FaultyFile:
    """A file of `FaultyFiles`."""

    def __init__(self, files: FaultyFiles, path: str, file: File) -> None:
        self._files = files
        self._path = path
        self._file = file

    def read_at(self, offset: int, length: int) -> bytes:
        """Read, or fail."""
        return self._files.through("read", self._path, lambda: self._file.read_at(offset, length))

    def write_at(self, offset: int, buffers: Sequence[Buffer]) -> None:
        """Write, or write half and fail."""
        try:
            self._files.before("write", self._path)
        except (OSError, Torn):
            data = b"".join(buffers)
            self._file.write_at(offset, [data[: len(data) // 2]])
            raise
        self._file.write_at(offset, buffers)
        self._files.after("write", self._path)

    def allocate(self, length: int) -> None:
        """Reserve, or fail."""
        self._files.through("allocate", self._path, lambda: self._file.allocate(length))

    def truncate(self, length: int) -> None:
        """Set the length, or fail."""
        self._files.through("truncate", self._path, lambda: self._file.truncate(length))

    def datasync(self) -> None:
        """Sync, or fail."""
        self._files.through("datasync", self._path, self._file.datasync)

    def uncache(self, offset: int, length: int) -> None:
        """Hand it on; never fails."""
        self._file.uncache(offset, length)

    def size(self) -> int:
        """Return the length, or fail."""
        return self._files.through("size", self._path, self._file.size)

    def close(self) -> None:
        """Close; never fails."""
        self._file.close()
