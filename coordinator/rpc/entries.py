"""The calls of Admin that read: the log as a stream of entries, one request, one batch.

A stream holds what one read of the log has brought, at most a mebibyte or one entry, and the
message that is being written: so a reader that is slow, or stands still, costs that, however far
the log is ahead of it. Entries leave without the bytes of requests and results, unless they are
asked for: those are cut out before anything else is done, and nothing of theirs is looked into.

What lives here: messages of these calls. What must never live here: which entries there are
(`coordinator.inspecting`). Called by: `admin`. One thread: the loop's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import aclosing

from coordinator.core.values import Outcome
from coordinator.inspecting import (
    BatchState,
    RequestState,
    applied_entries,
    batch_state,
    request_state,
)
from coordinator.node import Node, Phase
from coordinator.raft.membership import decode
from coordinator.raft.segments.layout import Entry
from coordinator.rpc.values import DEFAULT_TENANT
from raftbatch.cut import cut_entry
from raftbatch.errors import Draining, InvalidRequest, Overloaded
from raftbatch.v1 import admin_pb2 as pb

STREAMS_MAX = 16
"""Of all readers together."""

MESSAGE_BYTES = 1 << 20
"""What a message holds of entries at most."""

_TURN_BYTES = 1 << 16
_ENTRY_BYTES = 64  # that an entry is counted as beside its content: an empty one takes time too
_RETRY_MS = 1000


class Reading:
    """The streams of one node; see the module's docstring.

    Args:
        node: whose log is read.

    Attributes:
        streams: that are open.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self.streams = 0

    async def replies(self, request: pb.EntriesRequest) -> AsyncGenerator[pb.EntriesReply, None]:
        """Yield the messages of a stream, the first at once.

        Raises:
            Compacted: definite; an index that is due is not in the log any more.
            InvalidRequest: definite.
            Overloaded: definite; too many streams are open.
            NoLeader, Draining: definite; the node starts, or stops.
        """
        node, log = self._node, self._node.log_to_read()
        first, last = request.first, request.last
        if last and first > last:
            raise InvalidRequest(f"entries from {first} to {last}: the last is before the first")
        if self.streams >= STREAMS_MAX:
            raise Overloaded(
                f"the log is read by {self.streams} others already: try another node",
                retry_after_ms=_RETRY_MS,
            )
        self.streams += 1
        try:
            applied = log.applied
            if not first:
                newest = applied - request.newest + 1 if request.newest else 0
                first = max(newest, log.first_index)
            span = pb.LogSpan(node_id=node.config.node_id, first=log.first_index, applied=applied)
            if first < log.first_index:
                await log.entries(first, 1)  # says so before anything else
            yield pb.EntriesReply(span=span)
            if not request.follow:
                last = min(last or applied, applied)
                if first > last:
                    return
            cuts = not request.payloads
            read = applied_entries(log, first, last, follows=request.follow)
            async with aclosing(read) as groups:
                async for entries in groups:
                    for reply in messages(entries, cuts=cuts, opaque=node.config.cluster.is_opaque):
                        yield reply
                        await asyncio.sleep(0)  # others have their turns
                    del entries
        finally:
            self.streams -= 1

    def request(self, request: pb.RequestRequest) -> pb.RequestReply:
        """Return what is known of a request.

        Raises:
            UnknownRequest: definite; nothing.
            NoLeader, InvalidRequest: definite; this node holds no such state.
        """
        state = self._node.state_to_read()
        found = request_state(state, request.tenant or DEFAULT_TENANT, request.request_id)
        return _request(found, state.index, state.now_ms)

    def batch(self, request: pb.BatchRequest) -> pb.BatchReply:
        """Return what is known of a batch. Raises: as `request`."""
        state = self._node.state_to_read()
        return _batch(batch_state(state, request.batch), state.index, state.now_ms)


def draining(node: Node) -> Draining | None:
    """Return what ends a stream where the node stops; None: it does not."""
    if node.phase is not Phase.STOPPING:
        return None
    return Draining(f"{node.config.node_id} stops: ask another node", retry_after_ms=100)


def messages(
    entries: Iterable[Entry], *, cuts: bool, opaque: bool = False, bytes_max: int = MESSAGE_BYTES
) -> Iterator[pb.EntriesReply]:
    """Yield entries as messages: several in one, or one in several.

    Args:
        entries: of the log.
        cuts: whether requests' bytes are left out.
        opaque: whether entries mean nothing: then nothing of them is left.
        bytes_max: what a message may hold of content.

    Raises:
        Undecodable: an entry that is to be cut is none.
    """
    reply, held = pb.EntriesReply(), 0
    for entry in entries:
        data, membership = entry.data, ""
        if entry.is_config:
            data, membership = b"", _words(entry.data)
        elif data and cuts:
            data = b"" if opaque else cut_entry(data)
        parts = [data[at : at + bytes_max] for at in range(0, len(data), bytes_max)] or [b""]
        for place, part in enumerate(parts):
            if held and held + len(part) > bytes_max:
                yield reply
                reply, held = pb.EntriesReply(), 0
            reply.entries.add(
                index=entry.index,
                term=entry.term,
                size=len(entry.data),
                data=part,
                more=place < len(parts) - 1,
                membership=membership,
            )
            held += len(part) + _ENTRY_BYTES
        if held >= min(bytes_max, _TURN_BYTES):
            yield reply
            reply, held = pb.EntriesReply(), 0
    if reply.entries:
        yield reply


def _words(data: bytes) -> str:
    try:
        return str(decode(data))
    except ValueError:
        return "a membership that cannot be read"


def _request(of: RequestState, applied: int, at_ms: int) -> pb.RequestReply:
    found = of.found
    reply = pb.RequestReply(
        applied=applied,
        at_ms=at_ms,
        number=found.number,
        index=found.ticket,
        batch=of.batch,
        quarantined=of.is_quarantined,
    )
    if not isinstance(found, Outcome):
        reply.admitted_ms, reply.deadline_ms = found.at_ms, found.deadline_ms
        reply.model, reply.version, _ = found.key
        reply.rows, reply.size = found.rows, found.size
        return reply
    run = found.run
    reply.outcome.CopyFrom(
        pb.KnownOutcome(
            kind=found.kind.name.lower(),
            code=found.code,
            message=found.message,
            result_bytes=len(found.result),
            index=found.ended_index,
            at_ms=found.at_ms,
            kept=found.is_kept,
            batch=run.batch if run else 0,
            attempt=run.attempt if run else 0,
            fence=run.fence if run else 0,
            executor=run.executor if run else "",
            infer_ns=run.infer_ns if run else 0,
        )
    )
    return reply


def _batch(of: BatchState, applied: int, at_ms: int) -> pb.BatchReply:
    batch = of.batch
    members = [
        pb.BatchMember(number=each.number, tenant=each.tenant, request_id=each.request_id)
        for each in of.members
    ]
    return pb.BatchReply(
        applied=applied,
        at_ms=at_ms,
        batch=batch.number,
        root=batch.root,
        model=batch.key[0],
        version=batch.key[1],
        reason=batch.reason.name.lower(),
        sealed_ms=batch.sealed_ms,
        requests=batch.open_requests,
        rows=batch.rows,
        members=members,
        assigned=batch.assigned,
        failed=batch.failed,
        executor=batch.executor,
        fence=batch.fence,
    )
