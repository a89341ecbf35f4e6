"""The envelope: the one form in which tensors travel, from the client to the executor and back.

Opaque bytes to everything in between. What lives here: the form, and strict
parsing of as much of it as somebody needs. What must never live here: numpy, or
what a model wants. Called by: the SDK, both V2 doors, the executor. Total but
for InvalidRequest. Deterministic.

    magic     4 bytes, `RBT1`
    length    u32, of the header
    header    msgpack: [[name, datatype, [dimension, ...], offset, length], ...]
    blobs     raw little-endian, each beginning at a multiple of 64 from the
              envelope's beginning, with zeros before it

One list of tensors has one envelope: blobs lie in the header's order, with no
more padding than alignment asks for, and nothing follows the last. A blob can be
used where it lies, since 64 is what vector units and device copies ask for.

BYTES tensors hold, for each element, its length as u32 and its bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import NamedTuple, cast

import msgpack

from raftbatch.errors import InvalidRequest

MAGIC = b"RBT1"
ALIGNMENT = 64
TENSORS_MAX = 256
RANK_MAX = 16
NAME_LENGTH_MAX = 256
HEADER_BYTES_MAX = 1 << 20

ITEM_BYTES: dict[str, int] = {
    "BOOL": 1,
    "UINT8": 1,
    "UINT16": 2,
    "UINT32": 4,
    "UINT64": 8,
    "INT8": 1,
    "INT16": 2,
    "INT32": 4,
    "INT64": 8,
    "FP16": 2,
    "BF16": 2,
    "FP32": 4,
    "FP64": 8,
}
"""Datatypes of a fixed size, by the names of the Open Inference Protocol; BYTES has none."""

BYTES = "BYTES"
_DIMENSION_MAX = 1 << 40

# Requests of one model have mostly the same header. What is remembered of them is small:
_KNOWN_MAX = 1024
_KNOWN_BYTES = 512  # of a header
_KNOWN_TENSORS = 4

_Parts = tuple[tuple[str, str, tuple[int, ...], int], ...]
"""Name, datatype, shape and length of each tensor."""
_PREFIX = struct.Struct("<4sI")
_LENGTH = struct.Struct("<I")


class Tensor(NamedTuple):
    """One tensor.

    Attributes:
        name: as the model calls it.
        datatype: one of `ITEM_BYTES`, or BYTES.
        shape: its dimensions, the batch axis included.
        data: raw, little-endian.
    """

    name: str
    datatype: str
    shape: tuple[int, ...]
    data: bytes | memoryview


@dataclass(frozen=True, slots=True)
class Place:
    """What the header says of one tensor.

    Attributes:
        name: as the model calls it.
        datatype: one of `ITEM_BYTES`, or BYTES.
        shape: its dimensions.
        offset: where its blob begins, in bytes from the envelope's beginning.
        length: of its blob, in bytes.
    """

    name: str
    datatype: str
    shape: tuple[int, ...]
    offset: int
    length: int


def encode(tensors: Sequence[Tensor]) -> bytes:
    """Return the envelope of these tensors.

    Raises:
        InvalidRequest: they are none; nothing was done.
    """
    parts = tuple(
        [
            (each.name, each.datatype, tuple(each.shape), memoryview(each.data).nbytes)
            for each in tensors
        ]
    )
    head, gaps = _known_frame(parts) if _is_plain(parts) else _frame(parts)
    for tensor in tensors:
        if tensor.datatype == BYTES:
            check_elements(tensor)
    pieces: list[bytes | memoryview] = [head]
    for gap, tensor in zip(gaps, tensors, strict=True):
        pieces.append(gap)
        pieces.append(tensor.data)
    return b"".join(pieces)


def parse(envelope: bytes | bytearray | memoryview) -> tuple[Place, ...]:
    """Return where the tensors are; no blob is read.

    Raises:
        InvalidRequest: it is no envelope; definite.
    """
    if len(envelope) < _PREFIX.size:
        raise InvalidRequest("an envelope is shorter than its prefix")
    magic, header_bytes = _PREFIX.unpack_from(envelope)
    begin = _PREFIX.size + header_bytes
    if magic != MAGIC:
        raise InvalidRequest(f"an envelope begins with {magic!r}, not {MAGIC!r}")
    if header_bytes > HEADER_BYTES_MAX or begin > len(envelope):
        raise InvalidRequest(f"the header of an envelope has {header_bytes} bytes, which is wrong")
    header = bytes(memoryview(envelope)[_PREFIX.size : begin])
    places = _known_places(header) if header_bytes <= _KNOWN_BYTES else _places(header)
    end = begin
    for place in places:
        offset = _aligned(end)
        if place.offset != offset or offset + place.length > len(envelope):
            raise InvalidRequest(f"the data of {place.name!r} does not lie where it should")
        if any(envelope[end:offset]):
            raise InvalidRequest(f"there is something between the data, before {place.name!r}")
        end = offset + place.length
    if end != len(envelope):
        raise InvalidRequest(f"an envelope goes on for {len(envelope) - end} bytes after its end")
    return places


def decode(envelope: bytes | bytearray | memoryview) -> tuple[Tensor, ...]:
    """Return the tensors; their data is not copied.

    Raises:
        InvalidRequest: it is no envelope; definite. Elements of BYTES are not
            looked at: see `elements`.
    """
    view = memoryview(envelope)
    return tuple(
        Tensor(
            place.name,
            place.datatype,
            place.shape,
            view[place.offset : place.offset + place.length],
        )
        for place in parse(envelope)
    )


def elements(tensor: Tensor) -> list[bytes]:
    """Return the elements of a BYTES tensor.

    Raises:
        InvalidRequest: its data is not as many elements as its shape says; definite.
    """
    data = memoryview(tensor.data)
    if _is_single(tensor, data):
        return [bytes(data[_LENGTH.size :])]
    return [bytes(data[begin:end]) for begin, end in _elements(tensor)]


def check_elements(tensor: Tensor) -> None:
    """Look at the elements of a BYTES tensor, copying none. Raises as `elements`."""
    if not _is_single(tensor, memoryview(tensor.data)):
        for _ in _elements(tensor):
            pass


def join_elements(parts: Sequence[bytes]) -> bytes:
    """Return the data of a BYTES tensor of these elements. Total."""
    return b"".join([piece for part in parts for piece in (_LENGTH.pack(len(part)), part)])


def _is_single(tensor: Tensor, data: memoryview) -> bool:
    """Return whether the data is one element, as mostly, and the shape says so."""
    return (
        data.nbytes >= _LENGTH.size
        and _LENGTH.unpack_from(data)[0] == data.nbytes - _LENGTH.size
        and prod(tensor.shape) == 1
    )


def _elements(tensor: Tensor) -> Iterator[tuple[int, int]]:
    """Yield where each element begins and ends."""
    data, size = tensor.data, memoryview(tensor.data).nbytes
    offset = count = 0
    while offset < size:
        begin = offset + _LENGTH.size
        if begin > size:
            raise InvalidRequest(f"the data of {tensor.name!r} ends within an element")
        offset = begin + _LENGTH.unpack_from(data, offset)[0]
        if offset > size:
            raise InvalidRequest(f"the data of {tensor.name!r} ends within an element")
        yield begin, offset
        count += 1
    wanted = prod(tensor.shape)
    if count != wanted:
        raise InvalidRequest(f"{tensor.name!r} has {count} elements, its shape says {wanted}")


def _is_plain(parts: _Parts) -> bool:
    """Return whether these may be remembered: they are small, and equal to nothing else.

    True equals 1 and is refused.
    """
    if len(parts) > _KNOWN_TENSORS:
        return False
    for name, datatype, shape, _ in parts:
        if type(name) is not str or type(datatype) is not str:
            return False
        for number in shape:
            if type(number) is not int:
                return False
    return True


def _frame(parts: _Parts) -> tuple[bytes, tuple[bytes, ...]]:
    """Return what is in an envelope beside its data: its head, and what is before each blob."""
    header_bytes = 0
    while True:  # an offset's own length is part of the header's: one more round at most or so
        end = _PREFIX.size + header_bytes
        entries, gaps = [], []
        for name, datatype, shape, length in parts:
            offset = _aligned(end)
            entries.append((name, datatype, shape, offset, length))
            gaps.append(offset - end)
            end = offset + length
        header = cast("bytes", msgpack.packb(entries))
        if len(header) <= header_bytes:
            break
        header_bytes = len(header)
    # The header that begins lower down is not longer, and a fixed point is reached from below.
    if len(header) < header_bytes and gaps:
        gaps[0] += header_bytes - len(header)
    _places(header)
    return _PREFIX.pack(MAGIC, len(header)) + header, tuple([bytes(gap) for gap in gaps])


def _places(header: bytes) -> tuple[Place, ...]:
    """Return what a header says, which may still be untrue of what follows it."""
    try:
        entries = msgpack.unpackb(header, use_list=False, max_ext_len=0)
        if msgpack.packb(entries) != header:
            raise ValueError("not in canonical form")
    except (msgpack.UnpackException, ValueError, RecursionError, OverflowError, TypeError) as error:
        raise InvalidRequest(f"the header of an envelope cannot be read: {error}") from None
    if type(entries) is not tuple or len(entries) > TENSORS_MAX:
        raise InvalidRequest(f"an envelope holds no list of up to {TENSORS_MAX} tensors")
    places = tuple(map(_place, entries))
    if len({place.name for place in places}) != len(places):
        raise InvalidRequest("an envelope holds two tensors of one name")
    return places


_known_frame = lru_cache(_KNOWN_MAX)(_frame)
_known_places = lru_cache(_KNOWN_MAX)(_places)


def _place(entry: object) -> Place:
    if type(entry) is not tuple or len(entry) != 5:
        raise InvalidRequest("an entry of an envelope's header has not 5 parts")
    name, datatype, shape, offset, length = entry
    if type(name) is not str or not 0 < len(name) <= NAME_LENGTH_MAX:
        raise InvalidRequest(f"a tensor's name is not 1 to {NAME_LENGTH_MAX} characters")
    if type(datatype) is not str or (datatype not in ITEM_BYTES and datatype != BYTES):
        raise InvalidRequest(f"{name!r} has a datatype that is not known")
    if type(shape) is not tuple or len(shape) > RANK_MAX:
        raise InvalidRequest(f"{name!r} has no shape of up to {RANK_MAX} dimensions")
    for number in (*shape, offset, length):
        if type(number) is not int or not 0 <= number <= _DIMENSION_MAX:
            raise InvalidRequest(f"{name!r} has a number that is none")
    if datatype != BYTES and prod(shape) * ITEM_BYTES[datatype] != length:
        raise InvalidRequest(
            f"{name!r} has {length} bytes, its shape {list(shape)} of {datatype} needs "
            f"{prod(shape) * ITEM_BYTES[datatype]}"
        )
    return Place(name, datatype, shape, offset, length)


def _aligned(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT
