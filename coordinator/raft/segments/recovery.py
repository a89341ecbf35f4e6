"""From the files of a journal to its state: all that was acknowledged, or a refusal.

What lives here: beginning a journal, and opening one: reading it, going on behind
a torn tail, and making sure that what was read is durable. What must never live here:
anything that runs after the start. Called by: the journal. Blocking.
"""

from __future__ import annotations

from coordinator.raft.segments.layout import (
    SECTOR_BYTES,
    TEMPORARY,
    HardState,
    Kind,
    record_bytes,
    segment_name,
    segment_seq,
)
from coordinator.raft.segments.mark import MARK_NAME, Mark
from coordinator.raft.segments.replay import Progress, Reading, Recovered, is_initialised
from coordinator.raft.segments.writer import (
    NO_DESCRIPTOR,
    Operation,
    SegmentWriter,
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


def create(
    world: World,
    directory: str,
    identity: Identity,
    segment_bytes: int,
    founders: bytes | None = None,
) -> None:
    """Begin a journal, durably: empty, or with the membership that founded the cluster.

    That is entry 1, of term 1, there as soon as the journal is. The node is in term 1 then:
    no log holds an entry of a later term than its node's.

    Args:
        world: the ports.
        directory: of the segments.
        identity: whose journal it is.
        segment_bytes: size of the first segment.
        founders: the membership in its encoded form; None for an empty log.

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
        if founders is None:
            header = first_header(world, identity, segment_bytes, HardState(0, None))
            create_segment(files, directory, header).close()
            return
        size = max(segment_bytes, SECTOR_BYTES + record_bytes(len(founders)))
        header = first_header(world, identity, size, HardState(1, None))
        first = Operation(Kind.CONFIG, 1, 1, 1, founders)
        create_segment(files, directory, header, [first]).close()
        # Durable with its name: the mark may say so, and damage to it is no torn write.
        with disk_errors(f"marking {directory}", retryable=True):
            mark = Mark(join(directory, MARK_NAME), files.open(join(directory, MARK_NAME), "write"))
        write_mark(mark, 1)
        mark.close()
    except TryLater as error:
        raise CannotStart(f"no room for a journal: {error}") from None


def recover(
    world: World, directory: str, segment_bytes: int, progress: Progress | None = None
) -> tuple[Recovered, SegmentWriter]:
    """Read a journal, and make sure all that was read is durable; return who goes on writing.

    A torn tail is left as it is: the next record begins a new segment, whose
    header says where the old one ends. Clearing the tail would not do: if that
    failed to reach the disk, what stands there could one day follow a new record,
    whole and with the LSN that is due, and be taken for a part of the log.

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
    _rewrite(segment, path, reading.group_offset, cursor.offset)
    with disk_errors(f"syncing {path}"):
        segment.datasync()
        files.sync_directory(directory)
    path = join(directory, MARK_NAME)
    with disk_errors(f"opening {path}"):
        mark = Mark(path, files.open(path, "write"))
    write_mark(mark, cursor.lsn)
    writer = SegmentWriter(
        world, directory, segment_bytes, cursor, segment, mark, recovered.anchoring
    )
    if reading.torn:
        cursor.offset = cursor.header.size  # full: the next record begins a new segment
    try:
        removed = remove_segments(files, directory, cursor.oldest)
    except TryLater:
        removed = 0  # the next start, or the next compaction
    if removed:
        recovered.repairs.append(f"{directory}: removed {removed} segments that were dropped")
    return recovered, writer


def _clear_temporaries(files: Files, directory: str) -> None:
    """Remove files whose creation a crash cut short: nothing was ever in them."""
    with disk_errors(f"clearing temporary files in {directory}"):
        names = files.list(directory) if files.exists(directory) else []
        for name in names:
            if name.endswith(TEMPORARY):
                files.remove(join(directory, name))


def remove_segments(files: Files, directory: str, below: int) -> int:
    """Remove the files of segments numbered below `below`; return how many there were.

    They were dropped durably before, so a crash at any point leaves only files
    that the next start removes.

    Raises:
        TryLater: no descriptor is free; all of it can be done again.
        DiskFailed: the disk failed.
    """
    with disk_errors(f"looking into {directory}", retryable=True):
        names = files.list(directory)
    old = [name for name in names if (seq := segment_seq(name)) is not None and seq < below]
    with disk_errors(f"removing segments below {below} in {directory}", retry=NO_DESCRIPTOR):
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
