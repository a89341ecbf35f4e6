"""Replies that list what there is: never more than a message may hold.

Limits of the state allow lists that are larger than `server.message_bytes_max`, beyond which gRPC
sends nothing. Models are told in pages; what is shown to people is cut short, and says how many
there are.

What lives here: that. What must never live here: what is listed. Called by: the services. Total.
Deterministic.
"""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence
from typing import Any, Protocol

from coordinator.rpc import values
from raftbatch.settings import Model
from raftbatch.v1 import admin_pb2
from raftbatch.v1 import gateway_pb2 as pb

PAGE_BYTES = 4 << 20
"""What a page of models holds at most, unless one alone is larger."""

_PART = 2  # of what a message holds: names beside it, and gRPC's own


class _Message(Protocol):
    def ByteSize(self) -> int:  # noqa: N802 - as Protobuf calls it
        """Return how many bytes it takes."""
        ...


def models_page(
    found: Sequence[tuple[Model, bool]], index: int, message_bytes_max: int
) -> pb.ModelsReply:
    """Return the first models that a message holds, one at least.

    Args:
        found: in order; and which of them are being deleted.
        index: that is applied.
        message_bytes_max: what a message holds.
    """
    reply, left = pb.ModelsReply(index=index), min(PAGE_BYTES, message_bytes_max // _PART)
    for each in found:
        message = values.model_message(*each)
        left -= message.ByteSize() + 8
        if left < 0 and reply.models:
            reply.more = True
            break
        reply.models.append(message)
    return reply


def shorten(items: MutableSequence[Any], reply: _Message, message_bytes_max: int) -> None:
    """Drop the last items of a list in a reply, as long as a message would not hold it.

    Args:
        items: of the reply.
        reply: that they are in.
        message_bytes_max: what a message holds.
    """
    most = message_bytes_max // _PART
    while items and reply.ByteSize() > most:
        del items[len(items) // 2 :]


def shorten_status(reply: admin_pb2.StatusReply, message_bytes_max: int) -> None:
    """Cut what a status shows of the scheduler, where a message would not hold it: loads first."""
    if reply.ByteSize() <= message_bytes_max // _PART:
        return
    of = reply.scheduler
    for executor in of.executors:
        executor.ClearField("load")
    for items in (of.windows, of.models, of.executors):
        shorten(items, reply, message_bytes_max)
