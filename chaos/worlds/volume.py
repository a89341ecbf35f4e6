"""The body of a simulated disk: its space, its open descriptors, its locks.

What lives here: `Volume`, which `chaos.worlds.disk.SimDisk` extends by the names
of `raftbatch.world.Files`, and what one holds of it: `SimFile`, `SimLock`. What
must never live here: operations on paths, crashes. Called by: `chaos.worlds.disk`;
holders call the methods of what it gave them.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from random import Random

from chaos.worlds.content import SECTOR_BYTES, Inode
from chaos.worlds.hooks import Crash, Hooked, Torn
from chaos.worlds.names import Directory, fail, walk
from raftbatch.world import Buffer

CAPACITY_BYTES = 64 << 30  # ample: a test that wants a full disk sets its own


class Volume(Hooked):
    """Space, and who uses it.

    Args:
        rng: draws all that is left to chance.
        capacity: bytes of content it can hold, in whole sectors; may be changed
            at any time, also below what is used.

    Attributes:
        root: the directory `/`; a relative path begins there too.
        pid: the living process's; each crash begins a new one.
        inodes_total: how many files were ever created.
        opened: the descriptors that are open: they hold space when a name is gone.
        locks: who holds a directory, by its path.
    """

    def __init__(self, rng: Random, capacity: int = CAPACITY_BYTES) -> None:
        super().__init__()
        self.rng = rng
        self.capacity = capacity
        self.root = Directory()
        self.pid = 1
        self.inodes_total = 0
        self.opened: dict[SimFile, None] = {}
        self.locks: dict[str, SimFile] = {}

    @property
    def bytes_left(self) -> int:
        """Free space."""
        named = [node for node in walk(self.root, every=False) if isinstance(node, Inode)]
        held = {node.number: node.charged for node in named}
        held |= {file.inode.number: file.inode.charged for file in self.opened}
        return max(0, self.capacity - SECTOR_BYTES * sum(held.values()))


class SimFile:
    """A descriptor: it follows its inode through renames, and dies with its process.

    Attributes:
        inode: the file itself.
    """

    def __init__(self, disk: Volume, path: str, inode: Inode, writable: bool) -> None:
        self._disk = disk
        self._path = path
        self.inode = inode
        self._writable = writable
        self._pid = disk.pid
        self._closed = False
        disk.opened[self] = None

    def read_at(self, offset: int, length: int) -> bytes:
        """Read from the cache."""
        self._before("read", f"@{offset}+{length}")
        if length <= 0:
            return b""
        self._check(offset >= 0)
        data = self.inode.cache.read(offset, length)
        self._disk.after("read", self._path)
        return data

    def write_at(self, offset: int, buffers: Sequence[Buffer]) -> None:
        """Write into the cache; a random part where the hook fails it, what fits where it is full.

        Raises:
            OSError: EBADF, EINVAL, ENOSPC, or the hook's.
        """
        data = memoryview(b"".join(buffers))
        try:
            self._before("write", f"@{offset}+{len(data)}")
        except (OSError, Torn):
            self._write(offset, data[: self._disk.rng.randint(0, len(data))])
            raise
        self._check(offset >= 0, writing=True)
        fitting = self._fitting(offset, len(data))
        self._write(offset, data[:fitting])
        if fitting < len(data):
            fail(errno.ENOSPC, self._path)
        self._disk.after("write", self._path)

    def allocate(self, length: int) -> None:
        """Extend, reserving the space; by a random part where it fails.

        Raises:
            OSError: EBADF, ENOSPC, or the hook's.
        """
        size = self.inode.cache.length
        try:
            self._before("allocate", f"{length}")
        except (OSError, Torn):
            self._allocate(self._disk.rng.randint(size, max(size, length)))
            raise
        if length > size or self._closed:
            self._check(True, writing=True)
            left = self._disk.bytes_left // SECTOR_BYTES
            if self.inode.fresh_sectors(0, length) > left:
                fitting = min(length, size + left * SECTOR_BYTES)
                self._allocate(self._disk.rng.randint(size, fitting))
                fail(errno.ENOSPC, self._path)
            self._allocate(length)
        self._disk.after("allocate", self._path)

    def truncate(self, length: int) -> None:
        """Set the length; growth takes no space.

        Raises:
            OSError: EBADF, EINVAL, or the hook's.
        """
        self._before("truncate", f"{length}")
        self._check(length >= 0 and self._writable)
        self.inode.resize(self._disk.operations, length)
        self._disk.after("truncate", self._path)

    def datasync(self) -> None:
        """Make content and length durable, whichever descriptor they came through.

        Raises:
            OSError: the hook's; a part of the pending writes is lost, see `Inode.fail_sync`.
        """
        try:
            self._before("datasync")
        except OSError:
            self.inode.fail_sync(self._disk.rng)
            raise
        self._check(True)
        self.inode.sync()
        self._disk.after("datasync", self._path)

    def uncache(self, offset: int, length: int) -> None:
        """Hold on to it: the memory is there."""

    def size(self) -> int:
        """Return the length, in bytes."""
        self._before("size")
        self._check(True)
        self._disk.after("size", self._path)
        return self.inode.cache.length

    def close(self) -> None:
        """Close, even in a dead process: clean-up may always call it."""
        self._closed = True
        self._disk.opened.pop(self, None)

    def _before(self, operation: str, detail: str = "") -> None:
        if self._pid != self._disk.pid:
            raise Crash(f"{self._path} was opened by a process that is dead")
        self._disk.before(operation, self._path, detail)

    def _check(self, valid: bool, *, writing: bool = False) -> None:
        """Refuse as the kernel does."""
        if self._closed or (writing and not self._writable):
            fail(errno.EBADF, self._path)
        if not valid:
            fail(errno.EINVAL, self._path)

    def _fitting(self, offset: int, length: int) -> int:
        """Return how many of the bytes at `offset` there is space for."""
        left = self._disk.bytes_left // SECTOR_BYTES
        if length == 0 or self.inode.fresh_sectors(offset, length) <= left:
            return length
        fitting = 0
        for start in range(offset - offset % SECTOR_BYTES, offset + length, SECTOR_BYTES):
            left -= self.inode.fresh_sectors(start, SECTOR_BYTES)
            if left < 0:
                break
            fitting = min(start + SECTOR_BYTES - offset, length)
        return fitting

    def _write(self, offset: int, data: memoryview) -> None:
        if data and self._writable and not self._closed:
            self.inode.write(self._disk.operations, offset, data)

    def _allocate(self, length: int) -> None:
        if length > self.inode.cache.length and self._writable and not self._closed:
            self.inode.reserve(self._disk.operations, length)


class SimLock:
    """A claim on a directory, which dies with its process."""

    def __init__(self, disk: Volume, directory: str, file: SimFile) -> None:
        self._disk = disk
        self._directory = directory
        self._file = file

    def release(self) -> None:
        """Give it up, even in a dead process."""
        if self._disk.locks.get(self._directory) is self._file:
            del self._disk.locks[self._directory]
        self._file.close()
