"""Entries without the bytes of their requests: what a reader of the log needs, and no more.

A cut entry is an entry in which each payload, parameters and result is replaced by its length.
What reads it gets records of the same shape and sizes back, their bytes zeros. Everything else
stays: ids, keys, hashes, codes and messages, fingerprints, what executors say of themselves.

    entry    Admit: payload, parameters    Complete: result    all other columns as they were

Whoever cuts decodes nothing of what it cuts away; it does not check the rest either: these are
bytes that were applied. What lives here: that form. What must never live here: an entry that is
proposed. Called by: the Admin service, the command line. Deterministic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import msgpack

from raftbatch.codec import ENTRY_BYTES_MAX, entry_of, unpack_strictly
from raftbatch.errors import Undecodable
from raftbatch.fields import BLOB_BYTES_MAX, Packed
from raftbatch.records import Entry

_BLOBS = {2: (-3, -2), 9: (-1,)}
"""By tag: which columns of a record are cut, counted from its end."""


def cut_entry(data: bytes) -> bytes:
    """Return an entry's bytes without those of its requests.

    Raises:
        Undecodable: they are not the bytes of an entry.
    """
    try:
        parts = _parts(data)
        cut = [_with_blobs(record, _length) for record in cast("tuple[Packed, ...]", parts[3])]
    except (ValueError, TypeError, IndexError) as error:
        raise Undecodable(f"an entry of {len(data)} bytes cannot be cut: {error}") from error
    return cast("bytes", msgpack.packb((*parts[:3], cut)))


def read_cut(data: bytes) -> Entry:
    """Return the entry that was cut, zeros in place of what is not there.

    Raises:
        Undecodable: it is none.
    """
    try:
        parts = _parts(data)
        left = [ENTRY_BYTES_MAX]
        whole = [
            _with_blobs(record, lambda length: _zeros(length, left))
            for record in cast("tuple[Packed, ...]", parts[3])
        ]
        return entry_of((*parts[:3], tuple(whole)), 0)
    except (ValueError, TypeError, IndexError) as error:
        raise Undecodable(f"a cut entry of {len(data)} bytes cannot be read: {error}") from error


def _parts(data: bytes) -> tuple[Packed, ...]:
    parts = unpack_strictly(data, ENTRY_BYTES_MAX)
    if type(parts) is not tuple or len(parts) != 4 or type(parts[3]) is not tuple:
        raise ValueError("no entry")
    return parts


def _with_blobs(record: Packed, change: Callable[[Packed], Packed]) -> Packed:
    """Return a record with each of its blobs changed, in columns or alone."""
    if type(record) is not tuple or not record:
        raise ValueError("a record is none")
    places = _BLOBS.get(record[0]) if type(record[0]) is int else None
    if places is None:
        return record
    changed = list(record)
    for place in places:
        column = changed[place]
        changed[place] = tuple(map(change, column)) if type(column) is tuple else change(column)
    return tuple(changed)


def _length(blob: Packed) -> int:
    if type(blob) is not bytes:
        raise ValueError("some bytes are none")
    return len(blob)


def _zeros(length: Packed, left: list[int]) -> bytes:
    """Return so many zeros, of no more in all than an entry may have."""
    if type(length) is not int or not 0 <= length <= min(BLOB_BYTES_MAX, left[0]):
        raise ValueError(f"{length!r:.20} is no length")
    left[0] -= length
    return bytes(length)
