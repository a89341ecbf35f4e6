"""Where in the segments each live entry is.

Sparse: an *anchor* about every 64 KiB, so that a gigabyte of small entries
costs some 400 KB of memory. From an anchor on, entries stand in index order up
to the next anchor's index, other records between them. What lives here: the
anchors, and what becomes of them as records are written. What must never live
here: a file. Called by: the journal, which tells it what the writer or
recovery placed, in LSN order. Total. Deterministic.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import NamedTuple

ANCHOR_BYTES = 64 * 1024
"""Distance of anchors: what a read may have to skip, against 20 bytes of memory each."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A segment was begun; the log's last index was then `last_index`."""

    seq: int
    salt: int
    size: int
    base_lsn: int
    last_index: int
    created_ms: int


@dataclass(frozen=True, slots=True)
class Placed:
    """The entry at `index` begins at `offset` of segment `seq`: an anchor."""

    index: int
    seq: int
    offset: int


@dataclass(frozen=True, slots=True)
class Written:
    """Entries up to `last_index` are written, the newest segment filled up to `end`."""

    last_index: int
    end: int


@dataclass(frozen=True, slots=True)
class Kept:
    """Entries above `index` were taken back."""

    index: int


@dataclass(frozen=True, slots=True)
class Restarted:
    """All entries are gone; the log goes on after `index`."""

    index: int


@dataclass(frozen=True, slots=True)
class Dropped:
    """Segments numbered below `seq` are gone."""

    seq: int


Event = Opened | Placed | Written | Kept | Restarted | Dropped


class Piece(NamedTuple):
    """A run of a segment's bytes which holds the entries `first` to `last`, in order.

    Other entries may precede them. `end` bounds the bytes worth reading.
    """

    seq: int
    salt: int
    offset: int
    end: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class SegmentSpan:
    """A segment of the journal, as far as retention is concerned.

    Attributes:
        seq: its number.
        first_index: index of the first live entry in it.
        last_index: index of the last; `first_index - 1` where there is none.
        bytes: what it takes on disk.
        sealed_ms: wall clock when it was sealed; of no account for the open one.
    """

    seq: int
    first_index: int
    last_index: int
    bytes: int
    sealed_ms: int


class Anchoring:
    """Decides which entries become anchors; the writer and recovery ask the same way.

    An entry is one where a segment begins, where entries were taken back, and
    where the last is far enough behind.
    """

    def __init__(self) -> None:
        self._seq = 0
        self._offset = 0

    def is_anchor(self, seq: int, offset: int) -> bool:
        """Return whether the entry placed here is an anchor; called for each entry in order."""
        if offset < self.due(seq):
            return False
        self._seq, self._offset = seq, offset
        return True

    def due(self, seq: int) -> int:
        """Return the offset in segment `seq` before which an entry is no anchor."""
        return self._offset + ANCHOR_BYTES if seq == self._seq else 0

    def interrupt(self) -> None:
        """Make the next entry an anchor: entries were taken back before it."""
        self._seq = 0


@dataclass(slots=True)
class _Segment:
    """A segment's facts, and where its records end as far as they are written."""

    opened: Opened
    end: int


class Index:
    """The anchors of the live log.

    Attributes:
        base: index before the first entry that can be read.
        last: index of the last entry written; below base nothing, equal: empty.
    """

    def __init__(self) -> None:
        self.base = 0
        self.last = 0
        self._segments: dict[int, _Segment] = {}  # by number; numbers only grow
        self._indices = array("Q")
        self._seqs = array("Q")
        self._offsets = array("Q")

    @property
    def oldest(self) -> int:
        """Number of the oldest segment."""
        return next(iter(self._segments))

    @property
    def newest(self) -> int:
        """Number of the newest segment."""
        return next(reversed(self._segments))

    def apply(self, event: Event) -> None:
        """Take in one event."""
        match event:
            case Opened():
                if not self._segments:
                    self.base = self.last = event.last_index
                self._segments[event.seq] = _Segment(event, 0)
            case Placed(index, seq, offset):
                self._indices.append(index)
                self._seqs.append(seq)
                self._offsets.append(offset)
            case Written(last_index, end):
                self.last = last_index
                self._segments[self.newest].end = end
            case Kept(index):
                self._forget_above(index)
                self.last = index
                self.base = min(self.base, index)
            case Restarted(index):
                self._forget_above(0)
                self.base = self.last = index
            case Dropped(seq):
                self._drop(seq)

    def boundary(self, index: int) -> int:
        """Return the number of the first segment that entries above `index` need."""
        if index >= self.last:
            return self.newest
        at = bisect_right(self._indices, index + 1) - 1
        return self._seqs[at] if at >= 0 else self.oldest

    def pieces(self, first: int, last: int, bytes_max: int) -> list[Piece]:
        """Return the pieces to read, in order, for entries from `first` to `last`.

        Args:
            first: above `base`.
            last: at most the last index written.
            bytes_max: stop after the piece with which they reach so many bytes.
        """
        pieces: list[Piece] = []
        at = bisect_right(self._indices, first) - 1
        while first <= last and bytes_max > 0:
            seq, offset = self._seqs[at], self._offsets[at]
            segment = self._segments[seq]
            following = at + 1 < len(self._indices)
            until = min(last, self._indices[at + 1] - 1) if following else last
            # A next anchor in the same segment bounds the piece, even if entries
            # between were taken back: the ones wanted stand before those.
            same = following and self._seqs[at + 1] == seq
            end = self._offsets[at + 1] if same else segment.end
            pieces.append(Piece(seq, segment.opened.salt, offset, end, first, until))
            bytes_max -= end - offset
            first = until + 1
            at += 1
        return pieces

    def spans(self) -> list[SegmentSpan]:
        """Return the segments, oldest first, each with the live entries it holds."""
        spans = []
        segments = [segment.opened for segment in self._segments.values()]
        for opened, following in zip(segments, [*segments[1:], segments[-1]], strict=True):
            at = bisect_left(self._seqs, opened.seq)
            after = bisect_left(self._seqs, opened.seq + 1)
            last = self._indices[after] - 1 if after < len(self._indices) else self.last
            first = self._indices[at] if at < after else last + 1
            spans.append(SegmentSpan(opened.seq, first, last, opened.size, following.created_ms))
        return spans

    def _forget_above(self, index: int) -> None:
        """Remove the anchors of entries above `index`."""
        at = bisect_right(self._indices, index)
        del self._indices[at:]
        del self._seqs[at:]
        del self._offsets[at:]

    def _drop(self, seq: int) -> None:
        """Forget segments below `seq`, and the anchors in them."""
        for old in [number for number in self._segments if number < seq]:
            del self._segments[old]
        at = bisect_left(self._seqs, seq)
        del self._indices[:at]
        del self._seqs[:at]
        del self._offsets[:at]
        self.base = max(self.base, self._indices[0] - 1 if self._indices else self.last)
