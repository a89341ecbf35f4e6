"""The bytes of messages.

A message is the length of its head (4 bytes, big-endian), the head, a msgpack
array of the message's number and its fields, and then, for the two messages that
carry much, the bytes they carry: entries' data end to end, or a piece of a
snapshot. Entries are columns in the head: terms, lengths, flags; their indices
follow from the first, so that there is nothing to contradict.

What lives here: what the bytes mean, and that nothing else is accepted. What must
never live here: a connection, or how messages share one (`frames`). Called by:
`link`, tests. Total, but for `decode`. Deterministic.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from itertools import accumulate, pairwise
from typing import Any

import msgpack

from coordinator.raft import membership
from coordinator.raft.greeting import Malformed
from coordinator.raft.messages import (
    DIGESTS_MAX,
    AppendEntries,
    AppendReply,
    Beat,
    Digests,
    InstallSnapshot,
    Message,
    PeerMessage,
    PreVote,
    PreVoteReply,
    RequestVote,
    SnapshotReply,
    TimeoutNow,
    VoteReply,
)
from coordinator.raft.segments.layout import NUMBER_MAX, Entry

CONFIG_BYTES_MAX = 256 << 10
"""Of a membership in bytes: 31 members and 512 removed take under 100 KiB."""

CHECKSUM_BYTES_MAX = 64

DIGEST_BYTES_MAX = 64

_HEAD_BYTES_MAX = 1 << 20  # a longer one would keep the loop busy for long; see `Window`

_LENGTH = struct.Struct(">I")
_COPIED_BYTES_MAX = 4096  # smaller data is joined: a copy costs less than a buffer of its own

# Numbers and truths, in the order of the fields.
_PLAIN: dict[int, tuple[type[Message], tuple[type, ...]]] = {
    1: (PreVote, (int, int, int)),
    2: (PreVoteReply, (int, bool, int)),
    3: (RequestVote, (int, int, int, bool)),
    4: (VoteReply, (int, bool)),
    6: (AppendReply, (int, int, int, int, int, int)),
    8: (SnapshotReply, (int, int, int, int)),
    9: (TimeoutNow, (int,)),
    10: (Beat, (int, int)),
}
_APPEND_ENTRIES, _INSTALL_SNAPSHOT, _DIGESTS = 5, 7, 11
_APPEND_TYPES = [int] * 5 + [list, list, bytes]
_SNAPSHOT_TYPES = [int, int, int, bytes, int, bytes, int, int, int]
_NUMBERS = {kind: number for number, (kind, _) in _PLAIN.items()}
_FIELDS = {kind: tuple(kind.__slots__) for kind in _NUMBERS}

_pack = msgpack.Packer().pack  # one for all: making one costs more than packing


_KEPT_BYTES_MAX = 64 << 10


class _Kept:
    """The last message with small entries, and its bytes: it goes to several followers."""

    message: AppendEntries | None = None
    buffers: list[bytes] = []  # noqa: RUF012 - replaced, never changed


def encode(message: PeerMessage) -> list[bytes]:
    """Return a message's bytes in few buffers; large data is passed through as it is.

    Nobody may change the list: a message that is encoded again gets the same.
    """
    match message:
        case AppendEntries():
            if message is not _Kept.message:
                buffers = _encode_entries(message)
                if sum(map(len, buffers)) > _KEPT_BYTES_MAX:
                    return buffers
                _Kept.message, _Kept.buffers = message, buffers
            return _Kept.buffers
        case InstallSnapshot():
            fields = [
                _INSTALL_SNAPSHOT,
                message.term,
                message.index,
                message.index_term,
                message.config,
                message.size,
                message.checksum,
                message.offset,
                message.round,
                len(message.data),
            ]
            return [_head(fields), message.data]
        case Digests(pairs):
            columns = [index for index, _ in pairs], [digest for _, digest in pairs]
            return [_head([_DIGESTS, *columns])]
        case _:
            kind = type(message)
            return [_head([_NUMBERS[kind], *[getattr(message, each) for each in _FIELDS[kind]]])]


def _head(fields: list[Any]) -> bytes:
    head: bytes = _pack(fields)
    return _LENGTH.pack(len(head)) + head


def _encode_entries(message: AppendEntries) -> list[bytes]:
    entries = message.entries
    data = [entry.data for entry in entries]
    lengths = [len(each) for each in data]
    if entries:
        first, last = entries[0].index, entries[-1].index
        assert (first, last) == (message.prev_index + 1, message.prev_index + len(entries))
    head = _head(
        [
            _APPEND_ENTRIES,
            message.term,
            message.prev_index,
            message.prev_term,
            message.commit,
            message.round,
            [entry.term for entry in entries],
            lengths,
            bytes(entry.is_config for entry in entries),
        ]
    )
    if max(lengths, default=0) <= _COPIED_BYTES_MAX:
        return [b"".join((head, *data))]
    return _joined((head, *data))


def _joined(parts: Iterable[bytes]) -> list[bytes]:
    """Return the parts, small ones that follow each other as one."""
    buffers: list[bytes] = []
    small: list[bytes] = []
    for part in parts:
        if len(part) <= _COPIED_BYTES_MAX:
            small.append(part)
            continue
        if small:
            buffers.append(b"".join(small))
            small = []
        buffers.append(part)
    if small:
        buffers.append(b"".join(small))
    return buffers


def decode(data: memoryview) -> PeerMessage:
    """Read a message; what it keeps of the data is copied, once.

    Raises:
        Malformed: these are the bytes of none, whoever made them; nothing else comes out.
    """
    if len(data) < _LENGTH.size:
        raise Malformed("bad_message", "a message ends within the length of its head")
    end = _LENGTH.size + _LENGTH.unpack_from(data)[0]
    if end > min(len(data), _HEAD_BYTES_MAX):
        raise Malformed("bad_message", "a message ends within its head, or that is too long")
    try:
        fields = msgpack.unpackb(
            data[_LENGTH.size : end], raw=False, max_str_len=0, max_map_len=0, max_ext_len=0
        )
    except Exception as error:  # noqa: BLE001 - msgpack raises many kinds, all of which mean damage
        raise Malformed("bad_message", f"the head of a message: {error}") from None
    if type(fields) is not list or not fields or type(fields[0]) is not int:
        raise Malformed("bad_message", "the head of a message is no list that begins with a number")
    number, rest = fields[0], data[end:]
    del fields[0]
    if number == _APPEND_ENTRIES:
        return _decode_entries(fields, rest)
    if number == _INSTALL_SNAPSHOT:
        return _decode_snapshot(fields, rest)
    if number == _DIGESTS:
        return _decode_digests(fields, rest)
    if number not in _PLAIN:
        raise Malformed("unknown_message", f"there is no message with number {number}")
    kind, types = _PLAIN[number]
    _check(tuple(map(type, fields)) == types, f"a {kind.__name__} has other fields")
    _check(min(fields) >= 0 and max(fields) <= NUMBER_MAX, f"a number of a {kind.__name__}")
    _check(not rest, f"bytes behind a {kind.__name__}")
    return kind(*fields)


def _decode_entries(fields: list[Any], rest: memoryview) -> AppendEntries:
    _check(list(map(type, fields)) == _APPEND_TYPES, "AppendEntries has other fields")
    term, prev_index, prev_term, commit, round_, terms, lengths, flags = fields
    numbers = (term, prev_index, prev_term, commit, round_)
    _check(min(numbers) >= 0 and max(numbers) <= NUMBER_MAX, "a number of AppendEntries")
    _check(len(terms) == len(lengths) == len(flags), "the columns of entries differ in length")
    if not terms:
        _check(not rest, "bytes behind AppendEntries without entries")
        return AppendEntries(term, prev_index, prev_term, (), commit, round_)
    _check(set(map(type, terms)) | set(map(type, lengths)) == {int}, "a column of entries")
    _check(max(flags) <= 1, "a flag of an entry")
    _check(prev_index + len(terms) <= NUMBER_MAX, "the index of an entry")
    # A log's terms never decrease, and no entry is of a later term than the leader that sends it.
    ordered = [prev_term, *terms, term]
    _check(terms[0] > 0 and ordered == sorted(ordered), "the terms of entries")
    _check(min(lengths) >= 0 and sum(lengths) == len(rest), "the lengths of entries")
    ends = [0, *accumulate(lengths)]
    if len(rest) <= _COPIED_BYTES_MAX * len(terms):  # many small ones: copied twice, but faster
        small = bytes(rest)
        data = [small[start:end] for start, end in pairwise(ends)]
    else:
        data = [bytes(rest[start:end]) for start, end in pairwise(ends)]
    first = prev_index + 1
    indices = range(first, first + len(terms))
    entries = tuple(map(Entry, indices, terms, data, map(bool, flags)))
    for entry in entries if any(flags) else ():
        if entry.is_config:
            _check_membership(entry.data)
    return AppendEntries(term, prev_index, prev_term, entries, commit, round_)


def _decode_snapshot(fields: list[Any], rest: memoryview) -> InstallSnapshot:
    _check(list(map(type, fields)) == _SNAPSHOT_TYPES, "InstallSnapshot has other fields")
    term, index, index_term, config, size, checksum, offset, round_, length = fields
    numbers = (term, index, index_term, size, offset, round_, length)
    _check(min(numbers) >= 0 and max(numbers) <= NUMBER_MAX, "a number of InstallSnapshot")
    _check(len(config) <= CONFIG_BYTES_MAX, "the membership of InstallSnapshot")
    _check(len(checksum) <= CHECKSUM_BYTES_MAX, "the checksum of InstallSnapshot")
    _check(length == len(rest), "the length of a piece of a snapshot")
    _check(offset + length <= size, "the place of a piece of a snapshot")
    _check(index_term <= term, "the term of a snapshot")
    _check_membership(config)
    return InstallSnapshot(
        term, index, index_term, config, size, checksum, offset, bytes(rest), round_
    )


def _decode_digests(fields: list[Any], rest: memoryview) -> Digests:
    _check(list(map(type, fields)) == [list, list], "Digests has other fields")
    indexes, digests = fields
    _check(1 <= len(indexes) == len(digests) <= DIGESTS_MAX, "the columns of Digests")
    _check(set(map(type, indexes)) == {int} and set(map(type, digests)) == {bytes}, "a digest")
    _check(indexes == sorted(set(indexes)), "the order of Digests")
    _check(indexes[0] > 0 and indexes[-1] <= NUMBER_MAX, "an index of Digests")
    _check(all(0 < len(each) <= DIGEST_BYTES_MAX for each in digests), "the length of a digest")
    _check(not rest, "bytes behind Digests")
    return Digests(tuple(zip(indexes, digests, strict=True)))


def _check_membership(data: bytes) -> None:
    try:
        membership.decode(data)
    except ValueError as error:
        raise Malformed("bad_message", f"a membership: {error}") from None


def _check(holds: bool, wrong: str) -> None:
    if not holds:
        raise Malformed("bad_message", f"not of this protocol: {wrong}")
