"""What the operating system's errors mean to a node's storage.

Three kinds, told apart strictly:

- No room (ENOSPC, EDQUOT) or no descriptor (EMFILE, ENFILE, ENOMEM) for anything
  but a sync: nothing happened, and it can be tried again.
- Any failure of a sync: what the disk holds is unknown, and a second sync would
  lie (the kernel has marked the pages clean). `DiskFailed`: the node stops.
- Any other failure: `DiskFailed` as well.

What lives here: which is which, and the journal's translation. What must never
live here: what a caller does about it; a snapshot, whose failure may be told to a
client, says it in other words. Called by: the journal's and the snapshots' modules.
"""

from __future__ import annotations

import errno
from types import TracebackType

from raftbatch.errors import DiskFailed

NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
"""The disk is full, or our part of it."""

NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)
"""Only opening something says this; so of a directory's sync it says that there was none."""

EXHAUSTED = (*NO_DESCRIPTOR, errno.ENOMEM)
"""The process or the machine has none left of what others will give back."""

_RETRYABLE = (*NO_SPACE, *EXHAUSTED)


class TryLater(Exception):
    """No room, or no descriptor; nothing was changed. Internal to the journal."""


class disk_errors:  # noqa: N801 - called like a function
    """Turns an OSError into `DiskFailed`, or into `TryLater` where the caller can retry.

    A class, as `contextlib`'s generators would cost each group of the journal 4 us.

    Args:
        doing: for the message.
        retryable: whether every shortage can be waited out; never around a sync.
        retry: other errors that can be.
    """

    __slots__ = ("_doing", "_retry")

    def __init__(self, doing: str, *, retryable: bool = False, retry: tuple[int, ...] = ()) -> None:
        self._doing = doing
        self._retry = _RETRYABLE if retryable else retry

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        """Raise another error in place of an OSError."""
        if error is None or not isinstance(error, OSError):
            return
        if error.errno in self._retry:
            raise TryLater(f"{self._doing}: {error}") from error
        raise DiskFailed(
            f"{self._doing}: {error}. This node cannot be sure of its disk any more and stops. "
            "Check the disk, then start the node again: it finds out what it has"
        ) from error
