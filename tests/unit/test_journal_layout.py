"""The bytes of a journal: pinned, read back, and refused where they were changed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.raft.segments.layout import (
    COPIED_BYTES_MAX,
    HEAD_BYTES,
    SECTOR_BYTES,
    HardState,
    Header,
    Kind,
    Record,
    decode_header,
    decode_record,
    encode_header,
    encode_records,
    record_bytes,
    segment_name,
    segment_seq,
)
from coordinator.raft.segments.mark import encode_mark
from coordinator.raft.segments.scan import Scan
from raftbatch.errors import Corrupt
from raftbatch.ids import ClusterId, Identity, NodeId

HEADER = Header(
    identity=Identity(ClusterId("00112233445566778899aabbccddeeff"), NodeId("n1"), 2),
    seq=7,
    size=16_384,
    salt=0xDEADBEEF,
    base_lsn=41,
    oldest=3,
    last_index=1 << 40,
    last_term=9,
    hard_state=HardState(10, NodeId("n3")),
    created_ms=1_700_000_000_000,
)

NUMBERS = st.integers(0, (1 << 64) - 1)


def encoded(
    kind: Kind, lsn: int, synced: int, term: int, index: int, data: bytes, salt: int
) -> bytes:
    """Return the bytes of one record."""
    return b"".join(encode_records([(kind, lsn, term, index, data)], synced, salt))


def test_record_bytes_are_pinned() -> None:
    """A journal written today is read by every later version."""
    assert encoded(Kind.ENTRY, 5, 4, 3, 2, b"hello", 1).hex() == (
        "a7524a01"
        "05000000"
        "0500000000000000"
        "0400000000000000"
        "0300000000000000"
        "0200000000000000"
        "368f700b"
        "67ca4e31"
        "68656c6c6f"
        "000000"
    )


def test_header_bytes_are_pinned() -> None:
    """The header too."""
    assert encode_header(HEADER).rstrip(b"\0").hex() + "00" == (
        "5242534547303031490000005b24f0a8"  # magic, length, checksum
        "9dd920"
        "3030313132323333343435353636373738383939616162626363646465656666"
        "a26e31"
        "02"
        "07"
        "cd4000"
        "cedeadbeef"
        "29"
        "03"
        "cf0000010000000000"
        "09"
        "0a"
        "a26e33"
        "cf0000018bcfe56800"
    )


def test_mark_bytes_are_pinned() -> None:
    """And the mark."""
    assert encode_mark(300).hex() == "52424d41524b3031040000006c010c9691cd012c" + "00" * 12


@given(st.sampled_from(Kind), NUMBERS, NUMBERS, NUMBERS, NUMBERS, st.binary(max_size=100))
def test_record_is_read_back(
    kind: Kind, lsn: int, synced: int, term: int, index: int, data: bytes
) -> None:
    """Whatever its fields are, and wherever it stands."""
    raw = encoded(kind, lsn, synced, term, index, data, 77)
    assert len(raw) == record_bytes(len(data))
    assert len(raw) % 8 == 0
    expected = Record(kind, lsn, synced, term, index, 16, memoryview(data))
    assert decode_record(memoryview(bytes(16) + raw + b"more"), 16, 77) == expected


def test_records_in_a_row_are_read_back() -> None:
    """Small and large ones, copied and passed through."""
    data = [b"", b"abc", bytes(COPIED_BYTES_MAX), bytes(COPIED_BYTES_MAX + 1), b"12345678"]
    records = [(Kind.ENTRY, at, 1, at, each) for at, each in enumerate(data, 1)]
    buffers = encode_records(records, 0, 5)
    assert any(each is data[3] for each in buffers), "large data is not copied"
    scan = Scan(bytes(SECTOR_BYTES) + b"".join(buffers) + bytes(64), 5, 1)
    assert [bytes(record.data) for record in scan] == data
    assert scan.flaw is None


def test_record_with_any_bit_flipped_is_none() -> None:
    """Every bit of head and data is covered; the padding says nothing."""
    data = b"some data"
    raw = encoded(Kind.ENTRY, 5, 4, 3, 2, data, 9)
    for bit in range((HEAD_BYTES + len(data)) * 8):
        flipped = bytearray(raw)
        flipped[bit // 8] ^= 1 << bit % 8
        assert isinstance(decode_record(memoryview(bytes(flipped)), 0, 9), str), bit


def test_record_cut_anywhere_is_none() -> None:
    """A record is whole or not at all."""
    raw = encoded(Kind.STATE, 5, 4, 3, 0, b"n2", 9)
    for length in range(HEAD_BYTES + 2):
        assert isinstance(decode_record(memoryview(raw[:length]), 0, 9), str), length


def test_record_of_another_segment_is_none() -> None:
    """The salt keeps bytes of other segments, and what clients send, from being records here."""
    raw = encoded(Kind.ENTRY, 5, 4, 3, 2, b"x", 9)
    assert isinstance(decode_record(memoryview(raw), 0, 10), str)


def test_header_is_read_back() -> None:
    """In one sector."""
    raw = encode_header(HEADER)
    assert len(raw) == SECTOR_BYTES
    assert decode_header("segment", raw) == HEADER


def test_largest_header_fits_a_sector() -> None:
    """Ids and numbers as long as they may be."""
    big = (1 << 63) - 1
    identity = Identity(ClusterId("f" * 32), NodeId("n" * 63), big)
    hard_state = HardState(big, NodeId("v" * 63))
    header = Header(identity, big, big, (1 << 32) - 1, big, big, big, big, hard_state, 1 << 62)
    assert len(encode_header(header)) == SECTOR_BYTES


def test_header_with_any_bit_flipped_is_refused() -> None:
    """With the file named."""
    raw = encode_header(HEADER)
    for bit in range(len(raw.rstrip(b"\0")) * 8):
        flipped = bytearray(raw)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(Corrupt, match="segment at offset 0"):
            decode_header("segment", bytes(flipped))


@given(st.integers(0, 10**20 - 1))
def test_segment_names_sort_as_their_numbers(seq: int) -> None:
    """And are read back."""
    assert segment_seq(segment_name(seq)) == seq
    assert segment_name(seq) < segment_name(seq + 1) or seq == 10**20 - 1


@pytest.mark.parametrize(
    "name", ["segment-1", "segment-" + "x" * 20, "mark", "segment-" + "²" * 20]
)
def test_other_names_are_no_segments(name: str) -> None:
    """Nothing else in the directory is taken for one."""
    assert segment_seq(name) is None
