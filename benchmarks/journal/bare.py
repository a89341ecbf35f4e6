"""The yardstick: the same payloads written and synced with nothing around them.

No thread, no checksum, no framing, no index: a loop of `pwrite` and `fdatasync`
into one file that was preallocated before the clock starts, a group in one
contiguous buffer. Whatever Python does to be told of a group is in the
journal's figure and not in this one. What lives here: the loop, in its forms.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

_POOL_BYTES = 64 << 20
_POOL_RECORDS_MIN = 1000


class Form(StrEnum):
    """How the bare loop treats its file."""

    PREALLOCATED = "preallocated"
    """`posix_fallocate` before the clock starts, one `pwrite` a group: what ratios refer to."""
    EACH = "pwrite each"
    """The same with one `pwrite` for each record."""
    GROWING = "growing"
    """An empty file, one `pwrite` a group: what most logs do."""
    OVERWRITING = "overwriting"
    """A file filled with zeros and synced before: what the disk itself can do."""


@dataclass(frozen=True, slots=True)
class Payloads:
    """Records of one size, different ones, as both sides write them.

    Attributes:
        size: bytes of each.
        records: one object each, as requests arrive.
        joined: the same bytes in one piece.
    """

    size: int
    records: tuple[bytes, ...]
    joined: memoryview


@dataclass(frozen=True, slots=True)
class BareRun:
    """What one run took.

    Attributes:
        seconds: from the first write to the end of the last sync.
        groups_s: seconds of each group.
        cpu_s: CPU time of all that, which the kernel's part is most of.
    """

    seconds: float
    groups_s: list[float]
    cpu_s: float


def make_payloads(size: int) -> Payloads:
    """Return random records, more than the processor's caches hold where they are large."""
    count = max(_POOL_BYTES // size, _POOL_RECORDS_MIN) if size > 4096 else _POOL_RECORDS_MIN * 4
    whole = os.urandom(count * size)
    records = tuple(whole[at : at + size] for at in range(0, len(whole), size))
    return Payloads(size, records, memoryview(whole))


def run_bare(path: Path, groups: Sequence[int], payloads: Payloads, form: Form) -> BareRun:
    """Write groups of so many records each, a sync after each; the file is removed again."""
    groups_s = []
    size, joined, count = payloads.size, payloads.joined, len(payloads.records)
    with _file(path, sum(groups) * size, form) as descriptor:
        offset = next_record = 0
        cpu = time.thread_time()
        begin = start = time.perf_counter()
        for group in groups:
            if next_record + group > count:
                next_record = 0
            piece = joined[next_record * size : (next_record + group) * size]
            next_record += group
            step = size if form is Form.EACH else len(piece)
            for at in range(0, len(piece), step):
                offset += os.pwrite(descriptor, piece[at : at + step], offset)
            os.fdatasync(descriptor)
            end = time.perf_counter()
            groups_s.append(end - start)
            start = end
        cpu = time.thread_time() - cpu
        assert offset == sum(groups) * size, "a short write: is the disk full?"
    return BareRun(start - begin, groups_s, cpu)


@contextmanager
def _file(path: Path, length: int, form: Form) -> Iterator[int]:
    """Open a new file of the form, settled on disk, and remove it at the end."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        if form is not Form.GROWING:
            os.posix_fallocate(descriptor, 0, length)
        if form is Form.OVERWRITING:
            zeros = bytes(1 << 20)
            for offset in range(0, length, len(zeros)):
                os.pwrite(descriptor, zeros[: length - offset], offset)
        os.fsync(descriptor)
        settle(path.parent)
        yield descriptor
    finally:
        os.close(descriptor)
        path.unlink()


def settle(directory: Path) -> None:
    """Let the file system finish what earlier runs have left it, freed blocks above all."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
