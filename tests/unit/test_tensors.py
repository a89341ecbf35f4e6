"""The envelope: one form for each list of tensors, and nothing else is read."""

from __future__ import annotations

import random
import struct

import msgpack
import pytest

from raftbatch.errors import InvalidRequest
from raftbatch.tensors import (
    ALIGNMENT,
    Tensor,
    decode,
    elements,
    encode,
    join_elements,
    parse,
)

TENSORS = (
    Tensor("ids", "INT64", (2, 3), struct.pack("<6q", *range(6))),
    Tensor("scale", "FP32", (), struct.pack("<f", 0.5)),
    Tensor("text", "BYTES", (2,), join_elements([b"abc", b""])),
    Tensor("none", "FP16", (0, 4), b""),
)


def _raw(header: object, tail: bytes = b"") -> bytes:
    packed = bytes(msgpack.packb(header))
    return b"RBT1" + struct.pack("<I", len(packed)) + packed + tail


def test_tensors_come_back_and_lie_aligned() -> None:
    envelope = encode(TENSORS)
    found = decode(envelope)
    assert [Tensor(t.name, t.datatype, t.shape, bytes(t.data)) for t in found] == list(TENSORS)
    assert all(place.offset % ALIGNMENT == 0 for place in parse(envelope))
    assert elements(found[2]) == [b"abc", b""]
    assert encode(found) == envelope


def test_data_is_not_copied() -> None:
    envelope = encode(TENSORS)
    data = decode(envelope)[0].data
    assert isinstance(data, memoryview)
    assert data.obj is envelope


def test_header_is_a_fixed_point_of_its_own_length() -> None:
    for count in range(257):
        tensors = [Tensor(f"t{i}", "UINT8", (7,), bytes(7)) for i in range(count)]
        assert len(decode(encode(tensors))) == count


@pytest.mark.parametrize(
    "tensor",
    [
        Tensor("", "FP32", (1,), bytes(4)),
        Tensor("x" * 257, "FP32", (1,), bytes(4)),
        Tensor("x", "FP31", (1,), bytes(4)),
        Tensor("x", "FP32", (2,), bytes(4)),
        Tensor("x", "FP32", (-1, -1), bytes(4)),
        Tensor("x", "FP32", (1,) * 17, bytes(4)),
        Tensor("x", "BYTES", (2,), join_elements([b"a"])),
        Tensor("x", "BYTES", (1,), b"\x05\x00\x00\x00abc"),
        Tensor("x", "BYTES", (1,), b"\x05\x00"),
    ],
)
def test_tensors_that_are_none_are_refused(tensor: Tensor) -> None:
    with pytest.raises(InvalidRequest):
        encode([tensor])


@pytest.mark.parametrize(
    "envelope",
    [
        b"",
        b"RBT1",
        b"RBT2\x01\x00\x00\x00\x90",
        b"RBT1\xff\xff\xff\xff\x90",
        b"RBT1\x02\x00\x00\x00\x90",
        b"RBT1\x03\x00\x00\x00\xdc\x00\x00",
        _raw([], b"x"),
        _raw(5),
        _raw([5]),
        _raw([["x", "UINT8", [1], 64, True]], bytes(64)),
        _raw([["x", "UINT8", [1], 65, 1]], bytes(64)),
        _raw([["x", "UINT8", [1], 64, 1]], bytes(10)),
        _raw([["x", "UINT8", [1], 64, 1]], b"\x01" * 64),
        _raw([["x", "UINT8", [0], 64, 0], ["x", "UINT8", [0], 64, 0]], bytes(64)),
        _raw([[f"t{i}", "UINT8", [0], 0, 0] for i in range(257)]),
    ],
)
def test_bytes_that_are_no_envelope_are_refused(envelope: bytes) -> None:
    with pytest.raises(InvalidRequest):
        parse(envelope)


def test_what_is_remembered_of_a_header_lets_nothing_pass() -> None:
    """Headers are remembered once they were read: by their bytes, and by equal values."""
    good = Tensor("x", "UINT8", (1,), b"a")
    envelope = encode([good])
    assert encode([good]) == envelope
    for name, shape in (("x", (True,)), ("x", (1.0,)), (["x"], (1,))):
        with pytest.raises(InvalidRequest):
            encode([Tensor(name, "UINT8", shape, b"a")])  # type: ignore[arg-type]
    for data in (b"", b"ab"):
        with pytest.raises(InvalidRequest):
            encode([Tensor("x", "UINT8", (1,), data)])
    assert len(parse(envelope)) == 1
    for wrong in (envelope + b"b", envelope[:-1], envelope[:-2] + b"\x01a"):
        with pytest.raises(InvalidRequest):
            parse(wrong)
    assert parse(envelope) == parse(bytearray(envelope))


def test_parsing_mutated_bytes_gives_one_error_and_no_other() -> None:
    draw = random.Random(2)
    envelope = encode(TENSORS)
    for _ in range(20_000):
        data = bytearray(envelope)
        for _ in range(draw.randint(1, 3)):
            data[draw.randrange(min(len(data), 140))] = draw.randrange(256)
        if draw.random() < 0.2:
            del data[draw.randrange(len(data)) :]
        try:
            found = decode(bytes(data))
            for tensor in found:
                if tensor.datatype == "BYTES":
                    elements(tensor)
            assert encode(found) == data
        except InvalidRequest:
            pass
