"""What is to be written, on its way from the loop to the writing thread.

The loop puts in what each flush brings; the thread takes out a group when it is
free, so that all that came while the group before was synced goes together, and
nobody waits for the loop to hear of that. What lives here: the queue, and who
goes on after a group that failed or found no room. What must never live here:
bytes on disk, or what a record means. Called by: the journal, on both threads.

Only the operations of `deque` that are one step under the interpreter's lock are
used across the threads; there is no other lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from coordinator.raft.segments.layout import record_bytes
from coordinator.raft.segments.writer import Operation, Report, SegmentWriter

_JOBS_MAX = 2  # one that writes, and one that waits at the thread for that to end


class Groups:
    """A queue of operations, in LSN order. See the module's docstring.

    Args:
        bytes_max: of a group, unless one record is larger.

    Attributes:
        failure: of a call of `note`; nothing is written any more.
        jobs: calls of `write` that were asked for, and have not been told to have ended.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._flushed: deque[tuple[list[Operation], int]] = deque()
        self.failure: BaseException | None = None
        self._failure: BaseException | None = None
        self.jobs = 0
        self._asked = self._begun = 0  # calls of `write`: the loop counts one, the thread the other

    def __bool__(self) -> bool:
        """Return whether anything is to be taken."""
        return bool(self._flushed)

    def __iter__(self) -> Iterator[Operation]:
        """Yield what is to be taken, in order."""
        for operations, _ in tuple(self._flushed):
            yield from operations

    def put(self, operations: list[Operation], size: int) -> None:
        """Put in what follows; the list is this queue's from now on. On the loop.

        Args:
            operations: at least one.
            size: bytes of their records.
        """
        self._flushed.append((operations, size))

    def ask(self) -> bool:
        """Return whether `write` is to be called now; then it must be, and end `jobs`. On the loop.

        Not where a call has not begun yet: it takes all that was put in by now, and another
        would wake the thread and the loop for nothing.
        """
        if not self._flushed or self.jobs == _JOBS_MAX or self._asked > self._begun:
            return False
        self.jobs += 1
        self._asked += 1
        return True

    def take_back(self) -> list[Operation]:
        """Take all out again. On the loop, and only while the thread writes nothing."""
        operations = list(self)
        self._flushed.clear()
        return operations

    def write(self, writer: SegmentWriter) -> Report:
        """Write and sync the next group. On the thread.

        What finds no room goes back to the front. After a failure nothing is
        tried again, whatever was asked for before the loop knew of it.

        Raises:
            DiskFailed: now, or before.
        """
        self._begun += 1
        if self._failure is not None:
            raise self._failure
        operations, size = self._take()
        try:
            report = writer.write(operations)
        except BaseException as error:
            self._failure = error
            raise
        if report.size < size:
            rest = [operation for operation in operations if operation.lsn > report.lsn]
            self._flushed.appendleft((rest, size - report.size))
        return report

    def note(self, writer: SegmentWriter) -> None:
        """Do what is to be done behind a group, once it was told. On the thread."""
        try:
            writer.note()
        except Exception as error:  # noqa: BLE001 - whatever it is, whoever writes next is told
            self.failure = self._failure = error

    def _take(self) -> tuple[list[Operation], int]:
        """Take out as much as makes a group, and its size."""
        flushed, size_max = self._flushed, self._bytes_max
        if not flushed:
            return [], 0
        operations, size = flushed.popleft()
        while flushed and size + flushed[0][1] <= size_max:
            more, more_size = flushed.popleft()
            operations += more
            size += more_size
        if size > size_max and len(operations) > 1:
            count, fitting = 1, record_bytes(len(operations[0].data))
            # All of them do not fit, so this ends before they do.
            while (next_size := fitting + record_bytes(len(operations[count].data))) <= size_max:
                count, fitting = count + 1, next_size
            flushed.appendleft((operations[count:], size - fitting))
            operations, size = operations[:count], fitting
        return operations, size
