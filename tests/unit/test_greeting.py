"""The first words of a connection: each survives its bytes, and nothing else is one."""

from dataclasses import fields
from random import Random
from typing import Any, get_args

import msgpack
import pytest

from coordinator.raft import about, greeting, membership
from coordinator.raft.about import About
from coordinator.raft.greeting import (
    GREETING_BYTES_MAX,
    LENGTH,
    TEXT_BYTES_MAX,
    VERSION,
    Adopt,
    Adopted,
    Ask,
    Born,
    Empty,
    Greeting,
    Hello,
    Join,
    Joined,
    Malformed,
    OtherVersion,
    Refused,
    Welcome,
    refused,
)
from coordinator.raft.membership import ADDRESS_BYTES_MAX, MEMBERS_MAX, Rank, founders
from raftbatch.ids import ClusterId, NodeId

CLUSTER = ClusterId("0123456789abcdef" * 2)
N1, N2 = NodeId("n1"), NodeId("n2")
TOKEN = bytes(range(16))
FOUNDERS = founders({N1: "10.0.0.1:7", N2: "[::1]:8"})

ABOUT = About(
    "10.0.0.1:8001", "[::1]:9", (("cluster.name", "Küche 1"), ("timing.heartbeat_ms", 50))
)

EXAMPLES: tuple[Greeting, ...] = (
    Hello(CLUSTER, N1, 3, N2, ABOUT),
    Welcome(N2, 2**63 - 1, ABOUT),
    Welcome(N2, 1),
    Refused("not_leader", "go to n2", "n2:70"),
    Refused("overloaded", ""),
    Ask(N1, TOKEN, FOUNDERS, ABOUT),
    Empty(N2, TOKEN, FOUNDERS, ABOUT),
    Born(CLUSTER, N2, 1),
    Adopt(N1, CLUSTER, TOKEN, FOUNDERS, ABOUT),
    Adopted(N2),
    Join(N2, "n2.example:70", Rank.LEARNER),
    Joined(CLUSTER, 2),
)


def body_of(example: Greeting) -> bytes:
    """Return its bytes without the length, which must be right."""
    data = greeting.encode(example)
    assert LENGTH.unpack_from(data) == (len(data) - LENGTH.size,)
    return data[LENGTH.size :]


def test_greeting_examples_are_of_every_kind() -> None:
    assert {type(each) for each in EXAMPLES} == set(get_args(Greeting))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda each: type(each).__name__)
def test_greeting_survives_its_bytes(example: Greeting) -> None:
    assert greeting.decode(body_of(example)) == example


_LETTERS = str.maketrans("0123456789", "abcdefghij")


def test_greeting_of_the_largest_cluster_fits() -> None:
    names = [NodeId(f"{number:02}".ljust(63, "x")) for number in range(MEMBERS_MAX)]
    largest = founders(dict.fromkeys(names, "a" * 253 + ":65535"))
    data = greeting.encode(Ask(names[0], TOKEN, largest))
    assert len(data) < GREETING_BYTES_MAX // 4
    pairs = [(f"{n:02}".translate(_LETTERS).ljust(32, "x") + ".k", "v" * 256) for n in range(64)]
    said = About("a" * 253 + ":65535", "b" * 253 + ":65535", tuple(sorted(pairs)))
    whole = Ask(names[0], TOKEN, largest, said)
    data = greeting.encode(whole)
    assert len(data) < GREETING_BYTES_MAX * 3 // 4
    assert greeting.decode(data[LENGTH.size :]) == whole


def mutated(rng: Random, body: bytes) -> bytes:
    """Return the bytes with a few of them changed, lost or added."""
    data = bytearray(body)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(3):
            case 0:
                data[at : at + 1] = rng.randbytes(1)
            case 1:
                del data[at : at + rng.randint(1, 8)]
            case _:
                data[at:at] = rng.randbytes(rng.randint(1, 4))
    return bytes(data)


def test_greeting_is_a_greeting_or_malformed_whatever_the_bytes() -> None:
    rng = Random(1)
    outcomes = {"greeting": 0, "malformed": 0}
    bodies = [body_of(example) for example in EXAMPLES]
    for _ in range(20_000):
        try:
            again = greeting.decode(mutated(rng, rng.choice(bodies)))
        except Malformed:
            outcomes["malformed"] += 1
        else:
            outcomes["greeting"] += 1
            assert greeting.decode(body_of(again)) == again
    assert min(outcomes.values()) > 100, outcomes


def test_greeting_has_one_form_alone() -> None:
    body = body_of(Adopted(N2))
    assert body[-3:] == b"\xa2n2"
    longer = body[:-3] + b"\xd9\x02n2"  # the same text, its length in a byte of its own
    assert msgpack.unpackb(longer) == msgpack.unpackb(body)
    with pytest.raises(Malformed, match="one form"):
        greeting.decode(longer)


WRONG: dict[str, list[Any]] = {
    "ClusterId": [CLUSTER[:-1], CLUSTER.upper().replace("0", "G"), b"0" * 32, 0, None],
    "NodeId": ["", "-a", "n 1", "x" * 64, b"n1", 1, ["n1"]],
    "int": [0, -1, 1 << 63, 1.0, True, "1", None],
    "bytes": [b"", TOKEN[:-1], TOKEN + b"x", "0" * 16],
    "slug": ["", "Not-a-slug", "x" * 65, 3],
    "text": ["x" * (TEXT_BYTES_MAX + 1), b"text", None],
    "leader": ["x" * (ADDRESS_BYTES_MAX + 1), 0],
    "address": ["", "x" * (ADDRESS_BYTES_MAX + 1), 7],
    "Membership": [b"", b"\xc1", "x", [], FOUNDERS],
    "About": [b"", b"\xc1", "x", [], None, about.encode(ABOUT) + b"\0"],
    "Rank": [0, 1, 4, "2", True, 2.0],
}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda each: type(each).__name__)
def test_greeting_with_a_wrong_part_is_malformed(example: Greeting) -> None:
    values = msgpack.unpackb(body_of(example))
    for place, field in enumerate(fields(example), start=3):
        for wrong in WRONG[field.name if field.type == "str" else str(field.type)]:
            if wrong is FOUNDERS:
                continue
            body = msgpack.packb([*values[:place], wrong, *values[place + 1 :]])
            with pytest.raises(Malformed) as caught:
                greeting.decode(body)
            assert caught.value.reason == "bad_greeting", (field.name, wrong)


def test_greeting_with_founders_that_were_removed_is_malformed() -> None:
    values = msgpack.unpackb(body_of(Ask(N1, TOKEN, FOUNDERS)))
    values[-2] = membership.encode(FOUNDERS.removed(N2))
    with pytest.raises(Malformed, match="founders"):
        greeting.decode(msgpack.packb(values))
    with pytest.raises(ValueError, match="founders"):
        Ask(N1, TOKEN, FOUNDERS.removed(N2))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"GET / HTTP/1.1\r\n",
        b"\xc1" * 50,
        msgpack.packb("raftbatch"),
        msgpack.packb([]),
        msgpack.packb(["raftbatch", VERSION]),
        msgpack.packb(["raftbatch", VERSION, 11]),
        msgpack.packb(["raftbatch", VERSION, "1", CLUSTER, "n1", 1, "n2"]),
        msgpack.packb(["raftbatch", VERSION, 1, CLUSTER, "n1", 1, "n2"]),
        msgpack.packb(["raftbatch", VERSION, 8, "n1", "n1"]),
        msgpack.packb(["raftbutch", VERSION, 8, "n1"]),
        msgpack.packb(["raftbatch", VERSION, 8, "n1"]) + b"\0",
        b"\x91" * 10_000,
    ],
    ids=range(13),
)
def test_greeting_refuses_other_bytes(body: bytes) -> None:
    with pytest.raises(Malformed) as caught:
        greeting.decode(body)
    assert caught.value.reason == "no_greeting"


def test_greeting_of_another_version_is_named_but_a_refusal_is_understood() -> None:
    hello = msgpack.unpackb(body_of(EXAMPLES[0]))
    for version in (VERSION - 1, VERSION + 1, "2", True):
        with pytest.raises(OtherVersion, match=f"version {version!r} "):
            greeting.decode(msgpack.packb([hello[0], version, *hello[2:]]))
    refusal = msgpack.packb(["raftbatch", VERSION + 1, 3, "invalid_request", "too old", ""])
    assert greeting.decode(refusal) == Refused("invalid_request", "too old")


def test_refusal_is_cut_to_what_a_greeting_holds() -> None:
    assert refused("overloaded", "ü" * TEXT_BYTES_MAX).text == "ü" * (TEXT_BYTES_MAX // 2)
    assert len(refused("overloaded", "xü" * TEXT_BYTES_MAX).text.encode()) <= TEXT_BYTES_MAX
