"""What the bytes of a segment mean.

A journal is a directory of segments, numbered without gaps, and a `mark`. A
segment is a preallocated file: a header in its first sector, then records, each
at a multiple of 8 bytes, then zeros. Records are only ever added: taking entries
back is a record too, so that a record's place in the sequence (its *LSN*, from
1, without gaps over all segments) says what was true when.

What lives here: encoding and decoding of records and headers. What
must never live here: a file, or a decision about damage (`scan` judges).
Called by: `scan`, `writer`, `recovery`. Total. Deterministic.

Record, little-endian, 48 bytes before its data:

    3s  magic       u64  lsn      this record's place in the sequence
    u8  kind        u64  synced   highest LSN known durable when this was written
    u32 length      u64  term     see `Kind`
                    u64  index    see `Kind`
                    u32  CRC-32 of the data     u32  CRC-32 of the 44 bytes before

Both checksums begin with the segment's random salt, so that bytes of another
segment, or bytes that a client sent as its payload, are no record here.
CRC-32 rather than CRC-32C: zlib's runs at some 4 GB/s and comes with Python.

`synced` is how damage is told from a torn write. What was acknowledged was
synced; a record that was synced is named so by every later group. So a bad
record followed by a good one whose `synced` covers it was acknowledged: refuse.
A bad record that nothing vouches for is taken for a torn write: the log ends there.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from coordinator.raft.blocks import (
    IDENTITY_KINDS,
    Value,
    decode_block,
    decode_identity,
    encode_block,
    identity_values,
)
from raftbatch.errors import Corrupt
from raftbatch.ids import Identity, NodeId

SECTOR_BYTES = 512
"""What a disk writes as a whole or not at all; a header fits into one."""

RECORD_MAGIC = b"\xa7RJ"
HEAD_BYTES = 48
COPIED_BYTES_MAX = 4096
NUMBER_MAX = (1 << 63) - 1
"""No term or index is higher, in any record, whoever proposes it."""

DATA_BYTES_MAX = 1 << 30
"""No record is longer, whatever its head says."""

_HEAD = struct.Struct("<3sBIQQQQI")
_CHECKED_BYTES = _HEAD.size  # 44: what the head's own checksum covers
_CRC = struct.Struct("<I")
_WHOLE_HEAD = struct.Struct("<3sBIQQQQII")

SEGMENT_MAGIC = b"RBSEG001"
TEMPORARY = ".tmp"

_SEGMENT_PREFIX = "segment-"
_PADS = tuple(bytes(length) for length in range(8))


class Kind(IntEnum):
    """What a record says, and what its term, index and data are.

    The log's *last* is the index and term of its last entry.
    """

    ENTRY = 1
    """An entry of that term at that index, one above the last; data is its content."""
    STATE = 2
    """Hard state: that current term, and data is the id voted for in it, or empty."""
    KEEP = 3
    """Entries above that index are taken back; the one at it (the last now) has that term."""
    RESET = 4
    """All entries are gone; a snapshot whose last index and term these are replaces them."""
    DROP = 5
    """Segments numbered below that index may be gone; term is 0."""
    CONFIG = 6
    """The same as `ENTRY`, but that data is a membership (`membership`)."""


ENTRY_KINDS = (Kind.ENTRY, Kind.CONFIG)
"""The kinds that add an entry to the log."""


class Entry(NamedTuple):
    """What stands at one index of the log.

    Attributes:
        index: from 1, without gaps.
        term: in which a leader appended it; never decreases.
        data: its content, opaque here.
        is_config: whether that is a membership, in its encoded form.
    """

    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody asks for
    term: int
    data: bytes
    is_config: bool = False


class Record(NamedTuple):
    """A record as read back.

    Attributes:
        kind: a `Kind`, as its plain number.
        lsn: its place in the sequence.
        synced: highest LSN durable when it was written.
        term: see `Kind`.
        index: see `Kind`.
        offset: where its head begins in the segment, in bytes.
        data: its content, a view into the segment's bytes.
    """

    kind: int
    lsn: int
    synced: int
    term: int
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody asks for
    offset: int
    data: memoryview


class HardState(NamedTuple):
    """What Raft must remember across a restart besides the log.

    Attributes:
        term: the current term, from 0.
        vote: whom this node voted for in it; None for nobody.
    """

    term: int
    vote: NodeId | None


@dataclass(frozen=True, slots=True)
class Header:
    """What a segment says of itself, written once, durable before the first record.

    With it a journal can be opened from any segment on, the earlier ones gone.

    Attributes:
        identity: whose journal this is.
        seq: the segment's number, from 1.
        size: length of the file in bytes; a file of another length is damaged.
        salt: 32 random bits that begin every checksum in the segment.
        base_lsn: LSN of the first record. All before are durable in the segments before.
        oldest: number of the oldest segment that must be there.
        last_index: the log's last index where the segment begins.
        last_term: its term.
        hard_state: the hard state there.
        created_ms: wall clock, for display and retention.
    """

    identity: Identity
    seq: int
    size: int
    salt: int
    base_lsn: int
    oldest: int
    last_index: int
    last_term: int
    hard_state: HardState
    created_ms: int


def record_bytes(length: int) -> int:
    """Return the bytes that a record with `length` bytes of data takes in a segment."""
    return HEAD_BYTES + length + (-length & 7)


def encode_records(
    records: Iterable[tuple[int, int, int, int, bytes]], synced: int, salt: int
) -> list[bytes]:
    """Return the bytes of records that follow one another, in few buffers.

    Large data is passed through as it is; small data is copied behind its head,
    which costs less than a buffer of its own would cost the kernel.

    Args:
        records: kind, LSN, term, index and data of each.
        synced: highest LSN durable now.
        salt: of the segment.
    """
    pack, crc, crc_bytes = _HEAD.pack, zlib.crc32, _CRC.pack
    buffers: list[bytes] = []
    small: list[bytes] = []
    for kind, lsn, term, index, data in records:
        length = len(data)
        head = pack(RECORD_MAGIC, kind, length, lsn, synced, term, index, crc(data, salt))
        small += (head, crc_bytes(crc(head, salt)))
        if length > COPIED_BYTES_MAX:
            buffers += (b"".join(small), data)
            small = [_PADS[-length & 7]]
        else:
            small += (data, _PADS[-length & 7])
    buffers.append(b"".join(small))
    return buffers


def decode_record(data: memoryview, offset: int, salt: int) -> Record | str:
    """Read the record at `offset` of a segment's bytes, or say why there is none."""
    if offset + HEAD_BYTES > len(data):
        return "the file ends within a record's head"
    magic, kind, length, lsn, synced, term, index, data_crc, head_crc = _WHOLE_HEAD.unpack_from(
        data, offset
    )
    if magic != RECORD_MAGIC:
        return "no record begins here"
    if zlib.crc32(data[offset : offset + _CHECKED_BYTES], salt) != head_crc:
        return "the checksum of a record's head does not match"
    start = offset + HEAD_BYTES
    content = data[start : start + length]
    if len(content) < length or length > DATA_BYTES_MAX:
        return "the file ends within a record's data"
    if zlib.crc32(content, salt) != data_crc:
        return "the checksum of a record's data does not match"
    return Record(kind, lsn, synced, term, index, offset, content)


def decode_head(data: memoryview, offset: int, salt: int) -> tuple[int, int] | None:
    """Return LSN and `synced` of a head at `offset`, whatever its data; None if there is none."""
    if offset + HEAD_BYTES > len(data):
        return None
    magic, _, _, lsn, synced, _, _, _, head_crc = _WHOLE_HEAD.unpack_from(data, offset)
    if (
        magic != RECORD_MAGIC
        or zlib.crc32(data[offset : offset + _CHECKED_BYTES], salt) != head_crc
    ):
        return None
    return lsn, synced


def segment_name(seq: int) -> str:
    """Return the file name of a segment; names sort as the numbers do."""
    return f"{_SEGMENT_PREFIX}{seq:020d}"


def segment_seq(name: str) -> int | None:
    """Return the number in a segment's name; None for any other name."""
    digits = name.removeprefix(_SEGMENT_PREFIX)
    if digits == name or len(digits) != 20 or not (digits.isascii() and digits.isdecimal()):
        return None
    return int(digits)


_HEADER_KINDS: tuple[type[Value], ...] = (
    *IDENTITY_KINDS,
    *(int,) * 8,
    str,
    int,
)


def encode_header(header: Header) -> bytes:
    """Return the segment's first sector."""
    block = encode_block(
        SEGMENT_MAGIC,
        [
            *identity_values(header.identity),
            header.seq,
            header.size,
            header.salt,
            header.base_lsn,
            header.oldest,
            header.last_index,
            header.last_term,
            header.hard_state.term,
            header.hard_state.vote or "",
            header.created_ms,
        ],
    )
    # 2 ids of at most 63 bytes, 32 digits and 10 integers of at most 9 bytes: under 300 bytes.
    assert len(block) <= SECTOR_BYTES, "the first record would overwrite the header"
    return block.ljust(SECTOR_BYTES, b"\0")


def decode_header(path: str, data: bytes) -> Header:
    """Read a segment's first sector.

    Raises:
        Corrupt: it is damaged, or of another format.
    """
    values, _ = decode_block(path, 0, data[:SECTOR_BYTES], SEGMENT_MAGIC, _HEADER_KINDS)
    numbers = [value for value in values if isinstance(value, int)]
    _, seq, size, salt, base_lsn, oldest, last_index, last_term, term, created_ms = numbers
    vote = values[-2]
    assert isinstance(vote, str)
    in_range = not salt >> 32 and size >= SECTOR_BYTES and base_lsn >= 1 <= oldest <= seq
    if min(numbers) < 0 or not in_range:
        raise Corrupt(path, 0, "the header's fields are out of range")
    return Header(
        identity=decode_identity(path, 0, values[:3]),
        seq=seq,
        size=size,
        salt=salt,
        base_lsn=base_lsn,
        oldest=oldest,
        last_index=last_index,
        last_term=last_term,
        hard_state=HardState(term, NodeId(vote) if vote else None),
        created_ms=created_ms,
    )
