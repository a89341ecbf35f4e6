"""The first words of a connection between coordinators, and the answers to them.

Whoever connects says one of `Hello` (I am your peer: from here on we exchange
messages of consensus), or a question of first start and joining: `Ask`, `Adopt`,
`Join`. The other end says one answer. What lives here: these words, their bytes
and what makes them well-formed. What must never live here: a connection, or a
decision about an answer. Called by: `door`, `transport`, founding and joining.
Total, but for `decode`. Deterministic. Source: docs/ARCHITECTURE.md, "Between
coordinators".

A greeting is a length (4 bytes, big-endian, at most `GREETING_BYTES_MAX`) and a
msgpack array: the word `raftbatch`, the version of the protocol, the greeting's
number, its fields. `Refused` keeps its form for ever, so that nodes of different
versions can say that they are.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import Field, dataclass, fields
from typing import Any, NamedTuple

import msgpack

from coordinator.raft import about, membership
from coordinator.raft.about import NOTHING, About
from coordinator.raft.membership import ADDRESS_BYTES_MAX, Membership, Rank
from raftbatch.ids import ClusterId, NodeId, is_cluster_id, is_node_id

VERSION = 2
"""Of the protocol between coordinators; nodes of different ones refuse each other.

1: greetings said nothing of clients' addresses and of the file (`About`).
"""

GREETING_BYTES_MAX = 64 << 10
"""No greeting is longer: 31 members with the longest names and addresses take under 13 KiB, and
what a node says of itself, at its longest, 23 KiB."""

LENGTH = struct.Struct(">I")
"""What stands before a greeting."""

TOKEN_BYTES = 16
"""A token is so long, and drawn at random: nobody has it who was not told."""

TEXT_BYTES_MAX = 2000
"""A sentence for the operator is cut here."""

_MAGIC = "raftbatch"
_NUMBER_MAX = (1 << 63) - 1
_SLUG = re.compile(r"[a-z_]{1,64}")


class Malformed(ValueError):
    """Bytes that are no greeting, or no message.

    Args:
        reason: in a few words with underscores, for a counter.
        text: what is wrong, for a person.
    """

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class OtherVersion(Malformed):
    """A greeting in another version of the protocol."""

    def __init__(self, version: object) -> None:
        super().__init__(
            "other_version",
            f"the other end speaks version {version!r} of the protocol between coordinators, "
            f"this node version {VERSION}: run versions of raftbatch side by side that share one",
        )


class _Greeting:
    """What all of them share: wrong parts are a ValueError."""

    __slots__ = ()

    def __post_init__(self) -> None:
        for each in fields(self):  # type: ignore[arg-type]  # every subclass is a dataclass
            _form(each).check(getattr(self, each.name))


@dataclass(frozen=True, slots=True)
class Hello(_Greeting):
    """I am that life of that node of that cluster, and mean to be connected to the node `to`."""

    cluster_id: ClusterId
    node_id: NodeId
    incarnation: int
    to: NodeId
    about: About = NOTHING


@dataclass(frozen=True, slots=True)
class Welcome(_Greeting):
    """The answer: we are connected; I am that life of that node."""

    node_id: NodeId
    incarnation: int
    about: About = NOTHING


@dataclass(frozen=True, slots=True)
class Refused(_Greeting):
    """The answer to any: no.

    Attributes:
        slug: the error's, as in `raftbatch.errors`.
        text: a sentence for the operator.
        leader: peer address of the leader to go to, or empty.
    """

    slug: str
    text: str
    leader: str = ""


@dataclass(frozen=True, slots=True)
class Ask(_Greeting):
    """The node `node_id` founds a cluster of these members: are you empty, and do you agree?

    `token` is the asker's, `founders` the members in its configuration.
    """

    node_id: NodeId
    token: bytes
    founders: Membership
    about: About = NOTHING


@dataclass(frozen=True, slots=True)
class Empty(_Greeting):
    """The answer: my directory is empty; this is my token, and these are my configured members."""

    node_id: NodeId
    token: bytes
    founders: Membership
    about: About = NOTHING


@dataclass(frozen=True, slots=True)
class Born(_Greeting):
    """The answer: I am that life of that node of a cluster that runs already."""

    cluster_id: ClusterId
    node_id: NodeId
    incarnation: int


@dataclass(frozen=True, slots=True)
class Adopt(_Greeting):
    """The node `node_id` has founded this cluster: become a member, if `token` is yours."""

    node_id: NodeId
    cluster_id: ClusterId
    token: bytes
    founders: Membership
    about: About = NOTHING


@dataclass(frozen=True, slots=True)
class Adopted(_Greeting):
    """The answer: I am one, and have written that down."""

    node_id: NodeId


@dataclass(frozen=True, slots=True)
class Join(_Greeting):
    """Make me, the empty node `node_id` at `address`, a member."""

    node_id: NodeId
    address: str
    rank: Rank


@dataclass(frozen=True, slots=True)
class Joined(_Greeting):
    """The answer: you are one, in that life."""

    cluster_id: ClusterId
    incarnation: int


Request = Ask | Adopt | Join
"""A question: one connection each."""

Reply = Empty | Born | Adopted | Joined | Refused
"""What may be said to a question."""

Greeting = Hello | Welcome | Request | Reply

_NUMBERS: dict[int, type[Greeting]] = {
    1: Hello,
    2: Welcome,
    3: Refused,
    4: Ask,
    5: Empty,
    6: Born,
    7: Adopt,
    8: Adopted,
    9: Join,
    10: Joined,
}
_REFUSED = 3
_TYPES = {kind: number for number, kind in _NUMBERS.items()}


def refused(slug: str, text: str, leader: str = "") -> Refused:
    """Return a refusal whose text is cut where it is too long to be one."""
    return Refused(slug, text.encode()[:TEXT_BYTES_MAX].decode(errors="ignore"), leader)


def encode(greeting: Greeting) -> bytes:
    """Return the bytes of a greeting, its length before them."""
    values = [_form(each).to_wire(getattr(greeting, each.name)) for each in fields(greeting)]
    body: bytes = msgpack.packb([_MAGIC, VERSION, _TYPES[type(greeting)], *values])
    assert len(body) <= GREETING_BYTES_MAX, "the limits of the fields add up to less"
    return LENGTH.pack(len(body)) + body


def decode(body: bytes) -> Greeting:
    """Read a greeting, without its length.

    Raises:
        Malformed: these are the bytes of none, whoever made them; nothing else comes out.
        OtherVersion: it is one of another version.
    """
    try:
        magic, version, number, *values = msgpack.unpackb(
            body, raw=False, max_array_len=16, max_map_len=0, max_ext_len=0
        )
    except Exception as error:  # noqa: BLE001 - msgpack raises many kinds, all of which mean damage
        raise Malformed("no_greeting", f"the first bytes are no greeting: {error}") from None
    if magic != _MAGIC:
        raise Malformed("no_greeting", "the first bytes are not those of raftbatch")
    if (type(version) is not int or version != VERSION) and number != _REFUSED:
        raise OtherVersion(version)
    kind = _NUMBERS.get(number) if type(number) is int else None
    if kind is None or len(values) != len(fields(kind)):
        raise Malformed("no_greeting", f"{number!r} with {len(values)} fields is no greeting")
    try:
        parts = [
            _form(each).from_wire(value) for each, value in zip(fields(kind), values, strict=True)
        ]
        greeting = kind(*parts)
    except Exception as error:  # noqa: BLE001 - of any kind: a part is not of its form
        raise Malformed("bad_greeting", f"a {kind.__name__} with a wrong part: {error}") from None
    if version == VERSION and encode(greeting)[LENGTH.size :] != body:
        raise Malformed("bad_greeting", f"a {kind.__name__} not in the one form that is written")
    return greeting


def _same(value: Any) -> Any:
    return value


class _Form(NamedTuple):
    """How a field of one type is checked and written; checks raise ValueError."""

    check: Callable[[Any], None]
    to_wire: Callable[[Any], Any] = _same
    from_wire: Callable[[Any], Any] = _same


def _require(holds: bool, value: object, what: str) -> None:
    if not holds:
        raise ValueError(f"{value!r} is no {what}")


def _check_text(value: object) -> None:
    holds = type(value) is str and len(value.encode()) <= TEXT_BYTES_MAX
    _require(holds, value, "text")


def _check_slug(value: object) -> None:
    _require(type(value) is str and _SLUG.fullmatch(value) is not None, value, "slug")


def _check_address(value: object) -> None:
    holds = type(value) is str and 0 < len(value.encode()) <= ADDRESS_BYTES_MAX
    _require(holds, value, "address")


def _check_hint(value: object) -> None:
    if value != "":
        _check_address(value)


def _check_node(value: object) -> None:
    _require(type(value) is str and is_node_id(value), value, "node id")


def _check_cluster(value: object) -> None:
    _require(type(value) is str and is_cluster_id(value), value, "cluster id")


def _check_incarnation(value: object) -> None:
    _require(type(value) is int and 1 <= value <= _NUMBER_MAX, value, "incarnation")


def _check_token(value: object) -> None:
    _require(type(value) is bytes and len(value) == TOKEN_BYTES, value, "token")


def _check_founders(value: object) -> None:
    holds = isinstance(value, Membership) and value.members and not value.retired
    _require(bool(holds), value, "set of founders")


def _check_about(value: object) -> None:
    _require(isinstance(value, About), value, "word of a node about itself")


def _check_rank(value: object) -> None:
    _require(isinstance(value, Rank) and value is not Rank.VOTER, value, "rank to join with")


_FORMS: dict[str, _Form] = {
    "ClusterId": _Form(_check_cluster),
    "NodeId": _Form(_check_node),
    "int": _Form(_check_incarnation),
    "bytes": _Form(_check_token),
    "slug": _Form(_check_slug),
    "text": _Form(_check_text),
    "address": _Form(_check_address),
    "leader": _Form(_check_hint),
    "Membership": _Form(_check_founders, membership.encode, membership.decode),
    "About": _Form(_check_about, about.encode, about.decode),
    "Rank": _Form(_check_rank, int, Rank),
}
"""By the name of the field where it is a text, else by that of its type."""


def _form(field: Field[Any]) -> _Form:
    return _FORMS[field.name if field.type == "str" else str(field.type)]
