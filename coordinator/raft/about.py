"""What a node says of itself beside who it is: where clients reach it, and what its file says.

It travels in the greetings. What lives here: the value, its bytes, and how two of
them are held against each other. What must never live here: which keys of a file
count (`coordinator.about`), or what becomes of a difference. Called by: `greeting`,
`acquaintance`, founding, the composition root. Total, but for `decode`. Deterministic.

The pairs of the file are compared where both nodes have the key alone, so that a
later release may say more without another version of the protocol.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import msgpack

from raftbatch.ids import NodeId, is_address

PAIRS_MAX = 64
"""More than any file has that others must agree with."""

TEXT_BYTES_MAX = 256
"""Of a value, which may be a name for people."""

ADDRESS_BYTES_MAX = 300
"""As of a member's address."""

_BYTES_MAX = 32 << 10  # of all pairs at their longest, and less than a greeting holds
_KEY = re.compile(r"[a-z_]{1,32}(\.[a-z_]{1,32})?")
_NUMBER_MAX = (1 << 63) - 1

Pair = tuple[str, int | str]


@dataclass(frozen=True, slots=True)
class Difference:
    """A key that two files have with different values.

    Attributes:
        key: of the file, dotted.
        ours, theirs: its values.
    """

    key: str
    ours: int | str
    theirs: int | str

    def text(self, own: NodeId, other: NodeId) -> str:
        """Say it to an operator."""
        return f"{self.key} is {self.ours} in the file of {own}, and {self.theirs} in {other}'s"


@dataclass(frozen=True, slots=True)
class About:
    """See the module's docstring.

    Attributes:
        client: where clients reach the node over gRPC, `host:port`; empty: it does not say.
        http: the same over HTTP.
        file: pairs of key and value, in the order of their keys.

    Raises:
        ValueError: it is none: an address or a pair is not of its form, or too long.
    """

    client: str = ""
    http: str = ""
    file: tuple[Pair, ...] = ()

    def __post_init__(self) -> None:
        for address in (self.client, self.http):
            if type(address) is not str or len(address.encode()) > ADDRESS_BYTES_MAX:
                raise ValueError(f"{address!r} is no address")
            if address and not is_address(address):
                raise ValueError(f"{address!r} is no address: it must be host:port")
        keys = [key for key, _ in self.file]
        if len(keys) > PAIRS_MAX or any(_is_wrong(*pair) for pair in self.file):
            raise ValueError(f"{self.file!r} is nothing that a file says")
        if keys != sorted(set(keys)):
            raise ValueError(f"keys of a file are out of order, or stand twice: {keys}")

    def differences(self, other: About) -> list[Difference]:
        """Return where two files differ, this one's values as ours."""
        theirs = dict(other.file)
        return [
            Difference(key, value, theirs[key])
            for key, value in self.file
            if key in theirs and theirs[key] != value
        ]


NOTHING = About()
"""Of a node that says nothing of itself."""


def _is_wrong(key: object, value: object) -> bool:
    if not isinstance(key, str) or _KEY.fullmatch(key) is None:
        return True
    if type(value) is int:
        return not 0 <= value <= _NUMBER_MAX
    return not (
        type(value) is str and value.isprintable() and len(value.encode()) <= TEXT_BYTES_MAX
    )


def encode(about: About) -> bytes:
    """Return the bytes of it: equal values have equal bytes."""
    encoded: bytes = msgpack.packb([about.client, about.http, [list(pair) for pair in about.file]])
    return encoded


def decode(data: bytes) -> About:
    """Read it back.

    Raises:
        ValueError: these are the bytes of none, whoever made them.
    """
    try:
        if type(data) is not bytes or len(data) > _BYTES_MAX:
            raise ValueError("it is too long, or no bytes")
        client, http, pairs = msgpack.unpackb(
            data, raw=False, max_array_len=PAIRS_MAX, max_map_len=0, max_ext_len=0
        )
        found = About(client, http, tuple((key, value) for key, value in pairs))
    except ValueError:
        raise
    except Exception as error:  # noqa: BLE001 - msgpack raises many kinds, all of which mean damage
        raise ValueError(f"nothing that a node says of itself: {error}") from None
    if encode(found) != data:
        raise ValueError("not in the one form that is written")
    return found
