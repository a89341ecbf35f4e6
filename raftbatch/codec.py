"""Entries to bytes and back: canonical msgpack, a version in front.

Equal entries have equal bytes, and decoding refuses any others. What lives
here: which record has which fields, of which kinds, in which order. What must
never live here: what records mean. Called by: the proposer, the replica, tools.
Deterministic; decoding raises Undecodable and nothing else, whatever the bytes.

    entry    [version, term, at_ms, [record, ...]]
    record   [tag, field, ...]        in columnar records: [tag, count, field, ...]
    column   [value, ...], or the one value that all are

Tags and the order of fields never change, fields are only added, in a new
version; `tests/unit/golden` pins the bytes of each.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import cast

import msgpack

from raftbatch import records as r
from raftbatch.errors import InvalidRequest, Undecodable
from raftbatch.fields import (
    PRIORITY_MAX,
    TEXT_LENGTH_MAX,
    Packed,
    Unpack,
    UnpackColumn,
    blob,
    blobs,
    each,
    fixed,
    flag,
    integer,
    integers,
    member,
    numbers,
    pack_column,
    text,
    texts,
)
from raftbatch.kinds import LapseReason, Ran, Release
from raftbatch.packed_settings import pack_model, pack_policy, unpack_model, unpack_policy

VERSION = 1
"""The newest version, which is written; all up to it are read."""

ENTRY_BYTES_MAX = 128 << 20
"""No entry is larger; msgpack believes no length beyond it."""

KEYS_MAX = 1024
"""Distinct keys, and distinct tenants, of one Admit."""

MODELS_MAX = 1024
"""Model versions that one executor names."""

PADDED_MAX = 16

_positive = integer(1)
_count = integer()
_name = text(1)
_slot_count = integer(1, 1024)
_model_names = each(fixed(_name, _name), MODELS_MAX)
_requests = numbers(r.REQUESTS_MAX)
KEY: Unpack = fixed(_name, _name, text(0, TEXT_LENGTH_MAX))
"""The kind of a batch key."""


class _Plain:
    """A record whose fields stand one after the other."""

    def __init__(
        self, kind: type[r.Record], *kinds: Unpack, build: Callable[..., r.Record] | None = None
    ) -> None:
        names = [field.name for field in fields(kind)]
        assert len(names) == len(kinds), names
        self._build: Callable[..., r.Record] = build or kind
        self._kinds = kinds
        self._get: Callable[[object], object] = attrgetter(*names) if names else _nothing
        self._is_single = len(names) == 1

    def pack(self, record: r.Record) -> tuple[Packed, ...]:
        """Return the fields."""
        got = self._get(record)
        return (got,) if self._is_single else cast("tuple[Packed, ...]", got)

    def unpack(self, values: tuple[Packed, ...]) -> r.Record:
        """Return the record."""
        if len(values) != len(self._kinds):
            raise ValueError(f"{len(values)} fields, not {len(self._kinds)}")
        return self._build(*[kind(one) for kind, one in zip(self._kinds, values, strict=True)])


class _Columnar:
    """A record of scalars, then columns, the first of which is never empty of meaning."""

    def __init__(
        self,
        kind: type[r.Record],
        scalars: Sequence[Unpack],
        columns: Sequence[UnpackColumn],
        count_min: int = 1,
        build: Callable[..., r.Record] | None = None,
    ) -> None:
        names = [field.name for field in fields(kind)]
        assert len(names) == len(scalars) + len(columns), names
        self._build: Callable[..., r.Record] = build or kind
        self._scalars = scalars
        self._columns = columns
        self._count = integer(count_min, r.REQUESTS_MAX)
        self._get = attrgetter(*names)

    def pack(self, record: r.Record) -> tuple[Packed, ...]:
        """Return the count of requests, the scalars, and the columns."""
        values = self._get(record)
        at = len(self._scalars)
        columns = values[at:]
        return (len(columns[0]), *values[:at], *map(pack_column, columns))

    def unpack(self, values: tuple[Packed, ...]) -> r.Record:
        """Return the record."""
        at = len(self._scalars)
        if len(values) != 1 + at + len(self._columns):
            raise ValueError(f"{len(values)} fields, not {1 + at + len(self._columns)}")
        count = cast("int", self._count(values[0]))
        scalars = [kind(one) for kind, one in zip(self._scalars, values[1 : 1 + at], strict=True)]
        columns = [
            kind(one, count) for kind, one in zip(self._columns, values[1 + at :], strict=True)
        ]
        return self._build(*scalars, *columns)


class _Settings:
    """A record of one value that has fields of its own."""

    def __init__(
        self,
        kind: Callable[..., r.Record],
        name: str,
        pack: Callable[..., Packed],
        unpack: Callable[[Packed], object],
    ) -> None:
        self._kind, self._name, self._pack, self._unpack = kind, name, pack, unpack

    def pack(self, record: r.Record) -> tuple[Packed, ...]:
        """Return the one value."""
        return (self._pack(getattr(record, self._name)),)

    def unpack(self, values: tuple[Packed, ...]) -> r.Record:
        """Return the record."""
        (value,) = values
        return self._kind(self._unpack(value))


def _nothing(_record: object) -> tuple[Packed, ...]:
    return ()


def _admit(*values: object) -> r.Record:
    """Return an Admit whose columns of places point into its tables."""
    record = r.Admit(*values)  # type: ignore[arg-type]
    for places, table in ((record.key, record.keys), (record.tenant, record.tenants)):
        if max(places) >= len(table) or len(set(table)) != len(table):
            raise ValueError("a column points beyond its table, or the table repeats itself")
    return record


def _complete(*values: object) -> r.Record:
    record = r.Complete(*values)  # type: ignore[arg-type]
    if len(record.numbers) != len(record.kind):
        raise ValueError("columns of unequal length")
    return record


def _free(*values: object) -> r.Record:
    record = r.Free(*values)  # type: ignore[arg-type]
    if len(record.batches) != len(record.fences):
        raise ValueError("columns of unequal length")
    return record


_names = (texts(1), texts(1))
_Codec = _Plain | _Columnar | _Settings
_CODECS: dict[int, tuple[type[r.Record], _Codec]] = {
    1: (r.Lead, _Plain(r.Lead, _name, _count, _count)),
    2: (
        r.Admit,
        _Columnar(
            r.Admit,
            (_positive, each(KEY, KEYS_MAX), each(_name, KEYS_MAX)),
            (
                integers(0, KEYS_MAX),
                integers(0, KEYS_MAX),
                texts(1),
                blobs(64),
                integers(1, 1 << 40),
                integers(0, PRIORITY_MAX),
                integers(0, 1 << 40),
                blobs(),
                blobs(1 << 20),
                texts(0, TEXT_LENGTH_MAX),
            ),
            build=_admit,
        ),
    ),
    3: (r.Cancel, _Columnar(r.Cancel, (), _names)),
    4: (r.Acknowledge, _Columnar(r.Acknowledge, (), _names)),
    5: (r.Forget, _Columnar(r.Forget, (), _names)),
    6: (r.Seal, _Plain(r.Seal, _positive, KEY, member(Release), _requests)),
    7: (r.Assign, _Plain(r.Assign, _positive, _positive, _name, _positive)),
    8: (
        r.Lapse,
        _Plain(
            r.Lapse,
            _positive,
            _positive,
            _positive,
            member(LapseReason),
            member(Ran),
            flag,
            text(),
            text(0, TEXT_LENGTH_MAX),
        ),
    ),
    9: (
        r.Complete,
        _Columnar(
            r.Complete,
            (
                *[_positive] * 3,
                _name,
                _positive,
                flag,
                *[_count] * 4,
                each(_count, PADDED_MAX),
                blob(1024),
                _requests,
            ),
            (integers(0, 1), texts(), texts(0, TEXT_LENGTH_MAX), blobs()),
            count_min=0,
            build=_complete,
        ),
    ),
    10: (r.Bisect, _Plain(r.Bisect, _positive, _positive, _positive)),
    11: (r.Quarantine, _Plain(r.Quarantine, _positive)),
    12: (r.ReleaseQuarantined, _Plain(r.ReleaseQuarantined, _requests)),
    13: (r.Join, _Plain(r.Join, _name, _count, _slot_count, _model_names, blob(1 << 16))),
    14: (r.Ready, _Plain(r.Ready, _name, _positive, _model_names)),
    15: (r.Drain, _Plain(r.Drain, _name, _positive, flag)),
    16: (r.Leave, _Plain(r.Leave, _name, _positive, flag, numbers(1024))),
    17: (
        r.Free,
        _Plain(r.Free, _name, _positive, each(_positive, 1024), each(_positive, 1024), build=_free),
    ),
    18: (r.Probe, _Plain(r.Probe, _name, _positive, flag)),
    19: (r.PutModel, _Settings(r.PutModel, "model", pack_model, unpack_model)),
    20: (r.DeleteModel, _Plain(r.DeleteModel, _name, _name)),
    21: (r.PutPolicy, _Settings(r.PutPolicy, "policy", pack_policy, unpack_policy)),
    22: (r.Advance, _Plain(r.Advance)),
}
_TAGS = {kind: (tag, codec) for tag, (kind, codec) in _CODECS.items()}


def encode_record(record: r.Record) -> bytes:
    """Return the bytes of a record, as they stand in an entry. Deterministic."""
    tag, codec = _TAGS[type(record)]
    return cast("bytes", msgpack.packb((tag, *codec.pack(record))))


def check_record(record: r.Record) -> int:
    """Make sure that every replica will be able to read a record; return its size in bytes.

    To be called before what came from outside is proposed: what stands in the log
    and cannot be read stops all nodes.

    Raises:
        InvalidRequest: a field is not of its kind; definite.
    """
    try:
        data = encode_record(record)
        packed = unpack_strictly(data, ENTRY_BYTES_MAX)
        found = _TAGS[type(record)][1].unpack(cast("tuple[Packed, ...]", packed)[1:])
        if found != record:
            raise ValueError("it is not what would be read")
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidRequest(f"{type(record).__name__} cannot be proposed: {error}") from error
    return len(data)


def encode_entry(entry: r.Entry) -> bytes:
    """Return the canonical bytes of an entry, whose records can be read. Deterministic."""
    packed = []
    for record in entry.records:
        tag, codec = _TAGS[type(record)]
        packed.append((tag, *codec.pack(record)))
    return cast("bytes", msgpack.packb((VERSION, entry.term, entry.at_ms, packed)))


def decode_entry(data: bytes | bytearray | memoryview) -> r.Entry:
    """Return the entry of these bytes. Deterministic.

    Raises:
        Undecodable: they are not the bytes of an entry of a known version.
    """
    try:
        entry = entry_of(unpack_strictly(data, ENTRY_BYTES_MAX), zlib.crc32(data))
        if encode_entry(entry) != data:
            raise ValueError("not in canonical form")
    except ValueError as error:
        raise Undecodable(f"an entry of {len(data)} bytes cannot be read: {error}") from error
    return entry


def unpack_strictly(data: bytes | bytearray | memoryview, bytes_max: int) -> Packed:
    """Return the one value that these bytes hold. Raises ValueError, whatever is wrong."""
    if len(data) > bytes_max:
        raise ValueError(f"{len(data)} bytes are more than {bytes_max}")
    try:
        return cast("Packed", msgpack.unpackb(data, use_list=False, max_ext_len=0))
    except (msgpack.UnpackException, ValueError, RecursionError, OverflowError, TypeError) as error:
        raise ValueError(f"no msgpack: {str(error) or type(error).__name__}") from error


def entry_of(value: Packed, checksum: int) -> r.Entry:
    """Return the entry of what was unpacked. Raises ValueError."""
    if type(value) is not tuple or not value:
        raise ValueError("no entry")
    if value[0] != VERSION or type(value[0]) is not int:
        raise ValueError(f"version {value[0]!r:.20} is not known here, only {VERSION}")
    if len(value) != 4:
        raise ValueError(f"an entry has 4 parts, not {len(value)}")
    _, term, at_ms, packed = value
    if type(packed) is not tuple or len(packed) > r.RECORDS_MAX:
        raise ValueError("no records, or too many")
    found = []
    for each_packed in packed:
        if type(each_packed) is not tuple or not each_packed:
            raise ValueError("a record is none")
        known = _CODECS.get(each_packed[0]) if type(each_packed[0]) is int else None
        if known is None:
            raise ValueError(f"record {each_packed[0]!r:.20} is not known here")
        found.append(known[1].unpack(each_packed[1:]))
    return r.Entry(cast("int", _positive(term)), cast("int", _count(at_ms)), tuple(found), checksum)
