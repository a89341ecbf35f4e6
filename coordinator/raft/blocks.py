"""Checked blocks: how every file of a data directory says what it is.

A block is a magic of 8 bytes (which file this is, and of which format), the
length and the CRC-32 of its body, and the body: a msgpack array. Segments,
snapshots and the mark begin with one. What lives here: the bytes of a block
and of an identity in it. What must never live here: a file. Called by:
`coordinator.raft.segments`, `coordinator.raft.snapshots`. Total. Deterministic.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

import msgpack

from raftbatch.errors import Corrupt
from raftbatch.ids import ClusterId, Identity, NodeId

PREFIX_BYTES = 16
"""Magic, length and checksum, before the body."""

BODY_BYTES_MAX = 1 << 20
"""No block is longer: a longer length is damage, not a reason to read on."""

_PREFIX = struct.Struct("<8sII")

Value = int | str | bytes
"""What a block may hold: flat, so that a decoder has little to check."""


def encode_block(magic: bytes, values: Sequence[Value]) -> bytes:
    """Return the block's bytes; `magic` is 8 bytes.

    Raises:
        ValueError: the body would exceed `BODY_BYTES_MAX`.
    """
    body: bytes = msgpack.packb(list(values), use_bin_type=True)
    if len(body) > BODY_BYTES_MAX:
        raise ValueError(f"a block of {len(body)} bytes exceeds {BODY_BYTES_MAX}")
    return _PREFIX.pack(magic, len(body), zlib.crc32(body)) + body


def decode_block(
    path: str, offset: int, data: bytes, magic: bytes, kinds: Sequence[type[Value]]
) -> tuple[list[Value], int]:
    """Read a block at the start of `data`, which stands at `offset` of the file `path`.

    Args:
        path: for the error.
        offset: for the error, in bytes.
        data: at least the whole block; more may follow.
        magic: the 8 bytes the block must begin with.
        kinds: the types of the values, in order.

    Returns:
        The values, and the block's length in bytes.

    Raises:
        Corrupt: it is not such a block, or is damaged. Whoever changed it,
            nothing but this error comes out of it.
    """
    if len(data) < PREFIX_BYTES:
        raise Corrupt(path, offset, f"only {len(data)} bytes of a header are left")
    found, length, checksum = _PREFIX.unpack_from(data)
    if found != magic:
        raise Corrupt(
            path,
            offset,
            f"it begins with {found!r}, not {magic!r}: another kind of "
            "file, another format version, or damage",
        )
    body = data[PREFIX_BYTES : PREFIX_BYTES + length]
    if length > BODY_BYTES_MAX or len(body) < length or zlib.crc32(body) != checksum:
        raise Corrupt(path, offset, "the header's checksum does not match")
    try:
        # The limits keep a crafted body from asking for more memory than it has bytes.
        values = msgpack.unpackb(
            body, raw=False, max_array_len=len(kinds), max_map_len=0, max_ext_len=0
        )
    except Exception:  # noqa: BLE001 - msgpack raises many kinds, all of which mean damage
        values = None
    if (
        not isinstance(values, list)
        or len(values) != len(kinds)
        or any(type(value) is not kind for value, kind in zip(values, kinds, strict=True))
    ):
        raise Corrupt(path, offset, "the header's fields are not those of this format")
    return values, PREFIX_BYTES + length


IDENTITY_KINDS: tuple[type[Value], ...] = (str, str, int)
"""The types of `identity_values`, for `decode_block`."""


def identity_values(identity: Identity) -> list[Value]:
    """Return the identity as values of a block."""
    return [identity.cluster_id, identity.node_id, identity.incarnation]


def decode_identity(path: str, offset: int, values: Sequence[Value]) -> Identity:
    """Return the identity in three values that `decode_block` has checked for type.

    Raises:
        Corrupt: they are not the parts of an identity.
    """
    cluster_id, node_id, incarnation = values
    assert isinstance(cluster_id, str)
    assert isinstance(node_id, str)
    assert isinstance(incarnation, int)
    try:
        return Identity(ClusterId(cluster_id), NodeId(node_id), incarnation)
    except ValueError as error:
        raise Corrupt(path, offset, str(error)) from None
