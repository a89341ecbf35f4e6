"""The one that writes: groups of records into segments, each group made durable.

It runs on the journal's worker thread and owns the newest segment and the mark.
It moves on only when a group is synced: until then a failed attempt leaves
everything as it was, and the same records can be written again at the same
place. What lives here: write, sync, roll over to a new segment. What must never
live here: what the records mean to Raft. Called by: the journal, recovery.

Which failure is which: `coordinator.raft.failures`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from coordinator.raft.failures import NO_DESCRIPTOR, TryLater, disk_errors
from coordinator.raft.segments.index import (
    Anchoring,
    Dropped,
    Event,
    Kept,
    Opened,
    Placed,
    Restarted,
    Written,
)
from coordinator.raft.segments.layout import (
    SECTOR_BYTES,
    TEMPORARY,
    HardState,
    Header,
    Kind,
    encode_header,
    encode_records,
    record_bytes,
    segment_name,
)
from coordinator.raft.segments.mark import MARK_BYTES, MARK_NAME, Mark, encode_mark
from coordinator.raft.spread import durations
from raftbatch.ids import Identity, NodeId
from raftbatch.world import Buffer, File, Files, World, join

_PAGE_BYTES = 4096
_CACHED_BYTES_MAX = 1 << 20
"""How much of what was written and synced the system may hold on to. What is newest is in our own
memory, what is older is seldom read: left alone, the journal would take all the memory there is.
On a virtual machine, whose host has to find each fresh page too, that took up to 100 us for 48 KiB
in place of 7; to give the pages back takes 5."""
_LOOK_NS = 10_000_000
"""How long what was seen of the room on the disk counts. To look takes as long as to write a small
group, where nothing is in the processor's caches: after each it made a lone entry 7 % slower."""
_ENTRY = Kind.ENTRY  # looked up once: this is asked for each record


class Operation(NamedTuple):
    """A record to be written; see `layout.Kind` for its fields."""

    kind: Kind
    lsn: int
    term: int
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody asks for
    data: bytes


@dataclass(slots=True)
class Cursor:
    """Where the next record goes, and what was true there.

    Attributes:
        header: of the segment being written.
        offset: where its next record begins.
        lsn: of the last record written and synced.
        oldest: number of the oldest segment that must be there.
        last_index: the log's last index.
        last_term: its term.
        hard_state: the hard state.
    """

    header: Header
    offset: int
    lsn: int
    oldest: int
    last_index: int
    last_term: int
    hard_state: HardState

    def advance(self, kind: int, term: int, index: int, data: Buffer) -> None:
        """Take in what a record says; the same for a record written and one read back."""
        match kind:
            case Kind.ENTRY | Kind.CONFIG | Kind.KEEP | Kind.RESET:
                self.last_index, self.last_term = index, term
            case Kind.STATE:
                vote = bytes(data).decode("utf-8")
                self.hard_state = HardState(term, NodeId(vote) if vote else None)
            case Kind.DROP:
                self.oldest = max(self.oldest, index)


class Report(NamedTuple):
    """What became of a group.

    Attributes:
        lsn: highest durable LSN.
        size: bytes of the records written.
        events: for the index, in order.
        stalled: why the rest of the group could not be written now; None if it was.
    """

    lsn: int
    size: int
    events: list[Event]
    stalled: str | None


class Disk:
    """What the writing thread has seen of its disk; others read it.

    Attributes:
        sync_ns: how long syncs took, the writing before them not counted.
        space_left: bytes, as of the last segment that was begun, or some ms ago.
    """

    def __init__(self) -> None:
        self.sync_ns = durations()
        self.space_left = 0


class SegmentWriter:
    """Writes groups of records; one owner, one thread at a time.

    Args:
        world: the ports.
        directory: of the segments.
        segment_bytes: size of a new segment; one record larger than it gets a larger one.
        cursor: where to go on; the writer owns it from here on.
        segment: the segment's file, open for writing.
        mark: open for writing.
        anchoring: having seen the records before.

    Attributes:
        disk: what it sees of the disk.
    """

    def __init__(
        self,
        world: World,
        directory: str,
        segment_bytes: int,
        cursor: Cursor,
        segment: File,
        mark: Mark,
        anchoring: Anchoring,
    ) -> None:
        self.disk = Disk()
        self._world = world
        self._files = world.files
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._cursor = cursor
        self._segment = segment
        self._mark = mark
        self._anchoring = anchoring
        self._look_ns = 0  # when to look at the disk again
        self._cached_from = cursor.offset  # before that, nothing of this segment is cached by us

    @property
    def path(self) -> str:
        """The segment being written."""
        return join(self._directory, segment_name(self._cursor.header.seq))

    def write(self, operations: Sequence[Operation]) -> Report:
        """Write and sync the operations, or as many as there is room for.

        Raises:
            DiskFailed: the node must stop.
        """
        events: list[Event] = []
        # ends[i]: bytes of the first i records together
        ends = [0, *accumulate([record_bytes(len(operation[4])) for operation in operations])]
        done = 0
        stalled = None
        try:
            while done < len(operations):
                self._note_durable()  # of the run before
                room = self._cursor.header.size - self._cursor.offset
                fitting = bisect_right(ends, ends[done] + room) - 1
                if fitting == done:
                    events.append(self._roll(ends[done + 1] - ends[done]))
                else:
                    events += self._write_run(operations[done:fitting], ends[done : fitting + 1])
                    done = fitting
        except TryLater as error:
            stalled = str(error)
        return Report(self._cursor.lsn, ends[done], events, stalled)

    def note(self) -> None:
        """Write down how far all is durable, and look now and then how much room is left.

        Behind `write`, when what has become durable is told already: nobody waits for this.

        Raises:
            DiskFailed: the node must stop.
        """
        self._note_durable()
        if self._world.clock.monotonic_ns() >= self._look_ns:
            self.look()

    def look(self) -> None:
        """Look how much room is left. Raises: see `note`."""
        with disk_errors(f"reading the space left at {self._directory}"):
            self.disk.space_left = self._files.space_left(self._directory)
        self._look_ns = self._world.clock.monotonic_ns() + _LOOK_NS

    def _note_durable(self) -> None:
        if self._mark.lsn < self._cursor.lsn:
            write_mark(self._mark, self._cursor.lsn)

    def close(self) -> None:
        """Close the files. Syncs nothing."""
        self._segment.close()
        self._mark.close()

    def _write_run(self, operations: Sequence[Operation], ends: Sequence[int]) -> list[Event]:
        """Write operations that fit, sync, and only then move on."""
        cursor, anchoring = self._cursor, self._anchoring
        seq, start = cursor.header.seq, cursor.offset
        buffers = encode_records(operations, cursor.lsn, cursor.header.salt)
        path = self.path
        with disk_errors(f"writing {path} at offset {start}", retryable=True):
            self._segment.write_at(start, buffers)
        clock = self._world.clock
        begun_ns = clock.monotonic_ns()
        with disk_errors(f"syncing {path}"):
            self._segment.datasync()
        self.disk.sync_ns.add(clock.monotonic_ns() - begun_ns)
        events: list[Event] = []
        start -= ends[0]
        due = anchoring.due(seq)
        for (kind, _, term, index, data), end in zip(operations, ends, strict=False):
            if kind is _ENTRY and start + end < due:  # nearly all: no anchor
                cursor.last_index, cursor.last_term = index, term
                continue
            event = placement(anchoring, kind, index, seq, start + end)
            if event is not None:
                events.append(event)
            cursor.advance(kind, term, index, data)
            due = anchoring.due(seq)
        cursor.offset, cursor.lsn = start + ends[-1], operations[-1].lsn
        if cursor.offset - self._cached_from >= _CACHED_BYTES_MAX:
            self._uncache()
        events.append(Written(cursor.last_index, cursor.offset))
        return events

    def _roll(self, length: int) -> Opened:
        """Begin a new segment with room for `length` bytes of records."""
        cursor = self._cursor
        size = max(self._segment_bytes, SECTOR_BYTES + length)
        header = Header(
            identity=cursor.header.identity,
            seq=cursor.header.seq + 1,
            size=-(-size // _PAGE_BYTES) * _PAGE_BYTES,
            salt=int.from_bytes(self._world.entropy.random_bytes(4), "little"),
            base_lsn=cursor.lsn + 1,
            oldest=cursor.oldest,
            last_index=cursor.last_index,
            last_term=cursor.last_term,
            hard_state=cursor.hard_state,
            created_ms=max(self._world.clock.wall_ms(), 0),
        )
        segment = create_segment(self._files, self._directory, header)
        self._uncache()
        self._segment.close()
        self._segment = segment
        cursor.header, cursor.offset = header, SECTOR_BYTES
        self._cached_from = self._look_ns = 0  # it has taken room
        return opened(header)

    def _uncache(self) -> None:
        """Let the system forget what is synced."""
        self._segment.uncache(self._cached_from, self._cursor.offset - self._cached_from)
        self._cached_from = self._cursor.offset


def placement(anchoring: Anchoring, kind: int, index: int, seq: int, offset: int) -> Event | None:
    """Return what a record at `offset` of segment `seq` tells the index, if anything."""
    match kind:
        case Kind.ENTRY | Kind.CONFIG:
            return Placed(index, seq, offset) if anchoring.is_anchor(seq, offset) else None
        case Kind.KEEP:
            anchoring.interrupt()
            return Kept(index)
        case Kind.RESET:
            anchoring.interrupt()
            return Restarted(index)
        case Kind.DROP:
            return Dropped(index)
        case _:
            return None


def opened(header: Header) -> Opened:
    """Return what a segment's header tells the index."""
    return Opened(
        header.seq,
        header.salt,
        header.size,
        header.base_lsn,
        header.last_index,
        header.created_ms,
    )


def first_header(
    world: World, identity: Identity, segment_bytes: int, hard_state: HardState
) -> Header:
    """Return the header of the first segment of a journal."""
    return Header(
        identity=identity,
        seq=1,
        size=-(-segment_bytes // _PAGE_BYTES) * _PAGE_BYTES,
        salt=int.from_bytes(world.entropy.random_bytes(4), "little"),
        base_lsn=1,
        oldest=1,
        last_index=0,
        last_term=0,
        hard_state=hard_state,
        created_ms=max(world.clock.wall_ms(), 0),
    )


def create_segment(
    files: Files, directory: str, header: Header, operations: Sequence[Operation] = ()
) -> File:
    """Create a segment, durable in name and content before any further record.

    Args:
        files: where.
        directory: of the segments.
        header: the segment's; of a size that has room for the operations.
        operations: the first records, there as soon as the name is.

    Raises:
        TryLater: no room; nothing is left behind.
        DiskFailed: the node must stop.
    """
    records = encode_records(operations, header.base_lsn - 1, header.salt)
    content = b"".join([encode_header(header), *records])
    return _create(files, directory, segment_name(header.seq), header.size, content)


def create_mark(files: Files, directory: str) -> None:
    """Create the mark of an empty journal, durable in name and content.

    Raises:
        TryLater: no room; nothing is left behind.
        DiskFailed: the node must stop.
    """
    _create(files, directory, MARK_NAME, MARK_BYTES, encode_mark(0)).close()


def _create(files: Files, directory: str, name: str, size: int, content: bytes) -> File:
    """Create a file under another name first: under its own it is whole, or was damaged later."""
    path = join(directory, name)
    present = temporary = path + TEMPORARY
    file: File | None = None
    try:
        with disk_errors(f"creating {path}", retryable=True):
            if files.exists(temporary):
                files.remove(temporary)
            file = files.open(temporary, "create")
            file.allocate(size)
            file.write_at(0, [content])
        with disk_errors(f"syncing {temporary}"):
            file.datasync()
        with disk_errors(f"naming {path}", retryable=True):
            files.rename(temporary, path)
            present = path
        with disk_errors(f"syncing {directory}", retry=NO_DESCRIPTOR):
            files.sync_directory(directory)
    except TryLater:
        if file is not None:
            file.close()
            with disk_errors(f"removing {present}"):
                files.remove(present)
        raise
    return file


def write_mark(mark: Mark, lsn: int) -> None:
    """Note that records up to `lsn` are durable."""
    try:
        with disk_errors(f"writing {mark.path}", retryable=True):
            mark.write(lsn)
    except TryLater:
        pass  # copy-on-write file systems: a mark that lags is still true
