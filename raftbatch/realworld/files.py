"""Files of the operating system.

What lives here: descriptors, directories, locks. What must never live here: a
decision. Called by: `raftbatch.realworld`.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Sequence

from raftbatch.world import Buffer, OpenMode

_IOV_MAX = 1024  # buffers one pwritev takes on Linux and macOS
_ZEROS = bytes(1 << 20)
_PID_WIDTH = 10  # Linux: at most 4,194,304; macOS: 99,998


class RealFile:
    """A file descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def read_at(self, offset: int, length: int) -> bytes:
        """Read, going on after short reads until `length` or the end of the file."""
        parts: list[bytes] = []
        while length > 0:
            part = os.pread(self._descriptor, length, offset)
            if not part:
                break
            parts.append(part)
            offset += len(part)
            length -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def write_at(self, offset: int, buffers: Sequence[Buffer]) -> None:
        """Write all of it, going on after short writes."""
        for start in range(0, len(buffers), _IOV_MAX):
            some = buffers[start : start + _IOV_MAX]
            length = sum(map(len, some))
            written = os.pwritev(self._descriptor, some, offset)
            if written < length:  # rare: a signal, a full disk, or more than 2 GiB
                rest = memoryview(b"".join(some))
                while written < length:
                    written += os.pwrite(self._descriptor, rest[written:], offset + written)
            offset += length

    def allocate(self, length: int) -> None:
        """Reserve space, by writing zeros where the system cannot reserve."""
        size = self.size()
        if length <= size:
            return
        if hasattr(os, "posix_fallocate"):
            try:
                os.posix_fallocate(self._descriptor, 0, length)
                return
            except OSError as error:
                if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                    raise
        while size < length:
            part = min(len(_ZEROS), length - size)
            self.write_at(size, [_ZEROS[:part]])
            size += part

    def truncate(self, length: int) -> None:
        """Set the length."""
        os.ftruncate(self._descriptor, length)

    def datasync(self) -> None:
        """Make content and length durable."""
        if hasattr(os, "fdatasync"):
            os.fdatasync(self._descriptor)
        else:  # macOS: a development system, where even this only reaches the drive's cache
            os.fsync(self._descriptor)

    def uncache(self, offset: int, length: int) -> None:
        """Let the kernel drop clean pages that lie wholly within."""
        if hasattr(os, "posix_fadvise"):
            with contextlib.suppress(OSError):  # some file systems know of no such thing
                os.posix_fadvise(self._descriptor, offset, length, os.POSIX_FADV_DONTNEED)

    def size(self) -> int:
        """Return the length in bytes."""
        return os.fstat(self._descriptor).st_size

    def close(self) -> None:
        """Close the descriptor, once."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)


class RealLock:
    """A flock on a directory: the kernel drops it with the process."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def take(self, path: str) -> None:
        """Claim the directory, and write our pid into the file at `path`."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        named = os.open(path, flags, 0o640)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # In place and of one width: a full disk has room for it.
            os.pwrite(named, f"{os.getpid():<{_PID_WIDTH}}\n".encode("ascii"), 0)
        except BlockingIOError as error:
            holder = os.pread(named, 32, 0).decode("ascii", "replace").strip() or "unknown"
            message = f"held by the process with pid {holder}"
            raise BlockingIOError(error.errno, message, path) from None
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise  # else the claim holds all the same; only its holder has no name
        finally:
            os.close(named)

    def release(self) -> None:
        """Close the directory, and with it the lock."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)


_FLAGS: dict[OpenMode, int] = {
    "read": os.O_RDONLY,
    "write": os.O_RDWR,
    "create": os.O_RDWR | os.O_CREAT | os.O_EXCL,
}


class RealFiles:
    """The operating system's files. Files are made readable by their owner and group only."""

    _LINKS = os.O_NOFOLLOW

    def open(self, path: str, mode: OpenMode) -> RealFile:
        """Open a regular file, without following the last symbolic link.

        Raises:
            OSError: EINVAL where something else is there; a FIFO would be waited on.
        """
        flags = _FLAGS[mode] | os.O_CLOEXEC | self._LINKS | os.O_NONBLOCK
        descriptor = os.open(path, flags, 0o640)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.EINVAL, "not a regular file", path)
        return RealFile(descriptor)

    def exists(self, path: str) -> bool:
        """Return whether the name is there."""
        return os.path.lexists(path)

    def list(self, path: str) -> list[str]:
        """Return the sorted names."""
        return sorted(os.listdir(path))

    def make_directory(self, path: str) -> None:
        """Create what is missing, from the top down, each synced into its parent.

        The last one that is there already is synced too: the process that made
        it may have died before it could. Where we may not write we did not make it.
        """
        missing = []
        path = os.path.abspath(path)
        while not os.path.isdir(path):
            missing.append(path)
            path = os.path.dirname(path)
        if os.access(os.path.dirname(path), os.R_OK | os.W_OK):
            self.sync_directory(os.path.dirname(path))
        for part in reversed(missing):
            try:
                os.mkdir(part, 0o750)
            except FileExistsError:
                if not os.path.isdir(part):  # else another process was faster
                    raise
            self.sync_directory(os.path.dirname(part))

    def obstacle(self, path: str) -> str:
        """Return why `make_directory` or files in it would fail; empty: no reason is seen.

        Nothing is changed; only a try shows more.
        """
        place = os.path.abspath(path)
        while not os.path.lexists(place):
            place = os.path.dirname(place)
        if not os.path.isdir(place):
            return f"{place} is no directory: move it away"
        if not os.access(place, os.R_OK | os.W_OK | os.X_OK):
            return (
                f"this process may not read and write in {place}: give it to the user that "
                "the node runs as, and look whether it is mounted read-only"
            )
        return ""

    def rename(self, source: str, target: str) -> None:
        """Rename in one step."""
        os.replace(source, target)

    def remove(self, path: str) -> None:
        """Unlink."""
        os.unlink(path)

    def sync_directory(self, path: str) -> None:
        """Fsync the directory itself."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def space_left(self, path: str) -> int:
        """Return what an unprivileged process may use."""
        facts = os.statvfs(path)
        return facts.f_bavail * facts.f_frsize

    def lock(self, path: str) -> RealLock:
        """Take an exclusive flock, or say who has it."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        lock = RealLock(os.open(os.path.dirname(path) or ".", flags))
        try:
            lock.take(path)
        except OSError:
            lock.release()  # else the descriptor would hold the claim until the process ends
            raise
        return lock


class GivenFiles(RealFiles):
    """Files that an operator names: links are followed, of which some mount a whole folder."""

    _LINKS = 0
