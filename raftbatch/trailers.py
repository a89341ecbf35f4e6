"""What a node says of a call that failed, read from its trailer or from within a message.

Whoever answers may be broken, of a newer version, or no node at all: what is read here is
held to its form, cut to a length, and never raises. What lives here: that reading, for
all who call a node. What must never live here: what to do about an error. Called by: the
SDK, commands, executors, coordinators that call each other.

Source: proto/raftbatch/v1/error.proto.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from raftbatch import errors
from raftbatch.errors import TRAILER, OutcomeUnknown, RaftbatchError
from raftbatch.handshakes import in_words
from raftbatch.ids import is_address
from raftbatch.v1 import error_pb2

if TYPE_CHECKING:
    import grpc.aio

MESSAGE_CHARACTERS_MAX = 2_000
"""A sentence for a person is shorter; more is cut off."""

RETRY_AFTER_MS_MAX = 60_000
"""No node asks for more: whoever says so is asked again all the same."""

_TRAILER_BYTES_MAX = 1 << 20
_SLUG = re.compile(r"[a-z][a-z0-9_]{0,63}")


class Refused(RaftbatchError):
    """A definite error of a kind that only a newer node knows.

    Args:
        message: the node's.
        slug: the node's.
        retry_after_ms: the node's.
    """

    slug, grpc, http = "refused", "", 0

    def __init__(self, message: str, *, slug: str, retry_after_ms: int = 0) -> None:
        super().__init__(message, retry_after_ms=retry_after_ms)
        self.slug = slug  # type: ignore[misc]  # of this one, rather than of its class


_KNOWN: dict[str, type[RaftbatchError]] = {
    each.slug: each
    for each in vars(errors).values()
    if isinstance(each, type) and issubclass(each, RaftbatchError) and each is not RaftbatchError
}


@dataclass(frozen=True, slots=True)
class Said:
    """What a node says of an error; its fields are those of `raftbatch.v1.Error`.

    Attributes:
        slug: which error; `outcome_unknown` where what came is no slug.
        message: for people.
        definite: whether nothing was done.
        leader: where to go, `host:port`; empty: it does not say.
        retry_after_ms: how long to wait.
    """

    slug: str
    message: str
    definite: bool = False
    leader: str = ""
    retry_after_ms: int = 0

    def error(self) -> RaftbatchError:
        """Return the exception that it stands for. Total. Deterministic."""
        known = _KNOWN.get(self.slug)
        leader, retry_ms = self.leader, self.retry_after_ms
        if known is not None and known.definite == self.definite:
            return known(self.message, leader=leader, retry_after_ms=retry_ms)
        if self.definite:
            return Refused(self.message, slug=self.slug, retry_after_ms=retry_ms)
        message = f"{self.slug}: {self.message}"
        return OutcomeUnknown(message, leader=leader, retry_after_ms=retry_ms)


def said_in(message: error_pb2.Error) -> Said:
    """Return what a message says, held to its form. Total. Deterministic."""
    text = message.message
    if len(text) > MESSAGE_CHARACTERS_MAX:
        text = f"{text[:MESSAGE_CHARACTERS_MAX]} ..."
    if not _SLUG.fullmatch(message.slug):  # whatever it means: nobody knows what was done
        return Said(OutcomeUnknown.slug, text or "the answer is an error of no kind")
    leader = message.leader if is_address(message.leader) else ""
    retry_after_ms = min(message.retry_after_ms, RETRY_AFTER_MS_MAX)
    return Said(message.slug, text, message.definite, leader, retry_after_ms)


def said_by(metadata: Iterable[object] | None) -> Said | None:
    """Return what stands in the trailers of a failed call. Total. Deterministic.

    Args:
        metadata: pairs of key and value, as gRPC has them.

    Returns:
        None: nothing that can be read, so the call broke, and nobody knows what was done.
    """
    for pair in metadata or ():
        if not isinstance(pair, tuple) or len(pair) != 2:
            continue
        key, value = pair
        if key != TRAILER or not isinstance(value, bytes) or len(value) > _TRAILER_BYTES_MAX:
            continue
        try:
            return said_in(error_pb2.Error.FromString(value))
        except DecodeError:
            continue
    return None


def error_in(message: error_pb2.Error) -> RaftbatchError:
    """Return the exception that a message stands for. Total. Deterministic."""
    return said_in(message).error()


def of_call(address: str, error: grpc.aio.AioRpcError) -> RaftbatchError:
    """Return what a failed call stands for: without a trailer nobody knows. Total."""
    said = said_by(error.trailing_metadata())
    if said is not None:
        return said.error()
    return OutcomeUnknown(f"{address}: {in_words(error.details() or error.code().name)}")
