"""Entries without the bytes of requests: the same records, of the same sizes, with zeros."""

from __future__ import annotations

from dataclasses import fields, replace
from random import Random
from typing import Any

import msgpack
import pytest

from raftbatch import records as r
from raftbatch.codec import encode_entry
from raftbatch.cut import cut_entry, read_cut
from raftbatch.errors import Undecodable
from tests.unit.record_examples import EXAMPLES, entry

CUT = ("payload", "parameters", "result")


def zeroed(record: Any) -> Any:
    """Return a record with zeros for the bytes that are cut."""
    names = [field.name for field in fields(record) if field.name in CUT]
    return replace(record, **{name: tuple(map(_zeros, getattr(record, name))) for name in names})


def _zeros(blob: bytes) -> bytes:
    return bytes(len(blob))


@pytest.mark.parametrize("name", EXAMPLES)
def test_record_keeps_its_shape_and_sizes(name: str) -> None:
    record = EXAMPLES[name]
    found = read_cut(cut_entry(encode_entry(entry(record))))
    assert found == replace(entry(record), records=(zeroed(record),))


def test_bytes_of_requests_are_gone() -> None:
    secret = b"nobody is to see this" * 1000
    record = EXAMPLES["admit"]
    assert isinstance(record, r.Admit)
    record = replace(record, payload=(secret,) * 3, parameters=(b"", secret, b""))
    cut = cut_entry(encode_entry(entry(record)))
    assert b"nobody" not in cut
    assert len(cut) < 300
    assert read_cut(cut).records == (zeroed(record),)


def test_columns_of_one_value_and_of_none_are_cut_too() -> None:
    complete = EXAMPLES["complete"]
    assert isinstance(complete, r.Complete)
    nothing = replace(complete, numbers=(), kind=(), code=(), message=(), result=())
    same = replace(complete, result=(b"same", b"same"))
    for record in (nothing, same):
        assert read_cut(cut_entry(encode_entry(entry(record)))).records == (zeroed(record),)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff" * 40,
        msgpack.packb((1, 1, 1)),
        msgpack.packb((1, 1, 1, 7)),
        msgpack.packb((1, 1, 1, [7])),
        msgpack.packb((1, 1, 1, [[]])),
        msgpack.packb((1, 1, 1, [[2]])),
        msgpack.packb((1, 1, 1, [[2, 1, "x", "y", "z"]])),
        msgpack.packb((1, 1, 1, [[9, -1]])),
        msgpack.packb((1, 1, 1, [[9, 1 << 62]])),
        msgpack.packb((1, 1, 1, [[9, [1 << 62] * 3]])),
        msgpack.packb((1, 1, 1, [[9, [64 << 20] * 1000]])),
        msgpack.packb((1, 1, 1, [[True, [1] * 1000]])),
        msgpack.packb((9, 1, 1, [])),
        msgpack.packb((1, 1, 1, [[99, 1]])),
    ],
)
def test_whatever_is_no_cut_entry_is_one_error(data: bytes) -> None:
    with pytest.raises(Undecodable):
        read_cut(data)


def test_drawn_bytes_are_read_or_refused() -> None:
    draw = Random(1)
    good = cut_entry(encode_entry(entry(EXAMPLES["admit"])))
    for _ in range(2000):
        data = bytearray(good)
        for _ in range(draw.randint(1, 3)):
            data[draw.randrange(len(data))] = draw.randrange(256)
        try:
            read_cut(bytes(data))
        except Undecodable:
            pass


def test_what_is_no_entry_is_not_cut() -> None:
    for data in (b"opaque", msgpack.packb((1, 1, 1, [[2, 3]])), msgpack.packb((1, 1, 1, [[9, 7]]))):
        with pytest.raises(Undecodable):
            cut_entry(data)
