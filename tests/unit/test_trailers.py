"""What a failed call's trailer says: read alike by all who read it, whatever stands there."""

from __future__ import annotations

import re
from collections.abc import Iterable
from random import Random

import grpc
import grpc.aio
import pytest

from executor.link import Trouble, trouble_of
from raftbatch.cli.calls import CallFailed, Target, _of_rpc
from raftbatch.errors import TRAILER, NotLeader, OutcomeUnknown, Overloaded, RaftbatchError
from raftbatch.trailers import (
    MESSAGE_CHARACTERS_MAX,
    RETRY_AFTER_MS_MAX,
    Refused,
    Said,
    error_in,
    of_call,
    said_by,
    said_in,
)
from raftbatch.v1 import error_pb2

FULL = error_pb2.Error(
    slug="not_leader",
    message="n2 leads, and grüßt",
    definite=True,
    leader="127.0.0.1:8002",
    retry_after_ms=30,
)
MUTATIONS = 20_000


def test_error_is_read_as_it_was_said() -> None:
    found = said_by([("other", "text"), (TRAILER, FULL.SerializeToString())])
    assert found == Said("not_leader", "n2 leads, and grüßt", True, "127.0.0.1:8002", 30)
    error = error_in(FULL)
    assert isinstance(error, NotLeader)
    assert (error.leader, error.retry_after_ms) == ("127.0.0.1:8002", 30)


@pytest.mark.parametrize(
    ("slug", "definite", "kind"),
    [
        ("overloaded", True, Overloaded),
        ("of_tomorrow", True, Refused),
        ("of_tomorrow", False, OutcomeUnknown),
        ("overloaded", False, OutcomeUnknown),  # it says itself that nobody knows
        ("corrupt", False, OutcomeUnknown),
        ("", True, OutcomeUnknown),  # no slug: whatever is meant is not known
        ("No Slug", True, OutcomeUnknown),
        ("a" * 65, True, OutcomeUnknown),
    ],
)
def test_unknown_slugs_are_judged_by_definite_alone(
    slug: str, definite: bool, kind: type[RaftbatchError]
) -> None:
    error = error_in(error_pb2.Error(slug=slug, message="no", definite=definite))
    assert type(error) is kind
    assert error.definite is (definite and kind is not OutcomeUnknown)
    if kind is Refused:
        assert error.slug == slug


def test_what_is_absurd_is_cut_to_its_bound() -> None:
    huge = error_pb2.Error(
        slug="overloaded",
        message="x" * 1_000_000,
        definite=True,
        leader="unix:/etc/passwd",
        retry_after_ms=(1 << 32) - 1,
    )
    found = said_in(huge)
    assert len(found.message) <= MESSAGE_CHARACTERS_MAX + 4
    assert (found.leader, found.retry_after_ms) == ("", RETRY_AFTER_MS_MAX)


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        [],
        [("other", b"")],
        [(TRAILER, "text, where bytes are due")],
        [(TRAILER, None)],
        [(TRAILER,)],
        [TRAILER],
        [(TRAILER, b"\xff\xff\xff")],
        [(TRAILER, b"\x0a\x05ab")],  # shorter than it says
        [(TRAILER, b"\x0a\x02\xff\xfe")],  # a text that is none
        [(TRAILER, bytes(2_000_000))],
    ],
)
def test_what_cannot_be_read_says_nothing(metadata: Iterable[object] | None) -> None:
    assert said_by(metadata) is None


def test_first_trailer_that_can_be_read_counts() -> None:
    found = said_by([(TRAILER, b"\xff"), (TRAILER, FULL.SerializeToString())])
    assert found is not None
    assert found.slug == "not_leader"


def test_mutated_bytes_are_read_or_not_and_never_raise() -> None:
    """Every reader, over bits that were turned, cut off and added."""
    rng = Random(7)
    whole = FULL.SerializeToString()
    counts = {True: 0, False: 0}
    for _ in range(MUTATIONS):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            match rng.randrange(4):
                case 0 if data:
                    data[rng.randrange(len(data))] = rng.randrange(256)
                case 1:
                    data = data[: rng.randrange(len(data) + 1)]
                case 2:
                    data[rng.randrange(len(data) + 1) : 0] = rng.randbytes(rng.randint(1, 9))
                case _:
                    data = data + whole[: rng.randrange(len(whole))]
        counts[_read_by_all(bytes(data))] += 1
    assert min(counts.values()) > MUTATIONS // 100, counts  # both kinds were met


def test_what_grpc_says_of_the_size_of_a_message_is_definite() -> None:
    code, said = grpc.StatusCode.RESOURCE_EXHAUSTED, "SERVER: Received message larger than max (9)"
    nothing = grpc.aio.Metadata()
    found = trouble_of(grpc.aio.AioRpcError(code, nothing, nothing, details=said))
    assert (found.slug, found.is_final) == ("payload_too_large", True)
    found = trouble_of(grpc.aio.AioRpcError(code, nothing, nothing, details="too many pings"))
    assert (found.slug, found.is_final) == ("", False)


def _read_by_all(data: bytes) -> bool:
    """Let all readers read a trailer; return whether something was said in it."""
    found = said_by([(TRAILER, data)])
    metadata = grpc.aio.Metadata((TRAILER, data))
    code = grpc.StatusCode.UNAVAILABLE
    broken = grpc.aio.AioRpcError(code, grpc.aio.Metadata(), metadata, details="it broke")
    error = of_call("127.0.0.1:1", broken)
    trouble = trouble_of(broken)
    failed = _of_rpc(Target("127.0.0.1:1"), broken)
    assert isinstance(error, RaftbatchError)
    assert isinstance(trouble, Trouble)
    assert isinstance(failed, CallFailed)
    if found is None:
        assert (error.definite, trouble.slug, failed.slug) == (False, "", "")
        return False
    assert re.fullmatch("[a-z0-9_]{1,64}", found.slug)
    assert error.definite is found.definite
    assert (trouble.slug, trouble.is_definite, trouble.leader) == (
        found.slug,
        found.definite,
        found.leader,
    )
    assert (failed.slug, failed.is_definite) == (found.slug, found.definite)
    return True
