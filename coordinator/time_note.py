"""What a node writes down of log time, so that a restart of all nodes does not stop it.

    directory/log_time      two slots of a note each, written in turn

A note says which log time it was at which wall time; an old one says the same as a
new one, so it is written seldom, and nobody waits for the disk. One that was torn
by a crash is passed over, and one that cannot be written is missed by nobody: log
time stood still then, while no node was there.

What lives here: the note, its bytes, and when it is written. What must never live
here: what log time is (`log_clock`). Called by: the composition root. It reads at
start-up, before the node serves, and writes on a worker.
"""

from __future__ import annotations

import asyncio
import struct
import zlib
from concurrent.futures import Future

from coordinator.log_clock import LogClock
from raftbatch.world import Clock, Files, OpenMode, Worker, join

NAME = "log_time"

NOTE_S = 10.0
"""How often it is written."""

_FORM = struct.Struct("<4sQQI")
"""Magic, wall time and log time in milliseconds, checksum of these."""

_MAGIC = b"rbt1"
_SLOT_BYTES = 512
"""Each slot in a sector of its own: a torn write spoils one."""


def encode(wall_ms: int, log_ms: int) -> bytes:
    """Return the bytes of a note. Total. Deterministic."""
    body = _FORM.pack(_MAGIC, max(wall_ms, 0), log_ms, 0)[:-4]
    return body + struct.pack("<I", zlib.crc32(body))


def decode(data: bytes) -> tuple[int, int] | None:
    """Return wall time and log time; None: these are the bytes of no note. Total. Deterministic."""
    if len(data) < _FORM.size:
        return None
    magic, wall_ms, log_ms, checksum = _FORM.unpack_from(data)
    if magic != _MAGIC or zlib.crc32(data[: _FORM.size - 4]) != checksum:
        return None
    return wall_ms, log_ms


class TimeNotes:
    """See the module's docstring.

    Args:
        files: the file system.
        worker: writes.
        clock: of this node.
        directory: the data directory; it must be there, and be this process's.
        log_clock: says what log time it is, and is told of the gap.
    """

    def __init__(
        self, files: Files, worker: Worker, clock: Clock, directory: str, log_clock: LogClock
    ) -> None:
        self._files = files
        self._worker = worker
        self._clock = clock
        self._path = join(directory, NAME)
        self._log_clock = log_clock
        self._noted_ms = 0
        self._slot = 0
        self._is_writing = False
        self._timer: asyncio.TimerHandle | None = None

    def resume(self, last_index: int) -> None:
        """Read what an earlier life noted, and let the log clock count from there. Blocks.

        Args:
            last_index: of the newest entry on this node's disk.
        """
        try:
            found = self._read()
        except OSError:
            return  # as if it had not been written: log time stood still
        if found is not None:
            wall_ms, self._noted_ms = found
            self._log_clock.restarted(self._noted_ms, self._clock.wall_ms() - wall_ms, last_index)

    def start(self) -> None:
        """Write a note now and then, from now on."""
        self._timer = asyncio.get_running_loop().call_later(NOTE_S, self._note)

    def close(self) -> None:
        """Write no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _note(self) -> None:
        self.start()
        log_ms = self._log_clock.now_ms()
        # Before all that is on disk was applied again, it seems to be earlier than it is.
        if self._is_writing or log_ms <= self._noted_ms:
            return
        self._noted_ms = log_ms
        self._slot = 1 - self._slot
        data, offset = encode(self._clock.wall_ms(), log_ms), self._slot * _SLOT_BYTES
        self._is_writing = True
        self._worker.submit(lambda: self._write(data, offset), self._has_written)

    def _has_written(self, written: Future[None]) -> None:
        self._is_writing = False
        error = written.exception()
        if error is not None and not isinstance(error, OSError):
            raise error

    def _read(self) -> tuple[int, int] | None:
        if not self._files.exists(self._path):
            return None
        file = self._files.open(self._path, "read")
        try:
            slots = [file.read_at(slot * _SLOT_BYTES, _FORM.size) for slot in range(2)]
        finally:
            file.close()
        found = [decode(data) for data in slots]
        return max((each for each in found if each is not None), key=_log_ms, default=None)

    def _write(self, data: bytes, offset: int) -> None:
        mode: OpenMode = "write" if self._files.exists(self._path) else "create"
        file = self._files.open(self._path, mode)
        try:
            file.write_at(offset, [data])
        finally:
            file.close()


def _log_ms(note: tuple[int, int]) -> int:
    return note[1]
