"""A world in which nothing can be changed, and whose files stand still enough to be judged.

The code that opens a data directory also repairs it, and expects nobody else to
write to it. Here it can be run over the directory of a living node: what it
would change it leaves, and what it reads is in an order in which a journal that
grows meanwhile looks like one that a crash cut short, never like a damaged one:

- The mark is read first, the names after it, the segments last: so the segments
  hold all that the mark speaks of.
- Both are remembered: a later look shows the same.
- A segment is read from its end to its beginning, a page at a time. Records are
  added behind one another, so before any record that is seen all others are too.

What lives here: the ports that do so. What must never live here: a judgement.
Called by: `dump`. Blocking.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import NoReturn

from coordinator.raft.segments.layout import segment_seq
from coordinator.raft.segments.mark import MARK_BYTES, MARK_NAME
from raftbatch.world import (
    Buffer,
    Clock,
    Entropy,
    File,
    Files,
    Lock,
    Network,
    OpenMode,
    Workers,
    World,
    join,
)

_PAGE_BYTES = 4096


class StillFile:
    """A file that is only read.

    Args:
        file: the real one.
        path: its path, which every error names.
        content: remembered; None: ask the file.
        backwards: read pages from the last to the first.
    """

    def __init__(
        self, file: File, path: str, content: bytes | None = None, backwards: bool = False
    ) -> None:
        self._file = file
        self._path = path
        self._content = content
        self._backwards = backwards

    def read_at(self, offset: int, length: int) -> bytes:
        """Read."""
        if self._content is not None:
            return self._content[offset : offset + length]
        step = _PAGE_BYTES if self._backwards else length
        starts = range(offset, offset + length, step or 1)
        with _named(self._path):
            pages = [
                self._file.read_at(start, min(step, offset + length - start))
                for start in reversed(starts)
            ]
        pages.reverse()
        return b"".join(pages)

    def write_at(self, offset: int, buffers: Sequence[Buffer]) -> None:
        """Refuse."""
        _refuse(f"writing {len(buffers)} buffers at offset {offset}")

    def allocate(self, length: int) -> None:
        """Refuse."""
        _refuse(f"allocating {length} bytes")

    def truncate(self, length: int) -> None:
        """Refuse."""
        _refuse(f"truncating to {length} bytes")

    def datasync(self) -> None:
        """Refuse."""
        _refuse("syncing")

    def uncache(self, offset: int, length: int) -> None:
        """Leave the cache as it is: it is another's."""

    def size(self) -> int:
        """Return the length."""
        with _named(self._path):
            return self._file.size()

    def close(self) -> None:
        """Close."""
        self._file.close()


class StillFiles:
    """A file system that is only read, seen at one moment as far as the journal goes.

    Args:
        files: the real one.
        journal: the journal's directory.

    Raises:
        OSError: the directory cannot be listed.
    """

    def __init__(self, files: Files, journal: str) -> None:
        self._files = files
        self._mark_path = join(journal, MARK_NAME)
        self._mark = self.mark_now()
        self._names = {journal: files.list(journal)}

    @property
    def changed(self) -> bool:
        """Whether somebody has written to the journal since."""
        return self.mark_now() != self._mark

    def mark_now(self) -> bytes | None:
        """Return the mark's bytes as they are now; None where they cannot be read."""
        try:
            with closing(self._files.open(self._mark_path, "read")) as file:
                return file.read_at(0, MARK_BYTES)
        except OSError:
            return None  # whoever needs it meets the same error, and says so

    def open(self, path: str, mode: OpenMode) -> StillFile:
        """Open for reading."""
        if mode != "read":
            _refuse(f"opening {path} to {mode}")
        with _named(path):
            file = self._files.open(path, mode)
        if path == self._mark_path:
            return StillFile(file, path, self._mark)
        return StillFile(file, path, backwards=segment_seq(path.rpartition("/")[2]) is not None)

    def exists(self, path: str) -> bool:
        """Ask the file system."""
        return self._files.exists(path)

    def list(self, path: str) -> list[str]:
        """Return the names as they were at the first look; none where there is no directory."""
        if path not in self._names:
            there = self._files.exists(path)
            self._names[path] = self._files.list(path) if there else []
        return self._names[path]

    def make_directory(self, path: str) -> None:
        """Leave it: `list` shows it as it would be."""

    def rename(self, source: str, target: str) -> None:
        """Refuse."""
        _refuse(f"renaming {source} to {target}")

    def remove(self, path: str) -> None:
        """Leave it: what opening removes it never looks at again."""

    def sync_directory(self, path: str) -> None:
        """Leave it."""

    def space_left(self, path: str) -> int:
        """Ask the file system."""
        return self._files.space_left(path)

    def lock(self, path: str) -> Lock:
        """Refuse."""
        _refuse(f"locking {path}")


class StillWorld:
    """A world with such files; all else is the real one's."""

    def __init__(self, world: World, journal: str) -> None:
        self._world = world
        self.files = StillFiles(world.files, journal)

    @property
    def clock(self) -> Clock:
        """The real one."""
        return self._world.clock

    @property
    def entropy(self) -> Entropy:
        """The real one."""
        return self._world.entropy

    @property
    def workers(self) -> Workers:
        """The real ones."""
        return self._world.workers

    @property
    def network(self) -> Network:
        """The real one."""
        return self._world.network


@contextmanager
def _named(path: str) -> Iterator[None]:
    """Let each error of the system say which file it is about."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error


def _refuse(what: str) -> NoReturn:
    raise OSError(errno.EROFS, f"a listing changes nothing: {what}")
