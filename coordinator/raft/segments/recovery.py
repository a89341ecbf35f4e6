"""From the files of a journal to its state: all that was acknowledged, or a refusal.

What lives here: beginning a journal, and opening one: reading it, cutting a torn
tail, and making sure that what was read is durable. What must never live here:
anything that runs after the start. Called by: the journal. Blocking.
"""

from __future__ import annotations

from coordinator.raft.segments.layout import TEMPORARY, segment_name, segment_seq
from coordinator.raft.segments.mark import MARK_NAME, Mark
from coordinator.raft.segments.replay import Progress, Reading, Recovered, is_initialised
from coordinator.raft.segments.writer import (
    TryLater,
    create_mark,
    create_segment,
    disk_errors,
    first_header,
    write_mark,
)
from raftbatch.errors import CannotStart
from raftbatch.ids import Identity
from raftbatch.world import File, Files, World, join


def create(world: World, directory: str, identity: Identity, segment_bytes: int) -> None:
    """Begin an empty journal, durably.

    Raises:
        CannotStart: there is one already, or no room.
        DiskFailed: the disk failed.
    """
    files = world.files
    if is_initialised(files, directory):
        raise CannotStart(f"{directory} holds a journal already")
    try:
        with disk_errors(f"creating {directory}", retryable=True):
            files.make_directory(directory)
        create_mark(files, directory)
        create_segment(files, directory, first_header(world, identity, segment_bytes)).close()
    except TryLater as error:
        raise CannotStart(f"no room for a journal: {error}") from None


def recover(world: World, directory: str, progress: Progress | None = None) -> Recovered:
    """Read a journal, repair its tail, and make sure all that was read is durable.

    Raises:
        Corrupt: the files are not what was acknowledged.
        CannotStart: there is no journal.
        DiskFailed: the disk failed.
    """
    files = world.files
    _clear_temporaries(files, directory)
    reading = Reading(files, directory)
    for _ in reading.records(progress):
        pass
    recovered = reading.result()
    cursor = recovered.cursor
    path = join(directory, segment_name(cursor.header.seq))
    with disk_errors(f"opening {path}"):
        segment = files.open(path, "write")
    if reading.torn:
        _zero_tail(segment, path, cursor.offset, cursor.header.size)
    _rewrite(segment, path, reading.group_offset, cursor.offset)
    with disk_errors(f"syncing {path}"):
        segment.datasync()
        segment.close()
        files.sync_directory(directory)
        path = join(directory, MARK_NAME)
        mark = Mark(path, files.open(path, "write"))
    write_mark(mark, cursor.lsn)
    mark.close()
    removed = remove_segments(files, directory, cursor.oldest)
    if removed:
        recovered.repairs.append(f"{directory}: removed {removed} segments that were dropped")
    return recovered


def _clear_temporaries(files: Files, directory: str) -> None:
    """Remove files whose creation a crash cut short: nothing was ever in them."""
    if not files.exists(directory):
        return
    for name in files.list(directory):
        if name.endswith(TEMPORARY):
            with disk_errors(f"removing {name}"):
                files.remove(join(directory, name))


def remove_segments(files: Files, directory: str, below: int) -> int:
    """Remove the files of segments numbered below `below`; return how many there were.

    They were dropped durably before, so a crash at any point leaves only files
    that the next start removes.

    Raises:
        DiskFailed: the disk failed.
    """
    with disk_errors(f"removing segments below {below} in {directory}"):
        old = [
            name
            for name in files.list(directory)
            if (seq := segment_seq(name)) is not None and seq < below
        ]
        for name in old:
            files.remove(join(directory, name))
        if old:
            files.sync_directory(directory)
    return len(old)


def _rewrite(segment: File, path: str, start: int, end: int) -> None:
    """Write the last group again as it is, so that a sync makes it durable.

    After a mere kill it may be in the cache only. If the process ended because
    a sync had failed, the kernel has called those pages clean although they
    never reached the disk: a sync alone would say yes and do nothing. All
    earlier groups were synced before this one was written.
    """
    with disk_errors(f"rewriting {path} from offset {start}"):
        segment.write_at(start, [segment.read_at(start, end - start)])


def _zero_tail(segment: File, path: str, offset: int, size: int) -> None:
    """Write zeros over what a crash left behind `offset`.

    Else a record left there could stand right behind a new one, with the LSN
    that is due, and be taken for a part of the log.
    """
    with disk_errors(f"clearing {path} from offset {offset}"):
        tail = segment.read_at(offset, size - offset)
        end = len(tail.rstrip(b"\0"))
        step = 1 << 20
        for start in range(0, end, step):
            segment.write_at(offset + start, [bytes(min(step, end - start))])
