"""The journal's half of a listing: one pass that judges, one that shows.

The first pass is the one that opens a journal, `replay.Reading`: what it says is
the verdict. It keeps no record, only where each segment's records are and how
many of them are wanted. Where it stops, what lies beyond is searched for records
whose checksums are good. The second pass reads the wanted ones again, a segment
at a time. What lives here: both. What must never live here: a rule of what is
damaged. Called by: `dump`. Blocking.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice

from coordinator.raft.dump_items import Damage, Effect, Record, Segment, SegmentState, Selection
from coordinator.raft.segments.index import SegmentSpan, Written
from coordinator.raft.segments.layout import (
    RECORD_MAGIC,
    SECTOR_BYTES,
    Header,
    Kind,
    decode_header,
    decode_record,
    record_bytes,
    segment_name,
    segment_seq,
)
from coordinator.raft.segments.layout import Record as RawRecord
from coordinator.raft.segments.replay import Reading, Recovered, TornTail, read_header
from coordinator.raft.segments.scan import Scan, only_zeros
from raftbatch.errors import Corrupt, DiskFailed, Fatal, Overloaded
from raftbatch.ids import Identity
from raftbatch.world import Files, join

_KIND_NAMES: dict[int, str] = {kind: kind.name.lower() for kind in Kind}


@dataclass(slots=True)
class _Run:
    """What opening read of a segment, in order: `count` records up to offset `end`."""

    header: Header
    end: int = SECTOR_BYTES
    count: int = 0
    wanted: int = 0


@dataclass(slots=True)
class Survey:
    """What the first pass found. Made by `survey`.

    Attributes:
        files: the file system.
        directory: the journal's.
        selection: which records are wanted.
        seqs: the numbers of all segment files, ascending.
        recovered: what opening makes of the files; None where it refuses before any record.
        refusal: why opening refuses; None where it does not.
        damage: the place of that, or the torn tail that opening cuts.
        records: how many records opening reads.
        found: how many good ones lie where it does not.
    """

    files: Files
    directory: str
    selection: Selection
    seqs: list[int]
    recovered: Recovered | None = None
    refusal: Corrupt | DiskFailed | None = None
    damage: Damage | None = None
    records: int = 0
    found: int = 0
    _headers: dict[int, Header] = field(default_factory=dict)
    _flaws: dict[int, Damage] = field(default_factory=dict)  # of headers
    _runs: dict[int, _Run] = field(default_factory=dict)
    _torn: TornTail | None = None
    _unread: dict[int, int] = field(default_factory=dict)  # segment: from which offset on
    _wanted: int = 0

    @property
    def identity(self) -> Identity | None:
        """Whose journal it is, by the newest header that can be read."""
        readable = [self._headers[seq].identity for seq in self.seqs if seq in self._headers]
        return readable[-1] if readable else None

    def segments(self) -> Iterator[Segment]:
        """Yield every segment file."""
        spans: dict[int, SegmentSpan] = {}
        if self.recovered is not None:
            index, cursor = self.recovered.index, self.recovered.cursor
            index.apply(Written(cursor.last_index, cursor.offset))  # it may stop within a segment
            spans = {span.seq: span for span in index.spans()}
        for seq in self.seqs:
            header, span = self._headers.get(seq), spans.get(seq)
            run = self._runs.get(seq)
            if run is None and header is not None and seq not in self._unread:
                run = _Run(header)
            if span is not None and span.last_index < span.first_index:
                span = None
            yield Segment(
                seq=seq,
                path=self._path(seq),
                state=self._state(seq),
                file_bytes=self._size(seq),
                used_bytes=run.end if run else None,
                first_lsn=header.base_lsn if header else None,
                last_lsn=run.header.base_lsn + run.count - 1 if run else None,
                first_index=span.first_index if span else None,
                last_index=span.last_index if span else None,
                created_ms=header.created_ms if header else None,
            )

    def listing(self) -> Iterator[Record | Damage]:
        """Yield the wanted records, and every damage, as they stand in the files.

        Records are kept back by `tail` and `limit`, damage never is.
        """
        tail = self.selection.tail
        skip = 0 if tail is None else max(0, self._wanted - tail)
        window = _Window(skip, self.selection.limit)
        for run in self._runs.values():
            if not window.passes_none(run.wanted):
                for item in self._read_again(run):
                    if isinstance(item, Damage) or window.passes():
                        yield item
        if self.damage is not None:
            yield self.damage
        for found in self._search():
            if isinstance(found, Damage):
                yield found
            elif self.selection.takes(found[1]) and window.passes():
                yield shown(*found, in_order=False)

    def take(self, header: Header, record: RawRecord) -> None:
        """Note a record that opening read."""
        run = self._runs.setdefault(header.seq, _Run(header))
        run.end = record.offset + record_bytes(len(record.data))
        run.count += 1
        run.wanted += self.selection.takes(record)
        self.records += 1

    def finish(self, reading: Reading) -> None:
        """Take in the verdict, and look at what opening does not read."""
        for seq in self.seqs:
            try:
                self._headers[seq] = read_header(self.files, self.directory, seq)
            except (Corrupt, DiskFailed) as error:
                self._flaws[seq] = damage_of(error, self._path(seq), "unread")
                self._recover_header(seq)
        if self._runs or self.refusal is None:
            self.recovered = reading.result()
        if self.refusal is not None:
            self.damage = damage_of(self.refusal, self.directory, "refused")
        elif reading.torn is not None:
            self.damage = _torn(reading.torn, "cut")
        self._torn = reading.torn
        self._unread = self._not_read()
        self._wanted = sum(run.wanted for run in self._runs.values())
        for item in self._search():
            if not isinstance(item, Damage):
                self.found += 1
                self._wanted += self.selection.takes(item[1])

    def _recover_header(self, seq: int) -> None:
        """Keep the header of a segment whose length is not the one it says."""
        path = self._path(seq)
        try:
            with closing(self.files.open(path, "read")) as file:
                header = decode_header(path, file.read_at(0, SECTOR_BYTES))
        except (Corrupt, OSError):
            return  # that flaw is told already
        if header.seq == seq:
            self._headers[seq] = header

    @property
    def _bad(self) -> int:
        """The segment in which opening stopped; above all others where it read all of them."""
        assert self.damage is not None
        seq = segment_seq(self.damage.path.rpartition("/")[2])
        # If it is none: the mark, or a missing file.
        return seq if seq in self.seqs and seq else max(self.seqs, default=0) + 1

    def _not_read(self) -> dict[int, int]:
        """Return the segments that opening does not read to the end, and from where on."""
        chain = self.seqs[-1:]  # what opening reads: no gaps, up to the newest
        for seq in reversed(self.seqs[:-1]):
            if seq != chain[0] - 1:
                break
            chain.insert(0, seq)
        unread = {seq: SECTOR_BYTES for seq in self.seqs if seq < chain[0]}
        if self.damage is not None:
            bad = self._bad
            for seq in chain:
                if seq == bad and seq not in self._flaws:
                    unread[seq] = max(self.damage.offset, SECTOR_BYTES)
                elif seq > bad or (bad in self.seqs and not self._runs):
                    unread[seq] = SECTOR_BYTES  # without a sound chain it reads none
        return unread

    def _state(self, seq: int) -> SegmentState:
        """Return what is to be said of a segment."""
        if self.refusal is not None and (seq in self._flaws or seq == self._bad):
            flaw = self._flaws.get(seq, self.damage)
            return "unreadable" if flaw and flaw.effect == "unreadable" else "damaged"
        if self.refusal is None and self.recovered and seq < self.recovered.cursor.oldest:
            return "dropped"
        if self.refusal is not None and seq in self._unread:
            return "unread"
        return "newest" if seq == self.seqs[-1] else "full"

    def _search(self) -> Iterator[tuple[Header, RawRecord] | Damage]:
        """Yield the good records that opening does not read, and what else is wrong there."""
        if self.damage is None:
            return
        if self._torn is not None and self.refusal is not None:
            yield _torn(self._torn, "unread")  # the mark says that it was more than torn
        for seq, start in self._unread.items():
            flaw, path = self._flaws.get(seq), self._path(seq)
            if flaw is not None and path != self.damage.path:
                yield flaw
            if seq not in self._headers:
                continue
            header = self._headers[seq]
            following = self._headers.get(seq + 1)
            data = self._data(header)
            if isinstance(data, Damage):
                yield data
                continue
            for item in search(data, header.salt, start):
                if isinstance(item, RawRecord):
                    if following is not None and item.lsn >= following.base_lsn:
                        break  # a failed attempt left it; the next segment has it again
                    yield header, item
                elif (path, item[0]) != (self.damage.path, self.damage.offset):
                    yield Damage(path, item[0], item[1], "unread")

    def _read_again(self, run: _Run) -> Iterator[Record | Damage]:
        """Yield the wanted ones of the records that were read in order before."""
        data = self._data(run.header)
        if isinstance(data, Damage):
            yield data
            return
        scan = Scan(data, run.header.salt, run.header.base_lsn)
        for record in islice(scan, run.count):
            if self.selection.takes(record):
                yield shown(run.header, record, in_order=True)

    def _data(self, header: Header) -> bytes | Damage:
        """Return a segment's bytes, or why they cannot be had."""
        path = self._path(header.seq)
        try:
            with closing(self.files.open(path, "read")) as file:
                return file.read_at(0, min(file.size(), header.size))
        except OSError as error:
            return unreadable(path, error)

    def _size(self, seq: int) -> int | None:
        try:
            with closing(self.files.open(self._path(seq), "read")) as file:
                return file.size()
        except OSError:
            return None

    def _path(self, seq: int) -> str:
        return join(self.directory, segment_name(seq))


@dataclass(slots=True)
class _Window:
    """Passes what comes after the first `skip`, and of that the first `left`."""

    skip: int
    left: int | None

    def passes(self) -> bool:
        """Return whether the next one is passed."""
        if self.skip:
            self.skip -= 1
            return False
        if self.left is None:
            return True
        self.left -= 1
        return self.left >= 0

    def passes_none(self, count: int) -> bool:
        """Return whether none of the next `count` is passed; if so, they are over."""
        if count > self.skip and self.left != 0:
            return False
        self.skip = max(0, self.skip - count)
        return True


def survey(files: Files, directory: str, selection: Selection) -> Survey:
    """Read a whole journal as opening does, and search what opening would not read.

    Args:
        files: should stand still (`dump_view`).
        directory: the journal's.
        selection: which records to count as wanted.

    Raises:
        CannotStart: there is no journal.
    """
    names = files.list(directory)
    seqs = [seq for name in names if (seq := segment_seq(name)) is not None]
    found = Survey(files, directory, selection, seqs)
    reading = Reading(files, directory)
    try:
        for header, record in reading.records():
            found.take(header, record)
    except (Corrupt, DiskFailed) as error:
        found.refusal = error
    found.finish(reading)
    return found


def search(data: bytes, salt: int, offset: int) -> Iterator[RawRecord | tuple[int, str]]:
    """Yield good records from `offset` on, wherever they begin.

    For each place where one is due but is not: its offset, and why. Whatever the
    bytes are, each is looked at a bounded number of times. Total. Deterministic.
    """
    view = memoryview(data)
    while not only_zeros(view, offset):
        record = decode_record(view, offset, salt)
        if isinstance(record, str):
            yield offset, record
            following = _next_record(data, salt, offset + 8)
            if following is None:
                return
            record = following
        yield record
        offset = record.offset + record_bytes(len(record.data))


def _next_record(data: bytes, salt: int, offset: int) -> RawRecord | None:
    """Return the first good record at or behind `offset`."""
    view = memoryview(data)
    while (offset := data.find(RECORD_MAGIC, offset)) >= 0:
        if offset % 8 == 0:
            record = decode_record(view, offset, salt)
            if not isinstance(record, str):
                return record
        offset += 1
    return None


def damage_of(error: Fatal | Overloaded, path: str, effect: Effect) -> Damage:
    """Return an error as an item; `path` for one that names none. Total. Deterministic."""
    if isinstance(error, Corrupt):
        return Damage(error.path, error.offset, error.reason, effect)
    cause = error.__cause__
    if isinstance(cause, Overloaded):  # opening makes it a refusal to start
        cause = cause.__cause__
    return (
        unreadable(path, cause)
        if isinstance(cause, OSError)
        else Damage(path, 0, str(error), effect)
    )


def unreadable(path: str, error: OSError) -> Damage:
    """Return why a file cannot be read; `path` where the error names none."""
    place = error.filename if isinstance(error.filename, str) else path
    return Damage(place, 0, f"it cannot be read: {error.strerror or error}", "unreadable")


def _torn(tail: TornTail, effect: Effect) -> Damage:
    return Damage(tail.path, tail.offset, tail.reason, effect)


def shown(header: Header, record: RawRecord, *, in_order: bool) -> Record:
    """Return a record as an item. Total. Deterministic."""
    kind = record.kind
    data = bytes(record.data)
    vote = data.decode("ascii", "backslashreplace") if kind == Kind.STATE else ""
    return Record(
        lsn=record.lsn,
        kind=_KIND_NAMES.get(kind) or f"unknown-{kind}",
        index=record.index if kind not in (Kind.STATE, Kind.DROP) else None,
        term=record.term if kind != Kind.DROP else None,
        vote=vote or None,
        oldest_segment=record.index if kind == Kind.DROP else None,
        synced=record.synced,
        data_bytes=len(data),
        segment=header.seq,
        offset=record.offset,
        checksum=f"{zlib.crc32(data, header.salt):08x}",
        in_order=in_order,
        data=data,
    )
