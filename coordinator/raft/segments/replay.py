"""Reading a whole journal in order, every byte and every claim checked.

Every byte is held against its checksum, and what one part says of another
against that: a header against the records before it, the last record against
the mark. A torn tail, which no acknowledgement can have depended on, is
reported; anything else that does not fit is `Corrupt`, with the file and the
offset. Nothing is ever skipped.

What lives here: the pass over the files. What must never live here: a change to
any. Called by: `recovery`; offline tools. Blocking.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field

from coordinator.raft.failures import disk_errors
from coordinator.raft.membership import decode as decode_membership
from coordinator.raft.segments.configs import Configs
from coordinator.raft.segments.index import Anchoring, Index, Written
from coordinator.raft.segments.layout import (
    SECTOR_BYTES,
    Entry,
    Header,
    Kind,
    Record,
    decode_header,
    segment_name,
    segment_seq,
)
from coordinator.raft.segments.mark import MARK_NAME, Mark
from coordinator.raft.segments.scan import Scan
from coordinator.raft.segments.terms import Terms
from coordinator.raft.segments.writer import Cursor, opened, placement
from raftbatch.errors import CannotStart, Corrupt
from raftbatch.ids import Identity, is_node_id
from raftbatch.world import Files, join

Progress = Callable[[int, int], None]
"""Told bytes read and bytes in all, after each segment."""

_ADVICE = (
    "Acknowledged data is damaged: do not start this node on it. Keep a copy of the directory, "
    "then add the node again as a new member; it will receive everything from the others"
)


@dataclass(slots=True)
class Recovered:
    """What the files say.

    Attributes:
        identity: whose journal it is.
        cursor: where the next record goes.
        index: where the entries are.
        terms: of the entries.
        configs: those entries that hold a membership.
        anchoring: to go on with.
        repairs: what was cut or cleared away, each a sentence for the log.
    """

    identity: Identity
    cursor: Cursor
    index: Index
    terms: Terms
    configs: Configs
    anchoring: Anchoring
    repairs: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class TornTail:
    """Where a torn tail begins, of which nothing shows that it was acknowledged.

    Attributes:
        path: the segment.
        offset: where in it, in bytes.
        reason: why no record is there.
    """

    path: str
    offset: int
    reason: str

    def __str__(self) -> str:
        """Return a sentence for the log."""
        return (
            f"{self.path} at offset {self.offset}: {self.reason}; cut there: nothing shows that "
            "it was acknowledged"
        )


def is_initialised(files: Files, directory: str) -> bool:
    """Return whether a journal was ever begun there; a crash while creating one begins none.

    Raises:
        Corrupt: the mark is damaged.
        DiskFailed: it cannot be looked into.
    """
    with disk_errors(f"looking into {directory}"):
        names = files.list(directory) if files.exists(directory) else []
    if any(segment_seq(name) is not None for name in names):
        return True
    # The mark is made before the first segment: alone it is a journal only if it says so.
    return MARK_NAME in names and read_mark(files, directory) > 0


class Reading:
    """One pass over a journal's files; changes nothing. Iterate `records`, then ask `result`.

    Attributes:
        torn: the torn tail of the newest segment; None where it has none.
        group_offset: where the last group of the newest segment begins.
    """

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory
        self._index = Index()
        self._anchoring = Anchoring()
        self._terms = Terms(0, 0)
        self._configs = Configs()
        self._cursor: Cursor | None = None
        self._headers: list[Header] = []
        self.torn: TornTail | None = None
        self.group_offset = SECTOR_BYTES

    def records(self, progress: Progress | None = None) -> Iterator[tuple[Header, Record]]:
        """Yield every record in order, with the header of its segment.

        Raises:
            Corrupt: as soon as something does not fit.
            CannotStart: there is no journal.
        """
        self._headers = _chain(self._files, self._directory)
        total = sum(header.size for header in self._headers)
        read = 0
        for header, following in zip(self._headers, [*self._headers[1:], None], strict=True):
            self._begin(header)
            yield from self._segment(header, following)
            read += header.size
            if progress is not None:
                progress(read, total)
        self._check_end()

    def result(self) -> Recovered:
        """Return what all records together say."""
        cursor = self._cursor
        assert cursor is not None, "records() comes first"
        recovered = Recovered(
            cursor.header.identity,
            cursor,
            self._index,
            self._terms,
            self._configs,
            self._anchoring,
        )
        if self.torn:
            recovered.repairs.append(str(self.torn))
        return recovered

    def _path(self, header: Header) -> str:
        return join(self._directory, segment_name(header.seq))

    def _begin(self, header: Header) -> None:
        """Hold a header against what was read before it."""
        path, cursor = self._path(header), self._cursor
        if cursor is None:
            self._cursor = Cursor(
                header,
                SECTOR_BYTES,
                header.base_lsn - 1,
                header.oldest,
                header.last_index,
                header.last_term,
                header.hard_state,
            )
            self._terms.reset(header.last_index, header.last_term)
        else:
            said = (header.last_index, header.last_term, header.hard_state, header.identity)
            found = (
                cursor.last_index,
                cursor.last_term,
                cursor.hard_state,
                cursor.header.identity,
            )
            if said != found:
                raise Corrupt(path, 0, f"it follows {found}, but says {said}. {_ADVICE}")
            cursor.header, cursor.offset = header, SECTOR_BYTES
            cursor.oldest = max(cursor.oldest, header.oldest)
        self._index.apply(opened(header))

    def _segment(self, header: Header, following: Header | None) -> Iterator[tuple[Header, Record]]:
        """Yield one segment's records, and judge its end."""
        path, cursor = self._path(header), self._cursor
        assert cursor is not None
        with disk_errors(f"reading {path}"), closing(self._files.open(path, "read")) as file:
            data = file.read_at(0, header.size)
        scan = Scan(data, header.salt, header.base_lsn)
        self.group_offset, synced = SECTOR_BYTES, -1
        for record in scan:
            if following is not None and record.lsn >= following.base_lsn:
                break  # what a failed attempt left behind; the next segment has it again
            self._take(path, header, record)
            if record.synced != synced:
                self.group_offset, synced = record.offset, record.synced
            yield header, record
        cursor.lsn = min(scan.lsn, following.base_lsn if following else scan.lsn) - 1
        cursor.offset = scan.end
        self._index.apply(Written(cursor.last_index, cursor.offset))
        if following is not None:
            if cursor.lsn != following.base_lsn - 1:
                why = scan.flaw or "the rest is zeros"
                raise Corrupt(
                    path,
                    scan.end,
                    f"{why}, but records up to LSN {following.base_lsn - 1} were acknowledged "
                    f"here. {_ADVICE}",
                )
            return
        self._judge_tail(path, scan)

    def _take(self, path: str, header: Header, record: Record) -> None:
        """Apply one record, if it can follow what came before."""
        cursor = self._cursor
        assert cursor is not None
        problem = _misfit(cursor, self._terms, record)
        if problem:
            raise Corrupt(path, record.offset, f"{problem}. {_ADVICE}")
        event = placement(self._anchoring, record.kind, record.index, header.seq, record.offset)
        if event is not None:
            self._index.apply(event)
        match record.kind:
            case Kind.ENTRY:
                self._terms.append(record.index, record.term)
            case Kind.CONFIG:
                self._terms.append(record.index, record.term)
                entry = Entry(record.index, record.term, bytes(record.data), is_config=True)
                self._configs.append(entry)
            case Kind.KEEP:
                self._terms.keep(record.index, record.term)
                self._configs.keep(record.index)
            case Kind.RESET:
                self._terms.reset(record.index, record.term)
                self._configs.keep(0)
            case Kind.DROP:
                self._terms.forget_below(self._index.base)
                self._configs.forget_below(self._index.base)
        cursor.advance(Kind(record.kind), record.term, record.index, record.data)

    def _judge_tail(self, path: str, scan: Scan) -> None:
        """Tell a torn tail, of which nothing shows that it was acknowledged, from damage."""
        if scan.flaw is None:
            return
        witness = scan.vouched()
        if witness is not None:
            raise Corrupt(
                path,
                scan.end,
                f"{scan.flaw}, but the record with LSN {witness} shows that it was "
                f"acknowledged. {_ADVICE}",
            )
        self.torn = TornTail(path, scan.end, scan.flaw)

    def _check_end(self) -> None:
        """Hold the last record against the mark."""
        cursor = self._cursor
        assert cursor is not None
        marked = read_mark(self._files, self._directory)
        if marked > cursor.lsn:
            raise Corrupt(
                self._path(cursor.header),
                cursor.offset,
                f"records end with LSN {cursor.lsn}, but up to {marked} were acknowledged. "
                f"{_ADVICE}",
            )
        first = self._headers[0].seq
        if cursor.oldest < first:
            # Older ones may be there: the chain ends where one is not.
            missing = join(self._directory, segment_name(first - 1))
            raise Corrupt(missing, 0, f"the file is missing. {_ADVICE}")


def _misfit(cursor: Cursor, terms: Terms, record: Record) -> str | None:
    """Return why a record cannot follow what came before it; None if it can."""
    last, term = cursor.last_index, cursor.last_term
    match record.kind:
        case Kind.ENTRY | Kind.CONFIG if record.index != last + 1 or record.term < term:
            return f"entry {record.index} of term {record.term} follows {last} of term {term}"
        case Kind.CONFIG if not _is_membership(record.data):
            return f"entry {record.index} is said to be a membership, which it is not"
        case Kind.KEEP if record.index > last:
            return f"entries above {record.index} taken back where the last is {last}"
        case Kind.KEEP if record.index >= terms.base and record.term != terms.of(record.index):
            return f"entry {record.index} is said to be of term {record.term}, which it is not"
        case Kind.STATE if record.term < cursor.hard_state.term:
            return f"term {record.term} follows term {cursor.hard_state.term}"
        case Kind.STATE if not _may_vote(cursor, record):
            return f"the vote in term {record.term} is no node id, or another than before"
        case Kind.DROP if record.index > cursor.header.seq:
            return f"segments below {record.index} dropped in segment {cursor.header.seq}"
        case Kind.ENTRY | Kind.CONFIG | Kind.KEEP | Kind.RESET | Kind.STATE | Kind.DROP:
            return None
        case _:
            return f"records of kind {record.kind} are unknown to this version"


def _is_membership(data: memoryview) -> bool:
    """Return whether these are the bytes of a membership."""
    try:
        decode_membership(bytes(data))
    except ValueError:
        return False
    return True


def _may_vote(cursor: Cursor, record: Record) -> bool:
    """Return whether a record's vote can follow: it is given once in a term."""
    vote, before = bytes(record.data), cursor.hard_state
    is_id = not vote or (vote.isascii() and is_node_id(vote.decode("ascii")))
    is_given = record.term == before.term and before.vote is not None
    return is_id and (not is_given or vote == str(before.vote).encode("ascii"))


def _chain(files: Files, directory: str) -> list[Header]:
    """Return the headers of the segments that follow one another up to the newest."""
    if not is_initialised(files, directory):
        raise CannotStart(f"{directory} holds no journal")
    with disk_errors(f"looking into {directory}"):
        names = files.list(directory)
    seqs = [seq for name in names if (seq := segment_seq(name)) is not None]
    if not seqs:
        raise Corrupt(join(directory, segment_name(1)), 0, f"all segments are missing. {_ADVICE}")
    headers = [read_header(files, directory, seqs[-1])]
    for seq in reversed(seqs[:-1]):
        if seq != headers[-1].seq - 1:
            break  # below it only what was dropped may be missing: `_check_end` looks
        headers.append(read_header(files, directory, seq))
    return headers[::-1]


def read_identity(files: Files, directory: str) -> Identity:
    """Return whose journal it is, by the header of its newest segment.

    Raises:
        Corrupt: that is damaged, or missing.
        CannotStart: there is no journal.
        DiskFailed: it cannot be read.
    """
    return _chain(files, directory)[-1].identity


def read_header(files: Files, directory: str, seq: int) -> Header:
    """Read a segment's header and hold it against the file.

    Raises:
        Corrupt: it is damaged, or another's.
        DiskFailed: it cannot be read.
    """
    path = join(directory, segment_name(seq))
    with disk_errors(f"reading {path}"), closing(files.open(path, "read")) as file:
        data, size = file.read_at(0, SECTOR_BYTES), file.size()
    try:
        header = decode_header(path, data)
    except Corrupt as damage:
        raise Corrupt(path, damage.offset, f"{damage.reason}. {_ADVICE}") from None
    if header.seq != seq:
        raise Corrupt(path, 0, f"it says that it is segment {header.seq}. {_ADVICE}")
    if header.size != size:
        reason = f"it is {size} bytes long, not {header.size}. {_ADVICE}"
        raise Corrupt(path, min(size, header.size), reason)
    return header


def read_mark(files: Files, directory: str) -> int:
    """Return the LSN in the mark.

    Raises:
        Corrupt: it is damaged, or missing.
        DiskFailed: it cannot be read.
    """
    path = join(directory, MARK_NAME)
    with disk_errors(f"looking for {path}"):
        is_there = files.exists(path)
    if not is_there:
        raise Corrupt(path, 0, f"the file is missing. {_ADVICE}")
    with disk_errors(f"reading {path}"), closing(files.open(path, "read")) as file:
        try:
            return Mark(path, file).lsn
        except Corrupt as damage:
            raise Corrupt(path, damage.offset, f"{damage.reason}. {_ADVICE}") from None
