"""The bytes of a snapshot file, and the names such files have.

What lives here: encoding and decoding of header, chunks, footer and names.
What must never live here: a file. Called by: `snapshot_writer`,
`snapshot_reader`, `snapshots`. Total. Deterministic.

A file is a checked block (`blocks`) of the fields of `Header`, then the content
in chunks, then a footer, then its end:

    chunk   u32 length   u32 CRC-32    1 .. `chunk_bytes` bytes of content
    footer  u32 zero     u32 CRC-32    u64 chunks   u64 content bytes   SHA-256 of the content

All little-endian. Every chunk but the last holds exactly `chunk_bytes`, so the
place of any byte of content is arithmetic: no table of chunks is ever kept, and
no file can be made that needs one. Each CRC-32 begins with the file's random
salt, the chunk's length and its number, so that a chunk out of place, or out of
another file, is damage.

SHA-256 over the content, and not a running CRC-32, because it is compared
between nodes: content received in part from one leader and in part from the
next is the content of neither, and 32 bits are too few to promise that.
"""

from __future__ import annotations

import re
import struct
import zlib
from dataclasses import dataclass

from coordinator.raft.blocks import (
    IDENTITY_KINDS,
    PREFIX_BYTES,
    Value,
    decode_block,
    decode_identity,
    encode_block,
    identity_values,
)
from raftbatch.errors import Corrupt
from raftbatch.ids import Identity
from raftbatch.world import Buffer

MAGIC = b"RBSNAP01"

CHUNK_BYTES_MAX = 1 << 20
"""A reader or writer holds one chunk in memory; no file can ask it to hold more."""

CONFIG_BYTES_MAX = 1 << 16
"""A membership configuration names a handful of nodes and their addresses."""

HEADER_BYTES_MAX = PREFIX_BYTES + CONFIG_BYTES_MAX + 256
"""256: 32 digits, a node id of at most 63 bytes, 6 integers of at most 9, and msgpack's heads."""

CHUNK_HEAD_BYTES = 8
CHECKSUM_BYTES = 32
FOOTER_BYTES = CHUNK_HEAD_BYTES + 8 + 8 + CHECKSUM_BYTES

TEMPORARY = ".tmp"

_NUMBER_END = 1 << 63  # indices, terms and incarnations are below it
_HEAD = struct.Struct("<II")
_SEED = struct.Struct("<IIQ")
_TOTALS = struct.Struct(f"<QQ{CHECKSUM_BYTES}s")
_NAME = re.compile(r"snapshot-([0-9]{20})-([0-9]{20})")
_HEADER_KINDS: tuple[type[Value], ...] = (*IDENTITY_KINDS, int, int, int, int, int, bytes)


@dataclass(frozen=True, slots=True)
class Header:
    """What a snapshot says of itself before its content.

    Attributes:
        identity: whose data directory it was written into.
        index: the last log index whose effects it holds, from 1.
        term: that entry's term, from 1.
        created_ms: wall clock, for display.
        chunk_bytes: content per chunk, 1 to `CHUNK_BYTES_MAX`; only the last may hold less.
        salt: 32 random bits that begin every checksum in the file.
        config: the membership configuration at that index; opaque here.
    """

    identity: Identity
    index: int
    term: int
    created_ms: int
    chunk_bytes: int
    salt: int
    config: bytes


@dataclass(frozen=True, slots=True)
class Footer:
    """What a snapshot says of itself after its content.

    Attributes:
        chunks: how many there are.
        content_bytes: their content together.
        checksum: SHA-256 of it.
    """

    chunks: int
    content_bytes: int
    checksum: bytes


@dataclass(frozen=True, slots=True)
class SnapshotMeta:
    """One snapshot on disk.

    Attributes:
        index: the last log index whose effects it holds, from 1.
        term: that entry's term.
        config: the membership configuration at that index; opaque here.
        created_ms: wall clock when it was begun on this node, for display.
        chunks: how many chunks its file has.
        content_bytes: length of its content.
        file_bytes: length of its file.
        checksum: SHA-256 of its content: equal on every node that holds the same state.
    """

    index: int
    term: int
    config: bytes
    created_ms: int
    chunks: int
    content_bytes: int
    file_bytes: int
    checksum: bytes


def snapshot_meta(header: Header, header_bytes: int, footer: Footer) -> SnapshotMeta:
    """Return what header and footer say together."""
    return SnapshotMeta(
        index=header.index,
        term=header.term,
        config=header.config,
        created_ms=header.created_ms,
        chunks=footer.chunks,
        content_bytes=footer.content_bytes,
        file_bytes=header_bytes
        + footer.chunks * CHUNK_HEAD_BYTES
        + footer.content_bytes
        + FOOTER_BYTES,
        checksum=footer.checksum,
    )


def snapshot_name(index: int, term: int) -> str:
    """Return the file name of a snapshot; names sort as the indices do."""
    return f"snapshot-{index:020d}-{term:020d}"


def parse_name(name: str) -> tuple[int, int] | None:
    """Return index and term in a snapshot's name; None for any other name."""
    match = _NAME.fullmatch(name)
    return (int(match[1]), int(match[2])) if match else None


def encode_header(header: Header) -> bytes:
    """Return the bytes before the first chunk; the config is within `CONFIG_BYTES_MAX`."""
    return encode_block(
        MAGIC,
        [
            *identity_values(header.identity),
            header.index,
            header.term,
            header.created_ms,
            header.chunk_bytes,
            header.salt,
            header.config,
        ],
    )


def decode_header(path: str, data: bytes) -> tuple[Header, int]:
    """Read the header from the file's first `HEADER_BYTES_MAX` bytes, and say how long it is.

    Raises:
        Corrupt: it is damaged, or of another format.
    """
    values, length = decode_block(path, 0, data, MAGIC, _HEADER_KINDS)
    identity = decode_identity(path, 0, values[:3])
    index, term, created_ms, chunk_bytes, salt = (v for v in values[3:8] if isinstance(v, int))
    config = values[8]
    assert isinstance(config, bytes)
    if not (
        1 <= index < _NUMBER_END
        and 1 <= term < _NUMBER_END
        and 1 <= chunk_bytes <= CHUNK_BYTES_MAX
        and 0 <= salt < 1 << 32
        and len(config) <= CONFIG_BYTES_MAX
    ):
        raise Corrupt(path, 0, "the header's fields are out of range")
    return Header(identity, index, term, created_ms, chunk_bytes, salt, config), length


def encode_chunk_head(salt: int, number: int, data: Buffer) -> bytes:
    """Return what stands before `data`, the content of chunk `number`, counted from 0."""
    return _HEAD.pack(len(data), _checksum(salt, len(data), number, data))


def check_chunk(path: str, offset: int, data: bytes, length: int, salt: int, number: int) -> None:
    """Check a chunk with its head, as read from `offset`; its content must be `length` bytes.

    Raises:
        Corrupt: it is not that chunk, whole.
    """
    if len(data) < CHUNK_HEAD_BYTES + length:
        raise Corrupt(path, offset, f"the file ends within chunk {number}")
    found, checksum = _HEAD.unpack_from(data)
    if found != length:
        raise Corrupt(path, offset, f"chunk {number} says {found} bytes where {length} are due")
    if _checksum(salt, length, number, memoryview(data)[CHUNK_HEAD_BYTES:]) != checksum:
        raise Corrupt(path, offset, f"the checksum of chunk {number} does not match")


def encode_footer(salt: int, footer: Footer) -> bytes:
    """Return the bytes behind the last chunk."""
    totals = _TOTALS.pack(footer.chunks, footer.content_bytes, footer.checksum)
    return _HEAD.pack(0, _checksum(salt, 0, footer.chunks, totals)) + totals


def decode_footer(path: str, offset: int, data: bytes, header: Header, header_bytes: int) -> Footer:
    """Read the footer, which stands at `offset` and ends the file.

    Raises:
        Corrupt: it is damaged, or is not where the content that it tells of ends.
    """
    if offset < header_bytes or len(data) != FOOTER_BYTES:
        raise Corrupt(path, max(offset, 0), "the file ends before its footer")
    zero, checksum = _HEAD.unpack_from(data)
    footer = Footer(*_TOTALS.unpack_from(data, CHUNK_HEAD_BYTES))
    if zero or _checksum(header.salt, 0, footer.chunks, data[CHUNK_HEAD_BYTES:]) != checksum:
        raise Corrupt(path, offset, "it does not end with a footer: cut short, or damaged")
    content_bytes = footer.content_bytes
    if footer.chunks != -(-content_bytes // header.chunk_bytes):
        raise Corrupt(path, offset, f"{footer.chunks} chunks cannot hold {content_bytes} bytes")
    if offset != header_bytes + footer.chunks * CHUNK_HEAD_BYTES + content_bytes:
        raise Corrupt(path, offset, f"the footer is not behind {content_bytes} bytes of content")
    return footer


def _checksum(salt: int, length: int, number: int, data: Buffer) -> int:
    """Return the CRC-32 of a chunk or footer, bound to its place and file."""
    return zlib.crc32(data, zlib.crc32(_SEED.pack(salt, length, number)))
