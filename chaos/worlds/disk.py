"""A disk in memory that forgets what was not synced, as a real one does when the power goes.

What lives here: `SimDisk`, which implements `raftbatch.world.Files`, with its
descriptors, names, space and crashes. What must never live here: knowledge of
what the product stores. Called by: `chaos.worlds.stepped`, and storage tests.

The model, harsher than any one file system, so that code which survives it
relies on nothing but the ports' promises:

- Content: see `chaos.worlds.content`. A file's writes and lengths are pending
  until `datasync` through any of its descriptors.
- Names: pending per directory until `sync_directory`; a file whose name was
  not synced is gone, however well its content was. A rename within a directory
  is one step; one across directories is two, which may survive apart.
- A datasync that fails loses a random part of the pending writes for good,
  while reads go on showing them. A sync of a directory that fails does nothing.
- A write that fails has written a random part; so has an allocation.

Not modelled: permissions, links, time stamps, renaming directories; a process
that was killed yet goes on using `SimDisk` itself (its files are dead, but the
disk cannot tell callers apart: the harness must drop it).
"""

from __future__ import annotations

import copy
import errno
from itertools import accumulate, pairwise
from random import Random

from chaos.worlds.content import Fate, Inode, PowerLoss
from chaos.worlds.hooks import Crash, Fault, Faults, Hook, Torn
from chaos.worlds.names import Directory, fail, find, walk
from chaos.worlds.volume import SimFile, SimLock, Volume
from raftbatch.world import OpenMode, join

__all__ = ["Crash", "Fault", "Faults", "Hook", "PowerLoss", "SimDisk", "SimFile", "SimLock", "Torn"]


class SimDisk(Volume):
    """A file system in memory; `chaos.worlds.hooks` says how its operations are failed.

    Deterministic: equal seeds and equal calls give equal bytes, also across
    processes.
    """

    def open(self, path: str, mode: OpenMode) -> SimFile:
        """Open a file; a new one's name is pending.

        Raises:
            OSError: ENOENT, EEXIST, EISDIR, ENOTDIR, or the hook's.
        """
        operation = "create" if mode == "create" else "open"
        self.before(operation, path, "" if mode == "create" else mode)
        directory, name, node = find(self.root, path)
        if mode == "create":
            if node is not None:
                fail(errno.EEXIST, path)
            self._create(directory, name)
        file = SimFile(self, path, self._inode(path), writable=mode != "read")
        self.after(operation, path)
        return file

    def exists(self, path: str) -> bool:
        """Return whether the name is there."""
        self.before("exists", path)
        try:
            found = find(self.root, path)[2] is not None
        except OSError:
            found = False
        self.after("exists", path)
        return found

    def list(self, path: str) -> list[str]:
        """Return the sorted names.

        Raises:
            OSError: ENOENT, ENOTDIR, or the hook's.
        """
        self.before("list", path)
        names = sorted(self._directory(path).names)
        self.after("list", path)
        return names

    def make_directory(self, path: str) -> None:
        """Create what is missing, from the top down, each synced by a step of its own.

        The last one that is there already is synced too: the process that made
        it may have died before it could.

        Raises:
            OSError: EEXIST where a file is in the way, or the hook's.
        """
        parts = [part for part in path.split("/") if part not in ("", ".")]
        paths = list(accumulate(parts, join, initial="/"))
        there = 0
        while there < len(parts) and isinstance(find(self.root, paths[there + 1])[2], Directory):
            there += 1
        if there > 0:
            self.sync_directory(paths[there - 1])
        for above, below in pairwise(paths[there:]):
            self.before("make_directory", below)
            directory, name, node = find(self.root, below)
            if node is not None:
                fail(errno.EEXIST, below)
            directory.change(self.operations, added=name, node=Directory())
            self.after("make_directory", below)
            self.sync_directory(above)

    def rename(self, source: str, target: str) -> None:
        """Rename a file, replacing what had the name; pending.

        Raises:
            OSError: ENOENT, ENOTDIR, EISDIR (directories are not renamed), or the hook's.
        """
        self.before("rename", source, f"-> {target}")
        old_directory, old_name, node = find(self.root, source)
        new_directory, new_name, replaced = find(self.root, target)
        if node is None:
            fail(errno.ENOENT, source)
        if isinstance(node, Directory) or isinstance(replaced, Directory):
            fail(errno.EISDIR, target)
        if old_directory is new_directory:
            new_directory.change(self.operations, removed=old_name, added=new_name, node=node)
        else:
            new_directory.change(self.operations, added=new_name, node=node)
            old_directory.change(self.operations, removed=old_name)
        self.after("rename", source)

    def remove(self, path: str) -> None:
        """Take a file's name away; pending. Its space is free once no descriptor is open.

        Raises:
            OSError: ENOENT, ENOTDIR, EISDIR, or the hook's.
        """
        self.before("remove", path)
        directory, name, node = find(self.root, path)
        if node is None:
            fail(errno.ENOENT, path)
        if isinstance(node, Directory):
            fail(errno.EISDIR, path)
        directory.change(self.operations, removed=name)
        self.after("remove", path)

    def sync_directory(self, path: str) -> None:
        """Make a directory's names durable.

        Raises:
            OSError: ENOENT, ENOTDIR, or the hook's; nothing is synced then.
        """
        self.before("sync_directory", path)
        self._directory(path).sync()
        self.after("sync_directory", path)

    def space_left(self, path: str) -> int:
        """Return the bytes that may still be written.

        Raises:
            OSError: ENOENT, ENOTDIR, or the hook's.
        """
        self.before("space_left", path)
        if find(self.root, path)[2] is None:
            fail(errno.ENOENT, path)
        self.after("space_left", path)
        return self.bytes_left

    def lock(self, path: str) -> SimLock:
        """Claim the directory of a path; the file there, created if need be, has the process's pid.

        Raises:
            BlockingIOError: it is held, by whom the message says.
            OSError: EISDIR, ENOENT, ENOTDIR, or the hook's.
        """
        self.before("lock", path)
        directory, name, node = find(self.root, path)
        if node is None:
            self._create(directory, name)
        inode = self._inode(path)
        claimed = path.rpartition("/")[0]
        if claimed in self.locks:
            holder = inode.cache.read(0, 32).decode("ascii", "replace").strip()
            message = f"held by the process with pid {holder}"
            raise BlockingIOError(errno.EAGAIN, message, path)
        file = self.locks[claimed] = SimFile(self, path, inode, writable=True)
        inode.write(self.operations, 0, memoryview(b"%-10d\n" % self.pid))
        self.after("lock", path)
        return SimLock(self, claimed, file)

    def crash(self, power: bool, mode: PowerLoss | None = None) -> None:
        """End the process, and with it its descriptors and locks; a new one begins.

        Args:
            power: the power goes too: what is pending survives as `mode` says.
                Otherwise the cache lives on, but where a sync had failed it may
                be read back from the platter, by chance.
            mode: drawn where it is not given.
        """
        nodes = walk(self.root, every=True)
        if power:
            pending = [change.operation for node in nodes for change in node.pending]
            fate = Fate.draw(self.rng, mode, pending)
            self.trace.append(f"{self.operations} -- power lost: {fate}")
            for node in nodes:
                node.lose_power(fate, self.rng)
        else:
            self.trace.append(f"{self.operations} -- killed")
            for node in nodes:
                if isinstance(node, Inode) and node.lost and self.rng.random() < 0.5:
                    node.evict()
        self.opened.clear()
        self.locks.clear()
        self.pid += 1
        self.revive()

    def clone(self, rng: Random | None = None) -> SimDisk:
        """Return a copy, cache and platter, that nobody has open and no hook watches.

        Args:
            rng: the copy's; otherwise one in the state of this disk's.
        """
        if rng is None:
            rng = Random()
            rng.setstate(self.rng.getstate())
        twin = SimDisk(rng, self.capacity)
        twin.operations, twin.pid = self.operations, self.pid
        twin.inodes_total = self.inodes_total
        twin.root = copy.deepcopy(self.root)
        return twin

    def read(self, path: str) -> bytes:
        """Return a whole file as the cache has it. Like all below: no hook, no process."""
        inode = self._inode(path)
        return inode.cache.read(0, inode.cache.length)

    def overwrite(self, path: str, offset: int, data: bytes) -> None:
        """Change a stopped node's file, for good: what was pending of it is durable then."""
        inode = self._inode(path)
        inode.write(self.operations, offset, memoryview(data))
        inode.sync()

    def flip_bit(self, path: str, offset: int, bit: int) -> None:
        """Flip one bit (0 to 7) of one byte, for good."""
        self.overwrite(path, offset, bytes([self.read(path)[offset] ^ (1 << bit)]))

    def zero(self, path: str, start: int, end: int) -> None:
        """Make the bytes from `start` up to `end` zero, for good."""
        self.overwrite(path, start, bytes(end - start))

    def cut(self, path: str, length: int) -> None:
        """Cut the file to `length` bytes, for good."""
        inode = self._inode(path)
        inode.resize(self.operations, length)
        inode.sync()

    def _create(self, directory: Directory, name: str) -> Inode:
        self.inodes_total += 1
        inode = Inode(self.inodes_total)
        directory.change(self.operations, added=name, node=inode)
        return inode

    def _inode(self, path: str) -> Inode:
        node = find(self.root, path)[2]
        if node is None:
            fail(errno.ENOENT, path)
        if isinstance(node, Directory):
            fail(errno.EISDIR, path)
        return node

    def _directory(self, path: str) -> Directory:
        node = find(self.root, path)[2]
        if node is None:
            fail(errno.ENOENT, path)
        if isinstance(node, Inode):
            fail(errno.ENOTDIR, path)
        return node
