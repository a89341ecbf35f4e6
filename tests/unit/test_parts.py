"""How many parts a message has, held against messages that Protobuf has read."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import grpc
import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from coordinator.node import Node
from coordinator.rpc import parts
from coordinator.rpc.legible import Legible, check
from raftbatch.errors import PayloadTooLarge
from raftbatch.v1 import admin_pb2, dispatch_pb2, load_pb2
from raftbatch.v1 import gateway_pb2 as pb


def counted(message: Message) -> int:
    """Return how many parts a message has that was read."""
    found = 0
    for field, value in message.ListFields():
        values = value if field.is_repeated else [value]
        if field.message_type is not None:
            found += len(values) + sum(counted(each) for each in values)
        elif field.is_repeated:
            is_row = field.cpp_type != field.CPPTYPE_STRING
            found += len(values) // 16 if is_row else len(values)
    return found


def is_within(data: bytes, kind: type[Message], most: int) -> bool:
    """Ask, of a message of any length."""
    padding = b"\xfa\x7f" + b"\x80\x80\x04" + bytes(1 << 16)  # a field that nobody knows
    descriptor: Any = kind.DESCRIPTOR
    return parts.is_within(padding + data, descriptor, most)


_counts = st.integers(0, 5)
_numbers = st.lists(st.integers(0, 2**64 - 1), max_size=40)
_submissions = st.lists(
    st.builds(
        pb.Submission,
        request_id=st.text(max_size=3),
        payload=st.binary(max_size=300),
        rows=st.integers(0, 2**32 - 1),
    ),
    max_size=4,
)
_names = st.lists(
    st.builds(pb.SessionNames, request_ids=st.lists(st.text(max_size=3), max_size=4)), max_size=4
)
_sessions = st.builds(pb.SessionRequest, dropped=_numbers, submissions=_submissions, cancels=_names)
_completes = st.builds(
    dispatch_pb2.Complete, numbers=_numbers, results=st.lists(st.binary(max_size=200), max_size=4)
)
_reports = st.builds(
    dispatch_pb2.ReportRequest,
    reports=st.lists(st.builds(dispatch_pb2.Report, complete=_completes), max_size=4),
)
_loads = st.builds(
    load_pb2.ExecutorLoad,
    models=st.lists(st.builds(load_pb2.ModelLoad), max_size=4),
)
_heartbeats = st.builds(
    dispatch_pb2.HeartbeatRequest,
    executor=st.text(max_size=3),
    holdings=st.lists(st.builds(dispatch_pb2.Holding), max_size=4),
    load=_loads,
)


@given(st.one_of(_sessions, _reports, _heartbeats, st.builds(admin_pb2.StatusRequest)))
def test_parts_are_those_that_the_message_has(message: Message) -> None:
    count = counted(message)
    data = message.SerializeToString()
    assert is_within(data, type(message), count)
    assert not count or not is_within(data, type(message), count - 1)


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (b"\x22\x00" * 9, 9),  # empty submissions
        (b"\x18\x01" * 9, 9),  # numbers, each behind a tag
        (b"\x1a\x30" + b"\x01" * 48, 3),  # numbers in a row
        (b"\x1a\x40" + b"\x81\x01" * 32, 2),
        (b"\x32\x04\x12\x00\x12\x00" * 3, 9),  # lists of ids
        (b"\x9b\x06\x22\x00\x9c\x06\x22\x00", 2),  # beside a group that nobody knows
        (b"\x22\x00\x22\x7f\x22", 2),  # cut off
        (b"\x22\x00\x22\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 2),
        (b"\x22\x00\xff", 1),
        (b"\x22\x00\x1f\x22\x00", 1),  # nothing is read behind a tag of no kind
        (b"\x09" + bytes(8) + b"\x25" + bytes(4) + b"\x22\x00", 2),  # of another wire type
    ],
)
def test_parts_of_a_hostile_message_are_counted(data: bytes, count: int) -> None:
    assert is_within(data, pb.SessionRequest, count)
    assert not is_within(data, pb.SessionRequest, count - 1)


@given(st.binary(max_size=400))
def test_whatever_comes_is_counted(data: bytes) -> None:
    assert is_within(data, pb.SessionRequest, len(data))


def test_message_of_too_many_parts_is_refused_before_it_is_read() -> None:
    """Each part of two bytes would become an object of nearly two hundred."""
    read: list[int] = []

    class Kind:
        DESCRIPTOR = pb.SubmitRequest.DESCRIPTOR

        @classmethod
        def read(cls, data: bytes) -> str:
            read.append(len(data))
            return "read"

    async def serve(request: object, context: object) -> None:
        raise AssertionError("it is not called")

    async def handler(details: object) -> Any:
        return grpc.unary_unary_rpc_method_handler(serve, Kind.read)

    made: Any = asyncio.run(Legible(cast("Node", None)).intercept_service(handler, cast("Any", 0)))
    with pytest.raises(PayloadTooLarge, match=f"more than {parts.PARTS_MAX} parts"):
        check(made.request_deserializer(b"\x12\x00" * (parts.PARTS_MAX + 1)))
    assert read == []
    assert made.request_deserializer(b"\x12\x00" * parts.PARTS_MAX) == "read"


@pytest.mark.parametrize("label", [FieldDescriptor.LABEL_REPEATED, FieldDescriptor.LABEL_OPTIONAL])
def test_lists_are_told_by_the_words_of_protobuf_6_30_too(label: int) -> None:
    field: Any = SimpleNamespace(label=label)  # it has no `is_repeated`
    assert parts._is_list(field) == (label == FieldDescriptor.LABEL_REPEATED)


@pytest.mark.parametrize("field", [b"\xa0\x01\x01", b"\xa2\x01\x00", b"\xa3\x01\xa4\x01"])
@pytest.mark.parametrize("is_nested", [False, True])
def test_fields_that_are_no_parts_are_few_too(field: bytes, is_nested: bool) -> None:
    """A dozen MiB of them, which nobody knows, took seconds to count and a moment to read."""
    kind: Any = dispatch_pb2.ReportRequest.DESCRIPTOR
    data = field * (parts.FIELDS_MAX // (len(field) // 2))
    if is_nested:
        report = dispatch_pb2.Report.FromString(data)
        data = dispatch_pb2.ReportRequest(reports=[report]).SerializeToString()
    assert not parts.is_within(data, kind)
    assert parts.is_within(data[: len(data) // 4], kind)
