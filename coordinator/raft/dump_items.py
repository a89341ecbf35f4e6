"""What a listing of a data directory consists of, and which part of it is asked for.

What lives here: the items that `dump` yields, and `Selection`. What must never
live here: a file, or how an item looks on a terminal. Called by: `dump`; the
command line, which renders them: there the name of a class in lower case is an
object's `type`, and its fields are the object's (docs/OPERATIONS.md). So a field
is never renamed, and never changes its meaning. Total. Deterministic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from coordinator.raft.segments.layout import Kind
from coordinator.raft.segments.layout import Record as RawRecord

SegmentState = Literal["newest", "full", "dropped", "damaged", "unreadable", "unread"]
SnapshotState = Literal["intact", "damaged", "foreign", "unreadable"]
Effect = Literal["cut", "refused", "unread", "unreadable"]
Outcome = Literal["opens", "opens_after_cutting", "refused", "unreadable"]


@dataclass(frozen=True, slots=True)
class Journal:
    """Whose directory it is, and where its log stands. Always the first item.

    Attributes:
        directory: the journal's.
        cluster_id: whose it is; None where no header can be read. So are the next two.
        node_id: the node.
        incarnation: which life of it, from 1.
        term: the current term, of hard state; None where opening is refused. So are the next six.
        vote: whom the node voted for in it; None for nobody.
        first_index: the oldest entry that can be read; one above `last_index` where none can.
        last_index: the newest entry, or the last that the log follows.
        last_term: its term.
        last_lsn: LSN of the last record.
        oldest_segment: number of the oldest segment that must be there.
        mark_lsn: up to which LSN the mark says records were synced; None where it cannot be read.
        lock_pid: the pid in the lock file: of who holds the lock, or held it last; None where none
            can be read.
        temporaries: files whose writing a crash cut short, or which a node writes now.
    """

    directory: str
    cluster_id: str | None
    node_id: str | None
    incarnation: int | None
    term: int | None
    vote: str | None
    first_index: int | None
    last_index: int | None
    last_term: int | None
    last_lsn: int | None
    oldest_segment: int | None
    mark_lsn: int | None
    lock_pid: int | None
    temporaries: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Segment:
    """One file of the journal.

    Attributes:
        seq: its number, from 1.
        path: the file.
        state: `newest`: the one written to; `full`; `dropped`: the next start removes it;
            `damaged`; `unreadable`: the system did not let us; `unread`: opening stops before it.
        file_bytes: its length.
        used_bytes: up to where its records reach; None where it was not read in order.
        first_lsn: its first record's LSN by its header; None where that cannot be read.
        last_lsn: its last record's; less than `first_lsn` where it has none.
        first_index: the first live entry in it; None where there is none.
        last_index: the last one.
        created_ms: wall clock when it was begun.
    """

    seq: int
    path: str
    state: SegmentState
    file_bytes: int | None
    used_bytes: int | None
    first_lsn: int | None
    last_lsn: int | None
    first_index: int | None
    last_index: int | None
    created_ms: int | None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One snapshot file.

    Attributes:
        index: the last log index whose effects it holds, by its name.
        term: that entry's term, by its name.
        path: the file.
        state: `intact`: every byte was checked; `damaged`; `foreign`: another node's, or another
            life's; `unreadable`: the system did not let us.
        file_bytes: its length; None where header or footer cannot be read. So are the rest.
        content_bytes: its content's.
        chunks: in how many chunks it is.
        checksum: SHA-256 of the content, in hexadecimal, as the file says it.
        config: the membership configuration at `index`.
        created_ms: wall clock when it was begun.
    """

    index: int
    term: int
    path: str
    state: SnapshotState
    file_bytes: int | None
    content_bytes: int | None
    chunks: int | None
    checksum: str | None
    config: bytes | None
    created_ms: int | None


@dataclass(frozen=True, slots=True)
class Record:
    """One record of the journal, its checksums verified.

    Attributes:
        lsn: its place in the sequence, from 1.
        kind: `entry`, `config` (an entry that holds the membership), `state`, `keep`, `reset`,
            `drop`; `unknown-7` for one of a later version.
        index: entry, config: its own; keep: entries above it are taken back; reset: the
            snapshot's that replaces all entries; else None.
        term: of what stands at `index`; state: the current term; None for drop.
        vote: state: whom the node votes for; None for nobody, and for other kinds.
        oldest_segment: drop: segments numbered below it may be gone; None for other kinds.
        synced: highest LSN known durable when it was written.
        data_bytes: length of its data.
        segment: number of the segment it is in.
        offset: where in that file it begins, in bytes.
        checksum: CRC-32 of the data, begun with the segment's salt, in hexadecimal.
        in_order: whether opening reads it; False for one found beyond damage, which is not part
            of the log.
        data: its content.
    """

    lsn: int
    kind: str
    index: int | None
    term: int | None
    vote: str | None
    oldest_segment: int | None
    synced: int
    data_bytes: int
    segment: int
    offset: int
    checksum: str
    in_order: bool
    data: bytes


@dataclass(frozen=True, slots=True)
class Damage:
    """A place that is not as it was written, or cannot be read.

    Attributes:
        path: the file.
        offset: where in it, in bytes.
        reason: what is wrong.
        effect: what opening does about it: `cut`: it is a torn tail, and nothing shows that
            it was acknowledged; `refused`: it refuses; `unread`: it does not get that far, or
            does not look there; `unreadable`: the system does not let it.
    """

    path: str
    offset: int
    reason: str
    effect: Effect


@dataclass(frozen=True, slots=True)
class Verdict:
    """What opening would do, by the code that opens. Always the last item.

    Attributes:
        outcome: `opens`, `opens_after_cutting` a torn tail, `refused`, or `unreadable`: a file
            that opening needs cannot be read, which says nothing about what is in it.
        path: the file that made it more than `opens`; else None. So are the next two.
        offset: where in it, in bytes; None where that is not known.
        reason: why.
        records: how many records opening reads, whatever was selected.
        found: how many more were found beyond damage.
        changed: whether the journal was written to meanwhile: a node runs.
    """

    outcome: Outcome
    path: str | None
    offset: int | None
    reason: str | None
    records: int
    found: int
    changed: bool


Item = Journal | Segment | Snapshot | Record | Damage | Verdict

ITEMS: tuple[type[Item], ...] = (Journal, Segment, Snapshot, Record, Damage, Verdict)
"""All kinds of items."""

_WITH_INDEX = (Kind.ENTRY, Kind.CONFIG, Kind.KEEP, Kind.RESET)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which records are wanted; all else is always listed.

    Attributes:
        index_min: lowest index; with it, records that have no index are left out. None: any.
        index_max: highest index, likewise.
        lsn_min: lowest LSN; None: any.
        lsn_max: highest LSN; None: any.
        limit: only the first so many of those; None: all.
        tail: only the last so many of those; None: all. Applied before `limit`.
        records: whether records are listed at all.
    """

    index_min: int | None = None
    index_max: int | None = None
    lsn_min: int | None = None
    lsn_max: int | None = None
    limit: int | None = None
    tail: int | None = None
    records: bool = True

    def takes(self, record: RawRecord) -> bool:
        """Return whether the ranges hold the record."""
        if not self.records or not _within(record.lsn, self.lsn_min, self.lsn_max):
            return False
        if self.index_min is None and self.index_max is None:
            return True
        return record.kind in _WITH_INDEX and _within(record.index, self.index_min, self.index_max)


def _within(number: int, low: int | None, high: int | None) -> bool:
    return (low is None or low <= number) and (high is None or number <= high)
